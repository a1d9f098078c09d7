"""The lines of the streams in a picture: elbows, lanes, tokens with their marks, consequences. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.drawing import LineView, Run, StreamsView, TokenView
from app.svg import FAINT, FOREGROUND, LANES, LINE, MUTED, STRONG_LINE, Drawing, Pen, cells, fit, heads_width
from capture.consequences import Pill, Tone

ROW = 27
"""Pixels from line to line."""

NOTE_ROW = 20
"""Pixels of a row that says what is left out."""

GAP = 9
"""Pixels between systems."""

TEXT = Pen(15)

TINT = "#fdf0c8"

_PILLS = {
    Tone.NEUTRAL: (MUTED, "#ffffff", STRONG_LINE),
    Tone.SAME: ("#00684b", "#ffffff", "#73aa99"),
    Tone.DIFFERENT: ("#b3420a", "#ffffff", "#b3420a"),
    Tone.BROKEN: ("#ffffff", "#b3420a", "#b3420a"),
}

_LETTERS = Pen(12, FOREGROUND, bold=True)

_PLACE = Pen(10.5, FAINT)

_PILL = Pen(11.5)

_NOTE = Pen(11.5, MUTED)


@dataclass(frozen=True, slots=True)
class Placed:
    """A line that a picture shows.

    Attributes:
        line: what stands on it.
        gap: whether some room is left above it.
        more: how many lines of its block are left out behind it.
    """

    line: LineView
    gap: bool
    more: int = 0


@dataclass(frozen=True, slots=True)
class Ink:
    """A text on a line, and how it is written."""

    x: float
    text: str
    pen: Pen


@dataclass(frozen=True, slots=True)
class Part:
    """The lines of a picture, and how many it leaves out before and behind."""

    lines: tuple[Placed, ...]
    before: int
    behind: int


def part_of(streams: StreamsView, positions: Sequence[int], most: int) -> Part:
    """Return the lines around some positions, at most `most` of them: from the system above on."""
    systems = [(system, 0) for system in streams.systems]
    systems += [(block.lines, len(block.folded)) for block in streams.blocks]
    placed = [
        Placed(line, at == 0 and index > 0, folded if at == len(lines) - 1 else 0)
        for index, (lines, folded) in enumerate(systems)
        for at, line in enumerate(lines)
    ]
    if len(placed) <= most:
        return Part(tuple(placed), 0, 0)
    first = next((at for at, one in enumerate(placed) if _holds(one.line, positions)), 0)
    start = min(max(first - 2, 0), len(placed) - most)
    return Part(tuple(placed[start : start + most]), start, len(placed) - start - most)


def _holds(line: LineView, positions: Sequence[int]) -> bool:
    return any("pinned" in token.marks.split() or token.position in positions for token in line.tokens)


def lines_height(part: Part, left: float, right: float) -> float:
    """Return the pixels that the lines take between two edges."""
    start = _start(part, left)
    rows = (ROW * (1 + _wraps(one.line, start, right)) + NOTE_ROW * (one.more > 0) for one in part.lines)
    return sum(rows) + GAP * sum(one.gap for one in part.lines)


def draw_lines(drawing: Drawing, part: Part, left: float, right: float, y: float) -> float:
    """Draw lines between two edges from `y` on; return where they end."""
    start = _start(part, left)
    for placed in part.lines:
        y += GAP if placed.gap else 0
        y += _line(drawing, placed.line, left, start, right, y)
        if placed.more:
            y = draw_left_out(drawing, placed.more, "", start, y)
    return y


def draw_left_out(drawing: Drawing, lines: int, where: str, x: float, y: float) -> float:
    """Draw how many lines are left out; return where that ends."""
    words = f"\u2026 {lines:,} more line{'' if lines == 1 else 's'}{where and ' ' + where}"
    drawing.text(x, y + 14, words, Pen(11.5, FAINT))
    return y + NOTE_ROW


def _start(part: Part, left: float) -> float:
    """Return where the text starts: behind the positions and the letters of the fullest line."""
    most = max((len(one.line.heads) for one in part.lines), default=1)
    return left + 46 + heads_width("A" * most, _LETTERS)


def _line(drawing: Drawing, line: LineView, left: float, start: float, right: float, y: float) -> float:
    """Draw one line; return the height that it took."""
    base = y + 18.5
    drawing.text(left, base - 1, ("\u21b3" if line.origin is not None else "") + f"{line.at:,}", _PLACE)
    x = start
    for spaces, kind in line.pad:
        x += len(spaces) * TEXT.cell
        if kind:
            _elbow(drawing, x - 0.45 * TEXT.cell, y, kind)
    letters = [head.letter for head in line.heads]
    drawing.heads(x - heads_width(letters, _LETTERS) - 2, base - 1, letters, _LETTERS)
    pins: list[tuple[float, float]] = []
    ink: list[Ink] = []
    for token in line.tokens:
        end = _token(drawing, ink, token, x, base)
        if "pinned" in token.marks.split():
            pins.append((x + len(token.lead) * TEXT.cell, end))
        x = end
    for one in ink:
        drawing.text(one.x, base, one.text, one.pen)
    for first, last in pins:
        _pin(drawing, first, last, base)
    return ROW + _ends(drawing, line, x, start, right, base)


def _pin(drawing: Drawing, first: float, last: float, base: float) -> None:
    look = f'rx="4" stroke="{FOREGROUND}" stroke-width="2"'
    drawing.rect(first - 2, base - 16, last - first + 4, 24, "none", look)


def _elbow(drawing: Drawing, x: float, y: float, kind: str) -> None:
    top = y - 5
    if kind == "pipe":
        drawing.path(f"M{x:.2f} {top:.2f}V{y + ROW:.2f}", MUTED, 1.5)
    else:
        drawing.path(f"M{x:.2f} {top:.2f}V{y + 11:.2f}Q{x:.2f} {y + 14:.2f} {x + 3:.2f} {y + 14:.2f}h2", MUTED, 1.5)


def _token(drawing: Drawing, ink: list[Ink], token: TokenView, x: float, base: float) -> float:
    """Draw the marks of one token and add its text to the ink of its line; return where it ends."""
    x += len(token.lead) * TEXT.cell
    width = sum(map(_run_cells, token.runs)) * TEXT.cell
    marks = set(token.marks.split())
    _under(drawing, marks, x, width, base)
    strong = bool(marks & {"flip", "tie"})
    fill = MUTED if marks & {"joined", "special"} and not strong else FOREGROUND
    if token.over:
        above = 18.5 if "pinned" in marks else 14.5
        drawing.text(x, base - above, token.over, Pen(9, FOREGROUND, bold=True))
    for run in token.runs:
        if run.part == 0:
            faint = FAINT if run.look in ("sym", "raw", "cut") else fill
            _add(ink, Ink(x, run.text, Pen(TEXT.size, faint, bold=strong, italic=run.look == "cut")))
        x += _run_cells(run) * TEXT.cell
    return x


def _add(ink: list[Ink], new: Ink) -> None:
    """Add text to a line; what is written alike and stands at most one space apart is written at once."""
    if ink and ink[-1].pen == new.pen:
        gap = round((new.x - ink[-1].x) / TEXT.cell) - cells(ink[-1].text)
        if gap in (0, 1):
            ink[-1] = Ink(ink[-1].x, ink[-1].text + " " * gap + new.text, new.pen)
            return
    ink.append(new)


def _run_cells(run: Run) -> int:
    return 1 if run.parts else cells(run.text)


def _under(drawing: Drawing, marks: set[str], x: float, width: float, base: float) -> None:
    """Draw what marks a token, under its text."""
    top, height = base - 14, 19.0
    if marks & {"novel", "flip"}:
        drawing.rect(x, top, width, height, TINT, 'rx="3"')
    if "flip" in marks:
        lane = next((LANES[mark[-1]] for mark in marks if mark.startswith("lane-")), FOREGROUND)
        drawing.rect(x, base + 3, width, 2.5, lane)
    elif "tie" in marks:
        for below in (3.5, 6):
            drawing.path(f"M{x:.2f} {base + below:.2f}h{width:.2f}", MUTED)
    elif "close" in marks:
        drawing.path(f"M{x:.2f} {base + 5:.2f}h{width:.2f}", MUTED, 1.4, 'stroke-dasharray="1.5 2"')
    elif "quiet" in marks:
        drawing.path(f"M{x:.2f} {base + 5:.2f}h{width:.2f}", FAINT)
    if "special" in marks:
        drawing.rect(x - 0.5, top, width + 1, height, "none", f'rx="4" stroke="{STRONG_LINE}"')


def _ends(drawing: Drawing, line: LineView, x: float, start: float, right: float, base: float) -> float:
    """Draw what stands at a line's end, on a row below where there is no room; return that row's height."""
    if not line.pills and not line.note:
        return 0
    wraps = _wraps(line, start, right)
    x, base = (start, base + ROW) if wraps else (x + 8, base)
    x = draw_pills(drawing, line.pills, x, right, base)
    drawing.text(x, base, fit(line.note, max(int((right - x) / _NOTE.cell), 1)), _NOTE)
    return ROW if wraps else 0


def _wraps(line: LineView, start: float, right: float) -> bool:
    """Return whether what stands at a line's end needs a row of its own."""
    if not line.pills and not line.note:
        return False
    pads = sum(len(spaces) for spaces, _ in line.pad)
    text = sum(len(token.lead) + sum(map(_run_cells, token.runs)) for token in line.tokens)
    ends = 8 + sum(map(pill_width, line.pills)) + cells(line.note) * _NOTE.cell
    return start + (pads + text) * TEXT.cell + ends > right


def pill_width(pill: Pill) -> float:
    """Return the width of a consequence with the room behind it."""
    return cells(pill.text) * _PILL.cell + 26


def draw_pills(drawing: Drawing, pills: Sequence[Pill], x: float, right: float, base: float) -> float:
    """Draw consequences in a row, cut at the right edge; return where they end."""
    for pill in pills:
        ink, ground, edge = _PILLS[pill.tone]
        most = int((right - x - 20) / _PILL.cell)
        if most < 4:
            break
        text = fit(pill.text, most)
        width = cells(text) * _PILL.cell + 18
        drawing.rect(x, base - 13.5, width, 19, ground, f'rx="9.5" stroke="{edge}" stroke-width="1.2"')
        drawing.text(x + 9, base, text, Pen(_PILL.size, ink, bold=True))
        x += width + 8
    return x


def rule(drawing: Drawing, left: float, right: float, y: float) -> None:
    """Draw a thin line across."""
    drawing.path(f"M{left:.2f} {y:.2f}H{right:.2f}", LINE)
