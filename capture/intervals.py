"""How far a rate or a mean may be off: Wilson, block and case bootstrap, paired differences. Pure; numpy only.

Flips and divergences come in clusters, so positions of a run are not independent draws: an interval within a run
resamples blocks of neighbours, one over a study resamples whole cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from capture.model import Float64Array

FEWEST_CASES = 10
"""Cases below which no interval is claimed for a study."""

FEWEST_POSITIONS = 11
"""Positions of a run from which on a standard error or an interval of a mean is told, as in llama.cpp."""

RESAMPLES = 1000

MOST_BLOCKS = 500
"""Blocks that one resample draws at most; longer runs get longer blocks, so that work does not grow with length."""

_TAILS = (0.025, 0.975)

_NORMAL = 1.959964
"""The quantile of the normal distribution for 95 %."""

Statistic = Callable[[Float64Array], Float64Array]
"""Turns means into the statistic, elementwise; rising."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval, in the unit of what it is for."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How much more one lane has of something than another, over the same positions.

    Attributes:
        difference: mean of the first minus mean of the second, over all positions.
        interval: of the difference, from resampling cases; None under `FEWEST_CASES`.
        cases: how many were compared.
        first_lower: cases in which the first has the lower mean: those it won, where less is better.
        second_lower: cases in which the second has; in the others both are equal.
    """

    difference: float
    interval: Interval | None
    cases: int
    first_lower: int
    second_lower: int


def mean(means: Float64Array) -> Float64Array:
    """Return means as they are: the statistic is the mean."""
    return means


def root(means: Float64Array) -> Float64Array:
    """Return roots of means: the statistic of squares is their root mean square."""
    rooted: Float64Array = np.sqrt(means)
    return rooted


def wilson(hits: int, trials: int, z: float = _NORMAL) -> Interval:
    """Return Wilson's score interval of a proportion of independent trials (Wilson 1927), within 0..1.

    Args:
        hits: trials that came out, 0 to `trials`.
        trials: all of them, at least 1.
        z: quantile of the normal distribution; 1.959964 for 95 %.
    """
    if not 0 <= hits <= trials or trials < 1:
        raise ValueError(f"{hits} hits of {trials} trials is no proportion")
    return _wilson(hits / trials, trials, z)


def _wilson(rate: float, trials: float, z: float) -> Interval:
    spread = z * z / trials
    middle = (rate + spread / 2) / (1 + spread)
    half = z / (1 + spread) * float(np.sqrt(rate * (1 - rate) / trials + spread / trials / 4))
    return Interval(max(0.0, middle - half) if rate > 0 else 0.0, min(1.0, middle + half) if rate < 1 else 1.0)


def block_length(values: Float64Array) -> int:
    """Return how many neighbours a resampled block holds, by the automatic rule for the circular block bootstrap.

    Politis & White, "Automatic block-length selection for the dependent bootstrap" (2004), with the correction of
    Patton, Politis & White (2009): the autocovariances count up to twice the lag after which they stay within
    2 sqrt(log10(n) / n), under a flat-top window, and the length grows as the cube root of n, to at most 3 sqrt(n) and
    n / 3.

    Args:
        values: float64 [n], in the order of their positions.
    """
    size = len(values)
    if size < 4:
        return 1
    covariance = _autocovariance(values, _longest_lag(size))
    if covariance[0] <= 0:
        return 1
    lags = np.arange(1, _significant_lags(covariance, size) + 1)
    window = np.minimum(1.0, 2 * (1 - lags / lags[-1]))
    weighted = window * covariance[1 : len(lags) + 1]
    spectrum = covariance[0] + 2 * weighted.sum()
    if spectrum <= 0:
        return 1
    slope = 2 * (lags * weighted).sum()
    wanted = (1.5 * size * (slope / spectrum) ** 2) ** (1 / 3)
    return int(np.clip(np.ceil(wanted), 1, max(1, min(3 * np.sqrt(size), size / 3))))


def _quiet_lags(size: int) -> int:
    """Return how many insignificant lags in a row end the search for the last significant one."""
    return max(5, int(np.ceil(np.sqrt(np.log10(size)))))


def _longest_lag(size: int) -> int:
    return min(int(np.ceil(np.sqrt(size))) + _quiet_lags(size), size - 1)


def _autocovariance(values: Float64Array, longest: int) -> Float64Array:
    """Return the autocovariances at lags 0 to `longest`, by the Fourier transform of the padded series."""
    centred = values - values.mean()
    spectrum = np.fft.rfft(centred, 1 << (2 * len(values) - 1).bit_length())
    found: Float64Array = np.fft.irfft(np.abs(spectrum) ** 2)[: longest + 1] / len(values)
    return found


def _significant_lags(covariance: Float64Array, size: int) -> int:
    quiet = np.abs(covariance[1:] / covariance[0]) < 2 * np.sqrt(np.log10(size) / size)
    run = _quiet_lags(size)
    ends = np.flatnonzero(np.convolve(quiet, np.ones(run), "valid") == run)
    loud = np.flatnonzero(~quiet)
    last = int(ends[0]) if ends.size else int(loud[-1]) + 1 if loud.size else 1
    return min(2 * max(last, 1), len(covariance) - 1)


def block_bootstrap(
    values: Float64Array,
    statistic: Statistic = mean,
    *,
    block: int | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Return the interval of a mean within one run, by the circular block bootstrap (Politis & Romano 1992).

    Blocks keep neighbours together, so that what comes in clusters counts as the few events it is. Values that are all
    equal give an interval of no width; of a rate take `block_rate`, which does better there and with few hits. Where a
    value is infinite or no number there is no interval.

    Args:
        values: float64 [n], n at least 1, in the order of their positions.
        statistic: of the mean, for instance `root` for the root mean square where the values are squares.
        block: length of a block; None for `block_length`.
        resamples: how often the run is drawn again.
        seed: the same seed gives the same interval.
    """
    if not np.isfinite(values).all():
        return None
    return _percentiles(statistic(_resampled_means(values, block, resamples, seed)))


