from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from capture.metrics import compare_rows, compare_top_k

TOKENS = np.zeros(1, np.int32)


def distributions(width: int = 6) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float32, (1, width), elements=st.floats(-40, 40, width=32))


def by_hand(first: list[float], second: list[float]) -> tuple[float, float, float]:
    """KL both ways and JSD with `math` alone, term by term, from logits."""

    def softmax(logits: list[float]) -> list[float]:
        largest = max(logits)
        weights = [math.exp(logit - largest) for logit in logits]
        return [weight / math.fsum(weights) for weight in weights]

    def divergence(one: list[float], other: list[float]) -> float:
        return math.fsum(a * (math.log(a) - math.log(b)) for a, b in zip(one, other, strict=True) if a > 0 and b > 0)

    one, other = softmax(first), softmax(second)
    middle = [(a + b) / 2 for a, b in zip(one, other, strict=True)]
    return divergence(one, other), divergence(other, one), (divergence(one, middle) + divergence(other, middle)) / 2


@given(distributions(), distributions())
def test_divergences_equal_an_independent_computation(first: np.ndarray, second: np.ndarray) -> None:
    found = compare_rows(first, second, TOKENS)
    forward, reverse, shannon = by_hand(first[0].tolist(), second[0].tolist())
    assert found.kl_forward[0] == pytest.approx(forward, abs=1e-9)
    assert found.kl_reverse[0] == pytest.approx(reverse, abs=1e-9)
    assert found.jensen_shannon[0] == pytest.approx(shannon, abs=1e-9)


def test_divergences_of_a_coin_known_from_the_book() -> None:
    fair, biased = np.log([[0.5, 0.5]]), np.log([[0.9, 0.1]])
    found = compare_rows(fair, biased, TOKENS)
    assert found.kl_forward[0] == pytest.approx(0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1), abs=1e-12)
    assert found.reference_entropy[0] == pytest.approx(math.log(2), abs=1e-12)
    assert found.delta_probability[0] == pytest.approx(0.4, abs=1e-12)


@given(distributions(), distributions())
def test_invariants(first: np.ndarray, second: np.ndarray) -> None:
    found, back = compare_rows(first, second, TOKENS), compare_rows(second, first, TOKENS)
    assert found.kl_forward[0] >= 0
    assert 0 <= found.jensen_shannon[0] <= math.log(2)
    assert found.kl_forward[0] == back.kl_reverse[0]
    assert found.jensen_shannon[0] == pytest.approx(back.jensen_shannon[0], abs=1e-12)
    assert compare_rows(first, first, TOKENS).kl_forward[0] == 0


@given(distributions(), distributions(), st.integers(-8, 8))
def test_a_constant_added_to_the_logits_changes_nothing(first: np.ndarray, second: np.ndarray, shift: int) -> None:
    wide = first.astype(np.float64)
    one = compare_rows(wide, second, TOKENS).kl_forward[0]
    assert compare_rows(wide + shift, second, TOKENS).kl_forward[0] == pytest.approx(one, abs=1e-9)


@given(distributions(12), distributions(12), st.integers(2, 12))
def test_top_k_never_exceeds_the_full_value(first: np.ndarray, second: np.ndarray, count: int) -> None:
    def top(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wide = logits.astype(np.float64)
        logs = wide - np.log(np.exp(wide - wide.max()).sum()) - wide.max()
        ids = np.argsort(-logs, kind="stable")[:, :count].astype(np.int32)
        return ids, np.take_along_axis(logs, ids, axis=1)

    (ids, logs), (other_ids, other_logs) = top(first), top(second)
    full = compare_rows(first, second, TOKENS)
    bound = compare_top_k((ids, other_ids), (logs, other_logs), TOKENS)
    assert bound.lower_bound.all()
    assert bound.kl_forward[0] <= full.kl_forward[0] + 1e-9
    assert bound.jensen_shannon[0] <= full.jensen_shannon[0] + 1e-9


def test_ranks_count_those_before_with_ties_by_id() -> None:
    found = compare_rows(np.array([[3.0, 1, 2]]), np.array([[1.0, 1, 9]]), TOKENS)
    assert found.reference_rank[0] == 1  # id 0 ties with id 1 behind id 2, and goes first
    assert found.candidate_rank[0] == 1


def test_ids_without_bytes_are_left_out_and_their_probability_told() -> None:
    first, second = np.log([[0.4, 0.4, 0.2]]), np.log([[0.3, 0.3, 0.4]])
    found = compare_rows(first, second, TOKENS, np.array([True, True, False]))
    assert found.kl_forward[0] == pytest.approx(0, abs=1e-12)
    assert found.reference_outside[0] == pytest.approx(0.2)
    assert found.candidate_outside[0] == pytest.approx(0.4)
