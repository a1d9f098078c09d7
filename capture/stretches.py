"""Equal stretches of two texts, in the same order in both: hashed windows, then dynamic programming. Pure; numpy.

Time is that of a few sorts of the longer text, and of choosing among at most `MOST_CANDIDATES` stretches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capture.model import UInt8Array
from capture.trie import common_length

WORD_BYTES = 8
"""Bytes of a word: a window that is compared exactly, as one uint64."""

MOST_CANDIDATES = 1_000
"""Stretches to choose among; of more, as in texts that repeat themselves, the longest are taken."""

Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes that are equal in two texts: where they start in each, and how many they are."""

    first: int
    second: int
    length: int

    def shortened(self, by: int) -> Stretch:
        """Return the same without its first bytes."""
        return Stretch(self.first + by, self.second + by, self.length - by)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stretch that may be chosen; where it overlaps one before it, its start gives way, down to `least` bytes."""

    stretch: Stretch
    least: int


def find_stretches(
    first: UInt8Array, second: UInt8Array, least: int, others: Sequence[Candidate] = ()
) -> tuple[Stretch, ...]:
    """Return equal stretches of two texts that cover the most bytes without crossing or overlapping, in order.

    Where a window of `least` bytes occurs several times in both, its occurrences are paired by their rank from the
    start and from the end. So there is a stretch wherever the texts have `least` equal bytes, but in texts that repeat
    themselves the choice need not be the best of all.

    Args:
        first: uint8 [n].
        second: uint8 [m].
        least: bytes that a stretch has at least, a multiple of `WORD_BYTES`.
        others: further stretches to choose among, with a least length of their own.
    """
    found = [Candidate(stretch, least) for stretch in _maximal(first, second, least)]
    longest = sorted([*found, *others], key=lambda candidate: -candidate.stretch.length)[:MOST_CANDIDATES]
    return tuple(_choose(sorted(longest, key=lambda one: (one.stretch.first, one.stretch.second))))


def hashes(data: UInt8Array, length: int) -> UInt64Array:
    """Return a hash of every window of `length` bytes, a multiple of `WORD_BYTES`. uint64 [n - length + 1].

    Windows that differ may share a hash, if rarely: where it matters, what matches is compared.
    """
    parts = _words(data)
    count = max(0, len(data) - length + 1)
    found = parts[:count].copy()
    for start in range(WORD_BYTES, length, WORD_BYTES):
        found = (found ^ (found >> _SHIFT)) * _FACTOR + parts[start : start + count]
    return found


def _words(data: UInt8Array) -> UInt64Array:
    """Return every window of `WORD_BYTES` bytes as one integer. uint64 [n - 7], empty for shorter data."""
    if len(data) < WORD_BYTES:
        return np.empty(0, dtype=np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(data, WORD_BYTES)
    return np.ascontiguousarray(windows).view("<u8").ravel().astype(np.uint64, copy=False)


def common_suffix(first: UInt8Array, second: UInt8Array) -> int:
    """Return how many bytes two texts have in common at their ends."""
    return common_length(first[::-1], second[::-1])


def _maximal(first: UInt8Array, second: UInt8Array, least: int) -> Iterator[Stretch]:
    """Yield equal stretches that cannot be made longer at either end, each once."""
    diagonal, stop = None, 0
    for at, to in _runs(*_paired(hashes(first, least), hashes(second, least))):
        if to - at == diagonal and at < stop:
            continue
        forward = common_length(first[at:], second[to:])
        if forward >= least:
            back = common_suffix(first[:at], second[:to])
            diagonal, stop = to - at, at + forward
            yield Stretch(at - back, to - back, back + forward)


def _runs(at: Int64Array, to: Int64Array) -> list[tuple[int, int]]:
    """Return where runs of pairs start that follow each other in both texts, by diagonal; the longest ones only."""
    order = np.lexsort((at, to - at))
    at, to = at[order], to[order]
    starts = np.flatnonzero(np.diff(at, prepend=-2) != 1) if len(at) else np.empty(0, dtype=np.int64)
    starts = np.union1d(starts, np.flatnonzero(np.diff(to - at, prepend=0) != 0)).astype(np.int64)
    lengths = np.diff(starts, append=len(at))
    longest = np.sort(starts[np.argsort(-lengths, kind="stable")[:MOST_CANDIDATES]])
    return list(zip(at[longest].tolist(), to[longest].tolist(), strict=True))


def _paired(first: UInt64Array, second: UInt64Array) -> tuple[Int64Array, Int64Array]:
    """Pair equal hashes of two texts by their rank among their like, from the start and from the end."""
    hashed = np.concatenate([first, second])
    order = np.argsort(hashed, kind="stable")
    numbers = group_numbers(hashed[order])
    is_first = order < len(first)
    mine, theirs = (np.bincount(numbers[side], minlength=1) for side in (is_first, ~is_first))
    mine, theirs = (np.pad(counts, (0, max(len(mine), len(theirs)) - len(counts))) for counts in (mine, theirs))
    starts = np.cumsum(mine + theirs) - mine - theirs
    at = np.flatnonzero(is_first)
    group = numbers[at]
    rank, after = at - starts[group], starts[group] + mine[group]
    from_start = rank < theirs[group]
    from_end = (mine[group] - rank <= theirs[group]) & (mine[group] != theirs[group])
    partners = after[from_start] + rank[from_start], (after + theirs[group] - mine[group] + rank)[from_end]
    pairs = np.concatenate([at[from_start], at[from_end]]), np.concatenate(partners)
    return order[pairs[0]], order[pairs[1]] - len(first)


def group_numbers(ordered: UInt64Array) -> Int64Array:
    """Number the groups of equal values in sorted ones, from 0. int64 [n]."""
    changes = np.ones(len(ordered), dtype=np.int64)
    changes[1:] = ordered[1:] != ordered[:-1]
    return np.cumsum(changes) - 1


def _choose(candidates: Sequence[Candidate]) -> Iterator[Stretch]:
    """Yield the stretches that cover the most bytes in order; `candidates` are sorted by their start."""
    if not candidates:
        return
    table = np.array([(c.stretch.first, c.stretch.second, c.stretch.length, c.least) for c in candidates])
    starts, lengths, least = table[:, :2], table[:, 2], table[:, 3]
    ends = starts + lengths[:, None]
    best, before = lengths.copy(), np.full(len(table), -1)
    for index in range(1, len(table)):
        overlap = np.maximum((ends[:index] - starts[index]).max(axis=1), 0)
        gain = lengths[index] - overlap
        total = np.where(gain >= least[index], best[:index] + gain, 0)
        chosen = int(total.argmax())
        if total[chosen] > best[index]:
            best[index], before[index] = total[chosen], chosen
    yield from _trace(candidates, before, int(best.argmax()))


def _trace(candidates: Sequence[Candidate], before: Int64Array, last: int) -> Iterator[Stretch]:
    path = [last]
    while before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    first_free = second_free = 0
    for index in reversed(path):
        stretch = candidates[index].stretch
        stretch = stretch.shortened(max(first_free - stretch.first, second_free - stretch.second, 0))
        first_free, second_free = stretch.first + stretch.length, stretch.second + stretch.length
        yield stretch
