"""Charts of divergence along the stream: a band with the largest points, and every runtime as a row of cells. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.charts.drawing import MOST_POINTS, caption, cividis, colour, dash, figure, marker, text, title
from app.charts.points import Points, points_of
from app.charts.values import Chart, ChartLane, ChartSource, Line
from app.matrix_cells import kl_text
from capture.model import Float64Array
from capture.summary import QUANTILES, quantiles

TOP = 200
"""Positions with the largest divergence that are points of their own, as many of each runtime."""

MOST_BINS = 96
"""Bins of the band of one runtime."""

MOST_COLUMNS = 256

SMALLEST, LARGEST = 1e-6, 1.0
"""Nats at both ends of the colours and of the logarithmic axes; what is smaller stands at the end."""

_NAMES = {"jensen_shannon": "JSD", "kl_forward": "KL(reference‖runtime)"}


@dataclass(frozen=True, slots=True)
class _Bin:
    start: int
    stop: int
    low: float
    median: float
    high: float
    positions: int
    href: str


def along(source: ChartSource, column: str = "kl_forward") -> Chart:
    """Return the divergence along the stream: p10 to p90 and the median of each bin, and the largest points."""
    kept = {lane.name: points_of(lane, source.lower_bound) for lane in source.lanes}
    span = max((int(points.column("position").max()) + 1 for points in kept.values() if len(points)), default=1)
    width = bin_width(span, MOST_BINS)
    rows = [
        Line((lane.label, "point", position, position + 1, None, value, None, 1), kept[lane.name].href(at))
        for index, at, value, position in _largest(source, kept, column)
        for lane in (source.lanes[index],)
    ]
    traces: list[Any] = []
    for index, lane in enumerate(source.lanes):
        bins = list(_bins(kept[lane.name], column, width, span))
        traces += _band(lane.label, index, bins)
        rows += [
            Line((lane.label, "bin", one.start, one.stop, one.low, one.median, one.high, one.positions), one.href)
            for one in bins
        ]
    traces += [_point_trace(source, kept, column, index) for index in range(len(source.lanes))]
    y = {"type": "log", "title": title(f"{_NAMES[column]}, nats (log)"), "exponentformat": "e"}
    return Chart(
        name="stream",
        title="Where along the stream?",
        caption=caption(
            source, sum(map(len, kept.values())), f"bins of {width:,} positions", divergence=_NAMES[column]
        ),
        columns=("runtime", "what", "from", "to", "p10", "median or value", "p90", "positions"),
        rows=tuple(rows),
        figure=figure(traces, "stream", {"title": title("position in the output"), "rangemode": "nonnegative"}, y),
        note=f"Lines are medians, bands p10 to p90, points the {TOP} largest values, as many of each runtime. "
        "A click opens the position, on a line the largest of its bin.",
        height=380,
    )


def bin_width(span: int, most: int) -> int:
    """Return a power of two such that a span has at most so many bins."""
    width = 1
    while width * most < span:
        width *= 2
    return width


def _bins(points: Points, column: str, width: int, span: int) -> Iterator[_Bin]:
    position, values = points.column("position"), np.maximum(points.column(column), SMALLEST)
    for start in range(0, span, width):
        inside = np.flatnonzero((position >= start) & (position < start + width))
        if len(inside):
            told = dict(zip(QUANTILES, quantiles(values[inside]), strict=True))
            low, median, high = (told[at] for at in (0.1, 0.5, 0.9))
            href = points.href(int(inside[np.argmax(values[inside])]))
            yield _Bin(start, start + width, low, median, high, len(inside), href)


def _band(label: str, index: int, bins: list[_Bin]) -> list[Any]:
    middle = [(one.start + one.stop - 1) / 2 for one in bins]
    shared: dict[str, Any] = {
        "type": "scatter",
        "x": middle,
        "mode": "lines",
        "legendgroup": str(index),
        "hoverinfo": "skip",
    }
    edge = {**shared, "line": {"width": 0, "color": colour(index)}, "showlegend": False}
    median = {
        **shared,
        "name": text(label),
        "y": [one.median for one in bins],
        "customdata": [one.href for one in bins],
        "line": {"color": colour(index), "dash": dash(index), "width": 1.8},
        "hovertext": [
            text(f"{label}, {one.start:,} to {one.stop - 1:,}: median {kl_text(one.median)}, p90 {kl_text(one.high)}")
            for one in bins
        ],
        "hoverinfo": "text",
    }
    high = {**edge, "y": [one.high for one in bins]}
    low = {**edge, "y": [one.low for one in bins], "fill": "tonexty", "fillcolor": colour(index)}
    return [high, low, median]


def _largest(source: ChartSource, kept: dict[str, Points], column: str) -> list[tuple[int, int, float, int]]:
    """Return the largest values as (lane, index of the point, value, position), largest first."""
    found: list[tuple[int, int, float, int]] = []
    for index, lane in enumerate(source.lanes):
        values, position = kept[lane.name].column(column), kept[lane.name].column("position")
        order = np.argsort(-values, kind="stable")[: max(TOP // len(source.lanes), 1)]
        found += [(index, int(at), float(values[at]), int(position[at])) for at in order if values[at] > 0]
    return sorted(found, key=lambda one: -one[2])[:TOP]


def _point_trace(source: ChartSource, kept: dict[str, Points], column: str, index: int) -> dict[str, Any]:
    own = [one for one in _largest(source, kept, column) if one[0] == index]
    lane = source.lanes[index]
    points = kept[lane.name]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": text(lane.label),
        "legendgroup": str(index),
        "showlegend": False,
        "x": [position for *_, position in own],
        "y": [max(value, SMALLEST) for _, _, value, _ in own],
        "marker": marker(index, 6),
        "customdata": [points.href(at) for _, at, *_ in own],
        "hovertext": [
            text(f"{lane.label} at {position:,} of {_case(points, at)}: {kl_text(value)} nats")
            for _, at, value, position in own
        ],
        "hoverinfo": "text",
    }


def _case(points: Points, at: int) -> str:
    return points.cases[int(points.case[at])].case_id


def heat(source: ChartSource, column: str = "kl_forward") -> Chart:
    """Return every runtime as a row of cells, coloured by the largest divergence in each."""
    kept = [points_of(lane, source.lower_bound) for lane in source.lanes]
    span = max((int(points.column("position").max()) + 1 for points in kept if len(points)), default=1)
    lanes = max(len(source.lanes), 1)
    width = bin_width(span, min(MOST_COLUMNS, MOST_POINTS // lanes))
    rows: list[Line] = []
    traces: list[Any] = []
    for lane, points in zip(source.lanes, kept, strict=True):
        cells = list(_cells(points, column, width, span))
        rows += [Line((lane.label, start, start + width, value), href) for start, value, href in cells]
        traces.append(_cell_trace(lane, cells, width))
    drawn = figure(
        traces,
        "heat",
        {"title": title("position in the output"), "range": [0, span], "showgrid": False},
        {"type": "category", "autorange": "reversed", "showgrid": False},
    )
    drawn["layout"].update(barmode="overlay", bargap=0.16, showlegend=False)
    return Chart(
        name="heat",
        title="Which runtime, where?",
        caption=caption(
            source, sum(map(len, kept)), f"largest of {width:,} positions a cell", divergence=_NAMES[column]
        ),
        columns=("runtime", "from", "to", "largest divergence, nats"),
        rows=tuple(rows),
        figure=drawn,
        note="Colours are logarithmic and the same on every page; a click opens the largest position of a cell.",
        legend=(f"≤ {kl_text(SMALLEST)}", f"≥ {kl_text(LARGEST)} nats"),
        height=96 + 34 * lanes,
    )


def _cells(points: Points, column: str, width: int, span: int) -> Iterator[tuple[int, float, str]]:
    position, values = points.column("position"), points.column(column)
    for start in range(0, span, width):
        inside = np.flatnonzero((position >= start) & (position < start + width))
        if len(inside):
            at = int(inside[np.argmax(values[inside])])
            yield start, float(values[at]), points.href(at)


def _cell_trace(lane: ChartLane, cells: list[tuple[int, float, str]], width: int) -> dict[str, Any]:
    """Return a row of cells as bars: Plotly's own heat maps need styles that the policy forbids."""
    values = np.clip([value for _, value, _ in cells], SMALLEST, LARGEST)
    shares: Float64Array = np.log10(values / SMALLEST) / np.log10(LARGEST / SMALLEST)
    return {
        "type": "bar",
        "orientation": "h",
        "name": text(lane.label),
        "x": [width] * len(cells),
        "base": [start for start, *_ in cells],
        "y": [text(lane.label)] * len(cells),
        "marker": {"color": [cividis(share) for share in shares.tolist()], "line": {"width": 0}},
        "customdata": [href for *_, href in cells],
        "hovertext": [
            text(f"{lane.label}, {start:,} to {start + width - 1:,}: largest {kl_text(value)} nats")
            for start, value, _ in cells
        ],
        "hoverinfo": "text",
    }
