"""Answers that a browser may keep, with a tag that says what they were made of."""

from __future__ import annotations

import hashlib

from fastapi import Request

_TAG_BYTES = 12


def tag_of(*made_of: object) -> str:
    """Return an entity tag: equal for what is made of the same."""
    return f'"{hashlib.blake2b(repr(made_of).encode(), digest_size=_TAG_BYTES).hexdigest()}"'


def kept(tag: str) -> dict[str, str]:
    """Return the headers of an answer that may be kept and is asked for again; an empty tag is left out."""
    return {"Cache-Control": "no-cache", **({"ETag": tag} if tag else {})}


def is_known(request: Request, tag: str) -> bool:
    """Return whether the browser has this very answer."""
    asked = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    return bool(tag) and (tag in asked or "*" in asked)
