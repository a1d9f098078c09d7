"""A fork as a picture: what it is about, the lines around it, the table of its position. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.drawing import Head
from app.fork_panel import ContinuationView, ForkPanel
from app.picture_lines import NOTE_ROW, Part, draw_left_out, draw_lines, draw_pills, lines_height, part_of, rule
from app.position import PositionPane
from app.streams_values import Chip, StreamsPage
from app.svg import FAINT, FOREGROUND, GROUND, LANES, MUTED, Drawing, Pen, cells, document, fit, heads_width
from app.tables import Cell, Row

WIDTH = 1200

PREVIEW_HEIGHT = 630
"""Pixels of the picture that forums and chats show."""

MOST_LINES = 44
"""Lines of the streams in a picture of any height."""

PREVIEW_LINES = 14
"""Lines of the streams in a preview."""

FOOT = 34
"""Pixels of the foot."""

MOST_SIDES = 4
"""Continuations that are told in large."""

LEFT, RIGHT = 40.0, WIDTH - 40.0

_WHAT = "What a change of runtime does to a language model's output, token by token."

_YARDSTICK = "The reference is a yardstick, not the right answer."


def picture(page: StreamsPage, address: str) -> str:
    """Return an SVG of what a page shows, as high as it needs.

    Args:
        page: the page, as `export_page` makes it.
        address: of the permalink, for the foot.
    """
    drawing = Drawing()
    y = _head(drawing, page)
    y = _streams(drawing, page, y, MOST_LINES)
    if page.pane is not None:
        y = _odds(drawing, page.pane, y + 12, len(page.pane.table.rows), full=True)
    height = round(y + FOOT + 14)
    _foot(drawing, address, height)
    return document(drawing, WIDTH, height, page.title, page.description)


def preview(page: StreamsPage) -> str:
    """Return an SVG of 1200 by 630 pixels: as much of the picture as is read at a glance."""
    drawing = Drawing()
    y = _head(drawing, page)
    rows = 0 if page.pane is None else min(len(page.pane.table.rows), 4)
    table = 24 * (rows + 1) + 8
    y = _streams(drawing, page, y, PREVIEW_LINES, PREVIEW_HEIGHT - FOOT - y - table)
    if page.pane is not None and y + table <= PREVIEW_HEIGHT - FOOT:
        _odds(drawing, page.pane, y + 8, rows, full=False)
    _foot(drawing, "", PREVIEW_HEIGHT)
    return document(drawing, WIDTH, PREVIEW_HEIGHT, page.title, page.description)


def _head(drawing: Drawing, page: StreamsPage) -> float:
    """Draw what the picture is about; return where it ends."""
    drawing.rect(0, 0, WIDTH, 50, GROUND)
    x = drawing.text(LEFT, 32, "flipscope", Pen(17, bold=True))
    drawing.text(x + 18, 32, fit(f"{page.study} / {page.case}", 62), Pen(15, MUTED))
    runs = f"{page.mode} runs \u00b7 {page.scoring_path}"
    drawing.text(RIGHT - cells(runs) * Pen(14).cell, 32, runs, Pen(14, MUTED))
    y = 80.0
    if page.question:
        drawing.text(LEFT, y, fit(f"\u201c{page.question}\u201d", 122), Pen(15, MUTED))
        y += 12
    y = y + 12 if page.panel is None else _sides(drawing, page.panel, y + 22)
    return _lanes(drawing, page.chips, y + 10)


def _sides(drawing: Drawing, panel: ForkPanel, y: float) -> float:
    """Draw each continuation in words, large; return where they end."""
    what = ("Fork at position", f"{panel.position:,} \u00b7", _kind(panel.flip_class), "\u00b7 margin")
    drawing.text(LEFT, y, " ".join((*what, f"{panel.margin_nats:.3f} nats")), Pen(14, MUTED))
    letters = Pen(19, bold=True)
    sides = [one for one in panel.continuations if one.heads] or list(panel.continuations)
    start = LEFT + max(heads_width(_letters(one.heads), letters) for one in sides) + 8
    for one in sides[:MOST_SIDES]:
        y += 38
        _side(drawing, one, start, y)
    if len(sides) > MOST_SIDES:
        y += 24
        drawing.text(start, y, f"and {len(sides) - MOST_SIDES} more", Pen(14, MUTED))
    return y + 16


def _kind(flip_class: str) -> str:
    return flip_class if flip_class.endswith("tie") else f"{flip_class} flip"


def _side(drawing: Drawing, one: ContinuationView, start: float, y: float) -> None:
    letters = _letters(one.heads)
    drawing.heads(LEFT, y, letters, Pen(19, bold=True))
    if letters:
        drawing.rect(start - 4, y - 24, 4, 32, LANES[letters[0]])
    x = drawing.text(start + 12, y, fit(one.words, 36), Pen(25, bold=True))
    x = drawing.text(x + 16, y, one.percent, Pen(16, MUTED)) if one.percent else x
    x = draw_pills(drawing, one.pills, x + 16, RIGHT, y - 3)
    note = fit(one.note, max(int((RIGHT - x) / Pen(12).cell), 1)) if one.note else ""
    drawing.text(x, y - 1, note, Pen(12, MUTED))


def _letters(heads: Sequence[Head]) -> list[str]:
    return [head.letter for head in heads]


def _lanes(drawing: Drawing, chips: Sequence[Chip], y: float) -> float:
    """Draw the lanes with what differs between them, in as many rows as they need."""
    pen, x = Pen(13.5), LEFT
    y += 14
    for chip in chips:
        label = fit(chip.label + (" (reference)" if chip.is_reference else ""), 60)
        width = heads_width(chip.letter, pen) + cells(label) * pen.cell + 22
        if x + width > RIGHT + 22 and x > LEFT:
            x, y = LEFT, y + 22
        end = drawing.heads(x, y, [chip.letter], Pen(13.5, bold=True))
        drawing.text(end, y, label, Pen(13.5, MUTED))
        x += width
    return y + 12


def _streams(drawing: Drawing, page: StreamsPage, y: float, most: int, room: float = 1e9) -> float:
    """Draw the lines around the position that is shown; return where they end."""
    rule(drawing, LEFT, RIGHT, y)
    positions = () if page.pane is None else (page.pane.position,)
    part = part_of(page.streams, positions, most)
    while _height(part) > room and most > 2:
        most -= 1
        part = part_of(page.streams, positions, most)
    y += 8
    if part.before:
        y = draw_left_out(drawing, part.before, "above", LEFT, y)
    y = draw_lines(drawing, part, LEFT, RIGHT, y)
    if part.behind:
        y = draw_left_out(drawing, part.behind, "below", LEFT, y)
    rule(drawing, LEFT, RIGHT, y + 8)
    return y + 8


def _height(part: Part) -> float:
    return 16 + NOTE_ROW * (bool(part.before) + bool(part.behind)) + lines_height(part, LEFT, RIGHT)


def _odds(drawing: Drawing, pane: PositionPane, y: float, rows: int, full: bool) -> float:
    """Draw the table of the position, and in full also the numbers and certificates; return where it ends."""
    letters = pane.table.letters
    column = min((RIGHT - LEFT - 270) / len(letters), 150)
    y += 20
    drawing.text(LEFT, y, f"position {pane.position:,}, percent", Pen(12.5, MUTED))
    for at, letter in enumerate(letters):
        edge = LEFT + 270 + (at + 1) * column
        drawing.heads(edge - heads_width(letter, Pen(13)), y, [letter], Pen(13, bold=True))
    for row in _telling(pane.table.rows, rows):
        y += 24
        _odds_row(drawing, row, letters, column, y)
    if not full:
        return y
    y = _texts(drawing, "the rest", pane.table.rest, column, y)
    rule(drawing, LEFT, LEFT + 270 + len(letters) * column, y + 8)
    for numbers in pane.numbers:
        y = _texts(drawing, f"{numbers.name}, nats", numbers.values, column, y)
    return _certificates(drawing, pane, y)


def _telling(rows: Sequence[Row], most: int) -> list[Row]:
    """Return some rows in their order: those of tokens that a lane chose go first."""
    chosen = [row for row in rows if any(cell is not None and cell.winner for cell in row.cells)]
    kept = (*chosen, *(row for row in rows if row not in chosen))[:most]
    return [row for row in rows if row in kept]


def _odds_row(drawing: Drawing, row: Row, letters: Sequence[str], column: float, y: float) -> None:
    drawing.text(LEFT, y, fit(row.label.text, 28), Pen(14))
    for at, cell in enumerate(row.cells):
        _cell(drawing, cell, letters[at], LEFT + 270 + at * column, column, y)


def _cell(drawing: Drawing, cell: Cell | None, letter: str, x: float, column: float, y: float) -> None:
    text = "\u2013" if cell is None else cell.text
    if cell is not None and not cell.bound:
        width = (column - 24) * min(cell.percent, 100) / 100
        drawing.rect(x + 16, y - 14.5, width, 19, LANES[letter], 'opacity="0.36"')
    if cell is not None and cell.winner:
        look = f'stroke="{FOREGROUND}" stroke-width="1.5"'
        drawing.rect(x + 15, y - 15.5, column - 22, 21, "none", look)
    known = cell is not None and not cell.bound
    pen = Pen(13.5, FOREGROUND if known else FAINT)
    drawing.text(x + column - 13 - cells(text) * pen.cell, y, text, pen)


def _texts(drawing: Drawing, name: str, values: Sequence[str], column: float, y: float) -> float:
    """Draw a row of the table that is text alone; return its baseline."""
    y += 24
    drawing.text(LEFT, y, name, Pen(13, MUTED))
    for at, value in enumerate(values):
        text, pen = value or "\u2013", Pen(13, MUTED if value else FAINT)
        drawing.text(LEFT + 270 + (at + 1) * column - 13 - cells(text) * pen.cell, y, text, pen)
    return y


def _certificates(drawing: Drawing, pane: PositionPane, y: float) -> float:
    """Draw what makes the numbers worth something: same context, replays; return where it ends."""
    gone = f"; {', '.join(pane.elsewhere)} had left before" if pane.elsewhere else ""
    notes = [f"same prefix {pane.prefix[:16]}: {', '.join(pane.same_context)}{gone}"]
    notes += [f"replay {line.letter} \u201c{line.token.text}\u201d: {line.text}" for line in pane.certificates]
    notes += ["\u2265 a lower bound: only the top tokens were kept"] if pane.lower_bound else []
    y += 8
    for note in notes:
        y += 20
        drawing.text(LEFT, y, fit(note, 140), Pen(12.5, MUTED))
    return y


def _foot(drawing: Drawing, address: str, height: int) -> None:
    rule(drawing, 0, WIDTH, height - FOOT)
    pen = Pen(11.5, FAINT)
    drawing.text(RIGHT - cells(_YARDSTICK) * pen.cell, height - 12, _YARDSTICK, pen)
    drawing.text(LEFT, height - 12, fit(address.partition("?")[0] or _WHAT, 95), Pen(11.5, MUTED))
