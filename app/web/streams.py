"""The Streams page of a case or a fork, its twin, and the tables that hovering shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.flip_filter import FlipFilter
from app.growable import Growing, GrowPane, grow_pane
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink, ForkLink, Link, Parsed, ViewOptions, parse, parse_fork, parse_options
from app.lookup import LONGEST_QUESTION, Lookup, look_up, lookup_json
from app.scene import open_scene
from app.share import share_of
from app.streams import base_of, streams_json, streams_page, tables
from app.streams_values import StreamsPage
from app.transcript_page import is_transcript, too_long, transcript_page
from app.web.dependencies import READ, LibraryDep, RendererDep
from app.web.errors import redirect
from app.web.rendering import json_response
from capture.errors import BundleError, NotFoundError

router = APIRouter()

DEFAULT_COLUMNS = 100
"""Cells of a line until the browser has said how many fit."""

_OWN = ("first", "count", "look", "q")
"""Parameters of the tables, the look-up and the search that are no options of a view."""


@router.api_route("/c/{case}.json", methods=READ)
def case_json(case: str, request: Request, library: LibraryDep) -> Response:
    """Return what the page of a case shows, as JSON."""
    return _json(request, library, case_link(case, request))


@router.api_route("/c/{case}/tables.json", methods=READ)
def case_tables(
    case: str,
    request: Request,
    library: LibraryDep,
    first: Annotated[int, Query(ge=0, le=1 << 30)] = 0,
    count: Annotated[int, Query(ge=1, le=1 << 16)] = 256,
) -> Response:
    """Return the tables of a chunk of positions."""
    parsed = case_link(case, request)
    opened, link, _ = open_parsed(library, parsed)
    return json_response(tables(opened, first, count, base_of(link), library.digest(opened)))


@router.api_route("/c/{case}/f/{fork}.json", methods=READ)
def fork_json(case: str, fork: str, request: Request, library: LibraryDep) -> Response:
    """Return what the page of a fork shows, as JSON."""
    return _json(request, library, fork_link(case, fork, request))


@router.api_route("/c/{case}/f/{fork}", methods=READ)
def fork_html(case: str, fork: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return the page of a case with a fork open."""
    return _html(request, library, renderer, fork_link(case, fork, request))


