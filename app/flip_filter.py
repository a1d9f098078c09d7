"""Which flips the list holds and the keys stop at, and in which order. Pure; imports forks and lanes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from app.forks import STRENGTH, Fork, clustered
from app.lanes import OpenCase
from capture.consequences import Tone
from capture.model import FlipClass, Mode

CLASSES = tuple(one.value for one in FlipClass)

VERDICTS = {
    "changed": "calls something else",
    "same": "calls the same",
    "broken": "broken call or output",
    "unknown": "not grown",
}
"""What became of a flip, as a link says it, and in words."""

SORTS = {
    "position": "position",
    "margin": "largest margin",
    "closest": "smallest margin",
    "class": "class",
    "verdict": "consequence",
}
"""Orders of the list; position is the one that a link need not say."""

MARGINS = {"-0.1": "below 0.1", "0.1-0.5": "0.1 to 0.5", "0.5-": "0.5 or more", "1-": "1 or more"}
"""Ranges of the margin in nats that the page offers; a link may say others."""

_NUMBER = r"\d{1,3}(?:\.\d{1,4})?"
_MARGIN = re.compile(rf"({_NUMBER})?-({_NUMBER})?", re.ASCII)
_TONES = list(Tone)


@dataclass(frozen=True, slots=True)
class FlipFilter:
    """What a link says of the list of flips; an empty text, or None, leaves it open.

    Attributes:
        flip_class: one of `CLASSES`.
        lane: id of the run that chose another token.
        verdict: a key of `VERDICTS`.
        margin: a range in nats such as `0.1-0.5`, `-0.1`, `0.5-`; its end is not part of it.
        sort: a key of `SORTS` other than `position`.
    """

    flip_class: str = ""
    lane: str | None = None
    verdict: str = ""
    margin: str = ""
    sort: str = ""

    @property
    def narrows(self) -> bool:
        """Whether it leaves out anything."""
        return bool(self.flip_class or self.lane or self.verdict or self.margin)


def margin_bounds(text: str) -> tuple[float, float] | None:
    """Return the range of a margin in nats, from and below; None where the text is no range."""
    match = _MARGIN.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    low, high = float(match[1] or 0), float(match[2] or math.inf)
    return (low, high) if low < high else None


def matching(forks: Iterable[Fork], case: OpenCase, wanted: FlipFilter) -> tuple[Fork, ...]:
    """Return the forks that a filter leaves, in its order."""
    fits = _test(case, wanted)
    found = [fork for fork in forks if fits(fork)] if wanted.narrows else list(forks)
    return tuple(sorted(found, key=_ORDERS[wanted.sort]) if wanted.sort else found)


def marked(forks: Iterable[Fork], case: OpenCase, wanted: FlipFilter) -> tuple[Fork, ...]:
    """Return all forks, with those marked in the text that a filter leaves; unchanged where it leaves all."""
    every = tuple(forks)
    if not wanted.narrows:
        return every
    fits = _test(case, wanted)
    found = [replace(fork, marked=fits(fork), count=1) for fork in every]
    return clustered(found) if case.mode is Mode.FORCED else tuple(found)


def _test(case: OpenCase, wanted: FlipFilter) -> Callable[[Fork], bool]:
    letters = {lane.letter for lane in case.lanes if wanted.lane and lane.run.run_id.startswith(wanted.lane)}
    low, high = margin_bounds(wanted.margin) or (0.0, math.inf)

    def fits(fork: Fork) -> bool:
        return (
            wanted.flip_class in ("", fork.flip_class.value)
            and (not wanted.lane or bool(letters & set(fork.letters)))
            and (not wanted.verdict or _VERDICTS[wanted.verdict](fork))
            and (not wanted.margin or low <= fork.margin_nats < high)
        )

    return fits


def _known(fork: Fork) -> list[bool]:
    """Return for each continuation that is known whether it calls the same."""
    return [side.consequence.same for side in fork.left if side.consequence is not None]


_VERDICTS: dict[str, Callable[[Fork], bool]] = {
    "changed": lambda fork: not all(_known(fork)),
    "same": lambda fork: bool(_known(fork)) and all(_known(fork)),
    "broken": lambda fork: fork.tone is Tone.BROKEN,
    "unknown": lambda fork: not _known(fork),
}

_ORDERS: dict[str, Callable[[Fork], tuple[float, ...]]] = {
    "margin": lambda fork: (-fork.margin_nats, fork.position, fork.strand),
    "closest": lambda fork: (fork.margin_nats, fork.position, fork.strand),
    "class": lambda fork: (-STRENGTH[fork.flip_class], fork.position, fork.strand),
    "verdict": lambda fork: (-_TONES.index(fork.tone), fork.position, fork.strand),
}
