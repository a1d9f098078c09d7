"""Charts of disagreement: by runtime beside the floor, and by the reference's margin. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from app.charts.drawing import FLOOR_COLOUR, caption, colour, dash, figure, marker, text, title
from app.charts.points import Points, by_case, changed, flip_links, points_of
from app.charts.values import Chart, ChartSource, Line, ends
from app.matrix_cells import range_text, rate_text
from capture.intervals import Interval, block_rate, case_rate
from capture.samples import FLIP_CLASSES

MARGIN_EDGES = (0.0, *(2.0**power for power in range(-7, 5)))
"""Edges of the bins of margin in nats; exact ties are a bin of their own before the first."""

MOST_FLIPS = 400
"""Flips drawn on the rug of one figure."""

_TIE_AT = 2.0**-8.5


def by_runtime(source: ChartSource) -> Chart:
    """Return how often each runtime disagrees, and the floor."""
    rows, traces = [], []
    lanes = sorted(source.lanes, key=lambda lane: -changed(points_of(lane)).mean() if lane.cases else 0.0)
    order = {lane.name: index for index, lane in enumerate(source.lanes)}
    for lane in [*lanes, *source.floors]:
        points = points_of(lane)
        if not len(points):
            continue
        hits, rate = int(changed(points).sum()), float(changed(points).mean())
        interval, how = _interval(points)
        href = next(iter(flip_links(points)), "")
        rows.append(Line((lane.label, len(points), hits, rate, *ends(interval), how), href))
        floor = lane.name not in order
        traces.append(_whisker(lane.label, points, interval, href, None if floor else order[lane.name]))
    x = {"type": "log", "title": title("disagreement, % (log)"), "ticksuffix": " %"}
    y = {"type": "category", "autorange": "reversed", "tickfont": {"size": 12}}
    drawn = figure(traces, "disagreement", x, y)
    drawn["layout"]["showlegend"] = False
    return Chart(
        name="disagreement",
        title="How often does the winner change?",
        caption=caption(source, sum(len(points_of(lane)) for lane in source.lanes)),
        columns=("runtime", "positions", "flips", "disagreement", "low", "high", "interval"),
        rows=tuple(rows),
        figure=drawn,
        note="Whiskers are 95 %, from blocks of a run or from ten cases on; else none is claimed. A hollow triangle is "
        "no flip at all: it stands where the interval ends, or at one flip where there is none. "
        "Grey rows are the floor, the reference against itself; it is not subtracted.",
        height=90 + 38 * max(len(rows), 2),
    )


def _whisker(label: str, points: Points, interval: Interval | None, href: str, index: int | None) -> dict[str, Any]:
    rate = float(changed(points).mean())
    look = marker(index, 10) if index is not None else {"color": FLOOR_COLOUR, "symbol": "circle", "size": 9}
    at = rate if rate > 0 else interval.high if interval else 1 / len(points)
    if rate == 0:
        look = {**look, "symbol": "triangle-left-open", "size": 11}
    between = range_text(interval, rate_text)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": text(label),
        "x": [100 * at],
        "y": [text(label)],
        **(
            {"error_x": _error(rate, at, interval, FLOOR_COLOUR if index is None else colour(index))}
            if interval
            else {}
        ),
        "marker": look,
        "customdata": [href],
        "hovertext": [text(f"{label}: {rate_text(rate)}" + (f", 95 %: {between}" if between else ""))],
        "hoverinfo": "text",
    }


def _error(rate: float, at: float, interval: Interval, line_colour: str) -> dict[str, Any]:
    low = max(interval.low, at / 1000) if rate > 0 else at / 30
    return {
        "type": "data",
        "symmetric": False,
        "array": [100 * max(interval.high - at, 0.0)],
        "arrayminus": [100 * max(at - low, 0.0)],
        "color": line_colour,
        "thickness": 1.6,
        "width": 4,
    }


def _interval(points: Points) -> tuple[Interval | None, str]:
    """Return the interval of some positions' disagreement, and where it is from; None where none is claimed."""
    groups = by_case(points, changed(points))
    if len(groups) == 1:
        return block_rate(groups[0]), "blocks of the run"
    pooled = case_rate(groups)
    return pooled, "too few cases" if pooled is None else "cases resampled"