@router.api_route("/c/{case}", methods=READ)
def case_html(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return the page of a case."""
    return _html(request, library, renderer, case_link(case, request))


def case_link(case: str, request: Request) -> Parsed:
    """Return the link to a case that a request came with."""
    options, notices = _options(request)
    return Parsed(CaseLink(case, options), notices)


def fork_link(case: str, fork: str, request: Request) -> Parsed:
    """Return the link to a fork that a request came with."""
    options, notices = _options(request)
    found = parse_fork(case, fork, options)
    return Parsed(found.link, notices + found.notices)


def _options(request: Request) -> tuple[ViewOptions, tuple[str, ...]]:
    return parse_options(item for item in request.query_params.multi_items() if item[0] not in _OWN)


def around(link: Link) -> dict[str, Any]:
    """Return what the forms of a page send: the case's path, where text is found, the link's other options."""
    base = base_of(link).where(columns=None)
    return {"case_path": base.path, "find_path": base.find(), "options": tuple(base.options.items().items())}


def _html(request: Request, library: Library, renderer: RendererDep, parsed: Parsed) -> Response:
    moved = moved_to(library, parsed.link, "")
    if moved is not None:
        return redirect(moved)
    page = _page(library, parsed)
    growing = _growing(request, library, parsed, page)
    link = parse(page.address).link
    assert link is not None
    forms = {**around(link), **_lookup(request, library, parsed, page)}
    share = share_of(page, str(request.base_url).rstrip("/"))
    template = "transcript.html" if page.transcript else "streams.html"
    return renderer.html(template, page=page, growing=growing, share=share, **forms)


def _growing(request: Request, library: Library, parsed: Parsed, page: StreamsPage) -> GrowPane | None:
    """Return what may be grown at the open fork; None where the server was started without that."""
    growing: Growing | None = request.app.state.growing
    if growing is None:
        return None
    opened = None if page.panel is None else open_parsed(library, parsed)[0]
    position = -1 if page.panel is None else page.panel.position
    return grow_pane(growing, opened, position, page.address, others=page.transcript is None)


def _lookup(request: Request, library: Library, parsed: Parsed, page: StreamsPage) -> dict[str, Any]:
    """Return the answer to `look`, and the path that asks; both empty where the page has no position."""
    if page.pane is None:
        return {"lookup": None, "look_path": ""}
    link = parse(page.address).link
    assert link is not None
    place = base_of(link).fork(page.pane.position, page.pane.prefix)
    asked = request.query_params.get("look", "")
    if not asked:
        return {"lookup": None, "look_path": place.path}
    opened, _, _ = open_parsed(library, parsed)
    try:
        found = look_up(open_scene(opened, place, library.digest(opened)), asked, library.row)
    except (BundleError, NotFoundError) as error:
        found = Lookup(asked[:LONGEST_QUESTION], None, None, (), (), str(error))
    return {"lookup": found, "look_path": place.path}


def _json(request: Request, library: Library, parsed: Parsed) -> Response:
    moved = moved_to(library, parsed.link, ".json")
    if moved is not None:
        return redirect(moved)
    page = _page(library, parsed)
    lookup = _lookup(request, library, parsed, page)["lookup"]
    return json_response({**streams_json(page), "lookup": None if lookup is None else lookup_json(lookup)})


def moved_to(library: Library, link: Link | None, suffix: str) -> str | None:
    """Return the case's own address where the link calls it by another name; else None."""
    assert link is not None
    key = library.find_case(link.case)
    return None if key == link.case else replace(link, case=key).format(suffix)


def _page(library: Library, parsed: Parsed) -> StreamsPage:
    opened, link, notices = open_parsed(library, parsed)
    digest = library.digest(opened)
    if is_transcript(opened, link):
        page = transcript_page(opened, link, digest)
    else:
        page = streams_page(opened, link, link.options.columns or DEFAULT_COLUMNS, digest)
    return replace(page, notices=(*notices, *too_long(opened, link), *page.notices))


def open_parsed(library: Library, parsed: Parsed) -> tuple[OpenCase, Link, tuple[str, ...]]:
    """Return the case, and the link as it could be followed: links on the page shall not repeat its mistakes."""
    assert parsed.link is not None
    opened = library.open_link(parsed.link)
    options = parsed.link.options
    lanes = tuple(lane.run.run_id for lane in opened.lanes) if options.lanes else ()
    reference = opened.lanes[0].run.run_id if options.reference else None
    mode = opened.mode if options.mode or isinstance(parsed.link, ForkLink) else None
    follow = next((lane.run.run_id for lane in opened.lanes if lane.run.run_id.startswith(options.follow or "-")), None)
    wanted, left_out = _filter(opened, options.filter)
    link = parsed.link.where(lanes=lanes, reference=reference, mode=mode, follow=follow, filter=wanted)
    lost = ("The lane that the link follows is not on this page, so the reference's text is shown.",)
    notices = lost if options.follow and follow is None else ()
    return opened, replace(link, case=opened.key), (*parsed.notices, *notices, *left_out)


def _filter(opened: OpenCase, wanted: FlipFilter) -> tuple[FlipFilter, tuple[str, ...]]:
    """Return a filter as it can be followed; the reference never leaves its own text."""
    ids = [lane.run.run_id for lane in opened.lanes]
    if wanted.lane is None or any(run_id.startswith(wanted.lane) for run_id in ids):
        return wanted, ()
    return replace(wanted, lane=None), ("The lane whose flips the link lists is not on this page; all are listed.",)
