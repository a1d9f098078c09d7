"""Lanes in order, pair by pair."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capture.ranking import rank
from tests.report_samples import bundled_report, make_sample

RANDOM = np.random.default_rng(4)
HARD = [RANDOM.gamma(1.0, 1.0, 40) for _ in range(12)]


def test_the_nearest_lane_comes_first_with_its_lead_over_the_next() -> None:
    lanes = {
        name: [make_sample(case + extra, f"case-{at}") for at, case in enumerate(HARD)]
        for name, extra in (("far", 0.5), ("near", 0.0), ("middle", 0.1))
    }
    first, second, last = rank(lanes)
    assert [one.runtime for one in (first, second, last)] == ["near", "middle", "far"]
    assert (first.following, last.following) == ("middle", "")
    assert first.kl_forward is not None
    assert abs(first.kl_forward.difference + 0.1) < 1e-9
    assert first.kl_forward.interval is not None
    assert (first.kl_forward.cases, first.kl_forward.first_lower) == (12, 12)
    assert first.positions == 480
    assert last.kl_forward is None


def test_what_one_lane_alone_has_does_not_count() -> None:
    easy, hard = np.full(20, 0.1), np.full(20, 5.0)
    lanes = {
        "worse": [make_sample(easy, "easy")],
        "better": [make_sample(easy / 2, "easy"), make_sample(hard, "hard")],
    }
    assert [one.runtime for one in rank(lanes)] == ["better", "worse"]


def test_lanes_without_a_position_in_common_are_not_compared() -> None:
    lanes = {"one": [make_sample(np.ones(3))], "other": [make_sample(np.ones(3), lower_bound=True)]}
    first, _ = rank(lanes)
    assert (first.positions, first.kl_forward, first.disagreement) == (0, None, None)


def test_a_single_lane_is_first() -> None:
    (only,) = rank({"one": [make_sample(np.ones(3))]})
    assert (only.runtime, only.following) == ("one", "")


@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_lanes_does_not_matter(names: list[str]) -> None:
    lanes = {name: [make_sample(np.full(4, float(ord(name))))] for name in names}
    assert [one.runtime for one in rank(lanes)] == ["a", "b", "c", "d"]


def test_real_lanes_are_ranked_as_their_kl_says() -> None:
    section = bundled_report().sections[0]
    assert [one.runtime for one in section.ranking] == ["fp32", "tp3", "w8a8", "kv-e4m3", "kv-e5m2"]
    for one in section.ranking[:-1]:
        assert one.kl_forward is not None
        assert one.kl_forward.difference < 0
        assert one.kl_forward.interval is None
        assert one.kl_forward.cases == 3


def test_positions_that_both_rule_out_have_no_difference() -> None:
    lanes = {
        "near": [make_sample(np.array([np.inf, 1.0, 1.0]))],
        "far": [make_sample(np.array([np.inf, 2.0, 3.0]))],
    }
    first, _ = rank(lanes)
    assert (first.runtime, first.positions, first.infinite, first.left_out) == ("near", 2, (0, 0, 1), 1)
    assert first.kl_forward is not None
    assert first.kl_forward.difference == -1.5


def test_a_lane_that_rules_tokens_out_is_farther_than_any_number() -> None:
    """Its finite positions are the nearer ones: leaving the infinite one out would put it first."""
    lanes = {
        "ruled-out": [make_sample(np.array([np.inf, 1.0, 1.0]))],
        "plain": [make_sample(np.array([9.0, 2.0, 3.0]))],
    }
    first, last = rank(lanes)
    assert (first.runtime, last.runtime) == ("plain", "ruled-out")
    assert (first.positions, first.infinite) == (2, (0, 1, 0))
    assert first.kl_forward is not None
    assert first.kl_forward.difference == 1.5


def test_lanes_with_nothing_but_infinities_have_a_place() -> None:
    lanes = {name: [make_sample(np.full(3, kl))] for name, kl in (("all", np.inf), ("none", 1.0))}
    first, last = rank(lanes)
    assert (first.runtime, last.runtime, first.positions) == ("none", "all", 0)
    assert (first.kl_forward, first.left_out) == (None, 3)
