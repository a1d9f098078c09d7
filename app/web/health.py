"""`/healthz`: whether the server works, for containers and scripts."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from app.links import HEALTH
from app.web.dependencies import READ, LibraryDep
from app.web.rendering import json_response
from capture.version import VERSION

router = APIRouter()


@router.api_route(HEALTH, methods=READ)
def health(library: LibraryDep) -> Response:
    """Return how many bundles can be read and how many files cannot; a broken file is no fault of the server."""
    catalog = library.catalog()
    return json_response(
        {"ok": True, "version": VERSION, "bundles": len(catalog.bundles), "broken": len(catalog.broken)}
    )
