"""Lines of tokens ready for a template: what is drawn, how it is marked, where it links to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.systems import Layout, Line, Piece, Voice, cut_pieces, lay_out
from app.text import DrawnToken, Glyph, Look
from app.words import SHAPES
from capture.consequences import Pill

FOLD = 12
"""Lines of a block that are shown at once."""


@dataclass(frozen=True, slots=True)
class Head:
    """A lane's letter with its shape; `imposed` where the lane was made to take the token of another."""

    letter: str
    shape: str
    imposed: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Glyphs of one look. `part` and `parts` as in `text.Glyph`."""

    text: str
    look: str
    part: int = 0
    parts: int = 0


@dataclass(frozen=True, slots=True)
class TokenView:
    """A token, or a piece of it, as it stands on a line.

    Attributes:
        position: output position.
        lead: the spaces in front of the mark.
        runs: what is drawn.
        marks: class names, with a space between.
        over: what stands small above it; letters or a count.
        href: where a flip leads; empty for other tokens.
        words: what a screen reader says of a flip.
        breaks: whether a line break follows it in running text.
    """

    position: int
    lead: str
    runs: tuple[Run, ...]
    marks: str = ""
    over: str = ""
    href: str = ""
    words: str = ""
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class LineView:
    """A line of one strand.

    Attributes:
        key: of the strand.
        at: position of its first token.
        heads: the lanes on it.
        pad: spaces in front of the text, each with what stands after them: `pipe`, `elbow` or nothing.
        tokens: what stands on it.
        pills: the consequence, at the strand's end.
        note: a few words at the end.
        density: quiet flips on this line.
        stub: whether it belongs to an opened continuation.
        origin: where a strand that starts without an elbow left its parent.
    """

    key: str
    at: int
    heads: tuple[Head, ...]
    pad: tuple[tuple[str, str], ...]
    tokens: tuple[TokenView, ...]
    pills: tuple[Pill, ...] = ()
    note: str = ""
    density: int = 0
    stub: bool = False
    origin: int | None = None


@dataclass(frozen=True, slots=True)
class BlockView:
    """The rest of a strand: the lines that are shown, and those that are folded."""

    heads: tuple[Head, ...]
    lines: tuple[LineView, ...]
    folded: tuple[LineView, ...]


@dataclass(frozen=True, slots=True)
class StreamsView:
    """All lines of a page, in order."""

    systems: tuple[tuple[LineView, ...], ...]
    blocks: tuple[BlockView, ...]
    side_by_side: bool

    @property
    def most_heads(self) -> int:
        """The most letters in front of a line."""
        return max((len(line.heads) for system in self.systems for line in system), default=1)


@dataclass(frozen=True, slots=True)
class Mark:
    """How one token is marked."""

    classes: tuple[str, ...] = ()
    over: str = ""
    href: str = ""
    words: str = ""
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """One strand, ready to be set.

    Attributes:
        key: of the strand.
        first_position: of its first token.
        drawn: its tokens.
        marks: by position.
        heads: by position, the letters on the strand from there on.
        parent: index of the strand it leaves.
        pills: the consequence.
        note: a few words at its end.
        in_place: whether it is set as a whole under its parent's line.
        imposed: letters of lanes that were made to take its first token.
        beyond: tokens of the strand behind those that are drawn.
    """

    key: str
    first_position: int
    drawn: tuple[DrawnToken, ...]
    marks: Mapping[int, Mark]
    heads: Sequence[tuple[int, tuple[str, ...]]]
    parent: int | None = None
    pills: tuple[Pill, ...] = ()
    note: str = ""
    in_place: bool = False
    imposed: tuple[str, ...] = ()
    beyond: int = 0

    def heads_at(self, position: int) -> tuple[Head, ...]:
        """Return the lanes on the strand at a position."""
        letters = next((letters for first, letters in reversed(self.heads) if first <= position), ())
        return heads(letters, self.imposed)


def heads(letters: Sequence[str], imposed: Sequence[str] = ()) -> tuple[Head, ...]:
    """Return the heads of letters."""
    return tuple(Head(letter, SHAPES[letter], letter in imposed) for letter in dict.fromkeys(letters))


def set_sheets(sheets: Sequence[Sheet], columns: int) -> StreamsView:
    """Lay sheets out in `columns` and return what the template draws."""
    voices = [_voice(sheet, sheets, columns) for sheet in sheets]
    layout = lay_out(voices, columns)
    systems = tuple(tuple(_line(sheets[line.voice], line) for line in system) for system in layout.systems)
    return StreamsView(systems, tuple(_blocks(layout, sheets)), layout.side_by_side)


def _blocks(layout: Layout, sheets: Sequence[Sheet]) -> list[BlockView]:
    found = []
    for block in layout.blocks:
        sheet = sheets[block.voice]
        lines = tuple(_line(sheet, line) for line in block.lines)
        shown = lines if len(lines) <= FOLD + 1 else lines[:FOLD]
        found.append(BlockView(lines[0].heads, shown, lines[len(shown) :]))
    return found


def _voice(sheet: Sheet, sheets: Sequence[Sheet], columns: int) -> Voice:
    pieces: list[Piece] = []
    for index, token in enumerate(sheet.drawn):
        widths = [glyph.width for glyph in _fitting(token.glyphs, columns)]
        cut = cut_pieces(index, widths, [glyph.breaks for glyph in token.glyphs], columns)
        glued = bool(token.glyphs[0].part) and index > 0
        pieces += [Piece(index, cut[0].start, cut[0].stop, cut[0].width, cut[0].breaks, glued), *cut[1:]]
    fork = 0 if sheet.parent is None else sheet.first_position - sheets[sheet.parent].first_position
    return Voice(tuple(pieces), sheet.parent, fork, sheet.in_place)


def _fitting(glyphs: Sequence[Glyph], columns: int) -> list[Glyph]:
    """Return the glyphs with none wider than a line (a note on a very narrow one is clipped by the page)."""
    return [
        glyph if glyph.width <= columns else Glyph(glyph.text, columns, glyph.look, breaks=glyph.breaks)
        for glyph in glyphs
    ]


def _line(sheet: Sheet, line: Line) -> LineView:
    tokens = tuple(_piece(sheet, piece) for piece in line.pieces)
    at = tokens[0].position if tokens else sheet.first_position + len(sheet.drawn)
    quiet = {piece.token for piece in line.pieces if _mark(sheet, piece.token).quiet}
    starts = line.starts and sheet.parent is not None
    return LineView(
        key=sheet.key,
        at=at,
        heads=sheet.heads_at(at),
        pad=_pad(line),
        tokens=tokens,
        pills=sheet.pills if line.ends else (),
        note=sheet.note if line.ends else "",
        density=len(quiet),
        stub=sheet.in_place,
        origin=sheet.first_position if starts and not line.joined else None,
    )


def _mark(sheet: Sheet, token: int) -> Mark:
    return sheet.marks.get(sheet.first_position + token, Mark())


def _pad(line: Line) -> tuple[tuple[str, str], ...]:
    """Return the spaces in front of a line, cut where elbows pass or end."""
    stops = [(column, "pipe") for column in sorted(set(line.pipes)) if column <= line.offset]
    stops.append((line.offset, "elbow" if line.joined else ""))
    found, column = [], 0
    for stop, kind in stops:
        found.append((" " * (stop - column), kind))
        column = stop
    return tuple(part for part in found if part != ("", ""))


def _piece(sheet: Sheet, piece: Piece) -> TokenView:
    drawn = sheet.drawn[piece.token]
    lead = drawn.lead if piece.start == 0 else 0
    glyphs = drawn.glyphs[max(piece.start, lead) : piece.stop]
    mark = _mark(sheet, piece.token)
    classes = (*mark.classes, *(("special",) if drawn.special else ()))
    return TokenView(
        position=sheet.first_position + piece.token,
        lead=" " * min(lead, piece.stop - piece.start),
        runs=runs(glyphs, dotted=bool(mark.href) and drawn.blank),
        marks=" ".join(classes),
        over=mark.over if piece.start == 0 else "",
        href=mark.href,
        words=mark.words,
        breaks=piece.breaks,
    )


def flow(sheet: Sheet, first: int, stop: int) -> tuple[TokenView, ...]:
    """Return tokens as running text, which the browser breaks itself; positions `first` to `stop`."""
    found: list[TokenView] = []
    shapes: dict[int, TokenView] = {}  # by the drawn token's identity: the same words come again and again
    for index in range(max(first - sheet.first_position, 0), min(stop - sheet.first_position, len(sheet.drawn))):
        drawn, position = sheet.drawn[index], sheet.first_position + index
        mark = sheet.marks.get(position)
        if drawn.blank and mark is not None:
            breaks = any(glyph.breaks for glyph in drawn.glyphs)
            found.append(_piece(sheet, Piece(index, 0, len(drawn.glyphs), 0, breaks)))
            continue
        shape = shapes.get(id(drawn)) or shapes.setdefault(id(drawn), _shape(drawn))
        found.append(_marked(shape, position, mark))
    return tuple(found)


def _shape(drawn: DrawnToken) -> TokenView:
    """Return a token that nothing marks and that stands nowhere yet."""
    lead = drawn.lead
    special = "special" if drawn.special else ""
    breaks = any(glyph.breaks for glyph in drawn.glyphs)
    return TokenView(0, " " * lead, runs(drawn.glyphs[lead:]), special, breaks=breaks)


def _marked(shape: TokenView, position: int, mark: Mark | None) -> TokenView:
    if mark is None:
        return TokenView(position, shape.lead, shape.runs, shape.marks, breaks=shape.breaks)
    names = " ".join((*mark.classes, shape.marks) if shape.marks else mark.classes)
    return TokenView(position, shape.lead, shape.runs, names, mark.over, mark.href, mark.words, shape.breaks)


def runs(glyphs: Sequence[Glyph], dotted: bool = False) -> tuple[Run, ...]:
    """Join glyphs of the same look; `dotted` shows spaces as dots."""
    found: list[Run] = []
    for glyph in glyphs:
        text = "\u00b7" if dotted and glyph.text == " " else glyph.text
        plain = glyph.look is Look.PLAIN and found and found[-1].look == ""
        if plain:
            found[-1] = Run(found[-1].text + text, "")
        else:
            found.append(Run(text, glyph.look.value, glyph.part, glyph.parts))
    return tuple(found)
