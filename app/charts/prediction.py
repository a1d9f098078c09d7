"""How good a predictor of flips the reference's margin is: precision by recall, and what a gate would cost. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.charts.drawing import FLOOR_COLOUR, caption, colour, dash, figure, marker, text, title
from app.charts.points import changed, points_of
from app.charts.values import Chart, ChartLane, ChartSource, Line
from capture.model import Float64Array

CAUGHT = (0.5, 0.95, 0.99, 1.0)
"""Shares of the flips that a gate is to catch, which are points of the curve."""

CURVE_POINTS = 120


def precision(source: ChartSource) -> Chart:
    """Return the share of flips among positions under a margin, by the share of all flips that it catches."""
    rows: list[Line] = []
    traces: list[Any] = []
    for index, lane in enumerate(source.lanes):
        points = points_of(lane)
        order = np.argsort(points.column("margin"), kind="stable")
        ranked, margins = changed(points)[order], points.column("margin")[order]
        if not ranked.sum():
            continue
        gates = [_gate(margins, ranked, share) for share in CAUGHT]
        rows += [Line((lane.label, *gate)) for gate in gates]
        traces += _traces(lane, index, margins, ranked, gates)
    return Chart(
        name="precision",
        title="What would a margin gate cost?",
        caption=caption(source, sum(len(points_of(lane)) for lane in source.lanes)),
        columns=(
            "runtime",
            "flips caught",
            "margin up to, nats",
            "fires on",
            "of these flip",
            "all positions that flip",
        ),
        rows=tuple(rows),
        figure=figure(
            traces,
            "precision",
            {"title": title("flips caught, %"), "range": [-2, 104], "ticksuffix": " %"},
            {"title": title("of the positions it fires on, flip, % (log)"), "type": "log", "ticksuffix": " %"},
        ),
        note="The margin alone is the predictor; nothing is fitted. Dotted lines are what a blind guess would give; "
        "points stand where half, 95, 99 and all of the flips are caught.",
    )


_Gate = tuple[float, float, float, float, float]
"""Flips caught, the margin, the share of positions that it fires on, of these that flip, and of all that flip."""


def _gate(margins: Float64Array, ranked: Float64Array, share: float) -> _Gate:
    """Return the gate of the smallest margin that catches a share; it fires on every position of that margin too."""
    caught = np.cumsum(ranked)
    last = int(np.searchsorted(caught, share * caught[-1] - 1e-9))
    fires = int(np.searchsorted(margins, margins[last], "right"))
    return (
        float(caught[fires - 1] / caught[-1]),
        float(margins[last]),
        fires / len(ranked),
        float(caught[fires - 1] / fires),
        float(ranked.mean()),
    )


def _traces(lane: ChartLane, index: int, margins: Float64Array, ranked: Float64Array, gates: list[_Gate]) -> list[Any]:
    caught = np.cumsum(ranked)
    found = np.unique(np.searchsorted(margins, margins[ranked > 0], "right")) - 1  # the last position of each margin
    kept = found[np.unique(np.linspace(0, len(found) - 1, CURVE_POINTS).astype(np.int64))]
    shared: dict[str, Any] = {"type": "scatter", "name": text(lane.label), "legendgroup": str(index)}
    curve = {
        **shared,
        "mode": "lines",
        "x": (100 * caught[kept] / caught[-1]).tolist(),
        "y": (100 * caught[kept] / (kept + 1)).tolist(),
        "line": {"color": colour(index), "dash": dash(index), "width": 2},
        "hoverinfo": "skip",
    }
    blind = {
        **shared,
        "mode": "lines",
        "x": [0, 100],
        "y": [100 * float(ranked.mean())] * 2,
        "line": {"color": FLOOR_COLOUR, "dash": "dot", "width": 1},
        "showlegend": False,
        "hoverinfo": "skip",
    }
    marks = {
        **shared,
        "mode": "markers",
        "x": [100 * share for share, *_ in gates],
        "y": [100 * flips for *_, flips, _ in gates],
        "marker": marker(index, 8),
        "showlegend": False,
        "hovertext": [
            text(f"{lane.label}: {share:.0%} of flips under {margin:.3g} nats, which fires on {fires:.1%} of positions")
            for share, margin, fires, *_ in gates
        ],
        "hoverinfo": "text",
    }
    return [curve, blind, marks]
