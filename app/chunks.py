"""Where a long text is cut into chunks and how much room each takes, from the widths of its tokens. Pure.

A chunk holds about `CHUNK` tokens. It ends after a line break where one is near, so that no line ends in the middle of
a sentence for no other reason than counting, and never within a character.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.text import draw_token
from capture.model import Int32Array, Token

CHUNK = 256
"""Tokens of a chunk, more or less."""

SLACK = 128
"""Tokens in front of a cut that are searched for a line break."""

LONGEST_CHARACTER = 4
"""Tokens that a character's bytes can be split over."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of a text.

    Attributes:
        starts: position of each chunk's first token, then the text's end.
        cells: monospace cells of each chunk.
        breaks: line breaks of each chunk.
    """

    starts: tuple[int, ...]
    cells: tuple[int, ...]
    breaks: tuple[int, ...]

    def __len__(self) -> int:
        """Return how many there are; at least one."""
        return len(self.cells)

    def at(self, position: int) -> int:
        """Return the chunk that holds a position, or the nearest one."""
        return min(max(bisect_right(self.starts, position) - 1, 0), len(self) - 1)

    def span(self, index: int) -> tuple[int, int]:
        """Return the first position of a chunk and that behind its last."""
        return self.starts[index], self.starts[index + 1]


def cut_chunks(token_ids: Int32Array, tokens: Mapping[int, Token]) -> Chunks:
    """Cut a text into chunks.

    Args:
        token_ids: int32 [n]; position 0 is the first.
        tokens: the vocabulary, as far as it is known.
    """
    unique, inverse = np.unique(token_ids, return_inverse=True)
    shapes = np.array([_shape(int(token_id), tokens) for token_id in unique], np.int64).reshape(-1, 3)
    cells, breaks, within = shapes[inverse].T if len(token_ids) else np.zeros((3, 0), np.int64)
    starts = _starts(breaks > 0, within > 0)
    return Chunks(tuple(starts), _sums(cells, starts), _sums(breaks, starts))


def _shape(token_id: int, tokens: Mapping[int, Token]) -> tuple[int, int, int]:
    """Return a token's cells, its line breaks, and whether it starts within a character."""
    drawn = draw_token(token_id, tokens)
    known = tokens.get(token_id)
    within = known is not None and not known.special and known.data[:1] >= b"\x80" and known.data[:1] < b"\xc0"
    return drawn.width, sum(glyph.breaks for glyph in drawn.glyphs), int(within)


def _starts(breaks: NDArray[np.bool_], within: NDArray[np.bool_]) -> list[int]:
    total = len(breaks)
    after = np.flatnonzero(breaks) + 1
    starts = [0]
    for nominal in range(CHUNK, total, CHUNK):
        near = int(np.searchsorted(after, nominal, side="right")) - 1
        cut = int(after[near]) if near >= 0 and after[near] > max(nominal - SLACK, starts[-1]) else nominal
        starts.append(_outside(cut, within))
    return [*starts, total]


def _outside(cut: int, within: NDArray[np.bool_]) -> int:
    """Return where the character starts that a cut would split; the cut itself where it splits none."""
    near = range(cut, max(cut - LONGEST_CHARACTER, 0), -1)
    return next((place for place in near if not within[place]), cut)


def _sums(values: NDArray[np.int64], starts: list[int]) -> tuple[int, ...]:
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    return tuple(np.diff(sums[starts]).tolist())
