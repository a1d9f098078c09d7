"""The exact bytes of every token, read from the description of a fast tokenizer (`tokenizer.json`). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from capture.errors import EngineError
from capture.model import Json, Token

METASPACE = "\u2581"
"""The character that SentencePiece writes for a space."""

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")

Decode = Callable[[str], bytes]


def vocabulary_of(description: Json) -> tuple[Token, ...]:
    """Return every token of a tokenizer by rising id.

    A token's bytes are what it stands for in the middle of a text: a tokenizer that puts a space before the first
    word keeps that space here, although decoding a whole text would strip it.

    Args:
        description: the parsed `tokenizer.json` of the `tokenizers` library.

    Raises:
        EngineError: the tokenizer is of a kind whose tokens do not stand for fixed bytes.
    """
    decode = _decoder_of(description)
    tokens = {token_id: Token(token_id, decode(text)) for text, token_id in _entries(description["model"])}
    for added in description.get("added_tokens") or ():
        token_id = int(added["id"])
        tokens[token_id] = Token(token_id, _utf8(added["content"]), special=bool(added.get("special", False)))
    return tuple(tokens[token_id] for token_id in sorted(tokens))


def tokenizer_json(tokenizer: Any) -> str:
    """Return the text of `tokenizer.json`, which describes a fast tokenizer wholly.

    Raises:
        EngineError: the tokenizer is not a fast one.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise EngineError("the model has no fast tokenizer; add its tokenizer.json to the folder")
    text: str = backend.to_str()
    return text


def byte_of_character() -> dict[str, int]:
    """Return the table by which byte-level BPE writes bytes as printable characters (GPT-2, `bytes_to_unicode`).

    Printable Latin-1 characters stand for themselves; the other 68 bytes follow from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = (byte for byte in range(256) if byte not in printable)
    table = {chr(byte): byte for byte in printable}
    table.update({chr(0x100 + order): byte for order, byte in enumerate(shifted)})
    return table


def _entries(model: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    vocabulary = model["vocab"]
    if isinstance(vocabulary, Mapping):
        yield from ((text, int(token_id)) for text, token_id in vocabulary.items())
    else:
        yield from ((entry[0], token_id) for token_id, entry in enumerate(vocabulary))


def _decoder_of(description: Json) -> Decode:
    parts = [*_parts(description.get("decoder")), *_parts(description.get("pre_tokenizer"))]
    kinds = {part["type"] for part in parts}
    if "ByteLevel" in kinds:
        return _byte_level()
    if kinds & {"WordPiece", "CTC", "BPEDecoder"} or description["model"].get("type") == "WordPiece":
        raise EngineError(
            "the model's tokenizer does not give its tokens fixed bytes; use a byte-level or SentencePiece one"
        )
    spaces = tuple(dict.fromkeys(_space_marks(parts)))
    return lambda text: _sentence_piece(text, spaces, byte_fallback="ByteFallback" in kinds or _falls_back(description))


def _falls_back(description: Json) -> bool:
    return bool(description["model"].get("byte_fallback", False))


def _parts(component: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a component of the description, or the members of a sequence of them."""
    if component is None:
        return
    if component["type"] != "Sequence":
        yield component
        return
    for member in component.get("decoders") or component.get("pretokenizers") or ():
        yield from _parts(member)


def _space_marks(parts: list[Mapping[str, Any]]) -> Iterator[str]:
    for part in parts:
        if part["type"] == "Metaspace":
            yield part.get("replacement", METASPACE)
        elif part["type"] == "Replace" and part.get("content") == " ":
            yield part["pattern"].get("String", METASPACE)


def _sentence_piece(text: str, spaces: tuple[str, ...], *, byte_fallback: bool) -> bytes:
    match = _BYTE_TOKEN.fullmatch(text) if byte_fallback else None
    if match:
        return bytes([int(match[1], 16)])
    for mark in spaces:
        text = text.replace(mark, " ")
    return _utf8(text)


def _byte_level() -> Decode:
    table = byte_of_character()

    def decode(text: str) -> bytes:
        known = all(character in table for character in text)
        return bytes(table[character] for character in text) if known else _utf8(text)

    return decode


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
