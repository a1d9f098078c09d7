"""The library page, and its twin."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter
from starlette.responses import Response

from app.links import LIBRARY
from app.matrix import LibraryPage, library_page
from app.web.dependencies import READ, LibraryDep, RendererDep, SettingsDep
from app.web.rendering import json_response
from capture.resources import bundled_library

router = APIRouter()


@router.api_route(LIBRARY, methods=READ)
def library_html(library: LibraryDep, settings: SettingsDep, renderer: RendererDep) -> Response:
    """Return the studies as tables of cases by runtimes."""
    return renderer.html("library.html", page=_page(library, settings))


@router.api_route("/index.json", methods=READ)
def library_json(library: LibraryDep, settings: SettingsDep) -> Response:
    """Return the same as JSON."""
    return json_response(asdict(_page(library, settings)))


def _page(library: LibraryDep, settings: SettingsDep) -> LibraryPage:
    place = "what ships with flipscope" if settings.library == bundled_library() else str(settings.library)
    return library_page(library.catalog(), place, exists=library.folder.is_dir())
