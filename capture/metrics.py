"""How far two distributions after the same prefix are apart, in float64 (DESIGN section 3). Pure; numpy only."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture.model import Float64Array, Int32Array
from capture.row_pair import Logits, PairNumbers, RowPair

BoolArray = NDArray[np.bool_]

_NUMBERS = PairNumbers._fields[:-2]
_COUNTS = ("reference_rank", "candidate_rank", "top5_overlap")

_ROUNDING = 1e-14
"""How far one minus a sum of probabilities may be too low: log-probabilities are differences of logits up to 64."""


@dataclass(frozen=True, slots=True)
class PairMetrics:
    """One value a position, n positions; divergences in nats, probabilities 0..1.

    Attributes:
        kl_forward: KL(reference‖candidate), float64 [n].
        kl_reverse: KL(candidate‖reference), float64 [n].
        jensen_shannon: Jensen–Shannon divergence, base e, at most ln 2.
        reference_entropy, candidate_entropy: Shannon entropy.
        reference_rank: rank (0 = first) of the reference's winner in the candidate.
        candidate_rank: rank of the candidate's winner in the reference.
        reference_winner_probability: probability the candidate gives to the reference's winner.
        candidate_winner_probability: probability the reference gives to the candidate's winner.
        delta_probability: the candidate's minus the reference's probability of the reference's token; NaN where one of
            them does not have that token.
        top5_overlap: how many of the five highest ids both share.
        reference_outside, candidate_outside: probability on ids that have bytes in one lane only.
        lower_bound: True when only top-k was known: the divergences are then lower bounds.
    """

    kl_forward: Float64Array
    kl_reverse: Float64Array
    jensen_shannon: Float64Array
    reference_entropy: Float64Array
    candidate_entropy: Float64Array
    reference_rank: Int32Array
    candidate_rank: Int32Array
    reference_winner_probability: Float64Array
    candidate_winner_probability: Float64Array
    delta_probability: Float64Array
    top5_overlap: Int32Array
    reference_outside: Float64Array
    candidate_outside: Float64Array
    lower_bound: BoolArray

    def __len__(self) -> int:
        return len(self.kl_forward)


def concatenate(parts: list[PairMetrics]) -> PairMetrics:
    """Return the parts one after the other; at least one part is needed."""
    names = [field.name for field in fields(PairMetrics)]
    return PairMetrics(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def log_softmax(logits: Float64Array) -> Float64Array:
    """Return log-probabilities [n, V] in nats."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    normalized: Float64Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normalized


def compare_rows(
    reference: Logits, candidate: Logits, tokens: Int32Array, shared_ids: BoolArray | None = None, threads: int = 1
) -> PairMetrics:
    """Compare rows [n, V] that follow the same prefixes; beside the rows it needs memory for a few rows a thread.

    Args:
        reference: logits of the reference.
        candidate: logits of the candidate, over the same ids.
        tokens: the token the reference took at each row, int32 [n].
        shared_ids: bool [V], the ids that have bytes in both; None for all of them.
        threads: how many threads may work at once; numpy lets go of the interpreter while it computes.
    """
    inside, outside = _split(shared_ids, reference.shape[1])
    where = None if shared_ids is None else np.where(shared_ids, np.cumsum(shared_ids) - 1, -1)
    table: Float64Array = np.zeros((len(reference), len(_NUMBERS) + 2))
    buffers = [RowPair(reference[:1, inside].shape[1]) for _ in range(max(1, min(threads, len(reference))))]

    def fill(worker: int) -> None:
        for row in range(worker, len(reference), len(buffers)):
            token = int(tokens[row]) if where is None else int(where[tokens[row]])
            first, second = reference[row], candidate[row]
            found = buffers[worker].compare(first[inside], second[inside], token if token >= 0 else None)
            table[row, :-2] = found[: len(_NUMBERS)]
            table[row, -2] = _outside(first[outside], found.reference_log_sum_exp)
            table[row, -1] = _outside(second[outside], found.candidate_log_sum_exp)

    _in_threads(fill, len(buffers))
    columns: dict[str, Any] = {
        name: table[:, at].astype(np.int32 if name in _COUNTS else np.float64) for at, name in enumerate(_NUMBERS)
    }
    return PairMetrics(
        **columns,
        reference_outside=table[:, -2].copy(),
        candidate_outside=table[:, -1].copy(),
        lower_bound=np.zeros(len(reference), np.bool_),
    )


