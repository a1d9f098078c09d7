"""Summaries of positions over a run, a range kind, a case, a study (DESIGN section 3). Pure; numpy and siblings.

Numbers over the whole vocabulary and lower bounds from top-k lists are two groups that are never pooled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from capture.divergence import main_of
from capture.intervals import (
    FEWEST_POSITIONS,
    Interval,
    Statistic,
    block_rate,
    case_bootstrap,
    case_rate,
    mean,
    root,
    run_interval,
)
from capture.model import FlipClass, Float64Array
from capture.samples import FLIP_CLASSES, Sample, by_case, of_bound, some

QUANTILES = (0.999, 0.99, 0.95, 0.90, 0.75, 0.50, 0.25, 0.10, 0.05, 0.01, 0.001)

Column = Callable[[Sample], Float64Array]


@dataclass(frozen=True, slots=True)
class Spread:
    """How a number is spread over positions.

    Attributes:
        positions: how many.
        mean: of all positions.
        standard_error: of the mean, as if positions were independent draws of a normal distribution: what llama.cpp
            prints; 0 under `FEWEST_POSITIONS`.
        interval: of the mean, 95 %, with clusters taken into account; None where none is claimed.
        minimum, maximum: of all positions.
        quantiles: at each of `QUANTILES`, linear between neighbours at `q (n - 1)` of the sorted values.
    """

    positions: int
    mean: float
    standard_error: float
    interval: Interval | None
    minimum: float
    maximum: float
    quantiles: tuple[float, ...]

    def quantile(self, at: float) -> float:
        """Return the value at one of `QUANTILES`."""
        return self.quantiles[QUANTILES.index(at)]


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of positions, 0 to 1, with its interval, None where none is claimed."""

    hits: int
    positions: int
    rate: float
    interval: Interval | None

    @property
    def standard_error(self) -> float:
        """As if positions were independent: the binomial's, over n - 1 as in llama.cpp."""
        return float(np.sqrt(self.rate * (1 - self.rate) / max(self.positions - 1, 1)))


@dataclass(frozen=True, slots=True)
class RootMeanSquare:
    """A root mean square, its standard error as in llama.cpp (half that of the square over it), its interval."""

    value: float
    standard_error: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Divergences:
    """How far apart the distributions are, over positions known equally well; divergences in nats.

    Attributes:
        positions: how many.
        lower_bound: whether only the highest tokens were known: the divergences are then lower bounds.
        kl_forward: KL(reference || candidate).
        kl_reverse: KL(candidate || reference).
        jensen_shannon: base e.
        delta_probability: the candidate's minus the reference's probability of the reference's token, where it is
            known in both; None where it is nowhere.
        delta_unknown: positions where it is not.
        rms_delta_probability: its root mean square.
        same_top: share of positions with the same top-1.
        rounding: the KL that the step of the dtypes costs by itself; None where nothing tells the highest logits.
    """

    positions: int
    lower_bound: bool
    kl_forward: Spread
    kl_reverse: Spread
    jensen_shannon: Spread
    delta_probability: Spread | None
    delta_unknown: int
    rms_delta_probability: RootMeanSquare | None
    same_top: Rate
    rounding: Spread | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A candidate against its reference over one scope.

    Attributes:
        cases: how many the positions come from.
        positions: evaluated positions.
        ties, near_ties, decided: flips by class.
        disagreement: changed winners per evaluated position.
        whole: over the positions whose whole vocabulary is known; None where there are none.
        bounded: over those of which only the highest tokens are known; None where there are none.
    """

    cases: int
    positions: int
    ties: int
    near_ties: int
    decided: int
    disagreement: Rate
    whole: Divergences | None
    bounded: Divergences | None

    @property
    def flips(self) -> int:
        """How many winners changed."""
        return self.ties + self.near_ties + self.decided

    @property
    def main(self) -> Divergences | None:
        """The group with the more positions, the whole vocabulary's where both have the same."""
        return main_of(self.whole, self.bounded)


