"""A report as plain text for a terminal, and as Markdown for a forum post. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from app.markdown_text import inline, one_line
from app.report_pages import Heading, Part
from app.report_tables import Table
from app.text import clean

WIDTH = 100
"""Characters of a line of running text."""

_NUMBERS = re.compile(r"[-+]?(?:[≥\d.,:e±% /()\[\]-])*(?: of [\d,]+)?(?: [MG]B)?(?: tok/s)?")
"""Cells that are numbers of ours: nothing in them means anything to Markdown, and no stranger wrote them."""


def text_lines(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the lines of a report for a terminal."""
    for part in parts:
        if isinstance(part, Heading):
            yield from ("", one_line(part.text), ("=" if part.level == 1 else "-") * min(len(part.text), WIDTH))
        elif isinstance(part, Table):
            yield ""
            yield from _text_table(part)
        else:
            yield from textwrap.wrap(clean(part), WIDTH)


def _text_table(table: Table) -> Iterator[str]:
    yield one_line(table.title)
    header = [cell.split("\n") for cell in table.header]
    height = max(map(len, header))
    top = zip(*([*[""] * (height - len(lines)), *lines] for lines in header), strict=True)
    rows = [*top, *([one_line(cell) for cell in row] for row in table.rows)]
    for number, columns in enumerate(_pieces(rows, table) if table.rows else ()):
        yield from [""] * (number > 0)
        yield from (f"  {line}" for line in _aligned([[row[at] for at in columns] for row in rows], table.left))
    for note in table.notes:
        yield from textwrap.wrap(clean(note), WIDTH, initial_indent="  · ", subsequent_indent="    ")


def _pieces(rows: Sequence[Sequence[str]], table: Table) -> Iterator[list[int]]:
    """Yield the columns of each piece of a table, so that it fits the width; the words at the left are in every one."""
    widths = [2 + max(map(len, column)) for column in zip(*rows, strict=True)]
    words = list(range(table.left))
    piece = words
    for at in range(table.left, len(widths)):
        if len(piece) > table.left and sum(widths[one] for one in piece) + widths[at] > WIDTH:
            start = max((one for one in table.starts if one in piece[table.left + 1 :]), default=at)
            yield [one for one in piece if one < start]
            piece = [*words, *range(start, at)]
        piece = [*piece, at]
    yield piece


def _aligned(rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def markdown_lines(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the lines of a report as Markdown; text out of files stays text, whatever it holds."""
    for part in parts:
        if isinstance(part, Heading):
            yield from (f"{'#' * (part.level + 1)} {inline(part.text)}", "")
        elif isinstance(part, Table):
            yield from _markdown_table(part)
        else:
            yield from (inline(part) if part.startswith(("Reference:", "Imported:")) else part, "")


def _markdown_table(table: Table) -> Iterator[str]:
    yield from (f"**{table.title}**", "")
    if table.rows:
        yield _piped(
            _markdown_cell(cell.replace("-\n", "").replace("\n/", "/").replace("\n", " ")) for cell in table.header
        )
        yield _piped("---" if at < table.left else "---:" for at in range(len(table.header)))
        for row in table.rows:
            yield _piped(map(_markdown_cell, row))
        yield ""
    for note in table.notes:
        yield f"- {_markdown_note(note)}"
    if table.notes:
        yield ""


def _piped(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_note(note: str) -> str:
    """Return a note; plus-minus signs and apostrophes, which sentences of ours hold, mean nothing to Markdown."""
    rest = note.replace("\u00b1", "").replace("'", "")
    return one_line(note) if inline(rest) == rest else inline(note)


def _markdown_cell(cell: str) -> str:
    return cell if _NUMBERS.fullmatch(cell) else inline(cell)
