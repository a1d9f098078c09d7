"""What all figures have in common: text that Plotly takes for markup made harmless, colours, axes. Pure.

Colours are names of CSS variables, which the browser resolves when it draws, so that a figure fits both themes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.charts.values import ChartSource, Figure
from app.library_links import PROTOCOL_WORDS
from app.text import clean
from app.words import count

COLOURS = ("var(--b)", "var(--c)", "var(--d)", "var(--e)", "var(--a)")
"""Of lanes, in the order of the letters on the pages of a case: B to E, then the reference's for a fifth."""

DASHES = ("dash", "dot", "dashdot", "longdash", "solid")
SYMBOLS = ("square", "triangle-up", "diamond", "cross", "circle")

FLOOR_COLOUR = "var(--muted)"

CIVIDIS = (
    (0, 32, 76), (0, 51, 111), (57, 72, 107), (87, 92, 109), (112, 113, 115),
    (138, 135, 121), (166, 157, 117), (196, 181, 108), (228, 207, 91), (255, 234, 70),
)  # fmt: skip
"""Colours of a value from none to most, red, green and blue; told apart by whoever sees no red or green."""

MOST_POINTS = 4800
"""Points of one figure."""


def text(value: str) -> str:
    """Return a text that shows in Plotly as it is: no markup, no entity, nothing that turns text around."""
    return clean(value).replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def colour(index: int) -> str:
    """Return the colour of a lane."""
    return COLOURS[index % len(COLOURS)]


def dash(index: int) -> str:
    """Return the dashes of a lane's lines: with the colour they tell 25 lanes apart."""
    return DASHES[(index + index // len(COLOURS)) % len(DASHES)]


def symbol(index: int) -> str:
    """Return the shape of a lane's points."""
    return SYMBOLS[(index + index // len(COLOURS)) % len(SYMBOLS)]


def marker(index: int, size: float = 8) -> dict[str, Any]:
    """Return the points of a lane."""
    edge = {"color": "var(--edge)", "width": 0.8}
    return {"color": colour(index), "symbol": symbol(index), "size": size, "line": edge}


def cividis(share: float) -> str:
    """Return the colour of a value between 0 and 1."""
    place = min(max(share, 0.0), 1.0) * (len(CIVIDIS) - 1)
    low = min(int(place), len(CIVIDIS) - 2)
    parts = (
        round(first + (place - low) * (second - first))
        for first, second in zip(CIVIDIS[low], CIVIDIS[low + 1], strict=True)
    )
    return "#{:02x}{:02x}{:02x}".format(*parts)


def figure(traces: Sequence[Mapping[str, Any]], name: str, x: Mapping[str, Any], y: Mapping[str, Any]) -> Figure:
    """Return a figure with axes in the page's own colours.

    Args:
        traces: of Plotly.
        name: of the chart; constant, so that what was zoomed stays.
        x: what differs of the horizontal axis.
        y: what differs of the vertical axis.
    """
    return {
        "data": list(traces),
        "layout": {
            "uirevision": name,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": "var(--foreground)", "size": 12},
            "margin": {"l": 62, "r": 14, "t": 10, "b": 46},
            "hovermode": "closest",
            "hoverlabel": {"align": "left", "bgcolor": "var(--raised)", "bordercolor": "var(--strong-line)"},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "xaxis": {**_axis(), **x},
            "yaxis": {**_axis(), **y},
        },
    }


def title(words: str) -> dict[str, Any]:
    """Return the title of an axis."""
    return {"text": text(words), "font": {"color": "var(--muted)", "size": 12}, "standoff": 8}


def _axis() -> dict[str, Any]:
    return {
        "gridcolor": "var(--line)",
        "linecolor": "var(--strong-line)",
        "zerolinecolor": "var(--strong-line)",
        "tickcolor": "var(--strong-line)",
        "automargin": True,
    }


def caption(source: ChartSource, positions: int, *more: str, divergence: str = "") -> str:
    """Return what a figure is about: n, mode, scoring path, direction, runs, k."""
    runs = sum(len(lane.cases) for lane in source.lanes)
    parts = [
        f"n = {count(positions, 'position')}",
        f"{count(runs, 'run')} of {count(len(source.lanes), 'runtime')} on {count(source.cases, 'case')}",
        PROTOCOL_WORDS[source.protocol],
        f"reference {source.reference}",
    ]
    if divergence:
        depth = f"top-{source.listed}, a lower bound" if source.lower_bound else "full vocabulary"
        parts.append(f"{divergence}, {depth}")
    return "; ".join([*parts, *more]) + "."
