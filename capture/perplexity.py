"""The perplexity block of llama.cpp's statistics, over the reference's tokens. Pure; numpy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capture.model import Float64Array
from capture.samples import Sample
from capture.summary import standard_error


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its standard error as llama.cpp gives it: from the variance over independent tokens."""

    value: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class Perplexity:
    """How surprised lanes are by the reference's tokens; Q is the candidate, base the reference, as in llama.cpp.

    Attributes:
        positions: how many tokens.
        candidate, reference: exp of the mean negative log-probability.
        correlation: of both lanes' log-probabilities, -1 to 1; None where one of them does not vary.
        log_ratio: ln(PPL(Q)/PPL(base)).
        ratio: PPL(Q)/PPL(base).
        difference: PPL(Q)-PPL(base).
    """

    positions: int
    candidate: Estimate
    reference: Estimate
    correlation: float | None
    log_ratio: Estimate
    ratio: Estimate
    difference: Estimate


def perplexity(samples: Sequence[Sample]) -> Perplexity | None:
    """Return the perplexities, errors propagated as llama.cpp does; None unless every token's probability is known.

    A perplexity over those tokens alone that happen to be among the highest would be too low.
    """
    candidate = _surprise([sample.candidate_log_probability for sample in samples])
    reference = _surprise([sample.reference_log_probability for sample in samples])
    if not len(candidate) or not np.isfinite(candidate).all() or not np.isfinite(reference).all():
        return None
    first, second = _estimate(candidate), _estimate(reference)
    covariance = _covariance(candidate, reference)
    ratio = float(np.exp(candidate.mean() - reference.mean()))
    log_error = standard_error(candidate - reference)  # the covariance taken off, without cancellation
    difference_error = _root(
        first.standard_error**2 + second.standard_error**2 - 2 * covariance * first.value * second.value
    )
    product = standard_error(candidate) * standard_error(reference)
    return Perplexity(
        positions=len(candidate),
        candidate=first,
        reference=second,
        correlation=covariance / product if product else None,
        log_ratio=Estimate(float(candidate.mean() - reference.mean()), log_error),
        ratio=Estimate(ratio, ratio * log_error),
        difference=Estimate(first.value - second.value, difference_error),
    )


def unknown_tokens(samples: Sequence[Sample]) -> int:
    """Return how many of the reference's tokens have no known probability above 0 in both lanes."""
    return sum(
        int((~np.isfinite(sample.candidate_log_probability + sample.reference_log_probability)).sum())
        for sample in samples
    )


def _surprise(parts: Sequence[Float64Array]) -> Float64Array:
    return -np.concatenate(parts) if parts else np.zeros(0)


def _estimate(surprise: Float64Array) -> Estimate:
    value = float(np.exp(surprise.mean()))
    return Estimate(value, value * standard_error(surprise))


def _covariance(first: Float64Array, second: Float64Array) -> float:
    """Return the covariance of both means."""
    if len(first) < 2:
        return 0.0
    return float(((first - first.mean()) * (second - second.mean())).mean() / (len(first) - 1))


def _root(square: float) -> float:
    return float(np.sqrt(max(square, 0.0)))
