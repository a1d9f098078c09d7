"""A case or a fork as a file: Markdown, HTML, SVG, PNG; and the preview picture of its page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from starlette.responses import Response

from app.cache import SizedCache
from app.export import MEDIA_TYPES, Format, Subject, exported, exported_preview, file_name, page_of
from app.library import Library
from app.links import Parsed
from app.share import PREVIEW
from app.web.dependencies import READ, LibraryDep, RendererDep
from app.web.errors import redirect
from app.web.exported import exported_html, policy
from app.web.kept import is_known, kept, tag_of
from app.web.rendering import Renderer
from app.web.streams import case_link, fork_link, moved_to, open_parsed

router = APIRouter()

_NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"
"""The policy of files that ask for nothing and run nothing."""

DRAWN_AT_ONCE = 2
"""Files that are made at the same time."""

_PICTURES = (Format.SVG, Format.PNG)

_drawn: SizedCache[str, bytes] = SizedCache(32 << 20, len)


@router.api_route("/c/{case}/f/{fork}/preview.png", methods=READ)
async def fork_preview(case: str, fork: str, request: Request, library: LibraryDep) -> Response:
    """Return the picture that forums and chats show beside the link to a fork."""
    return await _preview(request, library, fork_link(case, fork, request))


@router.api_route("/c/{case}/preview.png", methods=READ)
async def case_preview(case: str, request: Request, library: LibraryDep) -> Response:
    """Return the picture that forums and chats show beside the link to a case."""
    return await _preview(request, library, case_link(case, request))


@router.api_route("/c/{case}/f/{fork}.md", methods=READ)
async def fork_markdown(case: str, fork: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a fork as Markdown."""
    return await _file(request, library, renderer, fork_link(case, fork, request), Format.MARKDOWN)


@router.api_route("/c/{case}/f/{fork}.html", methods=READ)
async def fork_file(case: str, fork: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a fork as one HTML file."""
    return await _file(request, library, renderer, fork_link(case, fork, request), Format.HTML)


@router.api_route("/c/{case}/f/{fork}.svg", methods=READ)
async def fork_svg(case: str, fork: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a picture of a fork as SVG."""
    return await _file(request, library, renderer, fork_link(case, fork, request), Format.SVG)


@router.api_route("/c/{case}/f/{fork}.png", methods=READ)
async def fork_png(case: str, fork: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a picture of a fork as PNG."""
    return await _file(request, library, renderer, fork_link(case, fork, request), Format.PNG)


@router.api_route("/c/{case}.md", methods=READ)
async def case_markdown(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a case as Markdown."""
    return await _file(request, library, renderer, case_link(case, request), Format.MARKDOWN)


@router.api_route("/c/{case}.html", methods=READ)
async def case_file(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a case as one HTML file."""
    return await _file(request, library, renderer, case_link(case, request), Format.HTML)


@router.api_route("/c/{case}.svg", methods=READ)
async def case_svg(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a picture of a case as SVG."""
    return await _file(request, library, renderer, case_link(case, request), Format.SVG)


@router.api_route("/c/{case}.png", methods=READ)
async def case_png(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a picture of a case as PNG."""
    return await _file(request, library, renderer, case_link(case, request), Format.PNG)


def origin_of(request: Request) -> str:
    """Return how the browser reached this server, without a slash at the end."""
    return str(request.base_url).rstrip("/")


async def _file(request: Request, library: Library, renderer: Renderer, parsed: Parsed, form: Format) -> Response:
    if form in _PICTURES:
        parsed = _uncolumned(parsed)
    return await _one_of_few(request, partial(_make_file, request, library, renderer, parsed, form))


async def _preview(request: Request, library: Library, parsed: Parsed) -> Response:
    return await _one_of_few(request, partial(_make_preview, request, library, _uncolumned(parsed)))


async def _one_of_few(request: Request, make: Callable[[], Response]) -> Response:
    """Draw in one of few places; who waits for one holds no thread that a page needs."""
    return await run_sync(make, limiter=request.app.state.drawing)


def _uncolumned(parsed: Parsed) -> Parsed:
    """Return a link without the width of lines, which a picture does not ask for."""
    return parsed if parsed.link is None else replace(parsed, link=parsed.link.where(columns=None))


def _make_file(request: Request, library: Library, renderer: Renderer, parsed: Parsed, form: Format) -> Response:
    moved = moved_to(library, parsed.link, f".{form.value}")
    if moved is not None:
        return redirect(moved)
    subject, tag = _subject(request, library, parsed, f"{form.value} {renderer.version} {policy()}")
    headers = {
        "Content-Security-Policy": policy(framing=True) if form is Format.HTML else _NOTHING,
        "Content-Disposition": f'attachment; filename="{file_name(subject.link, form)}"',
        **kept(tag),
    }
    write = partial(exported_html, renderer)
    return _answer(request, tag, headers, form, lambda: exported(subject, page_of(subject), form, write))


def _make_preview(request: Request, library: Library, parsed: Parsed) -> Response:
    moved = moved_to(library, parsed.link, PREVIEW)
    if moved is not None:
        return redirect(moved)
    subject, tag = _subject(request, library, parsed, PREVIEW)
    headers = {"Content-Security-Policy": _NOTHING, **kept(tag)}
    return _answer(request, tag, headers, Format.PNG, lambda: exported_preview(subject))


def _answer(request: Request, tag: str, headers: dict[str, str], form: Format, make: Callable[[], bytes]) -> Response:
    """Return what was asked for: nothing where the browser has it, what was drawn last where that is it, else anew."""
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    content = _drawn.get(tag) if tag else None
    if content is None:
        content = make()
        if tag and form in _PICTURES:
            _drawn.put(tag, content)
    return Response(content, media_type=MEDIA_TYPES[form], headers=headers)


def _subject(request: Request, library: Library, parsed: Parsed, what: str) -> tuple[Subject, str]:
    """Return what is exported, and a tag that says what it was made of; empty where that is unknown."""
    opened, link, _ = open_parsed(library, parsed)
    origin = origin_of(request)
    subject = Subject(opened, link, library.digest(opened), origin)
    return subject, tag_of(opened.stamps, link.format(), what, origin) if opened.stamps else ""
