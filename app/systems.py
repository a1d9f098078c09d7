"""Where every token of a few splitting streams stands: lines, systems and blocks, in monospace cells. Pure.

A voice is one distinct continuation. Voices that part share a line up to there; each then flows at its own pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

LEAST_COLUMNS = 12
"""A voice that starts with fewer columns left starts the next system instead."""

SYSTEMS_AFTER_FORK = 2
"""Systems that stay interleaved after the last fork; from there each voice is a block of its own."""

NARROWEST_BLOCK = 40
"""Columns below which blocks stand one under the other."""

BLOCK_GAP = 8
"""Columns between blocks side by side, for the positions of their lines."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A token, or a part of a long one, that stands on one line.

    Attributes:
        token: index of the token in its voice.
        start, stop: the glyphs of the token that it shows.
        width: cells.
        breaks: whether a line that is alone ends after it.
        glued: whether it stays on the line of the piece before it.
    """

    token: int
    start: int
    stop: int
    width: int
    breaks: bool = False
    glued: bool = False


@dataclass(frozen=True, slots=True)
class Voice:
    """One distinct continuation.

    Attributes:
        pieces: in order.
        parent: index of the voice it leaves; None for the first.
        fork: index of the parent's token that it starts under; the number of the parent's tokens for its end.
        in_place: laid out as a whole under its parent's line, which then goes on.
    """

    pieces: tuple[Piece, ...]
    parent: int | None = None
    fork: int = 0
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line of one voice.

    Attributes:
        voice: index of the voice.
        offset: columns in front of its first piece.
        pieces: what stands on it.
        starts: whether the voice starts here.
        joined: whether an elbow joins it to its parent, at `offset`.
        pipes: columns where elbows of lower lines pass through.
    """

    voice: int
    offset: int
    pieces: tuple[Piece, ...]
    starts: bool = False
    joined: bool = False
    pipes: tuple[int, ...] = ()
    ends: bool = False

    @property
    def width(self) -> int:
        """Columns up to the end of its last piece."""
        return self.offset + sum(piece.width for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Block:
    """The rest of a voice, with its own line breaks."""

    voice: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Systems of interleaved lines, then blocks; `side_by_side` where the blocks are columns."""

    systems: tuple[tuple[Line, ...], ...]
    blocks: tuple[Block, ...] = ()
    side_by_side: bool = False


def cut_pieces(token: int, widths: Sequence[int], breaks: Sequence[bool], columns: int) -> tuple[Piece, ...]:
    """Return a token as pieces that fit a line: cut after line breaks, and wherever it is wider than `columns`.

    Args:
        token: its index in the voice.
        widths: cells of each glyph.
        breaks: for each glyph, whether it ends a line.
        columns: cells of a line, at least the widest glyph's.
    """
    pieces: list[Piece] = []
    start, width = 0, 0
    for at, cells in enumerate(widths):
        if at > start and width + cells > columns:
            pieces.append(Piece(token, start, at, width))
            start, width = at, 0
        width += cells
        if breaks[at]:
            pieces.append(Piece(token, start, at + 1, width, breaks=True))
            start, width = at + 1, 0
    if start < len(widths):
        pieces.append(Piece(token, start, len(widths), width))
    return tuple(pieces)


def lay_out(voices: Sequence[Voice], columns: int) -> Layout:
    """Lay voices out in `columns`; every piece stands exactly once, in order.

    Args:
        voices: each after its parent.
        columns: cells of a line.

    Raises:
        ValueError: a piece is wider than a line, or a voice stands before its parent.
    """
    for index, voice in enumerate(voices):
        if voice.parent is not None and voice.parent >= index:
            raise ValueError("a voice stands before its parent")
        if any(piece.width > columns for piece in voice.pieces):
            raise ValueError(f"a piece is wider than {columns} columns")
    return _Setter(voices, columns).run()


@dataclass(slots=True)
class _Setter:
    """Sets the lines of one system after the other."""

    voices: Sequence[Voice]
    columns: int
    done: list[int] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)
    postponed: set[int] = field(default_factory=set)

    def run(self) -> Layout:
        self.done = [0] * len(self.voices)
        self.children = [
            [at for at, voice in enumerate(self.voices) if voice.parent == index] for index in range(len(self.voices))
        ]
        active = {index for index, voice in enumerate(self.voices) if voice.parent is None}
        systems: list[tuple[Line, ...]] = []
        splits = any(voice.parent is not None and not voice.in_place for voice in self.voices)
        quiet, waiting = 0, len(self.voices) - len(active)
        while active:
            if splits and not waiting and quiet >= SYSTEMS_AFTER_FORK:
                return self._with_blocks(systems, sorted(active, key=self._rank))
            lines = self._system(sorted(active, key=self._rank))
            systems.append(tuple(lines))
            started = sum(line.starts for line in lines if self.voices[line.voice].parent is not None)
            waiting, quiet = waiting - started, 0 if started else quiet + 1
            active = {line.voice for line in lines if not self._ended(line.voice)} | self.postponed
        return Layout(tuple(systems))

    def _rank(self, index: int) -> tuple[int, ...]:
        """Order: a voice under its parent, brothers as they were given."""
        voice = self.voices[index]
        return (index,) if voice.parent is None else (*self._rank(voice.parent), index)

    def _ended(self, index: int) -> bool:
        return self.done[index] >= len(self.voices[index].pieces)

    def _system(self, active: list[int]) -> list[Line]:
        alone = len(active) == 1
        lines: list[Line] = []
        for index in active:
            starts = index in self.postponed
            self.postponed.discard(index)
            lines += self._line(index, 0, starts=starts, joined=False, alone=alone)
        return lines

    def _line(self, index: int, offset: int, *, starts: bool, joined: bool, alone: bool) -> list[Line]:
        """Set one line of a voice, and under it the voices that leave it there."""
        voice = self.voices[index]
        first = self.done[index]
        starts = starts or (first == 0 and voice.parent is None)
        own = self._own(index, offset, starts, joined, alone)
        if alone and any(not self.voices[child].in_place for child, _ in self._leaving(index, own)):
            self.done[index] = first  # it is not alone after all
            own = self._own(index, offset, starts, joined, False)
        below: list[Line] = []
        for child, column in self._leaving(index, own):
            under = self._under(child, column)
            below = [_crossed(line, column) for line in below] + under if under else below
        return [own, *below]

    def _own(self, index: int, offset: int, starts: bool, joined: bool, alone: bool) -> Line:
        pieces = self._take(index, self.columns - offset, alone)
        return Line(index, offset, pieces, starts, joined, (), self._ended(index))

    def _under(self, child: int, column: int) -> list[Line]:
        if self.columns - column < max(LEAST_COLUMNS, self._first_width(child)):
            if not self.voices[child].in_place:
                self.postponed.add(child)
                return []
            lines = self._line(child, 0, starts=True, joined=False, alone=False)
        else:
            lines = self._line(child, column, starts=True, joined=True, alone=False)
        while self.voices[child].in_place and not self._ended(child):
            lines += self._line(child, 0, starts=False, joined=False, alone=True)
        return lines

    def _first_width(self, index: int) -> int:
        pieces = self.voices[index].pieces
        return sum(piece.width for piece in pieces[: _group(pieces, 0, self.columns)])

    def _leaving(self, index: int, line: Line) -> list[tuple[int, int]]:
        """Return the children that start under a line and their columns, the rightmost first."""
        columns: dict[int, int] = {}
        at = line.offset
        for piece in line.pieces:
            if piece.start == 0:
                columns[piece.token] = at
            at += piece.width
        if self._ended(index):
            pieces = self.voices[index].pieces
            columns[pieces[-1].token + 1 if pieces else 0] = at
        forks = {child: self.voices[child].fork for child in self.children[index]}
        found = [(child, columns[fork]) for child, fork in forks.items() if fork in columns]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def _take(self, index: int, width: int, alone: bool) -> tuple[Piece, ...]:
        """Take the pieces that fit, and at least one whatever its width unless the line has an offset."""
        pieces = self.voices[index].pieces
        start = stop = self.done[index]
        used = 0
        while stop < len(pieces):
            group = _group(pieces, stop, self.columns)
            needed = sum(piece.width for piece in pieces[stop:group])
            if used + needed > width and (stop > start or width < self.columns):
                break
            used, stop = used + needed, group
            if alone and pieces[stop - 1].breaks:
                break
        self.done[index] = stop
        return pieces[start:stop]

    def _with_blocks(self, systems: list[tuple[Line, ...]], active: list[int]) -> Layout:
        width = (self.columns - BLOCK_GAP * (len(active) - 1)) // len(active)
        side_by_side = width >= NARROWEST_BLOCK and self._fits(active, width)
        self.columns = width if side_by_side else self.columns
        blocks = []
        for index in active:
            lines: list[Line] = []
            starts = index in self.postponed
            while not self._ended(index):
                lines += self._line(index, 0, starts=starts and not lines, joined=False, alone=True)
            blocks.append(Block(index, tuple(lines)))
        return Layout(tuple(systems), tuple(blocks), side_by_side)

    def _fits(self, active: list[int], width: int) -> bool:
        return all(piece.width <= width for index in active for piece in self.voices[index].pieces[self.done[index] :])


def _group(pieces: Sequence[Piece], start: int, most: int) -> int:
    """Return the end of the piece at `start` and those glued to it, as far as `most` columns hold them."""
    stop = start
    width = 0
    while stop < len(pieces) and (stop == start or pieces[stop].glued) and width + pieces[stop].width <= most:
        width += pieces[stop].width
        stop += 1
    return stop


def _crossed(line: Line, column: int) -> Line:
    """Return the line with an elbow of a lower one passing through."""
    return Line(line.voice, line.offset, line.pieces, line.starts, line.joined, (column, *line.pipes), line.ends)
