"""The HTTP server: the only importer of FastAPI, Starlette and Jinja. Turns requests into use cases of `app`."""

from __future__ import annotations

from app.web.main import create_app

__all__ = ["create_app"]
