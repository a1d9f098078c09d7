"""Intervals: known values, coverage on clustered flips, invariants."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from capture.intervals import (
    FEWEST_CASES,
    Interval,
    block_bootstrap,
    block_length,
    block_rate,
    case_bootstrap,
    case_rate,
    paired_difference,
    root,
    wilson,
)
from capture.model import Float64Array

VALUES = hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 50))


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        (3, 256, 0.0040, 0.0339),  # the window of 256 probes at the usual flip rate, in per cent: 0.40 to 3.39
        (0, 256, 0.0, 0.0148),
        (26, 2560, 0.0069, 0.0148),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (17, 17, 0.8157, 1.0),  # as `statsmodels` 0.15.0 gives it
    ],
)
def test_wilson_gives_published_values(hits: int, trials: int, low: float, high: float) -> None:
    found = wilson(hits, trials)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@given(st.integers(1, 5000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_wilson_holds_the_rates_that_a_score_test_keeps(counts: tuple[int, int]) -> None:
    hits, trials = counts
    quantile = NormalDist().inv_cdf(0.975)
    found = wilson(hits, trials, quantile)
    assert 0 <= found.low <= hits / trials <= found.high <= 1
    for end in (found.low, found.high):
        if 0 < end < 1:
            score = abs(hits / trials - end) / math.sqrt(end * (1 - end) / trials)
            assert score == pytest.approx(quantile, rel=1e-6)
    assert found.low == pytest.approx(1 - wilson(trials - hits, trials, quantile).high, abs=1e-12)


@pytest.mark.parametrize(("hits", "trials"), [(-1, 3), (4, 3), (0, 0)])
def test_wilson_refuses_what_is_no_proportion(hits: int, trials: int) -> None:
    with pytest.raises(ValueError, match="no proportion"):
        wilson(hits, trials)


def claimed(interval: Interval | None) -> Interval:
    assert interval is not None
    return interval


def clustered_flips(rate: float, stay: float, size: int, runs: int, seed: int) -> Float64Array:
    """Return flips of a Markov chain, [runs, size]: `rate` of all positions, after a flip `stay` of them."""
    drawn = np.random.default_rng(seed).random((runs, size))
    start = rate * (1 - stay) / (1 - rate)
    flips = np.zeros((runs, size))
    flips[:, 0] = drawn[:, 0] < rate
    for at in range(1, size):
        flips[:, at] = drawn[:, at] < np.where(flips[:, at - 1] > 0, stay, start)
    return flips


def coverage(found: list[Interval], truth: float) -> float:
    return sum(one.low <= truth <= one.high for one in found) / len(found)


@pytest.mark.parametrize(("rate", "stay"), [(0.05, 0.7), (0.1, 0.5), (0.1, 0.8)])
def test_blocks_cover_clustered_flips_where_the_binomial_does_not(rate: float, stay: float) -> None:
    runs = clustered_flips(rate, stay, size=2000, runs=400, seed=7)
    blocks = coverage([claimed(block_bootstrap(flips)) for flips in runs], rate)
    rates = coverage([block_rate(flips) for flips in runs], rate)
    binomial = coverage([wilson(int(flips.sum()), len(flips)) for flips in runs], rate)
    assert 0.88 <= blocks <= 0.98
    assert 0.90 <= rates <= 0.98
    assert binomial < 0.82


def test_rare_clustered_flips_are_covered_by_the_rate() -> None:
    runs = clustered_flips(0.01, 0.6, size=2000, runs=400, seed=8)
    assert coverage([block_rate(flips) for flips in runs], 0.01) >= 0.88
    assert coverage([wilson(int(flips.sum()), len(flips)) for flips in runs], 0.01) < 0.78


def test_independent_flips_keep_the_width_of_the_binomial() -> None:
    runs = clustered_flips(0.05, 0.05, size=2000, runs=200, seed=9)
    assert coverage([block_rate(flips) for flips in runs], 0.05) >= 0.9
    widths = [(block_rate(flips), wilson(int(flips.sum()), len(flips))) for flips in runs]
    ratio = np.mean([(one.high - one.low) / (other.high - other.low) for one, other in widths])
    assert 0.98 <= ratio <= 1.1


def test_cases_cover_a_mean_that_differs_by_case() -> None:
    random = np.random.default_rng(11)
    found = []
    for _ in range(300):
        means = random.gamma(2.0, 0.05, 20)
        groups = [random.gamma(1.0, level, 100) for level in means]
        interval = case_bootstrap(groups)
        assert interval is not None
        found.append(interval)
    assert 0.86 <= coverage(found, 0.1) <= 0.98


def autoregression(factor: float, size: int, seed: int) -> Float64Array:
    """Return a series in which each value holds `factor` of the one before."""
    noise = np.random.default_rng(seed).normal(size=size)
    series = np.empty(size)
    series[0] = noise[0]
    for at in range(1, size):
        series[at] = factor * series[at - 1] + noise[at]
    return series


@pytest.mark.parametrize(
    ("factor", "size", "seed", "known"),
    [(0, 500, 1, 3.651), (0.3, 500, 2, 5.904), (0.7, 4000, 3, 29.047), (0.9, 2000, 4, 51.999), (0.5, 60, 5, 3.281)],
)
def test_the_block_length_is_that_of_another_implementation(factor: float, size: int, seed: int, known: float) -> None:
    """Known from `arch.bootstrap.optimal_block_length` 8.0.0, which searches for the last significant lag otherwise."""
    assert block_length(autoregression(factor, size, seed)) == pytest.approx(math.ceil(known), rel=0.07, abs=1)


def test_the_block_bootstrap_is_that_of_another_implementation() -> None:
    """Known from `arch.bootstrap.CircularBlockBootstrap` 8.0.0 with blocks of 5, 20,000 resamples, percentiles."""
    found = claimed(block_bootstrap(autoregression(0.7, 400, 3) ** 2, block=5, resamples=20_000))
    assert (found.low, found.high) == pytest.approx((1.57196, 2.19627), abs=0.01)


def test_the_block_length_grows_with_the_dependence() -> None:
    # The asymptotic optimum for an autoregression of 0.7: (1.5 n (2 g / s)^2)^(1/3), g and s in closed form.
    autocovariances = 0.7 ** np.arange(1, 200) / (1 - 0.49)
    spectrum = 1 / (1 - 0.7) ** 2
    ideal = (1.5 * 4000 * (2 * (np.arange(1, 200) * autocovariances).sum() / spectrum) ** 2) ** (1 / 3)
    assert ideal / 1.6 < block_length(autoregression(0.7, 4000, 3)) < ideal * 1.6
    assert block_length(autoregression(0.0, 4000, 3)) < ideal / 3


@pytest.mark.parametrize("values", [np.zeros(0), np.zeros(1), np.ones(3), np.zeros(100)])
def test_what_does_not_vary_has_blocks_of_one(values: Float64Array) -> None:
    assert block_length(values) == 1


@given(VALUES, st.integers(0, 3))
def test_an_interval_lies_within_the_values_and_repeats(values: Float64Array, seed: int) -> None:
    found = claimed(block_bootstrap(values, resamples=100, seed=seed))
    slack = 1e-9 * (1 + values.max())
    assert values.min() - slack <= found.low <= found.high <= values.max() + slack
    assert found == block_bootstrap(values, resamples=100, seed=seed)


@given(VALUES, st.floats(0.1, 10), st.floats(0, 10))
def test_an_interval_moves_with_its_values(values: Float64Array, scale: float, shift: float) -> None:
    plain = claimed(block_bootstrap(values, block=2, resamples=100))
    moved = claimed(block_bootstrap(scale * values + shift, block=2, resamples=100))
    assert moved.low == pytest.approx(scale * plain.low + shift, rel=1e-6, abs=1e-6)
    assert moved.high == pytest.approx(scale * plain.high + shift, rel=1e-6, abs=1e-6)


@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_the_interval_of_a_rate_holds_it_and_is_never_narrower_than_for_independent_trials(hits: list[bool]) -> None:
    values = np.array(hits, np.float64)
    found, independent = block_rate(values), wilson(sum(hits), len(hits))
    assert 0 <= found.low <= values.mean() <= found.high <= 1
    assert found.high - found.low >= independent.high - independent.low - 1e-12


def test_no_flip_is_no_proof_of_none() -> None:
    assert block_rate(np.zeros(100)) == wilson(0, 100)
    assert block_bootstrap(np.zeros(100)) == Interval(0.0, 0.0)


def test_the_root_of_a_mean_of_squares_is_the_root_of_its_interval() -> None:
    squares = np.random.default_rng(5).random(300) ** 2
    plain, rooted = claimed(block_bootstrap(squares)), claimed(block_bootstrap(squares, root))
    assert rooted.low == pytest.approx(math.sqrt(plain.low), rel=1e-3)
    assert rooted.high == pytest.approx(math.sqrt(plain.high), rel=1e-3)


def test_a_long_run_draws_no_more_than_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    generator = np.random.default_rng

    class Counting:
        def __init__(self, seed: int) -> None:
            self._inner = generator(seed)

        def integers(self, low: int, high: int, size: tuple[int, int], dtype: type) -> np.ndarray:
            drawn.append(size[0] * size[1])
            return self._inner.integers(low, high, size, dtype=dtype)

    values = generator(0).random(200_000)
    monkeypatch.setattr(np.random, "default_rng", Counting)
    found = claimed(block_bootstrap(values))
    assert max(drawn) <= 500_000
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.sqrt(1 / 12 / 200_000), rel=0.2)


def test_under_ten_cases_no_interval_is_claimed() -> None:
    groups = [np.array([0.0, 1.0])] * FEWEST_CASES
    assert case_bootstrap(groups[1:]) is None
    assert case_bootstrap([*groups[1:], np.zeros(0)]) is None
    assert case_bootstrap(groups) == Interval(0.5, 0.5)


def test_lanes_are_paired_by_position() -> None:
    random = np.random.default_rng(2)
    hard = [np.full(50, level) for level in random.gamma(1.0, 1.0, 12)]
    better = [case + random.normal(0, 0.02, 50) for case in hard]
    worse = [case + 0.05 + random.normal(0, 0.02, 50) for case in hard]
    found = paired_difference(better, worse)
    assert found.difference == pytest.approx(-0.05, abs=0.01)
    assert found.interval is not None
    assert found.interval.low < found.difference < found.interval.high < 0
    assert (found.cases, found.first_lower, found.second_lower) == (12, 12, 0)
    unpaired = case_bootstrap(better)
    assert unpaired is not None
    assert unpaired.high - unpaired.low > 10 * (found.interval.high - found.interval.low)


@given(st.lists(VALUES, min_size=1, max_size=12))
def test_a_paired_difference_turns_its_sign_with_its_lanes(groups: list[Float64Array]) -> None:
    other = [group[::-1] ** 2 for group in groups]
    there, back = paired_difference(groups, other), paired_difference(other, groups)
    assert there.difference == pytest.approx(-back.difference, abs=1e-9)
    assert (there.first_lower, there.second_lower) == (back.second_lower, back.first_lower)
    assert there.first_lower + there.second_lower <= there.cases == len(groups)


def test_lanes_of_other_positions_are_refused() -> None:
    with pytest.raises(ValueError, match="same ones"):
        paired_difference([np.zeros(2)], [np.zeros(3)])
    with pytest.raises(ValueError, match="same ones"):
        paired_difference([], [])
    with pytest.raises(ValueError, match="at least one value"):
        block_bootstrap(np.zeros(0))


def test_a_resample_is_as_long_as_the_run() -> None:
    """Blocks of 30 out of 100 are three and a cut one: whole ones would be 120 values, and 9 % too narrow."""
    values = np.random.default_rng(6).normal(size=100)
    found = claimed(block_bootstrap(values, block=30, resamples=40_000))
    circular = np.concatenate([values, values])
    whole, cut = (np.array([circular[at : at + size].sum() for at in range(100)]) for size in (30, 10))
    deviation = math.sqrt(3 * whole.var() + cut.var()) / 100
    assert found.high - found.low == pytest.approx(2 * 1.96 * deviation, rel=0.03)


@pytest.mark.parametrize("size", [64, 100, 200])
def test_short_runs_of_independent_values_are_covered(size: int) -> None:
    runs = np.random.default_rng(12).normal(size=(500, size))
    assert coverage([claimed(block_bootstrap(values)) for values in runs], 0.0) >= 0.9


@pytest.mark.parametrize("size", [64, 100, 200])
def test_short_runs_of_clustered_flips_are_covered_by_the_rate(size: int) -> None:
    runs = clustered_flips(0.1, 0.4, size=size, runs=400, seed=13)
    assert coverage([block_rate(flips) for flips in runs], 0.1) >= 0.88


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_of_what_is_not_finite_no_interval_is_claimed(value: float) -> None:
    values = np.append(np.ones(30), value)
    assert block_bootstrap(values) is None
    assert case_bootstrap([values] * FEWEST_CASES) is None


def test_no_flip_in_any_case_is_no_proof_of_none() -> None:
    assert case_rate([np.zeros(10)] * 12) == wilson(0, 120)
    assert case_rate([np.ones(10)] * 12) == wilson(120, 120)
    assert case_rate([np.zeros(10)] * 9) is None


def test_the_rate_of_cases_covers_flips_that_differ_by_case() -> None:
    random = np.random.default_rng(14)
    found = []
    for _ in range(300):
        levels = random.beta(1.0, 19.0, 20)
        found.append(claimed(case_rate([(random.random(100) < level).astype(np.float64) for level in levels])))
    assert 0.88 <= coverage(found, 0.05) <= 0.98


def test_rare_flips_in_cases_are_covered_where_the_percentiles_are_not() -> None:
    random = np.random.default_rng(15)
    studies = [[(random.random(20) < 0.01).astype(np.float64) for _ in range(10)] for _ in range(300)]
    assert coverage([claimed(case_rate(cases)) for cases in studies], 0.01) >= 0.9
    assert coverage([claimed(case_bootstrap(cases)) for cases in studies], 0.01) < 0.88


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=9), min_size=10, max_size=20))
def test_the_rate_of_cases_is_in_its_interval_and_never_narrower_than_for_independent_trials(
    hits: list[list[bool]],
) -> None:
    found = claimed(case_rate([np.array(case, np.float64) for case in hits], resamples=100))
    flat = [hit for case in hits for hit in case]
    independent = wilson(sum(flat), len(flat))
    assert 0 <= found.low <= sum(flat) / len(flat) <= found.high <= 1
    assert found.high - found.low >= independent.high - independent.low - 1e-12
