"""Summaries of pairs: counted again, split by kinds without loss, pooled without mixing what is known differently."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.pair_summary import Share, pooled, summarise
from capture.compare import Comparison
from capture.comparison import read_comparisons
from capture.divergence import Divergence
from capture.flips import Flip
from capture.intervals import FEWEST_CASES, Interval, wilson
from capture.metrics import PairMetrics
from capture.model import FlipClass, RangeKind, RunId
from capture.ranges import Range
from capture.samples import FLIP_CLASSES, Sample
from capture.summary import Divergences, summarize
from tests.report_samples import make_sample
from tests.synthetic import make_library

RANGES = (Range(RangeKind.PROSE, 0, 20), Range(RangeKind.TOOL_CALL, 20, 45), Range(RangeKind.PROSE, 45, 10_000))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_library(tmp_path_factory.mktemp("library"), lanes=3, positions=60, cases=("iface",))


def test_a_summary_counts_what_the_comparison_holds(folder: Path) -> None:
    for comparison in read_comparisons(folder / "synthetic" / "iface--int4.vs.bf16-eager.comparison.duckdb"):
        whole = summarise(comparison).whole
        assert (whole.positions, whole.flips) == (len(comparison.position), len(comparison.flips))
        decided = [flip for flip in comparison.flips if flip.flip_class is FlipClass.DECIDED]
        assert whole.decided == len(decided)
        assert whole.first_decided is not None
        assert whole.first_decided.position == decided[0].position
        assert whole.main is not None
        assert whole.main.mean == pytest.approx(float(comparison.metrics.kl_forward.mean()))
        assert whole.disagreement is not None
        assert whole.disagreement.low <= whole.rate <= whole.disagreement.high


def test_kinds_of_range_share_out_all_positions(folder: Path) -> None:
    comparison = read_comparisons(folder / "synthetic" / "iface--int4.vs.bf16-eager.comparison.duckdb")[1]
    found = summarise(comparison, RANGES)
    assert set(found.kinds) == {RangeKind.PROSE, RangeKind.TOOL_CALL}
    assert sum(share.positions for share in found.kinds.values()) == found.whole.positions
    assert sum(share.flips for share in found.kinds.values()) == found.whole.flips
    inside = [flip for flip in comparison.flips if 20 <= flip.position < 45]
    assert found.kinds[RangeKind.TOOL_CALL].flips == len(inside)


def test_an_infinite_divergence_has_no_interval(folder: Path) -> None:
    comparison = read_comparisons(folder / "synthetic" / "iface--int4.vs.bf16-eager.comparison.duckdb")[0]
    kl = comparison.metrics.kl_forward.copy()
    kl[5] = np.inf
    whole = summarise(replace(comparison, metrics=replace(comparison.metrics, kl_forward=kl))).whole
    assert whole.main == Divergence(np.inf, len(kl), lower_bound=False)
    assert whole.disagreement is not None
    together = pooled([whole] * FEWEST_CASES)
    assert together is not None
    assert together.main == Divergence(np.inf, FEWEST_CASES * len(kl), lower_bound=False)


def test_few_positions_have_no_interval_of_their_mean(folder: Path) -> None:
    comparison = read_comparisons(folder / "synthetic" / "iface--int4.vs.bf16-eager.comparison.duckdb")[1]
    first = int(comparison.position[0])
    few = (Range(RangeKind.TOOL_CALL, first, first + 1), Range(RangeKind.PROSE, first + 1, 10_000))
    kinds = summarise(comparison, few).kinds
    call, prose = kinds[RangeKind.TOOL_CALL].main, kinds[RangeKind.PROSE].main
    assert call is not None
    assert (kinds[RangeKind.TOOL_CALL].positions, call.positions, call.interval) == (1, 1, None)
    assert prose is not None
    assert prose.interval is not None


def share(positions: int, flips: int, kl: float, *, bound: bool = False) -> Share:
    found = Divergence(kl, positions, bound) if positions else None
    return Share(positions, flips, 0, None if bound else found, found if bound else None)


def test_cases_are_pooled_by_their_positions() -> None:
    found = pooled([share(10, 1, 0.1), share(30, 0, 0.3)])
    assert found is not None
    assert (found.positions, found.flips, found.rate) == (40, 1, 0.025)
    assert found.main is not None
    assert found.main.mean == pytest.approx(0.25)


def test_lower_bounds_and_whole_vocabularies_are_not_pooled() -> None:
    found = pooled([share(10, 0, 5.0, bound=True), share(30, 0, 0.3)])
    assert found is not None
    assert found.whole == found.main == Divergence(0.3, 30, lower_bound=False)
    assert found.bounded == found.other == Divergence(5.0, 10, lower_bound=True)
    assert found.positions == 40


def test_nothing_pooled_is_nothing() -> None:
    assert pooled([]) is None
    assert pooled([share(0, 0, 0.0)]) is None


def test_an_interval_over_cases_needs_ten() -> None:
    few = pooled([share(20, at, 0.1 * at) for at in range(FEWEST_CASES - 1)])
    enough = pooled([share(20, at, 0.1 * at) for at in range(FEWEST_CASES)])
    assert few is not None
    assert enough is not None
    assert few.main is not None
    assert enough.main is not None
    assert (few.disagreement, few.main.interval) == (None, None)
    assert enough.main.interval is not None
    assert enough.disagreement is not None
    assert enough.disagreement.low < enough.rate < enough.disagreement.high


def test_no_flip_in_ten_cases_is_no_proof_of_none() -> None:
    found = pooled([share(20, 0, 0.1)] * FEWEST_CASES)
    assert found is not None
    assert found.disagreement == wilson(0, 200)


POSITIONS = st.lists(
    st.tuples(st.floats(0, 20), st.booleans(), st.integers(0, len(FLIP_CLASSES))), min_size=0, max_size=30
)
"""For each position its KL, whether that is a lower bound, and its flip as in `Sample.flip`."""


def sample_of(case: int, found: list[tuple[float, bool, int]]) -> Sample:
    kl, bound, flips = (list(column) for column in zip(*found, strict=True)) if found else ([], [], [])
    plain = make_sample(np.array(kl, np.float64), f"case-{case}", flips=flips)
    return replace(plain, lower_bound=np.array(bound, np.bool_))


def compared(sample: Sample) -> Comparison:
    """Return the comparison that a sample is of."""
    prefixes = tuple(map(bytes, sample.prefix_id.tolist()))
    unknown = np.zeros(len(sample))
    columns = {
        **dict.fromkeys(PairMetrics.__slots__, unknown),
        "kl_forward": sample.kl_forward,
        "lower_bound": sample.lower_bound,
    }
    flips = tuple(
        Flip(at, prefixes[at], 0, 1, FLIP_CLASSES[code - 1], 0.0, 0.0)
        for at, code in enumerate(sample.flip.tolist())
        if code
    )
    return Comparison(RunId("a"), RunId("b"), sample.position, prefixes, PairMetrics(**columns), flips)  # type: ignore[arg-type]


def same(found: Divergence | None, wanted: Divergences | None) -> None:
    assert (found is None) is (wanted is None)
    if found is not None and wanted is not None:
        assert (found.positions, found.lower_bound) == (wanted.positions, wanted.lower_bound)
        assert found.mean == pytest.approx(wanted.kl_forward.mean)
        near(found.interval, wanted.kl_forward.interval)


def near(found: Interval | None, wanted: Interval | None) -> None:
    assert (found is None) is (wanted is None)
    if found is not None and wanted is not None:
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(POSITIONS, min_size=1, max_size=FEWEST_CASES + 2))
def test_shares_pool_into_what_a_report_says_of_the_same_positions(cases: list[list[tuple[float, bool, int]]]) -> None:
    samples = [sample_of(at, found) for at, found in enumerate(cases)]
    shares = [summarise(compared(sample)).whole for sample in samples]
    for one, sample in zip(shares, samples, strict=True):
        alone = summarize([sample], pooled=False)
        same(one.whole, alone.whole)
        same(one.bounded, alone.bounded)
        near(one.disagreement, alone.disagreement.interval)
    found, wanted = pooled(shares), summarize(samples)
    assert (found is None) is (wanted.positions == 0)
    if found is not None:
        assert (found.positions, found.flips, found.decided) == (wanted.positions, wanted.flips, wanted.decided)
        assert found.rate == wanted.disagreement.rate
        near(found.disagreement, wanted.disagreement.interval)
        same(found.whole, wanted.whole)
        same(found.bounded, wanted.bounded)
        assert wanted.main is not None
        assert found.main is not None
        assert found.main.lower_bound is wanted.main.lower_bound
