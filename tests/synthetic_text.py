"""A small readable vocabulary, and the texts that synthetic lanes say. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from capture.model import Token

_PIECE = re.compile(r"</?tool_call>|<\|[a-z_]+\|>| ?[A-Za-z_]+|\d| ?[^\w\s]+|\s")

_WORDS = (
    " device switch core edge the interface will check show clear counters report errors reset then and on I status "
    "GigabitEthernet learned address routing table version software please wait until this finishes before you go "
    "neighbour protocol carrier delay queue drops input output packets since last reload minutes ago looks normal"
)

OPENING = "I will check the interface GigabitEthernet0/1/4"

CALL = '\n<tool_call>\n{{"name": "run_command", "arguments": {{"device": "{device}-sw1", "command": "{command}"}}}}\n'

END = "</tool_call><|im_end|>"

PROMPT = (
    "<|im_start|>system\nYou can call run_command(device, command).<|im_end|>\n"
    "<|im_start|>user\nIs GigabitEthernet0/1/4 up?<|im_end|>\n<|im_start|>assistant\n"
)

TOOL: Mapping[str, object] = {
    "type": "function",
    "function": {
        "name": "run_command",
        "parameters": {
            "type": "object",
            "properties": {"device": {"type": "string"}, "command": {"type": "string"}},
            "required": ["device", "command"],
            "additionalProperties": False,
        },
    },
}

HOSTILE: tuple[bytes, ...] = (
    b"<script>alert(1)</script>",
    b"</td></table><img src=x onerror=alert(2)>",
    b"'\"><b>bold",
    b"{{7*7}}{% raw %}",
    b"\x1b[31mred\x1b[0m",
    "\u202eevil\u202c\u2066x".encode(),
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\r",
    b"\t\t",
    b"\n\n",
    b" ",
    "\u200b\u200d".encode(),
    b"x" * 10_000,
)
"""Token bytes that a careless page would obey, drop or choke on."""


def pieces(text: str) -> list[str]:
    """Return the text cut as the vocabulary cuts it."""
    return _PIECE.findall(text)


def build_vocabulary() -> tuple[Token, ...]:
    """Return 256 byte tokens, then special tokens, words, and hostile tokens, by rising id."""
    texts = [_WORDS, OPENING, PROMPT, CALL.format(device="core", command="show interface"), END]
    found = dict.fromkeys(
        [
            "<|im_end|>",
            "<tool_call>",
            "</tool_call>",
            "clear",
            "edge",
            *pieces(" ".join(texts)),
            *(f" {word}" for word in _WORDS.split()),
        ]
    )
    words = [piece for piece in found if len(piece.encode()) > 1]
    data = [bytes([value]) for value in range(256)] + [word.encode() for word in words] + list(HOSTILE)
    return tuple(Token(index, value, value.startswith(b"<|")) for index, value in enumerate(data))


VOCABULARY = build_vocabulary()

_IDS = {token.data: token.token_id for token in reversed(VOCABULARY)}

END_ID = _IDS[b"<|im_end|>"]


def encode(text: str | bytes) -> tuple[int, ...]:
    """Return the ids of a text: whole pieces where the vocabulary has them, else one id a byte."""
    if isinstance(text, bytes):
        return (_IDS[text],) if text in _IDS else tuple(text)
    ids: list[int] = []
    for piece in pieces(text):
        ids.extend(encode(piece.encode()))
    return tuple(ids)


def filler(count: int, offset: int = 0) -> tuple[int, ...]:
    """Return `count` word tokens of harmless prose."""
    words = [f" {word}" for word in _WORDS.split()]
    return tuple(encode(words[(offset + 7 * index) % len(words)])[0] for index in range(count))


def call(device: str = "core", command: str = "show interface") -> tuple[int, ...]:
    """Return the tokens of a tool call, with the end of the sequence."""
    return encode(CALL.format(device=device, command=command)) + encode(END)
