from __future__ import annotations

from app.source_consequences import different_words, output_bytes, wrong_position
from capture.model import Token
from capture.toolcalls import verdict


def call(device: str, command: str, name: str = "run") -> bytes:
    arguments = f'{{"device": "{device}", "command": "{command}"}}'
    return f'text\n<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'.encode()


def test_the_difference_is_the_values_that_differ() -> None:
    assert different_words(call("a", "show arp"), call("a", "show run")) == ("show arp", "show run")
    assert different_words(call("a", "x"), call("b", "y")) == ("a, x", "b, y")
    assert different_words(call("a", "x"), call("a", "x", "walk")) == ("run", "walk")


def test_there_is_nothing_to_tell_without_two_calls_that_differ() -> None:
    assert different_words(call("a", "x"), call("a", "x")) is None
    assert different_words(call("a", "x"), b"no call") is None
    assert different_words(call("a", "x"), call("a", "x")[:-30]) is None


def test_where_calls_go_wrong_is_told_as_a_position() -> None:
    pieces = [b"text\n<tool_", b"call>\n", b'{"name": "run", "arguments": {"device": "', b"a", b'", "command": "', b"y"]
    pieces += [b'"}}', b"\n</tool_call>"]
    tokens = {token_id: Token(token_id, data) for token_id, data in enumerate(pieces)}
    ids = [*range(len(pieces))]
    assert output_bytes(ids, tokens) == call("a", "y")
    found = verdict(call("a", "y"), (), None, call("a", "x"))
    assert wrong_position(found, ids, tokens) == 5
    assert wrong_position(verdict(call("a", "y"), (), None, call("a", "y")), ids, tokens) is None
    assert wrong_position(verdict(b"", (), None, call("a", "y")), [], tokens) is None


def test_a_call_that_never_comes_is_wrong_at_the_last_token() -> None:
    tokens = {0: Token(0, b"Sorry"), 1: Token(1, b"<|im_end|>", special=True)}
    found = verdict(b"Sorry<|im_end|>", (), None, call("a", "x"))
    assert wrong_position(found, [0, 1], tokens) == 1
