"""Every chart is a figure that Plotly accepts, small enough, harmless, with the same data in its table."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from app.charts.data import chart_csv, chart_json
from app.charts.page import DRAWN, NAMES, charts_of
from app.charts.values import Chart
from app.links import parse
from tests.charts.sources import HOSTILE, case, lane, source, usual

graph_objects = pytest.importorskip("plotly.graph_objects", reason="plotly is not installed")

MOST_POINTS = 5000

LONG = 20_000


def texts(value: Any) -> Iterator[str]:
    """Yield every text of a figure that Plotly draws or may take for markup."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            if name not in ("customdata", "color", "fillcolor", "colorscale"):
                yield from texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts(one)


def points(figure: Any) -> int:
    return sum(len(trace.get("x", ())) for trace in figure["data"])


@pytest.fixture(scope="module")
def charts() -> dict[str, Chart]:
    return {chart.name: chart for chart in charts_of(usual())}


def test_all_charts_are_there_and_have_data(charts: dict[str, Chart]) -> None:
    assert set(charts) == set(NAMES)
    assert all(chart.rows and chart.caption for chart in charts.values())


@pytest.mark.parametrize("name", DRAWN)
def test_plotly_accepts_the_figure(charts: dict[str, Chart], name: str) -> None:
    figure = charts[name].figure
    assert figure is not None
    drawn = graph_objects.Figure(figure)
    assert len(drawn.data) == len(figure["data"]) > 0
    assert figure["layout"]["uirevision"] == name
    assert "title" in figure["layout"]["xaxis"] or name == "agreement"


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_stays_small_however_long_the_runs(name: str) -> None:
    flips = tuple(range(0, LONG, 3))
    lanes = [lane(f"lane {number}", case("one", LONG, number, flips)) for number in range(10)]
    chart = DRAWN[name](source(*lanes))
    if name != "identical":
        assert chart.figure is not None
        assert 0 < points(chart.figure) < MOST_POINTS


@pytest.mark.parametrize("name", DRAWN)
def test_names_are_shown_as_text(name: str) -> None:
    figure = DRAWN[name](usual(HOSTILE)).figure
    found = list(texts(figure))
    assert any("&lt;b&gt;" in text for text in found)
    for text in found:
        assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", text), text
        assert not {"\u202e", "\x00"} & set(text)


@pytest.mark.parametrize("name", NAMES)
def test_the_twins_say_what_the_chart_says(charts: dict[str, Chart], name: str) -> None:
    chart = charts[name]
    twin = json.loads(json.dumps(chart_json(chart)))
    assert twin["figure"] == json.loads(json.dumps(chart.figure))
    assert twin["rows"] == [list(row.values) for row in chart.rows]
    head, *rows = csv.reader(io.StringIO(chart_csv(chart)))
    assert head == [*chart.columns, *(["link"] if chart.linked else [])]
    told = [[("" if value is None else str(value)).lstrip("'") for value in row.values] for row in chart.rows]
    assert [[cell.lstrip("'") for cell in row[: len(chart.columns)]] for row in rows] == told


def test_points_and_rows_open_positions(charts: dict[str, Chart]) -> None:
    for name in ("stream", "heat", "tail", "margin", "windows", "disagreement"):
        figure = charts[name].figure
        assert figure is not None
        links = [link for trace in figure["data"] for link in trace.get("customdata", ()) if link]
        assert links
        assert all(parse(link).link is not None and not parse(link).notices for link in links)
        told = {row.href for row in charts[name].rows if row.href}
        assert told <= set(links) if name != "margin" else not told


def test_a_text_is_no_formula_in_a_spreadsheet() -> None:
    chart = DRAWN["disagreement"](usual("=HYPERLINK(1)"))
    assert "'=HYPERLINK(1)" in chart_csv(chart)


def test_whole_vocabularies_and_lower_bounds_never_share_an_axis() -> None:
    mixed = lane("int8", case("one", 50, bound=True), case("two", 30, seed=1))
    for name in ("stream", "heat", "tail", "confidence"):
        full, bound = (DRAWN[name](source(mixed, bound=one)) for one in (False, True))
        assert full.caption.startswith("n = 30 positions")
        assert "full vocabulary" in full.caption
        assert bound.caption.startswith("n = 50 positions")
        assert "lower bound" in bound.caption
