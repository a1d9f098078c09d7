"""The statistics table in llama.cpp's words and order, as charts without a drawing. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from app.charts.drawing import caption
from app.charts.values import Chart, ChartLane, ChartSource, Line
from app.library_links import PROTOCOLS
from app.report_llama import statistics
from app.report_tables import Table
from capture.floors import FloorKind
from capture.perplexity import perplexity, unknown_tokens
from capture.ranking import rank
from capture.report import FloorReport, LaneReport, Section
from capture.samples import Sample, of_bound
from capture.summary import summarize

_NAMES = (("perplexity", "Perplexity"), ("kl", "KL"), ("probabilities", "Token"))
"""Names of the tables in links, by the first word of their titles."""


def tables(source: ChartSource) -> Iterator[Chart]:
    """Yield the blocks of the statistics: KL divergence, probabilities, and perplexity where it is known."""
    found = {name: table for table in statistics(_section(source)) for name, word in _NAMES if word in table.title}
    for name in ("kl", "probabilities", "perplexity"):
        if name in found and found[name].rows:
            yield _chart(source, name, found[name])


def _chart(source: ChartSource, name: str, table: Table) -> Chart:
    columns = tuple(" ".join(column.split()) or "statistic" for column in table.header)
    positions = sum(len(sample) for lane in source.lanes for sample in _kept(source, lane))
    return Chart(
        name=name,
        title=f"{table.title}, in llama.cpp's words" if name == "kl" else table.title,
        caption=caption(source, positions, divergence="KL(reference‖runtime)" if name == "kl" else ""),
        columns=columns,
        rows=tuple(Line(row) for row in table.rows),
        figure=None,
        note=" ".join(f"{note[:1].upper()}{note[1:]}." for note in table.notes),
    )


def _kept(source: ChartSource, lane: ChartLane) -> tuple[Sample, ...]:
    return of_bound(lane.samples, source.lower_bound)


def _section(source: ChartSource) -> Section:
    """Return the lanes as a section of a report, with positions of one depth alone."""
    mode, path = PROTOCOLS[source.protocol]
    lanes = {lane.name: _kept(source, lane) for lane in source.lanes}
    floors = [(FloorKind(lane.name), _kept(source, lane)) for lane in source.floors]
    return Section(
        mode=mode,
        scoring_path=path,
        dtypes=(),
        listed=source.listed,
        lanes=tuple(_lane(lane, lanes[lane.name]) for lane in source.lanes if lanes[lane.name]),
        floors=tuple(
            FloorReport(kind, summarize(samples), perplexity(samples), identical=False)
            for kind, samples in floors
            if samples
        ),
        ranking=rank({name: samples for name, samples in lanes.items() if samples}),
    )


def _lane(lane: ChartLane, samples: tuple[Sample, ...]) -> LaneReport:
    return LaneReport(
        runtime=lane.name,
        label=lane.label,
        summary=summarize(samples, pooled=len(samples) > 1),
        perplexity=perplexity(samples),
        unknown_tokens=unknown_tokens(samples),
        by_case=(),
        by_kind=(),
        by_confidence=(),
        identical=all(case.identical for case in lane.cases),
    )
