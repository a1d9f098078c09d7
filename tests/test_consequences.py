from __future__ import annotations

import pytest

from app.consequences import different_words, loop_period


@pytest.mark.parametrize(
    ("token_ids", "period"),
    [
        ([7] * 24, 1),
        ([7] * 23, 0),
        (list(range(50)) + [1, 2] * 12, 2),
        (list(range(50)) + [1, 2, 3] * 8 + [1], 3),
        (list(range(100)), 0),
        (list(range(20)) * 3, 20),
        (list(range(20)) * 2, 0),
        ([], 0),
    ],
)
def test_a_loop_is_at_least_three_repeats_and_24_tokens(token_ids: list[int], period: int) -> None:
    assert loop_period(token_ids) == period


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
