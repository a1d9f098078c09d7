"""The statistics of llama.cpp's `--kl-divergence`, in its words and order, a column a lane, floors beside. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.report_cells import NOTHING
from app.report_tables import Table, labelled, ordered
from capture.perplexity import Estimate, Perplexity
from capture.report import LaneReport, Section
from capture.summary import Divergences, Spread, Summary

KL_ROWS = (
    ("99.9% KLD", 0.999),
    ("99.0% KLD", 0.99),
    ("95.0% KLD", 0.95),
    ("90.0% KLD", 0.90),
    ("Median KLD", 0.50),
    ("10.0% KLD", 0.10),
    ("5.0% KLD", 0.05),
    ("1.0% KLD", 0.01),
    ("0.1% KLD", 0.001),
)

DELTA_ROWS = (
    ("99.9% Δp", 0.999),
    ("99.0% Δp", 0.99),
    ("95.0% Δp", 0.95),
    ("90.0% Δp", 0.90),
    ("75.0% Δp", 0.75),
    ("Median Δp", 0.50),
    ("25.0% Δp", 0.25),
    ("10.0% Δp", 0.10),
    ("5.0% Δp", 0.05),
    ("1.0% Δp", 0.01),
    ("0.1% Δp", 0.001),
)

INLINE_LANES = 2
"""Lanes up to which a standard error stands behind its number, as in llama.cpp; of more it gets a line of its own."""

PLUS_MINUS = "± is llama.cpp's: the standard error of independent positions, which these are not"

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    summary: Summary
    perplexity: Perplexity | None


def statistics(section: Section) -> Iterator[Table]:
    """Yield the blocks of the statistics: perplexity, KL divergence, probabilities; lower bounds apart."""
    names = labelled(section.lanes)
    columns = [_Column(names[lane.runtime], lane.summary, lane.perplexity) for lane in ordered(section)]
    columns += [
        _Column("floor:\n" + floor.kind.value.replace(" ", "\n"), floor.summary, floor.perplexity)
        for floor in section.floors
    ]
    inline = len(section.lanes) <= INLINE_LANES
    yield _perplexity_table(section, columns, inline)
    whole = sum(lane.summary.whole.positions for lane in section.lanes if lane.summary.whole is not None)
    bounded = sum(lane.summary.bounded.positions for lane in section.lanes if lane.summary.bounded is not None)
    for lower_bound in (False, True) if whole >= bounded else (True, False):
        yield from _group_tables(columns, lower_bound, section.listed, inline)


def _perplexity_table(section: Section, columns: Sequence[_Column], inline: bool) -> Table:
    known = [column for column in columns if column.perplexity is not None]
    numbers = [column.perplexity for column in known if column.perplexity is not None]
    parts: tuple[tuple[str, Callable[[Perplexity], Estimate]], ...] = (
        ("Mean PPL(Q)", lambda one: one.candidate),
        ("Mean PPL(base)", lambda one: one.reference),
        ("Mean ln(PPL(Q)/PPL(base))", lambda one: one.log_ratio),
        ("Mean PPL(Q)/PPL(base)", lambda one: one.ratio),
        ("Mean PPL(Q)-PPL(base)", lambda one: one.difference),
    )
    rows = [
        row
        for name, of in parts
        for row in _with_errors(name, [(of(one).value, of(one).standard_error) for one in numbers], "{:.6f}", inline)
    ]
    correlation: Row = ("Cor(ln(PPL(Q)), ln(PPL(base)))", *(_correlation(one) for one in numbers))
    at = 2 if inline else 4
    rows[at:at] = [correlation]
    return Table(
        "Perplexity statistics",
        ("", *(column.name for column in known)),
        tuple(rows) if numbers else (),
        (
            "Q is the runtime, base the reference, over the tokens of the reference's run",
            *_unknown_notes(ordered(section), labelled(section.lanes)),
        ),
    )


def _correlation(found: Perplexity) -> str:
    return NOTHING if found.correlation is None else f"{100 * found.correlation:.2f}%"


def _unknown_notes(lanes: Sequence[LaneReport], names: dict[str, str]) -> Iterator[str]:
    for lane in lanes:
        if lane.perplexity is None:
            yield (
                f"{names[lane.runtime]}: no perplexity, since of {lane.unknown_tokens:,} of {lane.summary.positions:,} "
                "of the reference's tokens no probability above 0 is known in both"
            )


def _group_tables(columns: Sequence[_Column], lower_bound: bool, listed: int, inline: bool) -> Iterator[Table]:
    groups = [
        (column.name, group)
        for column in columns
        if (group := column.summary.bounded if lower_bound else column.summary.whole) is not None
    ]
    if not groups:
        return
    what = f", lower bounds from the {listed} highest tokens" if lower_bound else ""
    header = ("", *(name for name, _ in groups))
    found = [group for _, group in groups]
    yield Table(f"KL divergence statistics{what}", header, tuple(_kl_rows(found, inline)), (PLUS_MINUS,))
    yield Table(
        f"Token probability statistics{', at those positions' if lower_bound else ''}",
        header,
        tuple(_delta_rows(found, inline)),
        tuple(_delta_notes(groups)),
    )


def _kl_rows(groups: Sequence[Divergences], inline: bool) -> Iterator[Row]:
    spreads = [group.kl_forward for group in groups]
    yield ("Positions", *(f"{group.positions:,}" for group in groups))
    yield from _with_errors("Mean KLD", [(one.mean, one.standard_error) for one in spreads], "{:.6f}", inline)
    yield ("Maximum KLD", *(f"{one.maximum:.6f}" for one in spreads))
    for name, at in KL_ROWS:
        yield (name, *(f"{one.quantile(at):.6f}" for one in spreads))
    yield ("Minimum KLD", *(f"{one.minimum:.6f}" for one in spreads))
    yield ("Floor: rounding", *(_rounding(group) for group in groups))


def _rounding(group: Divergences) -> str:
    return NOTHING if group.rounding is None else f"{group.rounding.mean:.6f}"


def _delta_rows(groups: Sequence[Divergences], inline: bool) -> Iterator[Row]:
    spreads = [group.delta_probability for group in groups]
    means = [None if one is None else (100 * one.mean, 100 * one.standard_error) for one in spreads]
    yield from _with_errors("Mean Δp", means, "{:.3f}", inline, " %")
    yield ("Maximum Δp", *(_percent(one and one.maximum) for one in spreads))
    for name, at in DELTA_ROWS:
        yield (name, *(_percent(one and one.quantile(at)) for one in spreads))
    yield ("Minimum Δp", *(_percent(one and one.minimum) for one in spreads))
    roots = [group.rms_delta_probability for group in groups]
    yield from _with_errors(
        "RMS Δp",
        [None if one is None else (100 * one.value, 100 * one.standard_error) for one in roots],
        "{:.3f}",
        inline,
        " %",
    )
    tops = [(100 * group.same_top.rate, 100 * group.same_top.standard_error) for group in groups]
    yield from _with_errors("Same top p", tops, "{:.3f}", inline, " %")


def _percent(value: float | Spread | None) -> str:
    return f"{100 * value:.3f}%" if isinstance(value, float) else NOTHING


def _delta_notes(groups: Sequence[tuple[str, Divergences]]) -> Iterator[str]:
    for name, group in groups:
        if group.delta_unknown:
            known = group.positions - group.delta_unknown
            why = "was not among the highest of both" if group.lower_bound else "is none of both vocabularies"
            yield f"{name}: Δp is of {known:,} of {group.positions:,} positions; at the others the token {why}"


def _with_errors(
    name: str, numbers: Sequence[tuple[float, float] | None], form: str, inline: bool, unit: str = ""
) -> Iterator[Row]:
    """Yield numbers with their standard errors: in one line, or in two where there are many."""
    if inline:
        yield (name, *(NOTHING if one is None else f"{form} ± {form}{unit}".format(*one) for one in numbers))
        return
    yield (name, *(NOTHING if one is None else f"{form}{unit}".format(one[0]) for one in numbers))
    yield ("  ±", *(NOTHING if one is None else f"{form}{unit}".format(one[1]) for one in numbers))
