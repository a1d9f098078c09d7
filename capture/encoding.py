"""Rows that reached us as a coarse code: what the code cannot tell, and numbers that do not ask it. Pure; numpy only.

llama.cpp's files hold 16-bit codes of log-probabilities within a window below each row's highest. What lies below the
window is known to be below it and no more.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from numbers import Real

import numpy as np

from capture.model import Float32Array, Float64Array, Json

_CLOSE = 1.5
"""Steps; a margin below is one of two codes that are equal or neighbours."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How coarse the rows of a run are.

    Attributes:
        bits: of a code.
        step_nats: the largest distance between neighbouring codes.
        window_nats: how far below a row's highest log-probability its codes reach.
        cut_log_probability: KL counts the ids that the reference gives more than this, as llama.cpp does.
    """

    bits: int
    step_nats: float
    window_nats: float
    cut_log_probability: float

    @property
    def resolution_nats(self) -> float:
        """The margin up to which two runs cannot be told to differ."""
        return _CLOSE * self.step_nats


def encoding_to_json(encoding: Encoding) -> Json:
    """Return an encoding as the entry `encoding` of a manifest."""
    return asdict(encoding)


def encoding_of(manifest: Json) -> Encoding | None:
    """Return the encoding that a manifest tells of; None where it tells none, or one that cannot be."""
    value = manifest.get("encoding")
    if not isinstance(value, dict) or value.keys() != set(Encoding.__slots__):
        return None
    if not all(isinstance(number, Real) and math.isfinite(number) for number in value.values()):
        return None
    found = Encoding(**value)
    return found if found.step_nats >= 0 and found.window_nats >= 0 else None


def kl_above_cut(
    reference: Float32Array, candidate: Float32Array, encodings: tuple[Encoding, Encoding]
) -> Float64Array:
    """Return KL(reference‖candidate) over the ids above the reference's cut, float64 [n] in nats, at least 0.

    The sum that llama.cpp takes: Σ p (ln p - ln q) over log p > cut. An id below the candidate's window counts with
    the window's lower end, so that the value is a lower bound there.

    Args:
        reference: log-probabilities [n, V].
        candidate: log-probabilities over the same ids.
        encodings: of both.
    """
    own, other = reference.astype(np.float64), candidate.astype(np.float64)
    floor = other.max(axis=1, keepdims=True) - encodings[1].window_nats
    terms = np.where(own > encodings[0].cut_log_probability, np.exp(own) * (own - np.maximum(other, floor)), 0.0)
    total: Float64Array = np.maximum(terms.sum(axis=1), 0.0)
    return total
