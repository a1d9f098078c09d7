"""Captures that are going: the list of them, and one that is watched; the browser asks again every two seconds."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.links import LIVE
from app.live import LivePage, Watcher
from app.web.dependencies import READ, RendererDep
from app.web.rendering import json_response

router = APIRouter()


def watcher(request: Request) -> Watcher:
    """Return what watches the captures of this library."""
    found: Watcher = request.app.state.watcher
    return found


@router.api_route(f"{LIVE}.json", methods=READ)
def live_list_json(request: Request) -> Response:
    """Return the captures that are going."""
    return json_response({"captures": [asdict(entry) for entry in watcher(request).entries()]})


@router.api_route(LIVE, methods=READ)
def live_list(request: Request, renderer: RendererDep) -> Response:
    """Return the page of captures that are going."""
    return renderer.html("captures.html", live=watcher(request).entries())


@router.api_route(LIVE + "/{study}.json", methods=READ)
def live_json(study: str, request: Request) -> Response:
    """Return what a capture has said so far."""
    return json_response(_json(watcher(request).page(study)))


@router.api_route(LIVE + "/{study}", methods=READ)
def live_html(study: str, request: Request, renderer: RendererDep) -> Response:
    """Return the page that watches a capture."""
    return renderer.html("live.html", page=watcher(request).page(study))


def _json(page: LivePage) -> dict[str, object]:
    lines = [
        {"name": one.name, "positions": one.count, "ended": one.ended, "flips": list(one.flips), "text": one.text}
        for one in page.lines
    ]
    return {**asdict(page.entry), "streams": lines, "case_href": page.sealed or None}
