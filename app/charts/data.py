"""A chart's data as CSV and as JSON values. Pure."""

from __future__ import annotations

import csv
import io
from typing import Any

from app.charts.page import ChartsPage
from app.charts.values import Chart, Value
from app.spreadsheet import harmless


def chart_csv(chart: Chart) -> str:
    """Return the data of a chart as CSV, the links last where it has any."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*chart.columns, *(["link"] if chart.linked else [])])
    for row in chart.rows:
        writer.writerow([*map(_cell, row.values), *([row.href] if chart.linked else [])])
    return out.getvalue()


def _cell(value: Value) -> Value:
    return harmless(value) if isinstance(value, str) else value


def chart_json(chart: Chart) -> dict[str, Any]:
    """Return a chart with its data and its figure as JSON values."""
    return {
        "name": chart.name,
        "title": chart.title,
        "caption": chart.caption,
        "note": chart.note,
        "columns": list(chart.columns),
        "rows": [list(row.values) for row in chart.rows],
        "links": [row.href for row in chart.rows] if chart.linked else [],
        "figure": chart.figure,
    }


def page_json(page: ChartsPage) -> dict[str, Any]:
    """Return a charts page as JSON values: what it has, and where the data of each chart are."""
    return {
        "study": page.study,
        "title": page.title,
        "case": page.case,
        "protocol": page.view.protocol,
        "depth": page.view.depth,
        "notices": list(page.notices),
        "charts": [
            {
                "name": chart.name,
                "title": chart.title,
                "caption": chart.caption,
                "json": page.view.data(chart.name, ".json"),
                "csv": page.view.data(chart.name, ".csv"),
            }
            for chart in page.charts
        ],
    }
