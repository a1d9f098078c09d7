"""Means of divergences: which group stands for both, how runs pool, and in what order runtimes stand."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.divergence import Divergence, divergence_of, main_of, nearness, pool
from capture.intervals import FEWEST_CASES, FEWEST_POSITIONS, block_bootstrap


@given(st.integers(1, 20), st.integers(1, 20))
def test_the_group_with_more_positions_stands_for_both_and_the_whole_vocabulary_on_a_tie(
    whole: int, bounded: int
) -> None:
    full, bound = Divergence(0.1, whole, lower_bound=False), Divergence(0.2, bounded, lower_bound=True)
    assert main_of(full, bound) is (bound if bounded > whole else full)
    assert main_of(full, None) is full
    assert main_of(None, bound) is bound


def test_nothing_stands_for_nothing() -> None:
    assert main_of(None, None) is None
    assert divergence_of(np.zeros(0), lower_bound=False) is None
    assert divergence_of(np.array([0.1, np.nan]), lower_bound=True) is None
    assert pool([None, None]) is None


def test_a_run_has_an_interval_from_eleven_positions_on() -> None:
    values = np.random.default_rng(0).random(FEWEST_POSITIONS)
    assert divergence_of(values[1:], lower_bound=True) == Divergence(float(values[1:].mean()), 10, lower_bound=True)
    found = divergence_of(values, lower_bound=False)
    assert found is not None
    assert found.interval == block_bootstrap(values)


def test_cases_pool_by_their_positions_with_an_interval_from_ten_on() -> None:
    parts = [Divergence(0.1 * at, 10 + at, lower_bound=True) for at in range(FEWEST_CASES)]
    found = pool([*parts, None])
    assert found is not None
    weight = sum(10 + at for at in range(FEWEST_CASES))
    assert (found.positions, found.lower_bound) == (weight, True)
    assert found.mean == pytest.approx(sum(0.1 * at * (10 + at) for at in range(FEWEST_CASES)) / weight)
    assert found.interval is not None
    assert found.interval.low < found.mean < found.interval.high
    few = pool(parts[1:])
    assert few is not None
    assert few.interval is None


def test_what_is_known_otherwise_does_not_pool() -> None:
    with pytest.raises(ValueError, match="never pooled"):
        pool([Divergence(0.1, 5, lower_bound=False), Divergence(0.1, 5, lower_bound=True)])


def test_one_infinite_case_makes_the_mean_infinite_and_claims_no_interval() -> None:
    found = pool([Divergence(at and math.inf, 5, lower_bound=False) for at in range(FEWEST_CASES)])
    assert found == Divergence(math.inf, 50, lower_bound=False)


def test_runtimes_stand_by_kl_then_by_disagreement_then_by_label_and_the_unknown_last() -> None:
    wanted = [
        nearness(0.1, 0.5, "z"),
        nearness(0.2, 0.1, "y"),
        nearness(0.2, 0.2, "a"),
        nearness(0.2, 0.2, "b"),
        nearness(math.inf, 0.0, "a"),
        nearness(None, 0.3, "b"),
        nearness(None, None, "a"),
    ]
    for some in permutations(wanted, 3):
        assert sorted(some) == [one for one in wanted if one in some]
