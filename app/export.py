"""Exports of a link: which formats there are, and a link's bytes in one of them. Draws no HTML itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.digest import Digest
from app.export_json import json_text
from app.export_markdown import markdown_of
from app.export_page import export_page
from app.export_png import png_of
from app.lanes import OpenCase
from app.links import CaseLink, ForkLink
from app.picture import picture, preview
from app.streams import base_of
from app.streams_json import streams_json
from app.streams_values import StreamsPage

ZOOM = 2.0
"""Pixels of a PNG for one of the SVG, so that text is sharp on dense screens."""

_NAME = re.compile(r"[^A-Za-z0-9._-]+")

_LONGEST_NAME = 80


class Format(StrEnum):
    """What a link can be exported as; the value ends the file's name."""

    MARKDOWN = "md"
    HTML = "html"
    SVG = "svg"
    PNG = "png"
    JSON = "json"


MEDIA_TYPES = {
    Format.MARKDOWN: "text/markdown; charset=utf-8",
    Format.HTML: "text/html; charset=utf-8",
    Format.SVG: "image/svg+xml",
    Format.PNG: "image/png",
    Format.JSON: "application/json",
}

PageWriter = Callable[[OpenCase, StreamsPage, CaseLink, str, Digest | None], bytes]
"""Makes the HTML file of a case's page; takes the link to the case, the permalink and the digest besides."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is exported.

    Attributes:
        case: the case with its lanes.
        link: of the case or of a fork in it.
        digest: what was worked out of the case before; None to work it out.
        origin: of the server that the permalink names, such as `http://host:port`; empty for a bare path.
    """

    case: OpenCase
    link: CaseLink | ForkLink
    digest: Digest | None = None
    origin: str = ""


def page_of(subject: Subject) -> StreamsPage:
    """Return what a link shows."""
    return export_page(subject.case, subject.link, subject.digest)


def exported(subject: Subject, page: StreamsPage, form: Format, write_html: PageWriter) -> bytes:
    """Return a link's bytes in a format.

    Args:
        subject: what is exported.
        page: what it shows, as `page_of` makes it.
        form: as what.
        write_html: makes the HTML file.

    Raises:
        PictureError: the picture cannot be drawn.
    """
    address = subject.origin + page.permalink
    match form:
        case Format.MARKDOWN:
            return markdown_of(page, address).encode(errors="replace")
        case Format.HTML:
            return write_html(subject.case, page, base_of(subject.link), address, subject.digest)
        case Format.SVG:
            return picture(page, address).encode(errors="replace")
        case Format.PNG:
            return png_of(picture(page, address), ZOOM)
        case Format.JSON:
            return _json({**streams_json(page), "permalink": address})


def exported_preview(subject: Subject) -> bytes:
    """Return the picture that forums and chats show beside a link, 1200 by 630 pixels, as PNG.

    Raises:
        PictureError: it cannot be drawn.
    """
    return png_of(preview(page_of(subject)))


def file_name(link: CaseLink | ForkLink, form: Format) -> str:
    """Return a name for the file of an export: ASCII letters, digits, points and dashes."""
    place = f"-{link.position}" if isinstance(link, ForkLink) else ""
    case = _NAME.sub("-", link.case)[:_LONGEST_NAME].strip(".-") or "case"
    return f"flipscope-{case}{place}.{form.value}"


def _json(value: dict[str, Any]) -> bytes:
    return (json_text(value) + "\n").encode()
