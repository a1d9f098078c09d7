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
        positions: that both share, known equally well and with a finite KL in both.
        lower_bound: whether the KL of these is a lower bound.
        kl_forward: this lane's mean KL minus the next one's, nats; None without a next or a shared position.
        disagreement: the same of changed winners.
        infinite: shared positions where this lane's KL alone is infinite, the next one's alone, and both; they are left
            out of the differences, and come first in the order.
    """

    runtime: str
    following: str
    positions: int
    lower_bound: bool
    kl_forward: PairedDifference | None
    disagreement: PairedDifference | None
    infinite: tuple[int, int, int] = (0, 0, 0)

    @property
    def left_out(self) -> int:
        """Shared positions that have no difference, since a KL is infinite."""
        return sum(self.infinite)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What two lanes share, case by case, in the group in which they share more."""

    pairs: tuple[tuple[Sample, Sample], ...] = ()
    infinite: tuple[int, int, int] = (0, 0, 0)

    @property
    def score(self) -> tuple[float, float]:
        """How much farther the first is: positions it alone rules out per shared one, then the mean KL difference."""
        shared = _positions(self.pairs) + sum(self.infinite)
        return (self.infinite[0] - self.infinite[1]) / max(shared, 1), _kl_difference(self.pairs)


def rank(lanes: Mapping[str, Sequence[Sample]]) -> tuple[Ranked, ...]:
    """Order lanes, nearest to the reference first.

    A lane's place follows from its paired differences to all other lanes, each over the positions that both share: what
    one lane alone has does not count. First come the positions where one KL alone is infinite, since that lane is
    farther there than any number tells; then the mean of the differences where both are finite. Whole vocabularies and
    lower bounds are not pooled; the group in which a pair shares more positions counts.

    Args:
        lanes: for each runtime its samples, one a case.
    """
    shared = {
        (first, second): _shared(lanes[first], lanes[second]) for first in lanes for second in lanes if first != second
    }
    scores = {name: _mean_score([pair for (first, _), pair in shared.items() if first == name]) for name in lanes}
    order = sorted(lanes, key=lambda name: (scores[name], name))
    followers = [*order[1:], ""]
    return tuple(
        _ranked(name, following, shared.get((name, following), _Shared()))
        for name, following in zip(order, followers, strict=True)
    )


def _mean_score(pairs: Sequence[_Shared]) -> tuple[float, float]:
    ruled_out, difference = np.mean([pair.score for pair in pairs] or [(0.0, 0.0)], axis=0).tolist()
    return ruled_out, difference


def _shared(first: Sequence[Sample], second: Sequence[Sample]) -> _Shared:
    pairs = in_common(first, second)
    groups = [[_of_group(*pair, bound) for pair in pairs] for bound in (False, True)]
    group = max(groups, key=_positions)
    ours, theirs = (
        np.concatenate([np.isinf(pair[side].kl_forward) for pair in group] or [np.zeros(0, np.bool_)])
        for side in (0, 1)
    )
    return _Shared(
        pairs=tuple(finite for pair in group if len((finite := _finite(*pair))[0])),
        infinite=(int((ours & ~theirs).sum()), int((theirs & ~ours).sum()), int((ours & theirs).sum())),
    )


def _of_group(first: Sample, second: Sample, lower_bound: bool) -> tuple[Sample, Sample]:
    mask = first.lower_bound == lower_bound
    return first.where(mask), second.where(mask)


def _finite(first: Sample, second: Sample) -> tuple[Sample, Sample]:
    """Return the positions where both have a finite KL: infinities have no difference."""
    mask = np.isfinite(first.kl_forward) & np.isfinite(second.kl_forward)
    return first.where(mask), second.where(mask)


def _positions(pairs: Sequence[tuple[Sample, Sample]]) -> int:
    return sum(len(ours) for ours, _ in pairs)


def _kl_difference(pairs: Sequence[tuple[Sample, Sample]]) -> float:
    if not pairs:
        return 0.0
    return float(np.concatenate([ours.kl_forward - theirs.kl_forward for ours, theirs in pairs]).mean())


def _ranked(name: str, following: str, shared: _Shared) -> Ranked:
    pairs = shared.pairs
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
        infinite=shared.infinite,
    )
