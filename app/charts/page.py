"""The charts page of a study or a case: which charts, and the links around them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.charts.agreement import matrix, survival
from app.charts.disagreement import by_margin, by_runtime
from app.charts.divergence import by_confidence, noise, tail
from app.charts.prediction import precision
from app.charts.statistics import tables
from app.charts.stream import along, heat
from app.charts.values import Chart, ChartSource
from app.charts.windows import by_window
from app.library_links import DEPTHS, PROBE, PROTOCOL_WORDS, ChartsView
from app.matrix_values import Choice

DRAWN: Mapping[str, Callable[[ChartSource], Chart]] = {
    "disagreement": by_runtime,
    "windows": by_window,
    "stream": along,
    "heat": heat,
    "margin": by_margin,
    "precision": precision,
    "tail": tail,
    "confidence": by_confidence,
    "identical": survival,
    "noise": noise,
    "agreement": matrix,
}

OF_OUTPUTS = ("stream", "heat", "identical")
"""Charts of outputs, which a prompt that was probed has none of."""

NAMES = (*DRAWN, "kl", "probabilities", "perplexity")


@dataclass(frozen=True, slots=True)
class ChartsPage:
    """The page.

    Attributes:
        study, title, case: what it is about; `case` is empty for a study.
        href: its own address; `up` that of the library, or of the case.
        charts: in their order.
        protocols, depths: what can be chosen, as links.
        cases: other cases of the study, the whole study first.
        notices: what is missing, or could not be followed.
        view: how it is shown.
    """

    study: str
    title: str
    case: str
    href: str
    up: str
    charts: tuple[Chart, ...]
    protocols: tuple[Choice, ...]
    depths: tuple[Choice, ...]
    cases: tuple[Choice, ...]
    notices: tuple[str, ...]
    view: ChartsView


def charts_of(source: ChartSource) -> tuple[Chart, ...]:
    """Return every chart that has something to show."""
    if not any(len(case.sample) for lane in source.lanes for case in lane.cases):
        survives = survival(source)
        return (survives,) if survives.rows else ()
    told = list(tables(source))
    left_out = OF_OUTPUTS if source.protocol == PROBE else ()
    drawn = [make(source) for name, make in DRAWN.items() if name not in left_out]
    return (*told[:1], *(chart for chart in drawn if chart.rows), *told[1:])


def choices(view: ChartsView, protocols: tuple[str, ...], depths: tuple[str, ...]) -> tuple[tuple[Choice, ...], ...]:
    """Return the protocols and the depths that there are, as links."""
    return (
        tuple(Choice(PROTOCOL_WORDS[name], view.href(protocol=name), name == view.protocol) for name in protocols),
        tuple(Choice(DEPTHS[name], view.href(depth=name), name == view.depth) for name in depths),
    )
