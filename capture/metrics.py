"""How far two distributions after the same prefix are apart, in float64 (DESIGN section 3). Pure; numpy only."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from capture.model import Float32Array, Float64Array, Int32Array

BoolArray = NDArray[np.bool_]
Logits = Float32Array | Float64Array

_ROUNDING = 1e-15
"""Probability below which one minus a sum of probabilities says nothing."""


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
        delta_probability: the candidate's minus the reference's probability of the reference's token.
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
    reference: Logits, candidate: Logits, tokens: Int32Array, shared_ids: BoolArray | None = None
) -> PairMetrics:
    """Compare rows [n, V] that follow the same prefixes.

    Args:
        reference: logits of the reference.
        candidate: logits of the candidate, over the same ids.
        tokens: the token the reference took at each row, int32 [n].
        shared_ids: bool [V], the ids that have bytes in both; None for all of them.
    """
    first, first_outside = _restrict(reference, shared_ids)
    second, second_outside = _restrict(candidate, shared_ids)
    first_probability, second_probability = np.exp(first), np.exp(second)
    middle = np.logaddexp(first, second) - np.log(2.0)
    first_winner, second_winner = first.argmax(axis=1), second.argmax(axis=1)
    rows = np.arange(len(first))
    return PairMetrics(
        kl_forward=_expectation(first_probability, first, second),
        kl_reverse=_expectation(second_probability, second, first),
        jensen_shannon=np.minimum(
            (_expectation(first_probability, first, middle) + _expectation(second_probability, second, middle)) / 2,
            np.log(2.0),
        ),
        reference_entropy=_entropy(first_probability, first),
        candidate_entropy=_entropy(second_probability, second),
        reference_rank=_rank(second, first_winner),
        candidate_rank=_rank(first, second_winner),
        reference_winner_probability=second_probability[rows, first_winner],
        candidate_winner_probability=first_probability[rows, second_winner],
        delta_probability=second_probability[rows, tokens] - first_probability[rows, tokens],
        top5_overlap=_overlap(first, second),
        reference_outside=first_outside,
        candidate_outside=second_outside,
        lower_bound=np.zeros(len(first), np.bool_),
    )


def _restrict(logits: Logits, shared_ids: BoolArray | None) -> tuple[Float64Array, Float64Array]:
    """Return log-probabilities over the shared ids (-inf elsewhere) and the probability left outside."""
    every = log_softmax(logits.astype(np.float64))
    if shared_ids is None or shared_ids.all():
        return every, np.zeros(len(logits))
    outside = np.exp(every[:, ~shared_ids]).sum(axis=1)
    inside = np.where(shared_ids, every, -np.inf)
    return log_softmax(inside), outside


def _expectation(weights: Float64Array, first: Float64Array, second: Float64Array) -> Float64Array:
    """Return the mean of `first - second` under `weights`, where a weight of 0 counts as 0; at least 0."""
    with np.errstate(invalid="ignore"):
        terms = weights * (first - second)
    terms[weights == 0] = 0.0
    total: Float64Array = np.maximum(terms.sum(axis=1), 0.0)
    return total


def _entropy(probability: Float64Array, log_probability: Float64Array) -> Float64Array:
    with np.errstate(invalid="ignore"):
        terms = probability * log_probability
    terms[probability == 0] = 0.0
    total: Float64Array = np.maximum(-terms.sum(axis=1), 0.0)
    return total


def _rank(log_probability: Float64Array, ids: NDArray[np.int64]) -> Int32Array:
    """Return how many ids come before `ids`: those strictly higher, and equal ones with a lower id."""
    value = log_probability[np.arange(len(ids)), ids][:, None]
    higher = (log_probability > value).sum(axis=1)
    equal_before = ((log_probability == value) & (np.arange(log_probability.shape[1]) < ids[:, None])).sum(axis=1)
    rank: Int32Array = (higher + equal_before).astype(np.int32)
    return rank


def _overlap(first: Float64Array, second: Float64Array) -> Int32Array:
    left, right = _highest_five(first), _highest_five(second)
    shared: Int32Array = (left[:, :, None] == right[:, None, :]).any(axis=2).sum(axis=1).astype(np.int32)
    return shared


def _highest_five(values: Float64Array) -> NDArray[np.int64]:
    width = min(5, values.shape[1])
    return np.argpartition(-values, width - 1, axis=1)[:, :width]


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
    rest = max(1.0 - float(np.exp(inside).sum()), _ROUNDING)
    return np.append(inside, np.log(rest))[None, :]


def _listed_rank(ids: Int32Array, token_id: int) -> Int32Array:
    found = np.flatnonzero(ids == token_id)
    return np.array([found[0] if found.size else len(ids)], np.int32)
