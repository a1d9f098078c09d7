"""What `flipscope determinism` prints: a line a runtime and kind of repeat, or JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from app.report_cells import NOTHING
from app.report_json import plain
from app.report_pages import Heading, Part
from app.report_tables import Table, told_columns
from capture.determinism import Repeat, RepeatKind, RuntimeRepeats
from capture.model import Json

REPEATABILITY = "Bit-identical rows show repeatability, not precision."


def determinism_parts(found: Sequence[RuntimeRepeats]) -> Iterator[Part]:
    """Yield a heading and a table for each study."""
    for study, group in groupby(found, key=lambda one: one.study):
        runtimes = list(group)
        yield Heading(f"Determinism: {study}", 1)
        yield _table(runtimes) if any(one.repeats for one in runtimes) else _NOTHING_TWICE
    yield REPEATABILITY


def determinism_json(found: Sequence[RuntimeRepeats]) -> Json:
    """Return everything as JSON values."""
    return {"note": REPEATABILITY, "runtimes": plain(found)}


_NOTHING_TWICE = "Nothing was computed twice; `replicas` in a study file repeats the free runs."

_HEADER = (
    "runtime",
    "what",
    "cases",
    "bit-identical\nrows",
    "choices\nchanged",
    "largest\nlogit change",
    "first difference",
)


def _table(runtimes: Sequence[RuntimeRepeats]) -> Table:
    rows = [
        _row(runtime.label, kind, repeats)
        for kind in RepeatKind
        for runtime in runtimes
        if (repeats := [one for one in runtime.repeats if one.kind is kind])
    ]
    told = told_columns(rows)
    return Table(
        "Computed twice, after the same prefix",
        tuple(_HEADER[at] for at in told),
        tuple(tuple(row[at] for at in told) for row in rows),
        tuple(_notes(runtimes)),
        left=2,
    )


def _row(label: str, kind: RepeatKind, repeats: Sequence[Repeat]) -> tuple[str, ...]:
    rows, equal = sum(one.rows for one in repeats), sum(one.equal for one in repeats)
    largest = [one.largest_difference for one in repeats if one.largest_difference is not None]
    return (
        label,
        kind.value,
        str(len({one.case_id for one in repeats})),
        f"all {rows:,}" if rows and rows == equal else f"{equal:,} of {rows:,}",
        NOTHING if rows == equal else str(sum(one.changed for one in repeats)),
        f"{max(largest):g}" if largest else NOTHING,
        _first(repeats),
    )


def _first(repeats: Sequence[Repeat]) -> str:
    different = [one for one in repeats if one.first_difference is not None]
    return f"{different[0].case_id}, position {different[0].first_difference}" if different else NOTHING


def _notes(runtimes: Sequence[RuntimeRepeats]) -> Iterator[str]:
    lacking = [one.label for one in runtimes if not any(found.kind is RepeatKind.REPLICA for found in one.repeats)]
    if lacking:
        yield f"no replica was recorded of {', '.join(lacking)}; `replicas` in a study file repeats the free runs"
    if any(one.equal < one.rows and one.largest_difference is None for found in runtimes for one in found.repeats):
        yield "the largest change of a logit is told where the rows that differ are kept in full"
