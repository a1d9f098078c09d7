"""What the manifests of lanes tell apart, as the table that a lane's chip opens. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.lanes import Lane
from app.text import clean
from app.words import SHAPES
from capture.manifests import ABSENT, Difference, between, differences, value_texts

MOST_ROWS = 60
"""Entries that a page lists; the JSON twin has all."""

LONGEST_VALUE, LONGEST_ENTRY = 60, 160
"""Characters."""


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """An entry in which lanes differ.

    Attributes:
        entry: its path.
        values: as text, a lane each; empty where a lane lacks the entry.
        starts: whether its first key is another than that of the row above.
    """

    entry: str
    values: tuple[str, ...]
    starts: bool


@dataclass(frozen=True, slots=True)
class DifferenceTable:
    """What some lanes do not share.

    Attributes:
        letters, shapes: of the lanes that are compared, the reference first.
        rows: the first entries that differ.
        more: how many are not among the rows.
        found: all of them, for the JSON twin.
    """

    letters: tuple[str, ...]
    shapes: tuple[str, ...]
    rows: tuple[DifferenceRow, ...]
    more: int
    found: tuple[Difference, ...]


def difference_tables(lanes: Sequence[Lane]) -> tuple[DifferenceTable, ...]:
    """Return for each lane what it does not share with the first, the reference; for that one, what not all share."""
    letters = [lane.letter for lane in lanes]
    every = differences([lane.manifest for lane in lanes])
    others = [_table([letters[0], letter], between(every, 0, at)) for at, letter in enumerate(letters) if at]
    return (_table(letters, every), *others)


def _table(letters: Sequence[str], found: tuple[Difference, ...]) -> DifferenceTable:
    shown = found[:MOST_ROWS]
    starts = [True, *(above.path[0] != below.path[0] for above, below in pairwise(shown))]
    return DifferenceTable(
        letters=tuple(letters),
        shapes=tuple(SHAPES[letter] for letter in letters),
        rows=tuple(_row(one, new) for one, new in zip(shown, starts, strict=False)),
        more=len(found) - len(shown),
        found=found,
    )


def _row(found: Difference, starts: bool) -> DifferenceRow:
    texts = value_texts(found.values, LONGEST_VALUE)
    entry = found.entry
    return DifferenceRow(
        entry=clean(entry if len(entry) <= LONGEST_ENTRY else entry[: LONGEST_ENTRY - 1] + "\u2026"),
        values=tuple("" if value is ABSENT else clean(text) for text, value in zip(texts, found.values, strict=True)),
        starts=starts,
    )
