"""Tables of what tool calls came to: of free runs, of continuations. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from app.report_cells import NOTHING
from app.report_tables import Table, told_columns
from capture.outcomes import Outcome, has_calls, wanted
from capture.report import StudyReport
from capture.toolcalls import Verdict

MOST_LINES = 20
"""Outputs that get lines of their own; of more, files tell."""

_WORDS = {
    Verdict.SAME: "same",
    Verdict.EQUIVALENT: "equiv-\nalent",
    Verdict.DIFFERENT_ARGUMENTS: "different\narguments",
    Verdict.EXTRA: "extra",
    Verdict.MISSING: "missing",
    Verdict.DIFFERENT_TOOL: "different\ntool",
    Verdict.MALFORMED: "mal-\nformed",
    Verdict.NO_CALL: "no call",
}


def verdict_tables(report: StudyReport) -> Iterator[Table]:
    """Yield tables of verdicts, and what differs in each free run; nothing where nobody called and nobody should."""
    free = [one for one in report.outcomes if one.fork_position is None]
    grown = [one for one in report.outcomes if one.fork_position is not None]
    names = {choice.runtime: choice.label for choice in report.choices}
    for title, outcomes in (("free runs", free), ("continuations after forks", grown)):
        rows = list(_count_rows(outcomes, names))
        if rows:
            header = ("runtime", "against", *_WORDS.values(), "cut in\na call")
            told = told_columns(rows)
            yield Table(
                f"Verdicts on tool calls: {title}",
                tuple(header[at] for at in told),
                tuple(tuple(row[at] for at in told) for row in rows),
                left=2,
            )
    yield from _check_tables(report.outcomes, names)
    lines = [one for one in free if has_calls(one.reference) and not wanted(one.reference)]
    if lines:
        yield _details(lines, names)


def _check_tables(outcomes: Sequence[Outcome], names: dict[str, str]) -> Iterator[Table]:
    """Yield what the user's own check said, by its words; nothing where none was asked."""
    words = sorted({one.check for one in outcomes if one.check})
    rows = []
    for runtime, name in names.items():
        counts = Counter(one.check for one in outcomes if one.runtime == runtime and one.check)
        if counts:
            rows.append((name, *(str(counts[word] or NOTHING) for word in words)))
    if rows:
        yield Table("Verdicts of the user's check: free runs and continuations", ("runtime", *words), tuple(rows))


def _count_rows(outcomes: Sequence[Outcome], names: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield for each runtime its verdicts against the reference and against labels, where a call is at stake."""
    for against in ("reference", "label"):
        for runtime, name in names.items():
            own = [one for one in outcomes if one.runtime == runtime and _of(one, against) is not None]
            if any(has_calls(_of(one, against)) for one in own):
                counts = Counter(_of(one, against) for one in own)
                cut = sum(one.cut for one in own)
                yield (name, against, *(str(counts[verdict] or NOTHING) for verdict in _WORDS), str(cut or NOTHING))


def _of(outcome: Outcome, against: str) -> Verdict | None:
    return outcome.reference if against == "reference" else outcome.label


def _details(outcomes: Sequence[Outcome], names: dict[str, str]) -> Table:
    rows = [(names[one.runtime], one.case_id, one.detail + (" (cut)" if one.cut else "")) for one in outcomes]
    left_out = len(rows) - MOST_LINES
    return Table(
        "Free runs that do not call as the reference does",
        ("runtime", "case", "what differs"),
        tuple(rows[:MOST_LINES]),
        (f"and {left_out} more; --json has all",) if left_out > 0 else (),
        left=3,
    )