def summarize(samples: Sequence[Sample], *, pooled: bool = True) -> Summary:
    """Summarize positions.

    Args:
        samples: for each case, the positions that count; repeats of a case are one case.
        pooled: whether the scope is a study: intervals then come from resampling cases, and under ten there are none.
            Otherwise the samples are one run, and intervals come from blocks of its positions.
    """
    samples = by_case(some(samples))
    flips = _together(samples, lambda sample: sample.flip.astype(np.float64))
    ties, near_ties, decided = (int((flips == 1 + FLIP_CLASSES.index(name)).sum()) for name in FlipClass)
    return Summary(
        cases=len(samples),
        positions=len(flips),
        ties=ties,
        near_ties=near_ties,
        decided=decided,
        disagreement=_rate(samples, lambda sample: sample.changed, pooled),
        whole=_divergences(of_bound(samples, False), False, pooled),
        bounded=_divergences(of_bound(samples, True), True, pooled),
    )


def _divergences(samples: Sequence[Sample], lower_bound: bool, pooled: bool) -> Divergences | None:
    if not samples:
        return None
    known = some(sample.where(~np.isnan(sample.delta_probability)) for sample in samples)
    positions = sum(map(len, samples))
    forward = _spread(samples, lambda sample: sample.kl_forward, pooled)
    reverse = _spread(samples, lambda sample: sample.kl_reverse, pooled)
    shannon = _spread(samples, lambda sample: sample.jensen_shannon, pooled)
    assert forward is not None
    assert reverse is not None
    assert shannon is not None
    return Divergences(
        positions=positions,
        lower_bound=lower_bound,
        kl_forward=forward,
        kl_reverse=reverse,
        jensen_shannon=shannon,
        delta_probability=_spread(known, lambda sample: sample.delta_probability, pooled),
        delta_unknown=positions - sum(map(len, known)),
        rms_delta_probability=_root_mean_square(known, pooled),
        same_top=_rate(samples, lambda sample: sample.same_top.astype(np.float64), pooled),
        rounding=_spread(samples, lambda sample: sample.rounding_kl, pooled),
    )


def _together(samples: Sequence[Sample], column: Column) -> Float64Array:
    return np.concatenate([column(sample) for sample in samples]) if samples else np.zeros(0)


def _interval(samples: Sequence[Sample], column: Column, pooled: bool, statistic: Statistic = mean) -> Interval | None:
    if pooled:
        return case_bootstrap([column(sample) for sample in samples], statistic)
    return run_interval(_together(samples, column), statistic)


def _rate(samples: Sequence[Sample], column: Column, pooled: bool) -> Rate:
    hits = _together(samples, column)
    if not len(hits):
        return Rate(0, 0, 0.0, None)
    interval = case_rate([column(sample) for sample in samples]) if pooled else block_rate(hits)
    return Rate(int(hits.sum()), len(hits), float(hits.mean()), interval)


def _spread(samples: Sequence[Sample], column: Column, pooled: bool) -> Spread | None:
    values = _together(samples, column)
    if not len(values) or np.isnan(values).any():
        return None
    finite = bool(np.isfinite(values).all())  # a token that a runtime rules out makes a divergence infinite
    return Spread(
        positions=len(values),
        mean=float(values.mean()),
        standard_error=standard_error(values) if finite else float("inf"),
        interval=_interval(samples, column, pooled) if finite else None,
        minimum=float(values.min()),
        maximum=float(values.max()),
        quantiles=quantiles(values),
    )


def quantiles(values: Float64Array) -> tuple[float, ...]:
    """Return the values at `QUANTILES`, as llama.cpp does: linear between neighbours at `q (n - 1)` of the sorted.

    Args:
        values: float64 [n], n at least 1, infinities allowed.
    """
    ordered = np.sort(values)
    at = np.array(QUANTILES) * (len(ordered) - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, len(ordered) - 1)
    share = at - low
    with np.errstate(invalid="ignore"):
        between = (1 - share) * ordered[low] + share * ordered[high]
    return tuple(np.where((share == 0) | (ordered[low] == ordered[high]), ordered[low], between).tolist())


def standard_error(values: Float64Array) -> float:
    """Return the standard error of a mean of independent draws; 0 under `FEWEST_POSITIONS`, as in llama.cpp."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) >= FEWEST_POSITIONS else 0.0


def _root_mean_square(samples: Sequence[Sample], pooled: bool) -> RootMeanSquare | None:
    def squares(sample: Sample) -> Float64Array:
        return sample.delta_probability**2

    values = _together(samples, squares)
    if not len(values):
        return None
    value = float(np.sqrt(values.mean()))
    error = standard_error(values) / (2 * value) if value else 0.0
    return RootMeanSquare(value, error, _interval(samples, squares, pooled, root))