def run_interval(values: Float64Array, statistic: Statistic = mean) -> Interval | None:
    """Return the interval of a mean within one run, as `block_bootstrap`; None under `FEWEST_POSITIONS`.

    Args:
        values: float64 [n], in the order of their positions.
        statistic: of the mean.
    """
    return block_bootstrap(values, statistic) if len(values) >= FEWEST_POSITIONS else None


def _percentiles(drawn: Float64Array) -> Interval:
    low, high = np.quantile(drawn, _TAILS)
    return Interval(float(low), float(high))


def _resampled_means(values: Float64Array, block: int | None, resamples: int, seed: int) -> Float64Array:
    size = len(values)
    if size == 0:
        raise ValueError("an interval needs at least one value")
    wanted = block_length(values) if block is None else block
    length = min(max(wanted, -(-size // MOST_BLOCKS), 1), size)
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values[:length]]))])
    blocks = -(-size // length)
    last = size - (blocks - 1) * length  # the last block is cut, so that a resample is as long as the run
    drawn = np.random.default_rng(seed).integers(0, size, (resamples, blocks), dtype=np.int32)
    whole, cut = ((sums[part : part + size] - sums[:size]) for part in (length, last))
    means: Float64Array = (whole[drawn[:, :-1]].sum(axis=1) + cut[drawn[:, -1]]) / size
    return means


def block_rate(hits: Float64Array, *, block: int | None = None, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Return the interval of a rate within one run: Wilson's, for as many independent trials as the run is worth.

    The block bootstrap tells the variance of the rate; a binomial of that variance has `rate (1 - rate) / variance`
    trials (Kish's effective sample size), never more than there are positions. Without a hit, or without a miss, there
    is no variance to tell and all positions count.

    Args:
        hits: float64 [n] of 0 and 1, n at least 1, in the order of their positions.
        block: length of a block; None for `block_length`.
        resamples: how often the run is drawn again.
        seed: the same seed gives the same interval.
    """
    rate = float(hits.mean()) if len(hits) else 0.0
    return _rate_of_variance(rate, float(_resampled_means(hits, block, resamples, seed).var()), len(hits))


def _rate_of_variance(rate: float, variance: float, positions: int) -> Interval:
    """Return Wilson's interval for as many trials as a rate of this variance is worth."""
    worth = min(rate * (1 - rate) / variance, positions) if variance > 0 else positions
    return _wilson(rate, max(worth, 1.0), _NORMAL)


def case_bootstrap(
    groups: Sequence[Float64Array], statistic: Statistic = mean, *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval | None:
    """Return the interval of a mean over all positions of a study, from resampling whole cases; None under ten.

    Of a rate take `case_rate`. Where a value is infinite or no number there is no interval.

    Args:
        groups: for each case, float64 [n of its positions]; cases without a position do not count.
        statistic: of the mean over all positions.
        resamples: how often the cases are drawn again.
        seed: the same seed gives the same interval.
    """
    filled = [group for group in groups if len(group)]
    if len(filled) < FEWEST_CASES or not all(np.isfinite(group).all() for group in filled):
        return None
    return _percentiles(statistic(_resampled_cases(filled, resamples, seed)))


def _resampled_cases(filled: Sequence[Float64Array], resamples: int, seed: int) -> Float64Array:
    sums = np.array([group.sum() for group in filled], np.float64)
    sizes = np.array([len(group) for group in filled], np.float64)
    drawn = np.random.default_rng(seed).multinomial(len(filled), np.full(len(filled), 1 / len(filled)), resamples)
    means: Float64Array = (drawn @ sums) / (drawn @ sizes)
    return means


def case_rate(groups: Sequence[Float64Array], *, resamples: int = RESAMPLES, seed: int = 0) -> Interval | None:
    """Return the interval of a rate over a study: Wilson's, for as many trials as the cases are worth; None under ten.

    As `block_rate`, with the variance that resampling whole cases tells: no flip in any case is no proof of none.

    Args:
        groups: for each case, float64 [n of its positions] of 0 and 1, or its rate at each; cases without a position
            do not count.
        resamples: how often the cases are drawn again.
        seed: the same seed gives the same interval.
    """
    filled = [group for group in groups if len(group)]
    if len(filled) < FEWEST_CASES:
        return None
    positions = sum(map(len, filled))
    rate = min(max(sum(float(group.sum()) for group in filled) / positions, 0.0), 1.0)
    return _rate_of_variance(rate, float(_resampled_cases(filled, resamples, seed).var()), positions)


def paired_difference(
    first: Sequence[Float64Array], second: Sequence[Float64Array], *, resamples: int = RESAMPLES, seed: int = 0
) -> PairedDifference:
    """Return how two lanes differ, position by position: what a hard case does to both cancels.

    Args:
        first: for each case, float64 [n of its positions]: KL, or 0 and 1 for a changed winner.
        second: the other lane's values at the same positions, in the same order.
        resamples: how often the cases are drawn again.
        seed: the same seed gives the same interval.

    Raises:
        ValueError: the lanes have other cases or other positions, or no position at all.
    """
    pairs = [(ours, theirs) for ours, theirs in zip(first, second, strict=True) if len(ours) or len(theirs)]
    if not pairs or any(len(ours) != len(theirs) for ours, theirs in pairs):
        raise ValueError("lanes are paired position by position; give both the same ones, at least one")
    changes = [ours - theirs for ours, theirs in pairs]
    means = [float(change.mean()) for change in changes]
    return PairedDifference(
        difference=float(np.concatenate(changes).mean()),
        interval=case_bootstrap(changes, resamples=resamples, seed=seed),
        cases=len(changes),
        first_lower=sum(value < 0 for value in means),
        second_lower=sum(value > 0 for value in means),
    )
