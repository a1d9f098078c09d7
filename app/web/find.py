"""Finding text in the outputs of a case, as a page and as its twin."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.find import FoundPage, Hit, find_page
from app.library import Library
from app.links import CaseLink
from app.streams import base_of
from app.web.dependencies import READ, LibraryDep, RendererDep
from app.web.rendering import json_response
from app.web.streams import around, case_link, open_parsed

router = APIRouter()


@router.api_route("/c/{case}/find.json", methods=READ)
def find_json(case: str, request: Request, library: LibraryDep, q: str = "") -> Response:
    """Return where a text stands, as JSON."""
    page, _ = _find(case, request, library, q)
    return json_response({**asdict(page), "hits": [_hit_json(hit) for hit in page.hits]})


@router.api_route("/c/{case}/find", methods=READ)
def find_html(case: str, request: Request, library: LibraryDep, renderer: RendererDep, q: str = "") -> Response:
    """Return where a text stands."""
    page, link = _find(case, request, library, q)
    return renderer.html("find.html", found=page, **around(link), asked=q)


def _find(case: str, request: Request, library: Library, asked: str) -> tuple[FoundPage, CaseLink]:
    opened, link, notices = open_parsed(library, case_link(case, request))
    base = base_of(link)
    return find_page(opened, base, asked, notices), base


def _hit_json(hit: Hit) -> dict[str, Any]:
    facts = {name: value for name, value in asdict(hit).items() if name != "heads"}
    return {**facts, "lanes": [head.letter for head in hit.heads]}
