"""The assistant turns that a case records and runs are forced along: which one an output belongs to. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from capture.model import Case

Turn = tuple[int, int]
"""Output positions of a recorded assistant turn, as (first, stop)."""


def turn_of(turns: Sequence[Turn], position: int) -> Turn | None:
    """Return the recorded turn that a position belongs to, the last that starts at or before it; None without one."""
    return next((turn for turn in reversed(turns) if turn[0] <= position), None)


def is_labelled(case: Case, turns: Sequence[Turn], turn: Turn | None) -> bool:
    """Return whether a case's label is about an output, given the recorded turn that it left: the one at the end."""
    return not turns or (turn == turns[-1] and case.messages[-1].get("role") == "assistant")
