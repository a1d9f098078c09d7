"""A chunk of a transcript alone, for the browser that scrolls there, and its twin."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.lanes import OpenCase
from app.links import CaseLink
from app.transcript_json import chunk_json
from app.transcript_page import chunk_view
from app.web.dependencies import READ, LibraryDep, RendererDep
from app.web.kept import is_known, kept, tag_of
from app.web.rendering import json_response
from app.web.streams import case_link, open_parsed

router = APIRouter()


@router.api_route("/c/{case}/chunks/{chunk}.json", methods=READ)
def transcript_chunk_json(case: str, chunk: int, request: Request, library: LibraryDep) -> Response:
    """Return the text of a chunk by token, and its flips, as JSON."""
    opened, link = _open(case, request, library)
    return json_response(chunk_json(chunk_view(opened, link, chunk, library.digest(opened))))


@router.api_route("/c/{case}/chunks/{chunk}", methods=READ)
def transcript_chunk(case: str, chunk: int, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a chunk as a piece of HTML; its tag says what it was made of, so nothing is drawn twice for nothing."""
    opened, link = _open(case, request, library)
    tag = tag_of(opened.stamps, link.format(), chunk, renderer.version) if opened.stamps else ""
    if is_known(request, tag):
        return Response(status_code=304, headers=kept(tag))
    response = renderer.html("_partials/chunk.html", chunk=chunk_view(opened, link, chunk, library.digest(opened)))
    response.headers.update(kept(tag))
    return response


def _open(case: str, request: Request, library: LibraryDep) -> tuple[OpenCase, CaseLink]:
    opened, link, _ = open_parsed(library, case_link(case, request))
    assert isinstance(link, CaseLink)
    return opened, link
