"""The numbers of `stats`: both groups apart, the larger shown, and nothing unknown counted as none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.stats_text import statistics_json, statistics_lines
from capture.bundle import Bundle
from capture.compare import Side, compare_runs
from capture.model import Mode, Origin, ScoringPath
from capture.report import Scope
from capture.stats import RunStatistics, library_statistics
from capture.summary import Divergences
from tests.factories import make_bundle, make_facts, make_run, make_steps
from tests.report_samples import bundled, bundled_report, bundled_statistics


@pytest.fixture(scope="module")
def rows() -> list[RunStatistics]:
    return bundled_statistics()


def row_of(rows: list[RunStatistics], case: str, runtime: str) -> RunStatistics:
    (found,) = [
        row
        for row in rows
        if (row.case, row.runtime, row.mode, row.scoring_path) == (case, runtime, Mode.FORCED, ScoringPath.DECODE)
    ]
    return found


def test_whole_vocabularies_and_lower_bounds_are_told_apart(rows: list[RunStatistics]) -> None:
    row = row_of(rows, "mac", "kv-e4m3")
    with Bundle(bundled("mac", "bf16")) as reference, Bundle(bundled("mac", "kv-e4m3")) as candidate:
        one, other = Side.of(reference, reference.runs[0].run_id), Side.of(candidate, row.run_id)
        metrics = compare_runs(one, other).metrics
    bound = metrics.lower_bound
    assert row.whole is not None
    assert row.bounded is not None
    assert (row.positions, row.whole.positions, row.bounded.positions) == (52, 43, 9)
    assert row.main is row.whole
    for group, mask in ((row.whole, ~bound), (row.bounded, bound)):
        assert group.kl_mean == pytest.approx(float(np.mean(metrics.kl_forward[mask])))
        assert group.kl_reverse_mean == pytest.approx(float(np.mean(metrics.kl_reverse[mask])))
        assert group.jensen_shannon_mean == pytest.approx(float(np.mean(metrics.jensen_shannon[mask])))
        assert group.kl_max == float(np.max(metrics.kl_forward[mask]))
    assert row.whole.rms_delta_probability == pytest.approx(
        float(np.sqrt(np.mean(metrics.delta_probability[~bound] ** 2)))
    )


def test_both_groups_are_the_reports(rows: list[RunStatistics]) -> None:
    scopes: dict[tuple[str, str, str, str], Scope] = {
        (scope.name, lane.runtime, section.mode, section.scoring_path): scope
        for section in bundled_report().sections
        for lane in section.lanes
        for scope in lane.by_case
    }
    assert len(rows) == len(scopes)
    for row in rows:
        summary = scopes[row.case, row.runtime, row.mode, row.scoring_path].summary
        for group, wanted in ((row.whole, summary.whole), (row.bounded, summary.bounded)):
            assert (group is None) is (wanted is None)
            if group is not None and wanted is not None:
                assert group.kl_reverse_mean == pytest.approx(wanted.kl_reverse.mean)
                assert group.kl_max == wanted.kl_forward.maximum
                assert group.delta_positions == wanted.positions - wanted.delta_unknown
                assert group.rms_delta_probability == pytest.approx(_rms(wanted))


def _rms(group: Divergences) -> float | None:
    return None if group.rms_delta_probability is None else group.rms_delta_probability.value


def test_json_tells_the_larger_group_and_both(rows: list[RunStatistics]) -> None:
    (found,) = statistics_json([row_of(rows, "mac", "kv-e4m3")])
    assert (found["positions"], found["kl_positions"], found["lower_bound"]) == (52, 43, False)
    assert found["kl_mean"] == found["whole"]["kl_mean"] == pytest.approx(0.0185076, rel=1e-5)
    assert (found["bounded"]["positions"], found["bounded"]["lower_bound"]) == (9, True)
    assert found["rms_delta_probability"] == found["whole"]["rms_delta_probability"]


def test_people_see_how_many_positions_kl_is_of_where_these_are_not_all(rows: list[RunStatistics]) -> None:
    mixed, plain = row_of(rows, "mac", "kv-e4m3"), row_of(rows, "vlan", "w8a8")
    header, first, second, *said = statistics_lines([mixed, plain])
    at = header.index("KL n")
    assert [line[at:].split()[0] for line in (first, second)] == ["43", "93"]
    assert "≥" not in first
    assert "≥" in second
    assert "never pooled" in " ".join(said)
    assert "KL n" not in next(statistics_lines([plain]))


def test_a_token_that_is_not_listed_in_both_counts_nowhere(tmp_path: Path) -> None:
    """Where only the highest tokens are kept, the last of them bounds a probability, and that is no change of it."""
    random = np.random.default_rng(0)
    logits, other = (random.normal(0, 3, (40, 16)).astype(np.float32) for _ in range(2))
    steps = make_steps(logits)
    free = make_run(logits, steps, kept=())
    make_bundle(tmp_path / "case--plain.duckdb", [free])
    forced = make_steps(other, steps.token_id.tolist(), forced=True)
    run = make_run(other, forced, Origin(Mode.FORCED, forced_along=free.run.run_id), kept=())
    make_bundle(tmp_path / "case--other.duckdb", [run], make_facts("other", is_reference=False))
    (row,) = library_statistics(tmp_path, lambda text: pytest.fail(text))
    both = [softmax(rows)[np.arange(40), steps.token_id] for rows in (logits, other)]
    listed = (forced.top_ids == steps.token_id[:, None]).any(axis=1)
    assert 0 < listed.sum() < 40
    assert row.whole is None
    assert row.bounded is not None
    assert (row.bounded.positions, row.bounded.delta_positions) == (40, listed.sum())
    wanted = np.sqrt(np.mean((both[1] - both[0])[listed] ** 2))
    assert row.bounded.rms_delta_probability == pytest.approx(float(wanted), rel=1e-6)


def softmax(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    weights = np.exp(rows.astype(np.float64))
    probability: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return probability


def test_a_token_that_the_runtime_lacks_counts_nowhere(tmp_path: Path) -> None:
    """The change of probability of a token that only one vocabulary has is unknown, not 0."""
    wide = np.random.default_rng(0).normal(0, 3, (12, 16)).astype(np.float32)
    wide[0, 15] = 50.0  # the reference takes an id that the runtime does not have
    free = make_run(wide, make_steps(wide))
    make_bundle(tmp_path / "case--plain.duckdb", [free])
    narrow = wide[:, :12].copy()
    tokens = free.steps.token_id.tolist()
    steps = make_steps(narrow, tokens, forced=True)
    run = make_run(narrow, steps, Origin(Mode.FORCED, forced_along=free.run.run_id))
    make_bundle(tmp_path / "case--narrow.duckdb", [run], make_facts("narrow", is_reference=False))
    (row,) = library_statistics(tmp_path, lambda text: pytest.fail(text))
    assert row.whole is not None
    assert row.whole.delta_positions == sum(token < 12 for token in tokens) < row.whole.positions
