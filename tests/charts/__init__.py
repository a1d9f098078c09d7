"""Tests of charts, which are plain dicts."""

from __future__ import annotations
