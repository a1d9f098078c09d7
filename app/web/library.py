"""The library page, and its twin."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.library_links import parse_library_view
from app.links import LIBRARY, PENDING
from app.matrix_values import LibraryPage
from app.web.dependencies import READ, LibraryDep, RendererDep, SettingsDep
from app.web.live import watcher
from app.web.rendering import json_response
from capture.resources import bundled_library

router = APIRouter()


@router.api_route(LIBRARY, methods=READ)
def library_html(request: Request, library: LibraryDep, settings: SettingsDep, renderer: RendererDep) -> Response:
    """Return the studies as matrices of runtimes by cases."""
    return renderer.html(
        "library.html",
        page=_page(request, library, settings),
        pending_path=PENDING,
        live=watcher(request).entries(),
    )


@router.api_route("/index.json", methods=READ)
def library_json(request: Request, library: LibraryDep, settings: SettingsDep) -> Response:
    """Return the same as JSON."""
    captures = [asdict(entry) for entry in watcher(request).entries()]
    return json_response({**asdict(_page(request, library, settings)), "captures": captures})


@router.api_route(PENDING, methods=READ)
def pending(library: LibraryDep, renderer: RendererDep) -> Response:
    """Return how many bundles are still being summarised; with none left, tell the page that it can load again."""
    busy = library.summaries.busy
    if not busy:
        return Response(status_code=204, headers={"HX-Trigger": "summaries-ready"})
    return renderer.html("_partials/pending.html", pending=busy, pending_path=PENDING)


def _page(request: Request, library: LibraryDep, settings: SettingsDep) -> LibraryPage:
    place = "what ships with flipscope" if settings.library == bundled_library() else str(settings.library)
    view, notices = parse_library_view(request.query_params.multi_items())
    return library.index.page(library.catalog(), view, place, exists=library.folder.is_dir(), notices=notices)
