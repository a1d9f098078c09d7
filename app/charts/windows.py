"""Disagreement by window of context, with its band. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.charts.drawing import caption, colour, dash, figure, marker, text, title
from app.charts.points import Points, changed, flip_links, points_of
from app.charts.values import Chart, ChartSource, Line
from app.library_links import PROBE
from app.matrix_cells import rate_text
from capture.context_windows import WINDOW
from capture.intervals import block_rate, wilson

MOST_WINDOWS = 16

SMALLEST_WINDOW = 32


@dataclass(frozen=True, slots=True)
class _Window:
    """The positions of one lane after `start` tokens and up to a window's width more."""

    start: int
    positions: int
    flips: int
    low: float
    high: float
    href: str


def by_window(source: ChartSource) -> Chart:
    """Return disagreement by window of context, with its band."""
    longest = max((int(points_of(lane).column("absolute").max()) for lane in source.lanes if lane.cases), default=0)
    first = min((int(points_of(lane).column("absolute").min()) for lane in source.lanes if lane.cases), default=0)
    probed = source.protocol == PROBE
    first, width = (0, WINDOW) if probed else (first, window_width(longest + 1 - first))
    rows, traces = [], []
    for index, lane in enumerate(source.lanes):
        found = list(_windows(points_of(lane), first, width))
        rows += [_window_row(lane.label, one, width) for one in found]
        traces += _band(lane.label, index, found, width)
    return Chart(
        name="windows",
        title="Does it get worse with depth?",
        caption=caption(
            source, sum(len(points_of(lane)) for lane in source.lanes), f"windows of {width:,} tokens of context"
        ),
        columns=("runtime", "from", "to", "positions", "flips", "disagreement", "low", "high"),
        rows=tuple(rows),
        figure=figure(
            traces,
            "windows",
            {"title": title("context before the position, tokens"), "rangemode": "nonnegative"},
            {"title": title("disagreement, %"), "rangemode": "tozero", "ticksuffix": " %"},
        ),
        note="Bands are 95 % by Wilson, with neighbouring positions taken as one where they flip together. "
        "Two windows whose bands overlap cannot be told apart.",
    )


def window_width(span: int) -> int:
    """Return a power of two such that a span has at most `MOST_WINDOWS` windows."""
    width = SMALLEST_WINDOW
    while width * MOST_WINDOWS < span:
        width *= 2
    return width


def _windows(points: Points, first: int, width: int) -> Iterator[_Window]:
    """Yield each window that has positions."""
    absolute, hits = points.column("absolute"), changed(points)
    for start in range(first, int(absolute.max()) + 1 if len(points) else first, width):
        inside = (absolute >= start) & (absolute < start + width)
        n, flips = int(inside.sum()), int(hits[inside].sum())
        if n:
            interval = block_rate(hits[inside]) if n > 1 else wilson(flips, n)
            href = next(iter(flip_links(points.where(inside))), "")
            yield _Window(start, n, flips, interval.low, interval.high, href)


def _window_row(label: str, one: _Window, width: int) -> Line:
    rate = one.flips / one.positions
    return Line((label, one.start, one.start + width, one.positions, one.flips, rate, one.low, one.high), one.href)


def _band(label: str, index: int, found: Sequence[_Window], width: int) -> list[Any]:
    shared: dict[str, Any] = {"type": "scatter", "legendgroup": str(index), "hoverinfo": "skip"}
    bands = [trace for part in _stretches(found, width) for trace in _stretch(part, shared, index, width)]
    line = {
        **shared,
        "mode": "lines+markers",
        "name": text(label),
        **_with_gaps(found, width),
        "connectgaps": False,
        "line": {"color": colour(index), "dash": dash(index), "width": 2},
        "marker": marker(index, 7),
        "hoverinfo": "text",
    }
    line["hovertext"] = ["" if one is None else _told(label, one, width) for one in line.pop("windows")]
    return [*bands, line]


def _stretches(found: Sequence[_Window], width: int) -> list[list[_Window]]:
    """Return the windows in stretches without a gap."""
    parts: list[list[_Window]] = []
    for one in found:
        if parts and parts[-1][-1].start + width == one.start:
            parts[-1].append(one)
        else:
            parts.append([one])
    return parts


def _stretch(part: Sequence[_Window], shared: Mapping[str, Any], index: int, width: int) -> list[Any]:
    """Return the band of a stretch, as wide as its windows: its upper edge, then its lower."""
    edges = [(at, one) for one in part for at in (one.start, one.start + width)]
    plain = {
        **shared,
        "x": [at for at, _ in edges],
        "mode": "lines",
        "line": {"width": 0, "color": colour(index), "shape": "linear"},
        "showlegend": False,
    }
    high = {**plain, "y": [100 * one.high for _, one in edges]}
    low = {**plain, "y": [100 * one.low for _, one in edges], "fill": "tonexty", "fillcolor": colour(index)}
    return [high, low]


def _with_gaps(found: Sequence[_Window], width: int) -> dict[str, Any]:
    """Return the points of the windows, with nothing between stretches."""
    points: list[_Window | None] = []
    for part in _stretches(found, width):
        points += [*([None] if points else []), *part]
    return {
        "windows": points,
        "x": [None if one is None else one.start + width / 2 for one in points],
        "y": [None if one is None else 100 * one.flips / one.positions for one in points],
        "customdata": ["" if one is None else one.href for one in points],
    }


def _told(label: str, one: _Window, width: int) -> str:
    between = f"{rate_text(one.low)} to {rate_text(one.high)}"
    return text(f"{label}, {one.start:,} to {one.start + width:,}: {one.flips} of {one.positions} ({between})")
