"""Text in cells that a spreadsheet may open. Pure; standard library only."""

from __future__ import annotations

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What a cell's text starts with where a spreadsheet takes it for a formula, or strips it to one."""


def harmless(text: str) -> str:
    """Return a text that stays text: an apostrophe stands before what a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
