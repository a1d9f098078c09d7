"""What the Share menu of a page offers, and what its head says to forums and chats. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.export import Format
from app.export_markdown import markdown_of
from app.links import Link, parse
from app.streams_values import StreamsPage

PREVIEW = "/preview.png"
"""What follows a link's path in the address of its preview picture."""

_TITLES = {
    Format.HTML: "one file that works from disk, offline, hover included",
    Format.PNG: "a picture of the streams around this place",
    Format.SVG: "the same picture, to be scaled or edited",
    Format.MARKDOWN: "text for an issue or a post",
    Format.JSON: "everything on this page as data",
}


@dataclass(frozen=True, slots=True)
class Download:
    """A file that the menu offers."""

    text: str
    href: str
    title: str


@dataclass(frozen=True, slots=True)
class Share:
    """What a page can be shared as.

    Attributes:
        address: the permalink, absolute.
        image: address of the preview picture, absolute.
        markdown: of the open fork, to be copied; empty where none is open.
        downloads: the files.
    """

    address: str
    image: str
    markdown: str
    downloads: tuple[Download, ...]


def share_of(page: StreamsPage, origin: str) -> Share:
    """Return what a page can be shared as.

    Args:
        page: the page.
        origin: of the server, as the browser asked for it, such as `http://host:port`.
    """
    link = parse(page.permalink).link
    assert link is not None
    return Share(
        address=origin + page.permalink,
        image=origin + link.format(PREVIEW),
        markdown=markdown_of(page, page.permalink) if page.panel else "",
        downloads=tuple(_download(link, form, title) for form, title in _TITLES.items()),
    )


def _download(link: Link, form: Format, title: str) -> Download:
    text = "Markdown" if form is Format.MARKDOWN else form.value.upper()
    return Download(text, link.format(f".{form.value}"), title)
