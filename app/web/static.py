"""Serves the static files: for ever where the link carries the file's version, else asked again each time."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.staticfiles import PathLike, StaticFiles
from starlette.types import Scope

from app.resources import StaticFolder

FOR_EVER = "public, max-age=31536000, immutable"

ASK_AGAIN = "no-cache"


class VersionedStaticFiles(StaticFiles):
    """Static files with a cache header that fits the link."""

    def __init__(self, static: StaticFolder) -> None:
        super().__init__(directory=static.folder)
        self._static = static

    def file_response(
        self, full_path: PathLike, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return the file, or that it has not changed."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("v", [""])[0]
        name = Path(full_path).resolve().relative_to(self._static.folder).as_posix()
        current = asked != "" and asked == self._static.version(name)
        response.headers["Cache-Control"] = FOR_EVER if current else ASK_AGAIN
        return response
