from __future__ import annotations

from app.source_consequences import different_words


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
