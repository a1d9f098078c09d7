"""Disagreement over the length of the context: bins over probed positions, several cases pooled. Pure; numpy only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capture.intervals import Interval, block_rate, wilson
from capture.model import Float64Array

WINDOW = 8_000
"""Positions of a window where nothing else is asked for."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The probed positions of one pair of runs on one case; n of them.

    Attributes:
        case_id: the case.
        position: absolute positions, counted from the first prompt token, int64 [n].
        flipped: whether the two differed in top-1 there, bool [n].
    """

    case_id: str
    position: NDArray[np.int64]
    flipped: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of context and how often two runtimes disagreed in it.

    Attributes:
        start: its first absolute position.
        stop: the position after its last.
        probes: how many positions were scored in it.
        flips: how many of them had another top-1.
        interval: of the share of flips, with neighbours that flip together taken as fewer probes.
        cases: how many cases reach into it.
    """

    start: int
    stop: int
    probes: int
    flips: int
    interval: Interval
    cases: int

    @property
    def disagreement(self) -> float:
        """Flips per probe."""
        return self.flips / self.probes


def disagreement_by_window(
    positions: Sequence[int] | NDArray[np.int64], flips: Iterable[int], width: int = WINDOW
) -> list[tuple[int, int, int, int, Interval]]:
    """Return (start, stop, probes, flips, interval) of every window that holds a probe, in order.

    The interval is Wilson's, as if each probe were drawn by itself; `pooled_windows` knows which are neighbours.

    Args:
        positions: absolute positions that were scored; those of several cases may be put together.
        flips: those of them that flipped, as often as they did.
        width: positions of a window, at least 1.

    Raises:
        ValueError: the width is none, or something flipped that was not scored.
    """
    scored = np.asarray(positions, np.int64)
    changed = np.sort(np.fromiter(flips, np.int64))
    found = []
    if width < 1:
        raise ValueError("a window needs at least one position")
    for number in np.unique(scored // width).tolist():
        probes = int((scored // width == number).sum())
        hits = int((changed // width == number).sum())
        found.append((number * width, (number + 1) * width, probes, hits, wilson(hits, probes)))
    if sum(hits for _, _, _, hits, _ in found) != len(changed):
        raise ValueError("a position flipped that was not scored")
    return found


def pooled_windows(probes: Sequence[Probe], width: int = WINDOW) -> tuple[Window, ...]:
    """Return the windows over all cases together; neighbours are the probes of a case in their order.

    Args:
        probes: of several cases, all of one pair of runtimes.
        width: positions of a window, at least 1.
    """
    positions = np.concatenate([probe.position for probe in probes]) if probes else np.zeros(0, np.int64)
    flips = np.concatenate([probe.position[probe.flipped] for probe in probes]) if probes else positions
    reach = {probe.case_id: frozenset((probe.position // width).tolist()) for probe in probes}
    return tuple(
        Window(
            start,
            stop,
            count,
            hits,
            block_rate(_flipped_within(probes, start, stop)),
            sum(start // width in numbers for numbers in reach.values()),
        )
        for start, stop, count, hits, _ in disagreement_by_window(positions, flips.tolist(), width)
    )


def _flipped_within(probes: Sequence[Probe], start: int, stop: int) -> Float64Array:
    parts = [probe.flipped[(probe.position >= start) & (probe.position < stop)] for probe in probes]
    return np.concatenate(parts).astype(np.float64)
