"""Where a line's text meets that of others again; every mark of it derives from here. Pure; imports numpy and siblings.

Lines are compared after their fork, the first token in which they differ, and in bytes, since the same text may be cut
into other tokens.

**Re-joined** (dimmed) is text in which a line runs along the reference again. An equal stretch counts when it is at
least `REJOIN_BYTES` long, or when it reaches the end of a range (a tool call, the thinking, the whole output) in both
lines. A stretch of the second sort has to hold a whole token with a letter or digit, not a special one: two outputs
that both end in a full stop have not met again. Stretches come in the same order in both lines and are chosen to cover
the most. Tokens that lie wholly in a stretch are re-joined; the first of them is the **re-join**.

**Novel** (tinted) is text that no other line has. A token is novel unless each of its bytes lies in a stretch of at
least `SHARED_BYTES` that occurs, wherever, in another line after their fork. Shorter stretches are a word or two and
punctuation, which any two texts share. What is re-joined is never novel; text may be neither, such as a short stretch
that another line has too. So is what comes before a fork, for the lines that share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capture.model import UInt8Array
from capture.ranges import Range, token_at, token_offsets
from capture.stretches import Candidate, Int64Array, Stretch, common_suffix, find_stretches, group_numbers, hashes
from capture.trie import common_length

REJOIN_BYTES = 32
"""Bytes that have to be equal in order for text to be re-joined before the end of a range."""

SHARED_BYTES = 16
"""Bytes of an equal stretch from which on text counts as shared with another line."""

BoolArray = NDArray[np.bool_]

_IS_TEXT = np.array([chr(byte).isalnum() or byte >= 0x80 for byte in range(256)])


@dataclass(frozen=True, slots=True)
class Line:
    """The whole output of a distinct continuation, from its first token on.

    Attributes:
        tokens: the bytes of each token.
        ranges: its ranges, from `capture.ranges.find_ranges`; without them only the end of the output counts.
        special: for each token whether it is a special one; empty where none is.
    """

    tokens: tuple[bytes, ...]
    ranges: tuple[Range, ...] = ()
    special: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Where a line runs along the reference again.

    Attributes:
        token: index of the first re-joined token in the line.
        reference_token: index of the reference's token that holds the same byte.
        byte_length: bytes that are equal from there on, without a break.
        to_end: whether the last re-joined stretch lasts until one of the two lines has no further text.
    """

    token: int
    reference_token: int
    byte_length: int
    to_end: bool


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """A line against the reference and against all other lines; n tokens.

    Attributes:
        fork: index of the first token in which it differs from the reference, or n.
        rejoin: where it meets the reference again; None where it does not.
        rejoined: bool [n], text that runs along the reference again.
        novel: bool [n], text that no other line has; never together with `rejoined`.
    """

    fork: int
    rejoin: Rejoin | None
    rejoined: BoolArray
    novel: BoolArray


def align_lines(lines: Sequence[Line], reference: int = 0) -> tuple[Alignment, ...]:
    """Align every line with the reference and find what is novel in it.

    Args:
        lines: the distinct continuations of a case; two that are equal have nothing novel.
        reference: index of the reference's line. It has no re-join.
    """
    texts = _texts(lines)
    yardstick = texts[reference]
    forks = [text.fork(yardstick) for text in texts]
    found = [_rejoined(text, yardstick, fork) for text, fork in zip(texts, forks, strict=True)]
    novel = _novel(texts)
    return tuple(
        Alignment(fork, rejoin, rejoined, unshared & ~rejoined)
        for fork, (rejoin, rejoined), unshared in zip(forks, found, novel, strict=True)
    )


def rejoin(reference: bytes, continuation: bytes) -> Stretch | None:
    """Return the first stretch in which a continuation runs along the reference's again; None where there is none.

    For texts without tokens and ranges, both from their fork on: a byte stands for a token.
    """
    lines = [Line(tuple(bytes([byte]) for byte in text)) for text in (reference, continuation)]
    yardstick, text = _texts(lines)
    return next(_stretches(text, yardstick, 0), None)


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    """A line made ready: token numbers equal where the bytes are, offsets [n + 1], the joined bytes."""

    line: Line
    numbers: Int64Array
    offsets: Int64Array
    data: UInt8Array

    def fork(self, other: _Text) -> int:
        return common_length(self.numbers, other.numbers)

    def last_word(self) -> Int64Array:
        """Return for each token the last one up to it that holds text, or -1. int64 [n]."""
        text = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(_IS_TEXT[self.data])])
        holds = np.diff(text[self.offsets]) > 0
        if self.line.special:
            holds &= ~np.array(self.line.special, dtype=np.bool_)
        return np.maximum.accumulate(np.where(holds, np.arange(len(holds)), -1))

    def whole(self, start: int, stop: int) -> tuple[int, int]:
        """Return the tokens that lie wholly in some bytes, as a first one and a stop; none where they are equal."""
        first = int(np.searchsorted(self.offsets, start, side="right")) - 1
        first += int(self.offsets[first] < start)
        return first, max(first, int(np.searchsorted(self.offsets, stop, side="right")) - 1)


