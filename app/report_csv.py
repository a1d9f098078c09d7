"""A report as CSV: one line for each runtime, scope and statistic. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from app.markdown_text import one_line
from app.spreadsheet import harmless
from capture.perplexity import Estimate, Perplexity
from capture.report import LaneReport, Scope, Section, StudyReport
from capture.summary import QUANTILES, Divergences, Rate, Spread, Summary

HEADER = (
    "study",
    "reference",
    "mode",
    "scoring_path",
    "runtime",
    "scope",
    "name",
    "known",
    "statistic",
    "value",
    "standard_error",
    "low",
    "high",
    "positions",
)
"""`known` is `whole` for the whole vocabulary, `top-k` for lower bounds, `all` where both may be pooled."""

Value = float | int | str | None


def report_csv(reports: Sequence[StudyReport]) -> Iterator[str]:
    """Yield lines without their ends; shares from 0 to 1, divergences in nats, empty where nothing is known."""
    yield _line(HEADER)
    for report in reports:
        for section in report.sections:
            head = (report.study, report.reference, section.mode.value, section.scoring_path.value)
            for row in _section_rows(section, report.reference):
                yield _line((*head, *row))


def _line(cells: Sequence[Value]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow([_cell(cell) for cell in cells])
    return buffer.getvalue()


def _cell(value: Value) -> Value:
    """Return a cell; a text that a spreadsheet would take for a formula gets an apostrophe before it."""
    if isinstance(value, str):
        return harmless(one_line(value))
    return repr(value) if isinstance(value, float) else value


def _section_rows(section: Section, reference: str) -> Iterator[tuple[Value, ...]]:
    for lane in section.lanes:
        for scope, name, summary in _scopes(lane):
            yield from ((lane.runtime, scope, name, *row) for row in _summary_rows(summary))
        if lane.perplexity is not None:
            yield from ((lane.runtime, "study", "", *row) for row in _perplexity_rows(lane.perplexity))
    for floor in section.floors:
        yield from ((reference, "floor", floor.kind.value, *row) for row in _summary_rows(floor.summary))


def _scopes(lane: LaneReport) -> Iterator[tuple[str, str, Summary]]:
    yield "study", "", lane.summary
    parts: tuple[tuple[str, Sequence[Scope]], ...] = (
        ("case", lane.by_case),
        ("range kind", lane.by_kind),
        ("confidence", lane.by_confidence),
    )
    for scope, found in parts:
        for one in found:
            yield scope, one.name, one.summary


def _summary_rows(summary: Summary) -> Iterator[tuple[Value, ...]]:
    for name, count in (("ties", summary.ties), ("near-ties", summary.near_ties), ("decided", summary.decided)):
        yield ("all", name, count, None, None, None, summary.positions)
    yield ("all", "top-1 disagreement", *_rate(summary.disagreement))
    for known, group in (("whole", summary.whole), ("top-k", summary.bounded)):
        if group is not None:
            yield from ((known, *row) for row in _group_rows(group))


def _group_rows(group: Divergences) -> Iterator[tuple[Value, ...]]:
    spreads = (
        ("KL(reference||runtime)", group.kl_forward),
        ("KL(runtime||reference)", group.kl_reverse),
        ("JSD", group.jensen_shannon),
        ("delta p", group.delta_probability),
        ("rounding floor", group.rounding),
    )
    for name, spread in spreads:
        if spread is not None:
            yield from _spread_rows(name, spread)
    root = group.rms_delta_probability
    if root is not None:
        low, high = (root.interval.low, root.interval.high) if root.interval else (None, None)
        yield ("RMS delta p", root.value, root.standard_error, low, high, group.positions - group.delta_unknown)
    yield ("same top-1", *_rate(group.same_top))


def _spread_rows(name: str, spread: Spread) -> Iterator[tuple[Value, ...]]:
    low, high = (spread.interval.low, spread.interval.high) if spread.interval else (None, None)
    yield (f"{name} mean", spread.mean, spread.standard_error, low, high, spread.positions)
    yield (f"{name} maximum", spread.maximum, None, None, None, spread.positions)
    for at, value in zip(QUANTILES, spread.quantiles, strict=True):
        yield (f"{name} {100 * at:g}%", value, None, None, None, spread.positions)
    yield (f"{name} minimum", spread.minimum, None, None, None, spread.positions)


def _rate(rate: Rate) -> tuple[Value, ...]:
    low, high = (rate.interval.low, rate.interval.high) if rate.interval else (None, None)
    return rate.rate, rate.standard_error, low, high, rate.positions


def _perplexity_rows(found: Perplexity) -> Iterator[tuple[Value, ...]]:
    parts: tuple[tuple[str, Estimate], ...] = (
        ("PPL(Q)", found.candidate),
        ("PPL(base)", found.reference),
        ("ln(PPL(Q)/PPL(base))", found.log_ratio),
        ("PPL(Q)/PPL(base)", found.ratio),
        ("PPL(Q)-PPL(base)", found.difference),
    )
    for name, one in parts:
        yield ("all", name, one.value, one.standard_error, None, None, found.positions)
    yield ("all", "correlation of ln PPL", found.correlation, None, None, None, found.positions)
