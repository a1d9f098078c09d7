"""Raw rows of logits as numbers: widening, hashing, and what one row alone tells. Pure; numpy only."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capture.errors import EngineError
from capture.model import LOGIT_BYTES, Float32Array, Float64Array, Int32Array

ROW_HASH_BYTES = 16

_SIGNIFICAND_BITS = {"bfloat16": 7, "float16": 10, "float32": 23}
_SMALLEST_EXPONENT = {"bfloat16": -126, "float16": -14, "float32": -126}


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """What n rows tell by themselves; see `model.Steps` for shapes and units."""

    top1: Int32Array
    tie_count: Int32Array
    log_sum_exp: Float64Array
    entropy: Float64Array
    margin_nats: Float64Array
    top_ids: Int32Array
    top_logits: Float32Array


def row_hash(row: bytes | memoryview) -> bytes:
    """Return the BLAKE2b-128 of a raw row: equal exactly when every bit of it is."""
    return hashlib.blake2b(row, digest_size=ROW_HASH_BYTES).digest()


def widen(rows: Sequence[bytes | memoryview], dtype: str) -> Float32Array:
    """Return raw rows as float32 [n, V]; every native value is kept exactly.

    Raises:
        ValueError: a row is not a whole number of logits, or the rows differ in length.
    """
    raw = b"".join(rows)
    columns = len(raw) // LOGIT_BYTES[dtype] // max(len(rows), 1)
    if dtype == "bfloat16":
        bits = np.frombuffer(raw, "<u2").astype("<u4") << 16
        flat: NDArray[np.float32] = bits.view("<f4")
    else:
        flat = np.frombuffer(raw, "<f2" if dtype == "float16" else "<f4").astype(np.float32)
    return flat.reshape(len(rows), columns)


def logit_step(logit: float, dtype: str) -> float:
    """Return the distance between neighbouring values of `dtype` at `logit` (its unit in the last place)."""
    _, exponent = math.frexp(abs(logit))
    floor = max(exponent - 1, _SMALLEST_EXPONENT[dtype]) if logit else _SMALLEST_EXPONENT[dtype]
    return float(2.0 ** (floor - _SIGNIFICAND_BITS[dtype]))


def describe_rows(logits: Float32Array, top_k: int, first_position: int = 0) -> RowStatistics:
    """Return the statistics of `logits` [n, V]; float64 inside, ties by the lowest id.

    Raises:
        EngineError: a row holds NaN or has no finite maximum; the message names its position.
    """
    _refuse_undefined(logits, first_position)
    wide = logits.astype(np.float64)
    largest = wide.max(axis=1, keepdims=True)
    shifted = wide - largest
    weights = np.exp(shifted)
    total = weights.sum(axis=1)
    mean_shift = np.where(weights > 0, weights * np.where(weights > 0, shifted, 0.0), 0.0).sum(axis=1) / total
    top_ids, top_logits = _top(logits, min(max(top_k, 2), logits.shape[1]))
    margin = (top_logits[:, 0].astype(np.float64) - top_logits[:, 1]) if top_ids.shape[1] > 1 else np.zeros(len(logits))
    return RowStatistics(
        top1=top_ids[:, 0].copy(),
        tie_count=(wide == largest).sum(axis=1).astype(np.int32),
        log_sum_exp=largest[:, 0] + np.log(total),
        entropy=np.maximum(np.log(total) - mean_shift, 0.0),
        margin_nats=margin,
        top_ids=top_ids,
        top_logits=top_logits,
    )


def _refuse_undefined(logits: Float32Array, first_position: int) -> None:
    bad = np.flatnonzero(np.isnan(logits).any(axis=1) | ~np.isfinite(logits.max(axis=1, initial=-np.inf)))
    if bad.size:
        raise EngineError(
            f"the logits at position {first_position + int(bad[0])} hold NaN or no finite maximum; "
            "the runtime is broken for this prompt, so leave it out of the study or change its options"
        )


def _top(logits: Float32Array, count: int) -> tuple[Int32Array, Float32Array]:
    """Return ids and logits of the `count` highest of each row, highest first, ties by the lowest id."""
    threshold = np.partition(logits, logits.shape[1] - count, axis=1)[:, -count]
    ids = np.empty((len(logits), count), np.int32)
    for index, row in enumerate(logits):
        candidates = np.flatnonzero(row >= threshold[index])
        order = np.lexsort((candidates, -row[candidates]))[:count]
        ids[index] = candidates[order]
    return ids, np.take_along_axis(logits, ids, axis=1)
