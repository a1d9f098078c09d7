"""Charts of how divergence is spread: its tail, by the reference's confidence, and noise against damage. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.charts.drawing import FLOOR_COLOUR, caption, colour, dash, figure, marker, text, title
from app.charts.points import Points, by_case, points_of
from app.charts.values import Chart, ChartLane, ChartSource, Line, ends
from app.matrix_cells import kl_text
from capture.intervals import Interval, case_bootstrap, run_interval
from capture.model import Float64Array
from capture.report import bucket_name
from capture.samples import CONFIDENCE_EDGES

SMALLEST = 1e-7
"""Nats from which on the tail is drawn."""

MARKED = (0.5, 0.95, 0.99, 0.999, 1.0)
"""Quantiles that are points of the tail; the last is the maximum."""

TAIL_POINTS = 120
"""Points of one tail."""

MIRRORED = (0.5, 0.25, 0.1, 0.05, 0.01, 0.001)
"""Quantiles of the change of probability that are compared with their mirror images."""

_KL = "KL(reference‖runtime)"


def tail(source: ChartSource) -> Chart:
    """Return the share of positions above each divergence."""
    rows: list[Line] = []
    traces: list[Any] = []
    total = 0
    for index, lane in enumerate([*source.lanes, *source.floors]):
        points = points_of(lane, source.lower_bound)
        values = np.sort(points.column("kl_forward"))[::-1]
        if not len(values):
            continue
        floor = index >= len(source.lanes)
        total += 0 if floor else len(values)
        marked = _marked(points, values)
        rows += [Line((lane.label, name, value, share), href) for name, value, share, href in marked]
        traces += _tail_traces(lane.label, values, marked, None if floor else index)
    x = {"type": "log", "title": title(f"{_KL}, nats (log)"), "exponentformat": "e"}
    y = {"type": "log", "title": title("share of positions above, % (log)"), "ticksuffix": " %"}
    return Chart(
        name="tail",
        title="How heavy is the tail?",
        caption=caption(source, total, divergence=_KL),
        columns=("runtime", "point", "KL, nats", "share above"),
        rows=tuple(rows),
        figure=figure(traces, "tail", x, y),
        note="Points stand at the median, 95, 99, 99.9 % and the maximum; a click opens the position nearest to it. "
        "Grey dots are the floor.",
    )


def _marked(points: Points, values: Float64Array) -> list[tuple[str, float, float, str]]:
    """Return the marked quantiles as (name, value, share of positions at or above, link)."""
    order = np.argsort(-points.column("kl_forward"), kind="stable")
    found = []
    for at in MARKED:
        rank = min(int((1 - at) * len(values)), len(values) - 1)
        name = "maximum" if at == 1 else "median" if at == 0.5 else f"{100 * at:g} %"
        found.append((name, float(values[rank]), (rank + 1) / len(values), points.href(int(order[rank]))))
    return found


def _tail_traces(
    label: str, values: Float64Array, marked: list[tuple[str, float, float, str]], index: int | None
) -> list[Any]:
    ranks = np.unique(np.geomspace(1, len(values), TAIL_POINTS).astype(np.int64)) - 1
    ranks = ranks[values[ranks] > SMALLEST]
    shown = [one for one in marked if one[1] > SMALLEST]
    look = {"color": FLOOR_COLOUR, "size": 6} if index is None else marker(index, 8)
    line = {"color": FLOOR_COLOUR, "dash": "dot", "width": 1.5}
    group = text(label) if index is None else str(index)
    curve = {
        "type": "scatter",
        "mode": "lines",
        "name": text(label),
        "legendgroup": group,
        "x": values[ranks].tolist(),
        "y": (100 * (ranks + 1) / len(values)).tolist(),
        "line": line if index is None else {"color": colour(index), "dash": dash(index), "width": 2},
        "hoverinfo": "skip",
    }
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": text(label),
        "legendgroup": group,
        "showlegend": False,
        "x": [value for _, value, *_ in shown],
        "y": [100 * share for _, _, share, _ in shown],
        "marker": look,
        "customdata": [href for *_, href in shown],
        "hovertext": [text(f"{label}: {name} {kl_text(value)} nats") for name, value, *_ in shown],
        "hoverinfo": "text",
    }
    return [curve, points]


def by_confidence(source: ChartSource) -> Chart:
    """Return the mean divergence by how sure the reference is."""
    names = [bucket_name(bucket) for bucket in range(len(CONFIDENCE_EDGES) - 1)]
    rows: list[Line] = []
    traces: list[Any] = []
    total = 0
    for index, lane in enumerate(source.lanes):
        points = points_of(lane, source.lower_bound)
        total += len(points)
        found = _buckets(points)
        rows += [
            Line((lane.label, names[at], n, n / max(len(points), 1), mean, *ends(one), hits / n))
            for at, n, hits, mean, one in found
        ]
        traces.append(_bucket_trace(lane, index, names, found, len(points)))
    drawn = figure(
        traces,
        "confidence",
        {"type": "category", "title": title("probability that the reference gives its own winner"),
         "categoryorder": "array", "categoryarray": [text(name) for name in names]},
        {"type": "log", "title": title(f"mean {_KL}, nats (log)"), "exponentformat": "e"},
    )  # fmt: skip
    drawn["layout"]["scattermode"] = "group"
    return Chart(
        name="confidence",
        title="Is it only the hard tokens?",
        caption=caption(source, total, divergence=_KL),
        columns=("runtime", "confidence", "positions", "share", "mean KL, nats", "low", "high", "flips per position"),
        rows=tuple(rows),
        figure=drawn,
        note="Whiskers are 95 %, from blocks of a run's positions or from ten cases on; else none is claimed. Where "
        "the reference is undecided a mean says least.",
    )


_Bucket = tuple[int, int, int, float, Interval | None]
"""Which it is, its positions, their flips, their mean KL in nats, its interval."""


def _buckets(points: Points) -> list[_Bucket]:
    """Return the buckets that have positions."""
    confidence, values, changed = (points.column(name) for name in ("confidence", "kl_forward", "changed"))
    found: list[_Bucket] = []
    for at, (low, high) in enumerate(zip(CONFIDENCE_EDGES, CONFIDENCE_EDGES[1:], strict=False)):
        last = at == len(CONFIDENCE_EDGES) - 2
        inside = (confidence >= low) & ((confidence < high) | last)
        n = int(inside.sum())
        if n:
            interval = _interval(by_case(points.where(inside), values[inside]))
            found.append((at, n, int(changed[inside].sum()), float(values[inside].mean()), interval))
    return found


def _interval(groups: Sequence[Float64Array]) -> Interval | None:
    """Return the interval of a mean over one run or several cases, None where none is claimed."""
    if len(groups) > 1:
        return case_bootstrap(groups)
    return run_interval(groups[0])


def _bucket_trace(lane: ChartLane, index: int, names: list[str], found: list[_Bucket], total: int) -> dict[str, Any]:
    shown = [one for one in found if 0 < one[3] < np.inf]
    means = [mean for *_, mean, _ in shown]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": text(lane.label),
        "x": [text(names[at]) for at, *_ in shown],
        "y": means,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [one.high - mean if one else None for mean, (*_, one) in zip(means, shown, strict=True)],
            "arrayminus": [
                min(mean - one.low, 0.999 * mean) if one else None for mean, (*_, one) in zip(means, shown, strict=True)
            ],
            "color": colour(index),
            "thickness": 1.5,
            "width": 4,
        },
        "marker": marker(index, 9),
        "hovertext": [
            text(f"{lane.label}, {names[at]}: mean {kl_text(mean)} nats, {hits} of {n} flip, {n / total:.1%} of tokens")
            for at, n, hits, mean, _ in shown
        ],
        "hoverinfo": "text",
    }


def noise(source: ChartSource) -> Chart:
    """Return quantiles of the change of probability against their mirror images: symmetric is noise."""
    rows: list[Line] = []
    traces: list[Any] = []
    total = 0
    for index, lane in enumerate(source.lanes):
        change = points_of(lane).column("delta_probability")
        change = change[~np.isnan(change)]
        if not len(change):
            continue
        total += len(change)
        pairs = [(at, *np.quantile(change, (at, 1 - at)).tolist()) for at in MIRRORED]
        rows += [Line((lane.label, f"{100 * at:g} %", low, f"{100 * (1 - at):g} %", high)) for at, low, high in pairs]
        traces.append(_mirror_trace(lane, index, pairs))
    diagonal = {
        "type": "scatter", "mode": "lines", "x": [0, 100], "y": [0, 100], "hoverinfo": "skip", "showlegend": False,
        "line": {"color": FLOOR_COLOUR, "dash": "dot", "width": 1},
    }  # fmt: skip
    top = max((max(map(abs, trace["x"] + trace["y"])) for trace in traces), default=1.0) * 1.06 or 1.0
    return Chart(
        name="noise",
        title="Noise or damage?",
        caption=caption(source, total, "change of the probability of the reference's token"),
        columns=("runtime", "low quantile", "its Δp", "high quantile", "its Δp, mirrored"),
        rows=tuple(rows),
        figure=figure(
            [diagonal, *traces],
            "noise",
            {"title": title("rise at the high quantile, points of probability"), "range": [0, top]},
            {"title": title("fall at the low quantile"), "range": [0, top]},
        ),
        note="On the dotted line rises and falls are alike, which is noise; above it the runtime loses probability.",
    )


def _mirror_trace(lane: ChartLane, index: int, pairs: list[tuple[float, float, float]]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": text(lane.label),
        "x": [max(100 * high, 0.0) for _, _, high in pairs],
        "y": [max(-100 * low, 0.0) for _, low, _ in pairs],
        "line": {"color": colour(index), "dash": dash(index), "width": 1.5},
        "marker": marker(index, 8),
        "hovertext": [
            text(f"{lane.label}: {100 * at:g} % fall by {-100 * low:.2f} points, rise by {100 * high:.2f}")
            for at, low, high in pairs
        ],
        "hoverinfo": "text",
    }
