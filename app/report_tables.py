"""A report as tables of text: the same for the terminal and for Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.markdown_text import one_line
from app.report_cells import NOTHING, nats, nats_interval, percent, percent_interval
from capture.floors import FloorKind
from capture.intervals import FEWEST_CASES
from capture.model import Mode, ScoringPath
from capture.ranking import Ranked
from capture.report import BUCKETS, LaneReport, Scope, Section
from capture.samples import KINDS
from capture.summary import Divergences, Summary

MOST_CASES = 10
"""Cases that get lines of their own in a table; of more, files tell."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a title; cells are plain text, which may come from strangers' files.

    Attributes:
        title: what it shows.
        header: of the columns, each of one line or two.
        rows: as many cells each as the header.
        notes: what must be said of it.
        left: how many columns hold words, which begin at the left; numbers end at the right.
        starts: columns that belong to those after them: where a table is too wide for one piece, the next begins there.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left: int = 1
    starts: tuple[int, ...] = ()


def section_title(section: Section) -> str:
    """Return what a section is called."""
    how = {
        Mode.FORCED: "along the same tokens as the reference",
        Mode.FREE: "by themselves, as far as the prefixes are the same",
        Mode.BRANCH: "after forks",
    }[section.mode]
    path = {
        ScoringPath.DECODE: "one token a step",
        ScoringPath.PREFILL: "many positions at once",
    }[section.scoring_path]
    return f"{section.mode.value}, {section.scoring_path.value}: {how}, {path}"


def labelled(lanes: Sequence[LaneReport]) -> dict[str, str]:
    """Return what each lane is called, on one line, its name added where two have one label."""
    labels = [lane.label for lane in lanes]
    return {
        lane.runtime: one_line(lane.label if labels.count(lane.label) == 1 else f"{lane.label} ({lane.runtime})")
        for lane in lanes
    }


def ordered(section: Section) -> tuple[LaneReport, ...]:
    """Return the lanes of a section, nearest to the reference first."""
    lanes = {lane.runtime: lane for lane in section.lanes}
    return tuple(lanes[ranked.runtime] for ranked in section.ranking)


def overview(section: Section) -> Table:
    """Return a line a lane, and a line a floor."""
    names = labelled(section.lanes)
    rows = [_overview_row(names[lane.runtime], lane.summary) for lane in ordered(section)]
    floors = [_overview_row(f"floor: {floor.kind.value}", floor.summary) for floor in section.floors]
    return Table(
        "Summary",
        ("runtime", "n", "tie/near\n/decided", "top-1\nchanged", "KL", "KL back", "JSD", "RMS Δp", "rounding\nfloor"),
        (*rows, *floors),
        tuple(_overview_notes(section, names)),
    )


def _overview_row(name: str, summary: Summary) -> tuple[str, ...]:
    main = summary.main
    head = (
        name,
        f"{summary.positions:,}",
        f"{summary.ties}/{summary.near_ties}/{summary.decided}",
        percent(summary.disagreement.rate),
    )
    if main is None:
        return (*head, *[NOTHING] * 5)
    bound = main.lower_bound
    root = main.rms_delta_probability
    return (
        *head,
        *(nats(found.mean, bound=bound) for found in (main.kl_forward, main.kl_reverse, main.jensen_shannon)),
        percent(None if root is None else root.value),
        nats(None if main.rounding is None else main.rounding.mean),
    )


def _overview_notes(section: Section, names: dict[str, str]) -> Iterator[str]:
    for lane in ordered(section):
        if lane.identical:
            yield f"{names[lane.runtime]}: every logit equals the reference's; its options may have had no effect"
        whole, bounded = lane.summary.whole, lane.summary.bounded
        if whole is not None and bounded is not None:
            used, other = (whole, bounded) if lane.summary.main is whole else (bounded, whole)
            kept = "only the highest tokens were" if other.lower_bound else "the whole vocabulary was"
            yield (
                f"{names[lane.runtime]}: KL, JSD and Δp here are of {used.positions:,} positions; "
                f"of {other.positions:,} {kept} kept, and these are not pooled with them"
            )
        main = lane.summary.main
        if main is not None and main.delta_unknown:
            known = main.positions - main.delta_unknown
            yield f"{names[lane.runtime]}: Δp is known at {known:,} of {main.positions:,} positions"
    kinds = [floor.kind for floor in section.floors]
    identical = [floor.kind.value for floor in section.floors if floor.identical]
    if identical:
        yield f"bit-identical throughout: {', '.join(identical)}"
    if FloorKind.REPLICA not in kinds:
        yield "no replica of the reference was recorded, so nothing is known of its repeatability"
    if FloorKind.CONTROL not in kinds:
        yield "the reference was not scored by both decode and prefill, so there is no benign control"


def by_case(section: Section) -> Table | None:
    """Return a line a run, with intervals from blocks of its positions; None where there are too many."""
    names = labelled(section.lanes)
    cases = {scope.name for lane in section.lanes for scope in lane.by_case}
    if len(cases) > MOST_CASES:
        return None
    rows = [_run_row(names[lane.runtime], scope) for lane in ordered(section) for scope in lane.by_case]
    apart = any(kl_is_of_some(scope.summary) for lane in section.lanes for scope in lane.by_case)
    told = [at for at in range(len(_RUN_HEADER)) if apart or at != _RUN_KL_N]
    return Table(
        "By run, with 95 % intervals from blocks of neighbouring positions",
        tuple(_RUN_HEADER[at] for at in told),
        tuple(tuple(row[at] for at in told) for row in rows),
        (KL_N,) if apart else (),
        left=2,
        starts=(_RUN_KL_N,),
    )


