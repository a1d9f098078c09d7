"""The numbers of a pair of rows as anyone would write them with numpy: the independent check of `capture.metrics`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture.metrics import BoolArray, PairMetrics
from capture.model import Float64Array, Int32Array
from capture.row_pair import Logits


def log_softmax(logits: Float64Array) -> Float64Array:
    """Return log-probabilities [n, V] in nats."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    normalized: Float64Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normalized


def plain_compare_rows(
    reference: Logits, candidate: Logits, tokens: Int32Array, shared_ids: BoolArray | None = None
) -> PairMetrics:
    """Compare rows [n, V] that follow the same prefixes.

    Args:
        reference: logits of the reference.
        candidate: logits of the candidate, over the same ids.
        tokens: the token the reference took at each row, int32 [n].
        shared_ids: bool [V], the ids that have bytes in both; None for all of them.
    """
    shared = np.ones(reference.shape[1], np.bool_) if shared_ids is None else shared_ids
    first, first_outside = _restrict(reference, shared)
    second, second_outside = _restrict(candidate, shared)
    token_change = _taken(second, tokens, shared) - _taken(first, tokens, shared)
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
        delta_probability=token_change,
        top5_overlap=_overlap(first, second),
        reference_outside=first_outside,
        candidate_outside=second_outside,
        lower_bound=np.zeros(len(first), np.bool_),
    )


def _restrict(logits: Logits, shared: BoolArray) -> tuple[Float64Array, Float64Array]:
    """Return log-probabilities over the shared ids alone and the probability left outside."""
    every = log_softmax(logits.astype(np.float64))
    return log_softmax(every[:, shared]), np.exp(every[:, ~shared]).sum(axis=1)


def _taken(log_probability: Float64Array, tokens: Int32Array, shared: BoolArray) -> Float64Array:
    whole = np.full((len(tokens), len(shared)), np.nan)  # a token that one side lacks has no change to tell
    whole[:, shared] = np.exp(log_probability)
    taken: Float64Array = whole[np.arange(len(tokens)), tokens]
    return taken


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
    lower = np.arange(log_probability.shape[1]) < ids[:, None]
    rank: Int32Array = ((log_probability > value) | ((log_probability == value) & lower)).sum(axis=1).astype(np.int32)
    return rank


def _overlap(first: Float64Array, second: Float64Array) -> Int32Array:
    left, right = (np.argsort(-values, axis=1, kind="stable")[:, :5] for values in (first, second))
    both: Int32Array = (left[:, :, None] == right[:, None, :]).any(axis=2).sum(axis=1).astype(np.int32)
    return both
