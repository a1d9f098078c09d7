"""What the step of the logits' dtype costs in KL by itself: the rounding floor. Pure; numpy only.

Rounding a logit to its dtype adds an error that is uniform within one step s, of variance s^2 / 12. To second order the
KL between a distribution and the same with its logits disturbed is half the variance of the disturbance under it:
KL(softmax(x) || softmax(x + e)) = log E[exp e] - E[e], about Var(e) / 2. With independent errors of mean zero its
expectation is sum_i p_i (1 - p_i) s_i^2 / 24, which for equal steps is s^2 / 24 times (1 - sum_i p_i^2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture.model import Float32Array, Float64Array

_BFLOAT16_STEPS = 2.0**16
"""Steps of float32 in one of bfloat16: both have the same exponents, and 16 bits of the significand differ."""


def logit_steps(logits: Float32Array, dtype: str) -> Float64Array:
    """Return the distance between neighbouring values of `dtype` at each logit, in the shape of `logits`.

    A token that is ruled out, whose logit is infinite, is not rounded: its step is 0.
    """
    finite = np.isfinite(logits)
    return np.where(finite, _finite_steps(np.where(finite, np.abs(logits), np.float32(0)), dtype), 0.0)


def _finite_steps(size: Float32Array, dtype: str) -> Float64Array:
    if dtype == "float16":
        return np.spacing(size.astype(np.float16)).astype(np.float64)
    steps = np.spacing(size.astype(np.float32)).astype(np.float64)
    return steps * _BFLOAT16_STEPS if dtype == "bfloat16" else steps


def rounding_kl(top_logits: Float32Array, log_sum_exp: Float64Array, grids: Sequence[str | float]) -> Float64Array:
    """Return the KL to expect from independent rounding to each grid, float64 [n], nats.

    Tokens that are not listed count with the step at the last that is: theirs differ little while they have
    probability worth counting.

    Args:
        top_logits: float32 [n, k], the highest logits of each row, highest first; whole rows in any order give the
            exact sum.
        log_sum_exp: float64 [n], of the whole rows.
        grids: of every side that was rounded, the reference and the candidate: its dtype, or the step of a code that
            its log-probabilities were written in, nats.
    """
    if not top_logits.shape[1]:
        return np.full(len(top_logits), np.nan)
    probability = np.exp(top_logits.astype(np.float64) - log_sum_exp[:, None])
    variance = sum((_steps(top_logits, grid) ** 2 for grid in grids), np.zeros(top_logits.shape)) / 12
    rest = np.maximum(1.0 - probability.sum(axis=1), 0.0)
    total: Float64Array = (probability * (1 - probability) * variance).sum(axis=1) + rest * variance[:, -1]
    return total / 2


def _steps(logits: Float32Array, grid: str | float) -> Float64Array:
    return logit_steps(logits, grid) if isinstance(grid, str) else np.full(logits.shape, float(grid))
