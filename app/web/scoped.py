"""Several copies of a page's parts on one page: their ids are kept apart, and their links lead nowhere."""

from __future__ import annotations

import re

from markupsafe import Markup

# Text is escaped, so a double quote stands around values of attributes alone.
_NAMES = re.compile(r' (id|for|name|aria-labelledby)="([^"]*)"')
_HATCH = re.compile(r"url\(#")
_LEADING = re.compile(r' (?:href|action|hx-[a-z-]+|method|data-(?!over)[a-z-]+)="(?!#)[^"]*"| data-transcript(?= )')


def scoped(html: Markup, scope: str) -> Markup:
    """Return HTML whose ids and references begin with `scope`, without addresses of this server."""
    named = _NAMES.sub(lambda found: f' {found[1]}="{scope}-{found[2]}"', _LEADING.sub("", html))
    return Markup(_HATCH.sub(f"url(#{scope}-", named))
