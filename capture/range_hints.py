"""What a case and its prompt tell of the ranges in every output. Pure; imports siblings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capture.model import Json, Prompt
from capture.ranges import Range, ends_in_thinking, find_ranges


@dataclass(frozen=True, slots=True)
class RangeHints:
    """What is known of an output's ranges before it is read.

    Attributes:
        ranges: those that the case gives; they win over what is found.
        turns: the assistant turns that are followed.
        in_thinking: whether the prompt ends inside a thinking part.
    """

    ranges: Sequence[Json] = ()
    turns: Sequence[tuple[int, int]] = ()
    in_thinking: bool = False

    def find(self, token_bytes: Sequence[bytes]) -> tuple[Range, ...]:
        """Return the ranges of an output, given as the bytes of its tokens; see `ranges.find_ranges`."""
        return find_ranges(token_bytes, in_thinking=self.in_thinking, given=self.ranges, turns=self.turns)


NO_HINTS = RangeHints()


def range_hints(ranges: Sequence[Json], prompt: Prompt) -> RangeHints:
    """Return what a case's own ranges and its prompt tell."""
    return RangeHints(ranges, prompt.turns, ends_in_thinking(prompt.text))