_RUN_HEADER = ("runtime", "case", "n", "tie/near\n/decided", "top-1\nchanged", "95 %", "KL\nn", "KL", "95 %")
_RUN_KL_N = _RUN_HEADER.index("KL\nn")

KL_N = "KL n: the positions that KL is of, where some have the whole vocabulary and some the highest tokens only"


def kl_is_of_some(summary: Summary | None) -> bool:
    """Return whether KL is of some of the positions only: those known equally well, of which there are more."""
    return summary is not None and summary.main is not None and summary.main.positions != summary.positions


def kl_positions(summary: Summary | None) -> str:
    """Return how many positions KL is of."""
    return NOTHING if summary is None or summary.main is None else f"{summary.main.positions:,}"


def main_kl(summary: Summary | None) -> str:
    """Return the mean KL of the main group, marked where it is a lower bound."""
    main: Divergences | None = None if summary is None else summary.main
    return NOTHING if main is None else nats(main.kl_forward.mean, bound=main.lower_bound)


def _run_row(name: str, scope: Scope) -> tuple[str, ...]:
    summary, main = scope.summary, scope.summary.main
    return (
        name,
        scope.name,
        f"{summary.positions:,}",
        f"{summary.ties}/{summary.near_ties}/{summary.decided}",
        percent(summary.disagreement.rate),
        percent_interval(summary.disagreement.interval),
        kl_positions(summary),
        main_kl(summary),
        "" if main is None else nats_interval(main.kl_forward.interval),
    )


def by_kind(section: Section) -> Table | None:
    """Return disagreement and KL by kind of range; None where there is one kind alone, which the summary tells."""
    if len({scope.name for lane in section.lanes for scope in lane.by_kind}) < 2:
        return None
    return _by_scope(section, "By kind of range", [kind.value for kind in KINDS], "range")


def by_confidence(section: Section) -> Table:
    """Return disagreement and KL by the reference's confidence in its own winner."""
    return _by_scope(section, "By the reference's confidence in its winner", BUCKETS, "confidence")


def _by_scope(section: Section, title: str, names: Sequence[str], what: str) -> Table:
    lanes = ordered(section)
    found = {lane.runtime: _scopes(lane, what) for lane in lanes}
    calls = labelled(section.lanes)
    rows: list[tuple[str, ...]] = []
    for name in names:
        parts = [found[lane.runtime].get(name) for lane in lanes]
        if any(part is not None for part in parts):
            rows += [
                (name, "n", *(_positions(part, lane) for part, lane in zip(parts, lanes, strict=True))),
                (
                    "",
                    "top-1 changed",
                    *(NOTHING if part is None else percent(part.disagreement.rate) for part in parts),
                ),
                *([("", "KL n", *map(kl_positions, parts))] if any(map(kl_is_of_some, parts)) else []),
                ("", "KL", *map(main_kl, parts)),
            ]
    notes = (KL_N,) if any(row[1] == "KL n" for row in rows) else ()
    return Table(title, (what, "", *(calls[lane.runtime] for lane in lanes)), tuple(rows), notes, left=2)


def _scopes(lane: LaneReport, what: str) -> dict[str, Summary]:
    return {scope.name: scope.summary for scope in (lane.by_kind if what == "range" else lane.by_confidence)}


def _positions(part: Summary | None, lane: LaneReport) -> str:
    return NOTHING if part is None else f"{part.positions:,} ({100 * part.positions / lane.summary.positions:.0f} %)"


def ranking(section: Section, cases: int) -> Table | None:
    """Return lanes in order, each against the next, paired position by position; None for a single lane."""
    if len(section.ranking) < 2:
        return None
    names = labelled(section.lanes)
    claim = "" if cases >= FEWEST_CASES else f"; under {FEWEST_CASES} cases there is no interval"
    header = ("runtime", "against", "n", "KL\nless by", "95 %", "cases\nwon", "top-1 changed\nless by", "95 %")
    rows = [_rank_row(ranked, names) for ranked in section.ranking[:-1]]
    told = told_columns(rows)
    return Table(
        "Nearest to the reference first, each against the next over the positions both share",
        tuple(header[at] for at in told),
        tuple(tuple(row[at] for at in told) for row in rows),
        (f"a case is won by the lower mean KL{claim}", *_of_bounds(section)),
        left=2,
    )


def _of_bounds(section: Section) -> Iterator[str]:
    if any(ranked.lower_bound for ranked in section.ranking[:-1]):
        yield "where the KLs are lower bounds (≥), their difference is no bound: it orders what was kept"


def _rank_row(ranked: Ranked, names: dict[str, str]) -> tuple[str, ...]:
    head = (names[ranked.runtime], names[ranked.following], f"{ranked.positions:,}")
    kl, changed = ranked.kl_forward, ranked.disagreement
    if kl is None or changed is None:
        return (*head, *[NOTHING] * 5)
    return (
        *head,
        nats(0.0 - kl.difference),
        nats_interval(kl.interval),
        f"{kl.first_lower} of {kl.cases}",
        percent(0.0 - changed.difference),
        percent_interval(changed.interval),
    )


def told_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns that tell something in any row."""
    columns = enumerate(zip(*rows, strict=True))
    return [at for at, column in columns if any(cell not in ("", NOTHING) for cell in column)]
