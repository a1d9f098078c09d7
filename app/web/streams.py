"""The Streams page of a case or a fork, its twin, and the tables that hovering shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink, ForkLink, Link, Parsed, parse_fork, parse_options
from app.streams import streams_json, streams_page, tables
from app.streams_values import StreamsPage
from app.web.dependencies import READ, LibraryDep, RendererDep
from app.web.errors import redirect
from app.web.rendering import json_response

router = APIRouter()

DEFAULT_COLUMNS = 100
"""Cells of a line until the browser has said how many fit."""

_OWN = ("first", "count")
"""Parameters of the tables that are no options of a view."""


@router.api_route("/c/{case}.json", methods=READ)
def case_json(case: str, request: Request, library: LibraryDep) -> Response:
    """Return what the page of a case shows, as JSON."""
    return _json(library, _case_link(case, request))


@router.api_route("/c/{case}/tables.json", methods=READ)
def case_tables(
    case: str,
    request: Request,
    library: LibraryDep,
    first: Annotated[int, Query(ge=0, le=1 << 30)] = 0,
    count: Annotated[int, Query(ge=1, le=1 << 16)] = 256,
) -> Response:
    """Return the tables of a chunk of positions."""
    parsed = _case_link(case, request)
    opened, link, _ = _open(library, parsed)
    return json_response(tables(opened, first, count, link.up() if isinstance(link, ForkLink) else link))


@router.api_route("/c/{case}/f/{fork}.json", methods=READ)
def fork_json(case: str, fork: str, request: Request, library: LibraryDep) -> Response:
    """Return what the page of a fork shows, as JSON."""
    return _json(library, _fork_link(case, fork, request))


@router.api_route("/c/{case}/f/{fork}", methods=READ)
def fork_html(case: str, fork: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return the page of a case with a fork open."""
    return _html(library, renderer, _fork_link(case, fork, request))


@router.api_route("/c/{case}", methods=READ)
def case_html(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return the page of a case."""
    return _html(library, renderer, _case_link(case, request))


def _case_link(case: str, request: Request) -> Parsed:
    options, notices = parse_options(item for item in request.query_params.multi_items() if item[0] not in _OWN)
    return Parsed(CaseLink(case, options), notices)


def _fork_link(case: str, fork: str, request: Request) -> Parsed:
    options, notices = parse_options(request.query_params.multi_items())
    found = parse_fork(case, fork, options)
    return Parsed(found.link, notices + found.notices)


def _html(library: Library, renderer: RendererDep, parsed: Parsed) -> Response:
    moved = _moved(library, parsed.link, "")
    return moved or renderer.html("streams.html", page=_page(library, parsed))


def _json(library: Library, parsed: Parsed) -> Response:
    moved = _moved(library, parsed.link, ".json")
    return moved or json_response(streams_json(_page(library, parsed)))


def _moved(library: Library, link: Link | None, suffix: str) -> Response | None:
    """Return a redirect to the case's own address where the link calls it by another name."""
    assert link is not None
    key = library.find_case(link.case)
    return None if key == link.case else redirect(replace(link, case=key).format(suffix))


def _page(library: Library, parsed: Parsed) -> StreamsPage:
    opened, link, notices = _open(library, parsed)
    page = streams_page(opened, link, link.options.columns or DEFAULT_COLUMNS)
    return replace(page, notices=(*notices, *page.notices))


def _open(library: Library, parsed: Parsed) -> tuple[OpenCase, Link, tuple[str, ...]]:
    """Return the case, and the link as it could be followed: links on the page shall not repeat its mistakes."""
    assert parsed.link is not None
    opened = library.open_link(parsed.link)
    options = parsed.link.options
    lanes = tuple(lane.run.run_id for lane in opened.lanes) if options.lanes else ()
    reference = opened.lanes[0].run.run_id if options.reference else None
    mode = opened.mode if options.mode or isinstance(parsed.link, ForkLink) else None
    link = parsed.link.where(lanes=lanes, reference=reference, mode=mode)
    return opened, replace(link, case=opened.key), parsed.notices
