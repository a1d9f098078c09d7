"""The numbers of one pair of rows in float64, in few passes over memory that is reused. Pure; numpy only.

A row of 151,936 logits is worked through in blocks that stay in the processor's cache: one exponential a logit, one
logarithm a pair of logits, and dot products for all sums. Only two rows of weights are held.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from capture.model import Float32Array, Float64Array

Logits = Float32Array | Float64Array

_BLOCK = 8192
"""Logits worked on at once. BLAS libraries spread longer dot products over threads, which costs more than it gains."""

_UNSHIFTED = 300.0
"""A row whose maximum is no larger in size needs no shift: its exponentials and their sums are finite."""

_STRIPES = 64


class PairNumbers(NamedTuple):
    """What one pair of rows gives, as in `metrics.PairMetrics`; and the log-sum-exp of both, in nats."""

    kl_forward: float
    kl_reverse: float
    jensen_shannon: float
    reference_entropy: float
    candidate_entropy: float
    reference_rank: int
    candidate_rank: int
    reference_winner_probability: float
    candidate_winner_probability: float
    delta_probability: float
    top5_overlap: int
    reference_log_sum_exp: float
    candidate_log_sum_exp: float


class RowPair:
    """Compares pairs of rows of one width, one after another; each thread needs its own."""

    def __init__(self, width: int) -> None:
        """Reserve memory for rows of `width` logits."""
        self._blocks = [slice(start, min(start + _BLOCK, width)) for start in range(0, width, _BLOCK)]
        self._weights = np.empty((2, width))
        self._logits = np.ones((3, min(width, _BLOCK)))  # the third row stays ones: dot products with it are sums
        self._mixture = np.empty((2, min(width, _BLOCK)))

    def compare(self, reference: Logits, candidate: Logits, token: int | None) -> PairNumbers:
        """Compare two rows [V] after the same prefix.

        Args:
            reference: logits; -inf is a probability of 0, NaN and an infinite maximum are not allowed.
            candidate: logits over the same ids.
            token: the id whose change of probability is asked; None for one that the rows do not hold.
        """
        first, second = highest(reference, 5), highest(candidate, 5)
        winners = int(first[0]), int(second[0])
        shifts = _shift(float(reference[winners[0]])), _shift(float(candidate[winners[1]]))
        with np.errstate(all="ignore"):
            sums, mixed = self._sums(reference, candidate, shifts)
            if not (np.isfinite(sums).all() and math.isfinite(mixed)):
                sums, mixed = self._sums_with_zeros(reference, candidate, shifts)
        totals = float(sums[0, 2]), float(sums[1, 2])
        delta = math.nan if token is None else self._weights[1, token] / totals[1] - self._weights[0, token] / totals[0]
        return PairNumbers(
            *_divergences(sums, mixed),
            reference_rank=_rank(candidate, winners[0], winners[1]),
            candidate_rank=_rank(reference, winners[1], winners[0]),
            reference_winner_probability=float(self._weights[1, winners[0]]) / totals[1],
            candidate_winner_probability=float(self._weights[0, winners[1]]) / totals[0],
            delta_probability=float(delta),
            top5_overlap=len(set(first.tolist()) & set(second.tolist())),
            reference_log_sum_exp=math.log(totals[0]) + shifts[0],
            candidate_log_sum_exp=math.log(totals[1]) + shifts[1],
        )

    def _sums(self, reference: Logits, candidate: Logits, shifts: tuple[float, float]) -> tuple[Float64Array, float]:
        """Return [[Σv·x, Σv·y, Σv], [Σw·x, Σw·y, Σw]] of weights v = exp(x), w = exp(y), and Σu·ln u, u = v + w·Σv/Σw.

        Not finite where a logit is -inf or lies so low that its weight is 0.
        """
        sums = np.zeros((2, 3))
        for block in self._blocks:
            logits = self._logits[:, : block.stop - block.start]
            logits[0], logits[1] = reference[block], candidate[block]
            for row, shift in enumerate(shifts):
                if shift:
                    logits[row] -= shift
            weights = self._weights[:, block]
            np.exp(logits[:2], out=weights)
            sums += weights @ logits.T
        scale, mixed = sums[0, 2] / sums[1, 2], 0.0
        for block in self._blocks:
            mixture, logarithm = self._mixture[:, : block.stop - block.start]
            np.multiply(self._weights[1, block], scale, out=mixture)
            mixture += self._weights[0, block]
            mixed += float(mixture @ np.log(mixture, out=logarithm))
        return sums, mixed

    def _sums_with_zeros(
        self, reference: Logits, candidate: Logits, shifts: tuple[float, float]
    ) -> tuple[Float64Array, float]:
        """Return what `_sums` does, where a weight of 0 counts as 0 whatever it is multiplied with."""
        rows = np.array([reference, candidate], np.float64) - np.array(shifts)[:, None]
        np.exp(rows, out=self._weights)
        sums = np.empty((2, 3))
        for side, weights in enumerate(self._weights):
            live = weights > 0
            sums[side] = *(rows[:, live] @ weights[live]), weights.sum()
        mixture = self._weights[0] + self._weights[1] * (sums[0, 2] / sums[1, 2])
        live = mixture > 0
        return sums, float(mixture[live] @ np.log(mixture[live]))


def highest(row: Logits, count: int) -> NDArray[np.int64]:
    """Return the ids of the `count` highest logits of a row [V], highest first, ties by the lowest id.

    The maxima of interleaved stripes give a bound that few logits reach, so that few are looked at.
    """
    width = len(row) // _STRIPES
    if width < count:
        return _sorted(row, np.arange(len(row)), count)
    maxima = row[: _STRIPES * width].reshape(_STRIPES, width).max(axis=0)
    bound = np.partition(maxima, width - count)[width - count]
    columns = np.flatnonzero(maxima >= bound)
    inside = (np.arange(_STRIPES)[:, None] * width + columns).ravel()
    ids = np.concatenate([inside, np.arange(_STRIPES * width, len(row))])
    equal = ids[row[ids] == bound]
    lowest = np.partition(equal, count - 1)[:count] if len(equal) > count else equal
    found = np.concatenate([ids[row[ids] > bound], lowest])
    return _sorted(row, found if len(found) >= count else np.arange(len(row)), count)  # NaN has no place in an order


def _sorted(row: Logits, ids: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return ids[np.lexsort((ids, -row[ids]))[:count]]


def _shift(largest: float) -> float:
    return 0.0 if abs(largest) <= _UNSHIFTED else largest


def _divergences(sums: Float64Array, mixed: float) -> tuple[float, float, float, float, float]:
    """Return both KL, the Jensen–Shannon divergence and both entropies, from what `RowPair._sums` gives.

    With W = Σv and p = v / W: KL(p‖q) = Σp·x - Σp·y - ln W + ln W', H(p) = ln W - Σp·x, and the Jensen–Shannon
    divergence is H((p + q) / 2) - (H(p) + H(q)) / 2, at most a quarter of the sum of both KL and at most ln 2.
    """
    total, other_total = math.log(sums[0, 2]), math.log(sums[1, 2])
    (own, cross), (other_cross, other_own) = (sums[:, :2] / sums[:, 2:]).tolist()
    entropy, other_entropy = max(total - own, 0.0), max(other_total - other_own, 0.0)
    forward = max(own - cross - total + other_total, 0.0)
    reverse = max(other_own - other_cross - other_total + total, 0.0)
    of_mixture = math.log(2.0) + total - mixed / (2.0 * float(sums[0, 2]))
    shannon = min(of_mixture - (entropy + other_entropy) / 2, (forward + reverse) / 4, math.log(2.0))
    return forward, reverse, max(shannon, 0.0), entropy, other_entropy


def _rank(row: Logits, token: int, winner: int) -> int:
    """Return how many ids come before `token`: those strictly higher, and equal ones with a lower id."""
    if token == winner:
        return 0
    return int(np.count_nonzero(row > row[token]) + np.count_nonzero(row[:token] == row[token]))