def by_margin(source: ChartSource) -> Chart:
    """Return the probability of a flip by the reference's margin."""
    rows, traces = [], []
    drawn_flips = max(MOST_FLIPS // max(len(source.lanes), 1), 20)
    for index, lane in enumerate(source.lanes):
        points = points_of(lane)
        bins = list(_margin_bins(points))
        rows += [Line((lane.label, name, n, hits, hits / n, *ends(one))) for name, _, n, hits, one in bins]
        traces.append(_margin_line(lane.label, index, bins))
        traces.append(_rug(lane.label, index, points, drawn_flips))
    ticks = [0.01, 0.1, 1, 10]
    x = {
        "type": "log",
        "title": title("margin of the reference, nats (log)"),
        "tickvals": [_TIE_AT, *ticks],
        "ticktext": ["tie", *(f"{tick:g}" for tick in ticks)],
    }
    return Chart(
        name="margin",
        title="Does the margin predict flips?",
        caption=caption(source, sum(len(points_of(lane)) for lane in source.lanes)),
        columns=("runtime", "margin, nats", "positions", "flips", "share that flips", "low", "high"),
        rows=tuple(rows),
        figure=figure(
            traces, "margin", x, {"title": title("positions that flip, %"), "range": [-9, 102], "ticksuffix": " %"}
        ),
        note="Whiskers are 95 %, from blocks of a run or from ten cases on; else none is claimed. Each tick below the "
        "axis is a flip at its margin; a click opens it.",
    )


_MarginBin = tuple[str, float, int, int, Interval | None]
"""Its name, where it is drawn, its positions, how many of them flip, the interval of their share."""


def _margin_bins(points: Points) -> Iterator[_MarginBin]:
    margin, hits_at = points.column("margin"), changed(points)
    tie = margin <= 0
    parts = [("0 (tie)", _TIE_AT, tie)]
    for low, high in zip(MARGIN_EDGES, (*MARGIN_EDGES[1:], np.inf), strict=True):
        at = float(np.sqrt(max(low, MARGIN_EDGES[1] / 2) * min(high, 2 * MARGIN_EDGES[-1])))
        name = f"{low:.3g} to {high:.3g}" if np.isfinite(high) else f"over {low:.3g}"
        parts.append((name, at, ~tie & (margin > low) & (margin <= high)))
    for name, at, inside in parts:
        n, hits = int(inside.sum()), int(hits_at[inside].sum())
        if n:
            yield name, at, n, hits, _interval(points.where(inside))[0]


def _margin_line(label: str, index: int, bins: Sequence[_MarginBin]) -> dict[str, Any]:
    share = [100 * hits / n for _, _, n, hits, _ in bins]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": text(label),
        "legendgroup": str(index),
        "x": [at for _, at, *_ in bins],
        "y": share,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [100 * one.high - y if one else None for y, (*_, one) in zip(share, bins, strict=True)],
            "arrayminus": [y - 100 * one.low if one else None for y, (*_, one) in zip(share, bins, strict=True)],
            "color": colour(index),
            "thickness": 1.2,
            "width": 3,
        },
        "line": {"color": colour(index), "dash": dash(index), "width": 2},
        "marker": marker(index, 7),
        "hovertext": [text(f"{label}, {name} nats: {hits} of {n} flip") for name, _, n, hits, _ in bins],
        "hoverinfo": "text",
    }


def _rug(label: str, index: int, points: Points, most: int) -> dict[str, Any]:
    where = np.flatnonzero(changed(points) > 0)
    if len(where) > most:
        where = where[np.linspace(0, len(where) - 1, most).astype(np.int64)]
    margin, position, flip = (points.column(name)[where] for name in ("margin", "position", "flip"))
    names = [FLIP_CLASSES[code - 1].value for code in flip.tolist()]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": text(label),
        "legendgroup": str(index),
        "showlegend": False,
        "x": [max(value, _TIE_AT) for value in margin.tolist()],
        "y": [-3.0 - (index % 5) * 1.2] * len(where),
        "marker": {"symbol": "line-ns-open", "size": 7, "color": colour(index)},
        "customdata": [points.href(at) for at in where.tolist()],
        "hovertext": [
            text(f"{label}: {name} flip at {at:,}, margin {value:.3f} nats")
            for name, at, value in zip(names, position.tolist(), margin.tolist(), strict=True)
        ],
        "hoverinfo": "text",
    }
