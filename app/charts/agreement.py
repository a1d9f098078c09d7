"""Charts of whole outputs: how long free runs stay identical, and which runtimes agree with which. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.charts.drawing import caption, colour, dash, figure, marker, text, title
from app.charts.values import Agreement, Chart, ChartLane, ChartSource, Line
from app.matrix_cells import rate_text
from app.words import count

MOST_STEPS = 300
"""Steps of one curve; more cases than this are no page of ours."""

MOST_MATCHED = 8
"""Runtimes that are compared with each other."""


def survival(source: ChartSource) -> Chart:
    """Return the share of free runs that are still what the reference's are, by Kaplan and Meier."""
    rows: list[Line] = []
    traces: list[Any] = []
    runs = 0
    for index, lane in enumerate(source.lanes):
        if not lane.agreements:
            continue
        runs += len(lane.agreements)
        rows += [
            Line((lane.label, one.case_id, one.tokens, "parted" if one.parted else "ended"), one.href)
            for one in sorted(lane.agreements, key=lambda one: one.tokens)
        ]
        traces += _survival_traces(lane, index)
    return Chart(
        name="identical",
        title="How long do free runs stay identical?",
        caption=f"n = {count(runs, 'free run')} of {count(len(source.lanes), 'runtime')}, greedy, decode; "
        f"reference {source.reference}; Kaplan–Meier, a run that ends first is censored.",
        columns=("runtime", "case", "identical tokens", "then"),
        rows=tuple(rows),
        figure=figure(
            traces,
            "identical",
            {"title": title("tokens"), "rangemode": "tozero"},
            {"title": title("runs still identical, %"), "range": [-3, 104], "ticksuffix": " %"},
        ),
        note="A point is a case that parted, a cross one that ended identical; a click opens it.",
    )


def kaplan_meier(agreements: Sequence[Agreement]) -> list[tuple[int, float]]:
    """Return the estimate of the share that survives, as (tokens, share after), from (0, 1).

    Kaplan & Meier, "Nonparametric estimation from incomplete observations" (1958): at each time at which runs part, the
    share falls by those that part of those still under observation; a run that ends there parts from none before.
    """
    share, found = 1.0, [(0, 1.0)]
    for tokens in sorted({one.tokens for one in agreements if one.parted}):
        at_risk = sum(one.tokens >= tokens for one in agreements)
        parted = sum(one.parted and one.tokens == tokens for one in agreements)
        share *= 1 - parted / at_risk
        found.append((tokens, share))
    return found


def _survival_traces(lane: ChartLane, index: int) -> list[Any]:
    steps = kaplan_meier(lane.agreements)[:MOST_STEPS]
    last = max(one.tokens for one in lane.agreements)
    curve = [*steps, (last, steps[-1][1])]
    shares = dict(steps)
    shown = sorted(lane.agreements, key=lambda one: one.tokens)[:MOST_STEPS]
    marks = marker(index, 8)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": text(lane.label),
            "legendgroup": str(index),
            "x": [tokens for tokens, _ in curve],
            "y": [100 * share for _, share in curve],
            "line": {"color": colour(index), "dash": dash(index), "width": 2, "shape": "hv"},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": text(lane.label),
            "legendgroup": str(index),
            "showlegend": False,
            "x": [one.tokens for one in shown],
            "y": [100 * _share_at(shares, one.tokens) for one in shown],
            "marker": {**marks, "symbol": [marks["symbol"] if one.parted else "x-thin-open" for one in shown]},
            "customdata": [one.href for one in shown],
            "hovertext": [text(f"{lane.label}, {one.case_id}: {_end(one)} {one.tokens:,}") for one in shown],
            "hoverinfo": "text",
        },
    ]


def _end(one: Agreement) -> str:
    return "parts after" if one.parted else "ends identical at"


def _share_at(shares: dict[int, float], tokens: int) -> float:
    return min((share for at, share in shares.items() if at <= tokens), default=1.0)


def matrix(source: ChartSource) -> Chart:
    """Return how often each two runtimes have the same top-1, over the positions that both were scored at."""
    lanes = source.lanes[:MOST_MATCHED]
    names = [source.reference, *(lane.label for lane in lanes)]
    rows: list[Line] = []
    cells: list[list[float | None]] = [[None] * len(names) for _ in names]
    for first in range(len(names)):
        cells[first][first] = 1.0
        for second in range(first + 1, len(names)):
            same, shared = _same(lanes, first - 1, second - 1)
            if shared:
                cells[first][second] = cells[second][first] = same / shared
                rows.append(Line((names[first], names[second], shared, same / shared)))
    left_out = len(source.lanes) - len(lanes)
    return Chart(
        name="agreement",
        title="Who agrees with whom?",
        caption=caption(source, sum(len(case.sample) for lane in lanes for case in lane.cases)),
        columns=("runtime", "other", "positions", "same top-1"),
        rows=tuple(rows),
        figure=_matrix_figure(names, cells),
        note="Same top-1 token, in percent of the positions that both were scored at."
        + (f" {count(left_out, 'runtime')} more are left out." if left_out else ""),
        height=110 + 44 * len(names),
    )


def _same(lanes: Sequence[ChartLane], first: int, second: int) -> tuple[int, int]:
    """Return (positions with the same top-1, shared positions) of two lanes; -1 is the reference."""
    if first < 0:
        hits = [(int(case.sample.same_top.sum()), len(case.sample)) for case in lanes[second].cases]
        return sum(same for same, _ in hits), sum(shared for _, shared in hits)
    others = {case.key: case for case in lanes[second].cases}
    same = shared = 0
    for case in lanes[first].cases:
        other = others.get(case.key)
        if other is None:
            continue
        _, ours, theirs = np.intersect1d(
            case.sample.prefix_id.view("S16"), other.sample.prefix_id.view("S16"), return_indices=True
        )
        shared += len(ours)
        same += int((case.top1[ours] == other.top1[theirs]).sum())
    return same, shared


def _matrix_figure(names: Sequence[str], cells: Sequence[Sequence[float | None]]) -> Any:
    labels = [text(name) for name in names]
    points = [
        (labels[column], labels[row], value)
        for row, line in enumerate(cells)
        for column, value in enumerate(line)
        if value is not None and row != column
    ]
    trace = {
        "type": "scatter",
        "mode": "markers+text",
        "x": [x for x, *_ in points],
        "y": [y for _, y, _ in points],
        "text": [f"{100 * value:.1f}" for *_, value in points],
        "marker": {
            "symbol": "square",
            "size": 34,
            "color": [100 * value for *_, value in points],
            "colorscale": [[0, "var(--surface)"], [1, "var(--select)"]],
            "cmin": 50,
            "cmax": 100,
            "showscale": False,
            "line": {"color": "var(--line)", "width": 1},
        },
        "hovertext": [f"{x} and {y}: {text(rate_text(value))}" for x, y, value in points],
        "hoverinfo": "text",
    }
    axis = {"type": "category", "categoryorder": "array", "categoryarray": labels, "showgrid": False}
    drawn = figure([trace], "agreement", {**axis, "side": "bottom"}, {**axis, "autorange": "reversed"})
    drawn["layout"]["showlegend"] = False
    return drawn
