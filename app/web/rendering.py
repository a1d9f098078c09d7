"""Templates: autoescaped, strict about what is missing, and the same for a page and its parts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from app import links
from app.cache import SizedCache
from app.export_json import finite
from app.resources import StaticFolder
from app.text import clean
from app.web.scoped import scoped
from app.web.tokens import tokens_html
from capture.version import VERSION

_MOST_PARTS = 4000
"""Pieces of pages that are kept, about a kilobyte each."""

_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Controls, and what turns text around: names out of files may hold them."""


def _visible(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup) and _UNSEEN.search(value):
        return _UNSEEN.sub(lambda found: clean(found[0]), value)
    return value


class Renderer:
    """Turns a page's context into HTML."""

    def __init__(self, folder: Path, static: StaticFolder) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(folder),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_visible,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._parts: SizedCache[tuple[str, Hashable], Markup] = SizedCache(_MOST_PARTS)
        self._environment.globals.update(part=self._part)
        self._environment.filters.update(scoped=scoped)
        self._environment.globals.update(static=static.url, links=links, version=VERSION, tokens=tokens_html)
        self.version = _version_of(folder)

    def _part(self, template: str, one: Hashable) -> Markup:
        """Return a piece of a page that depends on one value alone, and that many pages hold."""
        found = self._parts.get((template, one))
        if found is None:
            found = Markup(self._environment.get_template(template).render(one=one))
            self._parts.put((template, one), found)
        return found

    def html(self, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """Return a page; it may be kept, but the browser asks again before it shows it."""
        text = self._environment.get_template(template).render(context)
        # Names of files need not be UTF-8, and then hold what no page can.
        return HTMLResponse(text.encode(errors="replace"), status, {"Cache-Control": "no-cache"})


def _version_of(folder: Path) -> str:
    """Return a text that changes with the templates."""
    digest = hashlib.blake2b(VERSION.encode(), digest_size=8)
    for path in sorted(folder.rglob("*.html")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def json_response(value: Any, status: int = 200) -> Response:
    """Return a twin: JSON without NaN or infinities, which become null."""
    text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(errors="replace"), status, {"Cache-Control": "no-cache"}, "application/json")
