"""What the rows of the library can be narrowed to: each trait that has several values, as links. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from app.library_links import FACETS, LibraryView
from app.matrix_rows import RuntimeRow
from app.matrix_values import Choice, Facet
from app.words import count

UNSET = "not set"
"""The value of a trait that a runtime does not name."""

MOST_VALUES = 40


def value_of(row: RuntimeRow, facet: str) -> str:
    """Return what a runtime is by a facet."""
    return row.study if facet == "study" else row.traits.get(facet, UNSET)


def matches(rows: Sequence[RuntimeRow], facets: Mapping[str, str]) -> list[RuntimeRow]:
    """Return the rows that are what the facets ask for, and the references that those are compared with."""
    if not facets:
        return list(rows)
    kept = [row for row in rows if all(value_of(row, name) == value for name, value in facets.items())]
    needed = {(ref.facts.study, ref.facts.runtime.name) for row in kept if (ref := row.reference) is not None}
    shown = needed | {(row.study, row.name) for row in kept}
    return [row for row in rows if (row.study, row.name) in shown]


def facets_of(rows: Sequence[RuntimeRow], view: LibraryView) -> tuple[Facet, ...]:
    """Return the facets that have something to choose: several values among all rows, or one that is set."""
    found = []
    for name in FACETS:
        counts = Counter(value_of(row, name) for row in rows)
        chosen = view.facets.get(name)
        if len(counts) > 1 or chosen is not None:
            found.append(Facet(name, tuple(_choices(name, counts, view))))
    return tuple(found)


def _choices(name: str, counts: Counter[str], view: LibraryView) -> list[Choice]:
    chosen = view.facets.get(name)
    values = sorted(counts, key=lambda value: (value == UNSET, value))[:MOST_VALUES]
    if chosen is not None and chosen not in values:
        values.append(chosen)
    return [
        Choice(
            text=value,
            href=view.facet(name, "" if value == chosen else value),
            current=value == chosen,
            title=f"{name}: {value}, {count(counts[value], 'runtime')}",
        )
        for value in values
    ]
