"""The page of an export: one HTML file with everything in it, and a policy that allows nothing else."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from markupsafe import Markup

from app.digest import Digest
from app.export_portable import portable, tables_of
from app.export_script import one_script
from app.lanes import OpenCase
from app.links import CaseLink
from app.resources import StaticFolder
from app.streams_values import StreamsPage
from app.web.rendering import Renderer

STYLES = ("flipscope.css", "chips.css", "exported.css")

ENTRY = "exported.js"

INSTEAD = {"tables.js": "embedded.js"}

_FRAMING = "; frame-ancestors 'none'; sandbox allow-scripts"
"""What only a header can say."""


def exported_html(
    renderer: Renderer, case: OpenCase, page: StreamsPage, base: CaseLink, address: str, digest: Digest | None = None
) -> bytes:
    """Return a page as a file that works from disk, with the tables of every token on it.

    Args:
        renderer: of the templates.
        case: the case that the page shows.
        page: the page, as `export_page` makes it.
        base: the link to the case, with the page's options.
        address: of the permalink, for the foot.
        digest: what was worked out of the case before; None to work it out now.
    """
    style, script = _assets(StaticFolder().folder)
    response = renderer.html(
        "export.html",
        page=portable(page),
        address=address,
        policy=policy(),
        style=Markup(style),
        script=Markup(script),
        data=Markup(_data(tables_of(case, page, base, digest))),
    )
    return bytes(response.body)


def policy(framing: bool = False) -> str:
    """Return the policy of exported pages: this very script and style, and nothing from anywhere.

    Args:
        framing: whether to add what a header can say and the page itself cannot.
    """
    style, script = _assets(StaticFolder().folder)
    allowed = f"script-src {_source(script)}; style-src {_source(style)}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'{_FRAMING if framing else ''}"


@lru_cache(maxsize=1)
def _assets(folder: Path) -> tuple[str, str]:
    """Return the style and the script, made once."""

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    style = "\n" + "\n".join(map(read, STYLES))
    if "</" in style or "@import" in style or "url(" in style:
        raise ValueError("a style sheet asks for something or would end its element")
    return style, "\n" + one_script(ENTRY, read, INSTEAD)


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _data(tables: Mapping[str, Any]) -> str:
    """Return JSON that cannot end the element it stands in."""
    text = json.dumps(tables, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
