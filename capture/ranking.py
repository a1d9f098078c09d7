"""Orders lanes by how far they are from the reference, pair by pair over the positions they share. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capture.intervals import PairedDifference, paired_difference
from capture.samples import Sample, in_common


@dataclass(frozen=True, slots=True)
class Ranked:
    """A lane in its place.

    Attributes:
        runtime: its name.
        following: the next lane; empty for the last.
        positions: that both share, known equally well.
        lower_bound: whether the KL of these is a lower bound.
        kl_forward: this lane's mean KL minus the next one's, nats; None without a next or a shared position.
        disagreement: the same of changed winners.
    """

    runtime: str
    following: str
    positions: int
    lower_bound: bool
    kl_forward: PairedDifference | None
    disagreement: PairedDifference | None


def rank(lanes: Mapping[str, Sequence[Sample]]) -> tuple[Ranked, ...]:
    """Order lanes, nearest to the reference first.

    A lane's place follows from the mean of its paired KL differences to all other lanes, each over the positions that
    both share: what one lane alone has does not count. Whole vocabularies and lower bounds are not pooled; the group in
    which a pair shares more positions counts.

    Args:
        lanes: for each runtime its samples, one a case.
    """
    shared = {
        (first, second): _shared(lanes[first], lanes[second]) for first in lanes for second in lanes if first != second
    }
    scores = {
        name: float(np.mean([_kl_difference(pairs) for (first, _), pairs in shared.items() if first == name] or [0.0]))
        for name in lanes
    }
    order = sorted(lanes, key=lambda name: (scores[name], name))
    followers = [*order[1:], ""]
    return tuple(
        _ranked(name, following, shared.get((name, following), []))
        for name, following in zip(order, followers, strict=True)
    )


def _shared(first: Sequence[Sample], second: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    pairs = in_common(first, second)
    groups = [[found for pair in pairs if len((found := _comparable(*pair, bound))[0])] for bound in (False, True)]
    return max(groups, key=_positions)


def _comparable(first: Sample, second: Sample, lower_bound: bool) -> tuple[Sample, Sample]:
    """Return the positions of one group where both have a finite KL: infinities have no difference."""
    mask = (first.lower_bound == lower_bound) & np.isfinite(first.kl_forward) & np.isfinite(second.kl_forward)
    return first.where(mask), second.where(mask)


def _positions(pairs: Sequence[tuple[Sample, Sample]]) -> int:
    return sum(len(ours) for ours, _ in pairs)


def _kl_difference(pairs: Sequence[tuple[Sample, Sample]]) -> float:
    if not pairs:
        return 0.0
    return float(np.concatenate([ours.kl_forward - theirs.kl_forward for ours, theirs in pairs]).mean())


def _ranked(name: str, following: str, pairs: Sequence[tuple[Sample, Sample]]) -> Ranked:
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return Ranked(
        runtime=name,
        following=following,
        positions=_positions(pairs),
        lower_bound=any(bool(sample.lower_bound.any()) for sample in ours),
        kl_forward=paired_difference([one.kl_forward for one in ours], [one.kl_forward for one in theirs])
        if pairs
        else None,
        disagreement=paired_difference([one.changed for one in ours], [one.changed for one in theirs])
        if pairs
        else None,
    )
