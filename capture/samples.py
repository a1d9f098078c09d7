"""The positions of one comparison with all that summaries need of them, as columns. Pure; numpy only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture.model import FlipClass, Float64Array, Int32Array, RangeKind

CONFIDENCE_EDGES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Edges of the buckets of the reference's confidence: the probability of its own winner (DESIGN section 3)."""

KINDS = tuple(RangeKind)
FLIP_CLASSES = tuple(FlipClass)

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sample:
    """Positions of one case where a candidate and its reference followed the same prefix; n positions.

    Attributes:
        case_id: the case.
        position: int32 [n], output positions in the reference run.
        prefix_id: n values of 16 bytes (`V16`).
        kind: int8 [n], index into `KINDS` of the range that the reference's token lies in.
        flip: int8 [n], 0 where both chose the same, else 1 + index into `FLIP_CLASSES`.
        same_top: bool [n], whether both have the same top-1.
        lower_bound: bool [n], whether only the highest tokens were known, so that divergences are lower bounds.
        confidence: float64 [n], the probability that the reference gives to its own winner.
        kl_forward, kl_reverse, jensen_shannon: float64 [n], nats.
        delta_probability: float64 [n], the candidate's minus the reference's probability of the reference's token; NaN
            where unknown.
        reference_log_probability, candidate_log_probability: float64 [n], of the reference's token, nats; NaN where
            unknown.
        rounding_kl: float64 [n], what the step of both dtypes costs by itself, nats (see `rounding`).
    """

    case_id: str
    position: Int32Array
    prefix_id: NDArray[np.void]
    kind: NDArray[np.int8]
    flip: NDArray[np.int8]
    same_top: Mask
    lower_bound: Mask
    confidence: Float64Array
    kl_forward: Float64Array
    kl_reverse: Float64Array
    jensen_shannon: Float64Array
    delta_probability: Float64Array
    reference_log_probability: Float64Array
    candidate_log_probability: Float64Array
    rounding_kl: Float64Array

    def __post_init__(self) -> None:
        if any(len(getattr(self, name)) != len(self) for name in COLUMNS):
            raise ValueError("columns of a sample differ in length")

    def __len__(self) -> int:
        return len(self.position)

    def where(self, mask: Mask) -> Sample:
        """Return the positions that a mask, bool [n], leaves."""
        columns: dict[str, Any] = {name: getattr(self, name)[mask] for name in COLUMNS}
        return Sample(self.case_id, **columns)

    @property
    def changed(self) -> Float64Array:
        """1 where the winner changed, else 0; float64 [n]."""
        return (self.flip > 0).astype(np.float64)


COLUMNS = tuple(field.name for field in fields(Sample) if field.name != "case_id")


def prefix_column(prefix_ids: Iterable[bytes]) -> NDArray[np.void]:
    """Return prefix ids as a column of a sample."""
    return np.frombuffer(b"".join(prefix_ids), "V16")


def some(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Return the samples that have a position."""
    return tuple(sample for sample in samples if len(sample))


def by_case(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Return one sample a case, in the order of their first: repeats of a case follow each other in it."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.case_id, []).append(sample)
    return tuple(group[0] if len(group) == 1 else _joined(group) for group in groups.values())


def _joined(group: Sequence[Sample]) -> Sample:
    columns: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in group]) for name in COLUMNS}
    return Sample(group[0].case_id, **columns)


def of_kind(samples: Iterable[Sample], kind: RangeKind) -> tuple[Sample, ...]:
    """Return the positions in ranges of one kind; cases without one are left out."""
    return some(sample.where(sample.kind == KINDS.index(kind)) for sample in samples)


def of_confidence(samples: Iterable[Sample], bucket: int) -> tuple[Sample, ...]:
    """Return the positions of one bucket of `CONFIDENCE_EDGES`, its upper edge excluded but for the last's."""
    low, high = CONFIDENCE_EDGES[bucket : bucket + 2]
    last = bucket == len(CONFIDENCE_EDGES) - 2
    return some(sample.where((sample.confidence >= low) & ((sample.confidence < high) | last)) for sample in samples)


def of_bound(samples: Iterable[Sample], lower_bound: bool) -> tuple[Sample, ...]:
    """Return the positions with lower bounds only, or those over the whole vocabulary."""
    return some(sample.where(sample.lower_bound == lower_bound) for sample in samples)


def in_common(first: Sequence[Sample], second: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """Return, case by case, the positions that two lanes share: after the same prefix, known equally well in both."""
    others = {sample.case_id: sample for sample in second}
    pairs = (_shared(sample, others[sample.case_id]) for sample in first if sample.case_id in others)
    return [pair for pair in pairs if len(pair[0])]


def _shared(first: Sample, second: Sample) -> tuple[Sample, Sample]:
    where = {
        key: row for row, key in enumerate(zip(second.prefix_id.tolist(), second.lower_bound.tolist(), strict=True))
    }
    keys = zip(first.prefix_id.tolist(), first.lower_bound.tolist(), strict=True)
    rows = np.array([where.get(key, -1) for key in keys], np.int64)
    found = rows >= 0
    return first.where(found), _at(second, rows[found])


def _at(sample: Sample, rows: NDArray[np.int64]) -> Sample:
    columns: dict[str, Any] = {name: getattr(sample, name)[rows] for name in COLUMNS}
    return Sample(sample.case_id, **columns)
