"""The charts of a study or a case, their data as JSON and CSV, and the pages' twins."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.charts.data import chart_csv, chart_json, page_json
from app.charts.page import NAMES, ChartsPage
from app.charts.values import SHOWN_ROWS, Chart
from app.library import Library
from app.library_links import CHARTS, ChartsView, parse_charts_view
from app.web.dependencies import READ, LibraryDep, RendererDep
from app.web.errors import redirect
from app.web.rendering import json_response
from capture.errors import NotFoundError

router = APIRouter()


@router.api_route(f"{CHARTS}.json", methods=READ)
def study_charts_json(request: Request, library: LibraryDep) -> Response:
    """Return which charts a study has, as JSON."""
    return json_response(page_json(_page(request, library)))


@router.api_route(CHARTS, methods=READ)
def study_charts(request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return the charts of a study."""
    return renderer.html("charts.html", page=_page(request, library), shown_rows=SHOWN_ROWS)


@router.api_route("/c/{case}/charts.json", methods=READ)
def case_charts_json(case: str, request: Request, library: LibraryDep) -> Response:
    """Return which charts a case has, as JSON."""
    return json_response(page_json(_page(request, library, case)))


@router.api_route("/c/{case}/charts", methods=READ)
def case_charts(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return the charts of a case."""
    key = library.find_case(case)
    if key != case:
        view, _ = _view(request, key)
        return redirect(view.href())
    return renderer.html("charts.html", page=_page(request, library, key), shown_rows=SHOWN_ROWS)


@router.api_route(f"{CHARTS}/{{name}}.json", methods=READ)
def chart_as_json(name: str, request: Request, library: LibraryDep) -> Response:
    """Return one chart with its data and its figure."""
    return json_response(chart_json(_chart(name, request, library)))


@router.api_route(f"{CHARTS}/{{name}}.csv", methods=READ)
def chart_as_csv(name: str, request: Request, library: LibraryDep) -> Response:
    """Return the data of one chart as CSV."""
    text = chart_csv(_chart(name, request, library))
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"', "Cache-Control": "no-cache"}
    return Response(text.encode(errors="replace"), media_type="text/csv; charset=utf-8", headers=headers)


def _view(request: Request, case: str = "") -> tuple[ChartsView, tuple[str, ...]]:
    return parse_charts_view(request.query_params.multi_items(), case)


def _page(request: Request, library: Library, case: str = "") -> ChartsPage:
    view, notices = _view(request, case)
    with library.summaries.paused():
        return library.charts.page(library.catalog(), view, notices)


def _chart(name: str, request: Request, library: Library) -> Chart:
    if name not in NAMES:
        raise NotFoundError(f"there is no such chart; there are {', '.join(NAMES)}")
    found = next((chart for chart in _page(request, library).charts if chart.name == name), None)
    if found is None:
        raise NotFoundError("this chart has nothing to show here; the page of charts lists those that have")
    return found
