"""A case or a fork as a file: Markdown, HTML, SVG, PNG; and the preview picture of its page."""

from __future__ import annotations

import hashlib
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.digest import Digest
from app.export import MEDIA_TYPES, Format, Subject, exported, exported_preview, file_name, page_of
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink, Link, Parsed
from app.share import PREVIEW
from app.streams_values import StreamsPage
from app.web.dependencies import READ, LibraryDep, RendererDep
from app.web.errors import redirect
from app.web.exported import exported_html, policy
from app.web.rendering import Renderer
from app.web.streams import case_link, fork_link, moved_to, open_parsed

router = APIRouter()

_NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"
"""The policy of files that ask for nothing and run nothing."""

_TAG_BYTES = 12


@router.api_route("/c/{case}/f/{fork}/preview.png", methods=READ)
def fork_preview(case: str, fork: str, request: Request, library: LibraryDep) -> Response:
    """Return the picture that forums and chats show beside the link to a fork."""
    return _preview(request, library, fork_link(case, fork, request))


@router.api_route("/c/{case}/preview.png", methods=READ)
def case_preview(case: str, request: Request, library: LibraryDep) -> Response:
    """Return the picture that forums and chats show beside the link to a case."""
    return _preview(request, library, case_link(case, request))


@router.api_route("/c/{case}/f/{fork}.md", methods=READ)
def fork_markdown(case: str, fork: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a fork as Markdown."""
    return _file(request, library, renderer, fork_link(case, fork, request), Format.MARKDOWN)


@router.api_route("/c/{case}/f/{fork}.html", methods=READ)
def fork_file(case: str, fork: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a fork as one HTML file."""
    return _file(request, library, renderer, fork_link(case, fork, request), Format.HTML)


@router.api_route("/c/{case}/f/{fork}.svg", methods=READ)
def fork_svg(case: str, fork: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a picture of a fork as SVG."""
    return _file(request, library, renderer, fork_link(case, fork, request), Format.SVG)


@router.api_route("/c/{case}/f/{fork}.png", methods=READ)
def fork_png(case: str, fork: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a picture of a fork as PNG."""
    return _file(request, library, renderer, fork_link(case, fork, request), Format.PNG)


@router.api_route("/c/{case}.md", methods=READ)
def case_markdown(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a case as Markdown."""
    return _file(request, library, renderer, case_link(case, request), Format.MARKDOWN)


@router.api_route("/c/{case}.html", methods=READ)
def case_file(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a case as one HTML file."""
    return _file(request, library, renderer, case_link(case, request), Format.HTML)


@router.api_route("/c/{case}.svg", methods=READ)
def case_svg(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a picture of a case as SVG."""
    return _file(request, library, renderer, case_link(case, request), Format.SVG)


@router.api_route("/c/{case}.png", methods=READ)
def case_png(case: str, request: Request, library: LibraryDep, renderer: RendererDep) -> Response:
    """Return a picture of a case as PNG."""
    return _file(request, library, renderer, case_link(case, request), Format.PNG)


def origin_of(request: Request) -> str:
    """Return how the browser reached this server, without a slash at the end."""
    return str(request.base_url).rstrip("/")


def _file(request: Request, library: Library, renderer: Renderer, parsed: Parsed, form: Format) -> Response:
    moved = moved_to(library, parsed.link, f".{form.value}")
    if moved is not None:
        return redirect(moved)
    subject, tag = _subject(request, library, parsed, f"{form.value} {renderer.version} {policy()}")
    headers = {
        "Content-Security-Policy": policy(framing=True) if form is Format.HTML else _NOTHING,
        "Content-Disposition": f'attachment; filename="{file_name(subject.link, form)}"',
        **_kept(tag),
    }
    if _known(request, tag):
        return Response(status_code=304, headers=headers)
    content = exported(subject, page_of(subject), form, partial(_write_html, renderer))
    return Response(content, media_type=MEDIA_TYPES[form], headers=headers)


def _preview(request: Request, library: Library, parsed: Parsed) -> Response:
    moved = moved_to(library, parsed.link, PREVIEW)
    if moved is not None:
        return redirect(moved)
    subject, tag = _subject(request, library, parsed, PREVIEW)
    headers = {"Content-Security-Policy": _NOTHING, **_kept(tag)}
    if _known(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(exported_preview(subject), media_type=MEDIA_TYPES[Format.PNG], headers=headers)


def _subject(request: Request, library: Library, parsed: Parsed, what: str) -> tuple[Subject, str]:
    """Return what is exported, and a tag that says what it was made of; empty where that is unknown."""
    opened, link, _ = open_parsed(library, parsed)
    origin = origin_of(request)
    subject = Subject(opened, link, library.digest(opened), origin)
    return subject, _tag(opened, link, what, origin) if opened.stamps else ""


def _tag(opened: OpenCase, link: Link, what: str, origin: str) -> str:
    text = repr((opened.stamps, link.format(), what, origin))
    return f'"{hashlib.blake2b(text.encode(), digest_size=_TAG_BYTES).hexdigest()}"'


def _kept(tag: str) -> dict[str, str]:
    return {"Cache-Control": "no-cache", **({"ETag": tag} if tag else {})}


def _known(request: Request, tag: str) -> bool:
    return bool(tag) and tag in request.headers.get("if-none-match", "")


def _write_html(
    renderer: Renderer, case: OpenCase, page: StreamsPage, base: CaseLink, address: str, digest: Digest | None
) -> bytes:
    return exported_html(renderer, case, page, base, address, digest)