def _in_threads(fill: Callable[[int], None], count: int) -> None:
    if count == 1:
        fill(0)
        return
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(fill, range(count)))


def _split(shared_ids: BoolArray | None, width: int) -> tuple[slice | BoolArray, slice | BoolArray]:
    """Return what picks the shared ids of a row, and the others: slices, which copy nothing, for a first stretch."""
    if shared_ids is None:
        return slice(0, width), slice(0, 0)
    count = int(np.count_nonzero(shared_ids))
    if shared_ids[:count].all():
        return slice(0, count), slice(count, width)
    return shared_ids, ~shared_ids


def _outside(logits: Logits, log_sum_exp: float) -> float:
    """Return the probability on `logits` beside others whose log-sum-exp is known."""
    largest = float(logits.max(initial=-np.inf))
    if largest == -np.inf:
        return 0.0
    rest = largest + math.log(float(np.exp(logits.astype(np.float64) - largest).sum()))
    return 1.0 / (1.0 + math.exp(min(log_sum_exp - rest, 700.0)))


def compare_top_k(
    ids: tuple[Int32Array, Int32Array],
    log_probabilities: tuple[Float64Array, Float64Array],
    tokens: Int32Array,
) -> PairMetrics:
    """Compare rows of which only the k highest are known, [n, k] each.

    All probability outside the common tokens is one bucket; by the data-processing inequality the divergences are
    then lower bounds of those over the whole vocabulary. Ranks and probabilities of a winner that the other side
    did not report are its k and the other's k-th probability (bounds). Entropies are of the bucketed distributions.
    """
    parts = [
        _compare_top_k_row(ids[0][row], ids[1][row], log_probabilities[0][row], log_probabilities[1][row], int(token))
        for row, token in enumerate(tokens)
    ]
    return (
        concatenate(parts)
        if parts
        else compare_rows(np.zeros((0, 1), np.float32), np.zeros((0, 1), np.float32), tokens)
    )


def _compare_top_k_row(
    first_ids: Int32Array, second_ids: Int32Array, first_logs: Float64Array, second_logs: Float64Array, token: int
) -> PairMetrics:
    first = dict(zip(first_ids.tolist(), first_logs.tolist(), strict=True))
    second = dict(zip(second_ids.tolist(), second_logs.tolist(), strict=True))
    common = [token_id for token_id in first if token_id in second]
    left, right = _bucketed(first, common), _bucketed(second, common)
    metrics = compare_rows(left, right, np.zeros(1, np.int32))
    floor_first, floor_second = min(first.values()), min(second.values())
    winner_first, winner_second = int(first_ids[0]), int(second_ids[0])
    delta = np.exp(second.get(token, floor_second)) - np.exp(first.get(token, floor_first))
    return PairMetrics(
        kl_forward=metrics.kl_forward,
        kl_reverse=metrics.kl_reverse,
        jensen_shannon=metrics.jensen_shannon,
        reference_entropy=metrics.reference_entropy,
        candidate_entropy=metrics.candidate_entropy,
        reference_rank=_listed_rank(second_ids, winner_first),
        candidate_rank=_listed_rank(first_ids, winner_second),
        reference_winner_probability=np.exp([second.get(winner_first, floor_second)]),
        candidate_winner_probability=np.exp([first.get(winner_second, floor_first)]),
        delta_probability=np.array([delta]),
        top5_overlap=np.array([len(set(first_ids[:5].tolist()) & set(second_ids[:5].tolist()))], np.int32),
        reference_outside=np.zeros(1),
        candidate_outside=np.zeros(1),
        lower_bound=np.ones(1, np.bool_),
    )


def _bucketed(logs: dict[int, float], common: list[int]) -> Float64Array:
    """Return one row: the common tokens' log-probabilities, then one bucket for the rest."""
    inside = np.array([logs[token_id] for token_id in common], np.float64)
    rest = max(1.0 - float(np.exp(inside).sum()), 0.0) + _ROUNDING  # too low a rest would be no lower bound
    return np.append(inside, np.log(rest))[None, :]


def _listed_rank(ids: Int32Array, token_id: int) -> Int32Array:
    found = np.flatnonzero(ids == token_id)
    return np.array([found[0] if found.size else len(ids)], np.int32)
