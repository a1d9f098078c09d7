"""Text in cells of CSV: a spreadsheet takes none of it for a formula, in a report as in a chart."""

from __future__ import annotations

import pytest

from app.charts.data import chart_csv
from app.charts.values import Chart, Line
from app.spreadsheet import FORMULA_STARTS, harmless


@pytest.mark.parametrize("start", FORMULA_STARTS)
def test_a_formula_becomes_text(start: str) -> None:
    assert harmless(f"{start}1") == f"'{start}1"


def test_what_is_no_formula_stays() -> None:
    assert [harmless(text) for text in ("", "bf16", "a=1", "'x")] == ["", "bf16", "a=1", "'x"]


def test_charts_write_their_text_that_way_and_numbers_as_they_are() -> None:
    chart = Chart("one", "One", "", ("runtime", "KL"), (Line(("=1+1", -0.5)),), None, "")
    assert chart_csv(chart).splitlines() == ["runtime,KL", "'=1+1,-0.5"]
