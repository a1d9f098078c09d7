"""What a charts page is made of: charts with their data, and what they are drawn from. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.links import CaseLink
from capture.intervals import Interval
from capture.model import Float64Array, Int32Array
from capture.samples import Sample

Value = str | float | int | None

Figure = Mapping[str, Any]

SHOWN_ROWS = 60
"""Rows of a chart's table on its page; its CSV and JSON have all."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a chart's data; `href` opens the position it is about, empty where it is about none."""

    values: tuple[Value, ...]
    href: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        """The values as a page writes them."""
        return tuple(map(_shown, self.values))


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart.

    Attributes:
        name: of it in links.
        title: what it answers.
        caption: n, mode, scoring path, direction, runs, k.
        columns: names of the data's columns.
        rows: the data.
        figure: for Plotly, fewer than 5,000 points; None where the table is the chart.
        note: how to read it; empty where nothing needs saying.
        legend: the two ends of a colour scale, in words; empty without one.
        height: of the drawing, in pixels.
    """

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Line, ...]
    figure: Figure | None
    note: str = ""
    legend: tuple[str, ...] = ()
    height: int = 340

    @property
    def linked(self) -> bool:
        """Whether rows open positions."""
        return any(row.href for row in self.rows)


@dataclass(frozen=True, slots=True)
class CaseSample:
    """The positions of one case that a lane shares with its reference; n positions.

    Attributes:
        key, case_id: of the case.
        prompt_length: tokens before position 0.
        sample: the positions.
        margin: of the reference there, nats, float64 [n].
        top1: the candidate's top-1 there, int32 [n].
        link: opens the case with the two runs as lanes; None where no page shows the positions.
        identical: whether every row is the reference's, bit for bit.
    """

    key: str
    case_id: str
    prompt_length: int
    sample: Sample
    margin: Float64Array
    top1: Int32Array
    link: CaseLink | None
    identical: bool = False

    def href(self, row: int) -> str:
        """Return the permalink of one of its positions; empty where no page shows it."""
        if self.link is None:
            return ""
        return self.link.fork(int(self.sample.position[row]), bytes(self.sample.prefix_id[row])).format()


@dataclass(frozen=True, slots=True)
class Agreement:
    """How long one free run stayed what the reference's is, in tokens.

    Attributes:
        case_id: the case.
        tokens: the same tokens at the start.
        parted: whether the next one differs; else one of the runs ends there.
        href: opens the fork, or the case.
    """

    case_id: str
    tokens: int
    parted: bool
    href: str


@dataclass(frozen=True, slots=True)
class ChartLane:
    """A runtime, or a floor, with its positions case by case."""

    name: str
    label: str
    cases: tuple[CaseSample, ...]
    agreements: tuple[Agreement, ...] = ()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The positions alone."""
        return tuple(case.sample for case in self.cases)


@dataclass(frozen=True, slots=True)
class ChartSource:
    """All that the charts of a page are drawn from.

    Attributes:
        study, title: the study.
        case: name of the case; empty for all.
        reference: label of the reference.
        protocol: a key of `library_links.PROTOCOLS`.
        lower_bound: whether divergences are drawn of positions with top tokens alone, else of whole vocabularies.
        listed: how many of the highest tokens every position keeps.
        lanes: in the order of their making.
        floors: the reference against itself, by the same protocol where that can be.
    """

    study: str
    title: str
    case: str
    reference: str
    protocol: str
    lower_bound: bool
    listed: int
    lanes: tuple[ChartLane, ...]
    floors: tuple[ChartLane, ...]

    @property
    def cases(self) -> int:
        """How many cases there are."""
        return len({case.key for lane in self.lanes for case in lane.cases})


def ends(interval: Interval | None) -> tuple[float | None, float | None]:
    """Return the ends of an interval as a row has them, nothing where none is claimed."""
    return (None, None) if interval is None else (interval.low, interval.high)


def _shown(value: Value) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return "0" if value == 0 else f"{value:.2e}" if abs(value) < 1e-4 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value
