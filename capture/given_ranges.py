"""Reads the ranges that a case gives: by output positions, or by the texts that they start and end with. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from capture.model import Json, RangeKind

MOST_RANGES = 1_000
"""Ranges of a case."""

LONGEST_TEXT = 1_000
"""Characters of a text that a range starts or ends with."""

LARGEST_POSITION = 100_000_000

_KINDS = ", ".join(repr(kind.value) for kind in RangeKind)


def read_ranges(value: Any, fail: Callable[[str], NoReturn]) -> tuple[Json, ...]:
    """Return the ranges of a case: `{"kind", "start", "stop"}` or `{"kind", "from", "to"}`.

    Args:
        value: what the case has; None for none.
        fail: is called with what is wrong and what to do, and raises.
    """
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MOST_RANGES:
        fail(f"'ranges' must be a list of at most {MOST_RANGES:,} objects; correct it")
    return tuple(_range(one, f"range {number} ", fail) for number, one in enumerate(value, start=1))


def _range(value: Any, where: str, fail: Callable[[str], NoReturn]) -> Json:
    if not isinstance(value, Mapping) or value.get("kind") not in list(RangeKind):
        fail(f"{where}has no 'kind' that is one of {_KINDS}; give it one")
    if set(value) == {"kind", "start", "stop"}:
        start, stop = value["start"], value["stop"]
        if _is_position(start) and _is_position(stop) and start < stop:
            return {"kind": str(value["kind"]), "start": start, "stop": stop}
        fail(f"{where}needs output positions with 'start' before 'stop'; correct them")
    if set(value) == {"kind", "from", "to"}:
        if _is_text(value["from"]) and _is_text(value["to"]):
            return {"kind": str(value["kind"]), "from": value["from"], "to": value["to"]}
        fail(f"{where}needs texts as 'from' and 'to', of at most {LONGEST_TEXT:,} characters; correct them")
    fail(f"{where}needs 'start' and 'stop', or 'from' and 'to', beside its kind and nothing else; correct it")


def _is_position(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_POSITION


def _is_text(value: Any) -> bool:
    """Whether a value is a text of one line or more, without halves of surrogate pairs."""
    whole = isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)
    return whole and 0 < len(value) <= LONGEST_TEXT


def are_ranges(value: Any) -> bool:
    """Whether a value that came with a bundle is what `read_ranges` returns, or the same as a list."""

    def refuse(reason: str) -> NoReturn:
        raise ValueError(reason)

    try:
        return isinstance(value, (list, tuple)) and list(read_ranges(list(value), refuse)) == list(value)
    except ValueError:
        return False
