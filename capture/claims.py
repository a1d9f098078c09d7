"""What a file of comparisons says, held against the runs that it is about; the file may be a stranger's.

Values that runs rule out are found here; values that are merely wrong are not, since that takes comparing again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capture.compare import Comparison, equal_rows, inside_turns
from capture.flips import Flip, flips_in_rows
from capture.metrics import PairMetrics
from capture.model import FlipClass, Keep, Run, Steps

_SLACK = 1e-9
"""How far rounding may carry a number over its limit."""

_LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("reference_entropy", "candidate_entropy"), (0.0, math.inf)),
    "jensen_shannon": (0.0, math.log(2)),
    **dict.fromkeys(("reference_rank", "candidate_rank"), (0, math.inf)),
    **dict.fromkeys(("reference_winner_probability", "candidate_winner_probability"), (0.0, 1.0)),
    "top5_overlap": (0, 5),
    **dict.fromkeys(("reference_outside", "candidate_outside"), (0.0, 1.0)),
}

_LARGEST_NATS = 1e6
"""A finite divergence is below this: logits of no model lie farther apart."""

_SHANNON_SLACK = 0.01
"""Nats; KL of imported rows leaves out ids far below the highest, and JSD does not."""

_Rows = tuple[NDArray[np.int64], NDArray[np.int64]]


def can_be_true(
    found: Comparison,
    reference: Steps,
    candidate: Steps,
    runs: tuple[Run, Run],
    turns: Sequence[tuple[int, int]] = (),
) -> bool:
    """Return whether a comparison is about exactly the scored prefixes that two runs share, with values that can be.

    Args:
        found: what a file says.
        reference: the yardstick's steps; the comparison's positions are its own.
        candidate: the other run's.
        runs: what is known of both runs themselves.
        turns: the recorded turns outside of which nothing is scored, where the yardstick follows them.
    """
    rows = _rows(found, reference, candidate)
    dtypes = runs[0].dtype, runs[1].dtype
    return (
        rows is not None
        and _is_whole(found, reference, candidate, turns)
        and is_possible(found.metrics)
        and _knows_as_much(found.metrics.lower_bound, runs)
        and _are_flips(found.flips, flips_in_rows(reference, candidate, rows, dtypes))
        and found.identical is (len(rows[0]) > 0 and bool(equal_rows(reference, candidate, *rows).all()))
    )


def is_possible(metrics: PairMetrics) -> bool:
    """Return whether all numbers lie where divergences, probabilities and ranks can; the delta may be unknown."""
    inside = (_inside(getattr(metrics, name), low, high) for name, (low, high) in _LIMITS.items())
    delta = metrics.delta_probability
    return all(inside) and _are_divergences(metrics) and _inside(delta[~np.isnan(delta)], -1.0, 1.0)


def _are_divergences(metrics: PairMetrics) -> bool:
    """Return whether divergences go together: JSD is at most a quarter of both KLs' sum, since KL is convex.

    Infinite they are only where one side rules out a token, which lists of the highest tokens do not tell.
    """
    both = np.stack([metrics.kl_forward, metrics.kl_reverse])
    finite = np.isfinite(both)
    return (
        _inside(both[finite], 0.0, _LARGEST_NATS)
        and bool((finite | ((both > 0) & ~metrics.lower_bound)).all())
        and bool((metrics.jensen_shannon <= both.sum(axis=0) / 4 + _SHANNON_SLACK).all())
    )


def _inside(values: NDArray[np.float64 | np.int32], low: float, high: float) -> bool:
    """Return whether all values lie within limits; NaN lies nowhere."""
    return bool(((values >= low - _SLACK) & (values <= high + _SLACK)).all())


def _knows_as_much(lower_bound: NDArray[np.bool_], runs: tuple[Run, Run]) -> bool:
    """Return whether numbers over the whole vocabulary come from runs that kept it; which positions, it cannot tell."""
    kept = {run.logits_kept for run in runs}
    if Keep.TOP_K in kept:
        return bool(lower_bound.all())
    return kept != {Keep.ALL} or not lower_bound.any()


def _rows(found: Comparison, reference: Steps, candidate: Steps) -> _Rows | None:
    """Return the row numbers of both runs, int64 [n] each; None where a position or prefix is not theirs."""
    left = np.searchsorted(reference.position, found.position)
    if len(left) and (left.max() >= len(reference) or bool((reference.position[left] != found.position).any())):
        return None
    if tuple(map(reference.prefix_id.__getitem__, left.tolist())) != found.prefix_id:
        return None
    where = {prefix_id: row for row, prefix_id in enumerate(candidate.prefix_id)}
    right = np.array([where.get(prefix_id, -1) for prefix_id in found.prefix_id], np.int64)
    return None if (right < 0).any() else (left, right)


def _is_whole(found: Comparison, reference: Steps, candidate: Steps, turns: Sequence[tuple[int, int]]) -> bool:
    """Return whether nothing that both share is missing, and nothing is there twice."""
    scored = np.flatnonzero(inside_turns(reference.position, turns)).tolist()
    shared = set(candidate.prefix_id).intersection(reference.prefix_id[row] for row in scored)
    return len(found.prefix_id) == len(shared) and set(found.prefix_id) == shared


def _are_flips(claimed: Sequence[Flip], found: Sequence[Flip]) -> bool:
    """Return whether flips are those of the runs; a control, not looked at here, may make a near-tie of one."""
    return len(claimed) == len(found) and all(map(_is_flip, claimed, found))


def _is_flip(claimed: Flip, found: Flip) -> bool:
    widened = found.flip_class is FlipClass.DECIDED and claimed.flip_class is FlipClass.NEAR_TIE
    names = [name for name in Flip.__slots__ if name != "flip_class"]
    same = all(getattr(claimed, name) == getattr(found, name) for name in names)
    return same and (widened or claimed.flip_class is found.flip_class)