def _texts(lines: Sequence[Line]) -> list[_Text]:
    numbers: dict[bytes, int] = {}
    return [
        _Text(
            line,
            np.array([numbers.setdefault(token, len(numbers)) for token in line.tokens], dtype=np.int64),
            token_offsets(line.tokens),
            np.frombuffer(b"".join(line.tokens), dtype=np.uint8),
        )
        for line in lines
    ]


def _rejoined(text: _Text, reference: _Text, fork: int) -> tuple[Rejoin | None, BoolArray]:
    marks = np.zeros(len(text.numbers), dtype=np.bool_)
    stretches = tuple(_stretches(text, reference, fork))
    for stretch in stretches:
        marks[slice(*text.whole(stretch.first, stretch.first + stretch.length))] = True
    if not stretches:
        return None, marks
    first, last = stretches[0], stretches[-1]
    token = int(marks.argmax())
    skipped = int(text.offsets[token]) - first.first
    reference_token = token_at(reference.offsets, first.second + skipped)
    return Rejoin(token, reference_token, first.length - skipped, _reaches_end(last, text, reference)), marks


def _reaches_end(stretch: Stretch, text: _Text, reference: _Text) -> bool:
    ends = stretch.first + stretch.length, stretch.second + stretch.length
    return ends[0] == len(text.data) or ends[1] == len(reference.data)


def _stretches(text: _Text, reference: _Text, fork: int) -> Iterator[Stretch]:
    """Yield the re-joined stretches after a fork that hold a whole token, in bytes of the whole lines."""
    start = int(text.offsets[fork])
    if start in (len(text.data), len(reference.data)):
        return
    ends = list(_up_to_ends(text, reference, fork))
    for found in find_stretches(text.data[start:], reference.data[start:], REJOIN_BYTES, ends):
        stretch = Stretch(found.first + start, found.second + start, found.length)
        first, stop = text.whole(stretch.first, stretch.first + stretch.length)
        if first < stop:
            yield stretch


def _up_to_ends(text: _Text, reference: _Text, fork: int) -> Iterator[Candidate]:
    """Yield stretches that reach the end of a range in both lines, in bytes after the fork.

    They may be shortened down to their last word.
    """
    start, last_word = int(text.offsets[fork]), text.last_word()
    for stop, other in sorted(set(_paired_stops(text.line, reference.line, fork))):
        end, other_end = int(text.offsets[stop]) - start, int(reference.offsets[other]) - start
        length = common_suffix(text.data[start:][:end], reference.data[start:][:other_end])
        word = int(last_word[stop - 1])
        least = end - (int(text.offsets[word]) - start)
        if word >= fork and least <= length:
            yield Candidate(Stretch(end - length, other_end - length, length), least)


def _paired_stops(line: Line, reference: Line, fork: int) -> Iterator[tuple[int, int]]:
    """Pair the ends of ranges of one kind by their rank after the fork, from the start and from the end."""
    yield len(line.tokens), len(reference.tokens)
    for kind in {found.kind for found in line.ranges}:
        mine, theirs = (
            [found.stop for found in one.ranges if found.kind is kind and found.stop > fork]
            for one in (line, reference)
        )
        yield from zip(mine, theirs, strict=False)
        yield from zip(reversed(mine), reversed(theirs), strict=False)


def _novel(texts: Sequence[_Text]) -> list[BoolArray]:
    """Return for each line which tokens hold a byte that no other line shares."""
    windows = _numbered([hashes(text.data, SHARED_BYTES) for text in texts])
    shared = [np.full(len(text.data), len(texts) == 1) for text in texts]
    for other, theirs in zip(texts, windows, strict=True):
        last = np.full(1 + max((int(one.max(initial=-1)) for one in windows), default=0), -1, dtype=np.int64)
        np.maximum.at(last, theirs, np.arange(len(theirs)))
        for text, mine, marks in zip(texts, windows, shared, strict=True):
            if text is not other:
                _share(marks, last[mine], int(text.offsets[text.fork(other)]))
    return [_any_unshared(text, marks) for text, marks in zip(texts, shared, strict=True)]


def _numbered(values: Sequence[NDArray[np.uint64]]) -> list[Int64Array]:
    """Replace values by small numbers, equal where they are equal."""
    flat = np.concatenate(values)
    order = np.argsort(flat)
    numbers = np.empty(len(flat), dtype=np.int64)
    numbers[order] = group_numbers(flat[order])
    return np.split(numbers, np.cumsum([len(one) for one in values])[:-1])


def _share(marks: BoolArray, last: Int64Array, fork: int) -> None:
    """Mark what another line shares: all before the fork, and each window that it has after the fork as well."""
    marks[:fork] = True
    starts = fork + np.flatnonzero(last[fork:] >= fork)
    steps = np.bincount(starts, minlength=len(marks) + 1) - np.bincount(starts + SHARED_BYTES, minlength=len(marks) + 1)
    marks |= np.cumsum(steps)[: len(marks)] > 0


def _any_unshared(text: _Text, shared: BoolArray) -> BoolArray:
    unshared = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(~shared)])
    found: BoolArray = np.diff(unshared[text.offsets]) > 0
    return found
