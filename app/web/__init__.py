"""The only package that knows HTTP, FastAPI and Jinja."""

from __future__ import annotations
