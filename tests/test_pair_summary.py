"""Summaries of pairs: counted again, split by kinds without loss, pooled without mixing what is known differently."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.pair_summary import Share, pooled, summarise
from capture.comparison import read_comparisons
from capture.intervals import FEWEST_CASES, wilson
from capture.model import FlipClass, RangeKind
from capture.ranges import Range
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
        assert whole.kl_mean == pytest.approx(float(comparison.metrics.kl_forward.mean()))
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
    assert (whole.kl_mean, whole.kl) == (np.inf, None)
    assert whole.disagreement is not None
    together = pooled([whole] * FEWEST_CASES)
    assert together is not None
    assert (together.kl_mean, together.kl) == (np.inf, None)


def test_few_positions_have_no_interval_of_their_mean(folder: Path) -> None:
    comparison = read_comparisons(folder / "synthetic" / "iface--int4.vs.bf16-eager.comparison.duckdb")[1]
    first = int(comparison.position[0])
    few = (Range(RangeKind.TOOL_CALL, first, first + 1), Range(RangeKind.PROSE, first + 1, 10_000))
    kinds = summarise(comparison, few).kinds
    assert (kinds[RangeKind.TOOL_CALL].positions, kinds[RangeKind.TOOL_CALL].kl) == (1, None)
    assert kinds[RangeKind.PROSE].kl is not None


def share(positions: int, flips: int, kl: float, *, bound: bool = False) -> Share:
    return Share(positions, flips, 0, kl, positions, bound)


def test_cases_are_pooled_by_their_positions() -> None:
    found = pooled([share(10, 1, 0.1), share(30, 0, 0.3)])
    assert found is not None
    assert (found.positions, found.flips, found.rate) == (40, 1, 0.025)
    assert found.kl_mean == pytest.approx(0.25)


def test_lower_bounds_and_whole_vocabularies_are_not_pooled() -> None:
    found = pooled([share(10, 0, 5.0, bound=True), share(30, 0, 0.3)])
    assert found is not None
    assert found.kl_mean == pytest.approx(0.3)
    assert (found.kl_positions, found.lower_bound) == (30, False)
    assert found.positions == 40


def test_nothing_pooled_is_nothing() -> None:
    assert pooled([]) is None
    assert pooled([share(0, 0, 0.0)]) is None


def test_an_interval_over_cases_needs_ten() -> None:
    few = pooled([share(20, at, 0.1 * at) for at in range(FEWEST_CASES - 1)])
    enough = pooled([share(20, at, 0.1 * at) for at in range(FEWEST_CASES)])
    assert few is not None
    assert enough is not None
    assert (few.disagreement, few.kl) == (None, None)
    assert enough.disagreement is not None
    assert enough.disagreement.low < enough.rate < enough.disagreement.high


def test_no_flip_in_ten_cases_is_no_proof_of_none() -> None:
    found = pooled([share(20, 0, 0.1)] * FEWEST_CASES)
    assert found is not None
    assert found.disagreement == wilson(0, 200)
