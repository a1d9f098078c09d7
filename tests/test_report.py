"""The values of a report on the study that ships."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import capture.evidence as evidence_module
from capture.bundle import Bundle
from capture.compare import Comparison, Side
from capture.costs import Expense, cost_of, expense_of
from capture.errors import ComparisonError, DamagedBundleError
from capture.evidence import Wanted, gather
from capture.floors import FloorKind
from capture.model import Mode, Origin, ScoringPath
from capture.report import BUCKETS, study_report
from capture.resources import bundled_library
from capture.samples import Sample
from capture.sampling import Kinds, sample_of
from tests.factories import make_bundle, make_facts, make_run, make_steps
from tests.report_samples import bundled, bundled_evidence, bundled_report


def test_every_mode_and_scoring_path_is_a_section_of_its_own_forced_decode_first() -> None:
    found = [(section.mode, section.scoring_path) for section in bundled_report().sections]
    assert found == [
        (Mode.FORCED, ScoringPath.DECODE),
        (Mode.FORCED, ScoringPath.PREFILL),
        (Mode.FREE, ScoringPath.DECODE),
    ]


def test_a_lane_over_all_cases_holds_the_positions_of_each() -> None:
    for section in bundled_report().sections:
        for lane in section.lanes:
            assert lane.summary.positions == sum(scope.summary.positions for scope in lane.by_case)
            assert lane.summary.positions == sum(scope.summary.positions for scope in lane.by_kind)
            assert lane.summary.positions == sum(scope.summary.positions for scope in lane.by_confidence)
            assert {scope.name for scope in lane.by_confidence} <= set(BUCKETS)
            assert lane.summary.disagreement.interval is None
            assert all(scope.summary.disagreement.interval is not None for scope in lane.by_case)


def test_the_control_stands_beside_both_scoring_paths() -> None:
    for section in bundled_report().sections:
        kinds = {floor.kind: floor for floor in section.floors}
        replica = {FloorKind.REPLICA} if section.scoring_path is ScoringPath.DECODE else set()
        assert kinds.keys() == {FloorKind.CONTROL} | replica
        assert {floor.summary.positions for floor in section.floors} == {273}
        assert [kinds[kind].identical for kind in replica] == [True] * len(replica)
        assert not kinds[FloorKind.CONTROL].identical


def test_which_to_use_lists_the_reference_and_then_the_nearest() -> None:
    choices = bundled_report().choices
    assert {choice.runtime for choice in choices} == {"bf16", "fp32", "tp3", "w8a8", "kv-e4m3", "kv-e5m2"}
    known = [choice.summary.main for choice in choices if choice.summary is not None]
    means = [main.kl_forward.mean for main in known if main is not None]
    assert len(means) == 5
    assert means == sorted(means)
    assert [choice.is_reference for choice in choices] == [True, *[False] * 5]
    by_name = {choice.runtime: choice for choice in choices}
    assert (by_name["fp32"].calls_as_reference.count, by_name["fp32"].calls_as_reference.of) == (2, 2)
    assert (by_name["w8a8"].calls_as_reference.count, by_name["w8a8"].calls_as_labelled.of) == (0, 2)
    assert by_name["bf16"].summary is None
    assert {name: choice.cost.disk_bytes for name, choice in by_name.items()} == {
        **dict.fromkeys(("bf16", "fp32", "tp3", "kv-e4m3", "kv-e5m2"), 272_585_121),
        "w8a8": 167_061_705,
    }
    speeds = {name: choice.cost.positions_per_second or 0.0 for name, choice in by_name.items()}
    assert 0 < speeds["tp3"] < speeds["bf16"] < speeds["w8a8"]


def test_speed_is_the_median_of_what_took_one_token_a_step() -> None:
    with Bundle(bundled("mac", "w8a8")) as bundle:
        expense = expense_of(bundle)
        runs = [run for run in bundle.runs if run.scoring_path is ScoringPath.DECODE and run.mode is not Mode.BRANCH]
    assert sorted(expense.speeds) == pytest.approx(sorted(run.positions / run.seconds for run in runs))
    assert cost_of([Expense(None, None, (1.0, 2.0)), Expense(10, 20, (9.0,))]).positions_per_second == 2.0
    assert cost_of([Expense(None, None, ()), Expense(10, 20, ())]).disk_bytes == 10
    assert cost_of([]) == cost_of([Expense(None, None, ())])


def test_only_what_is_wanted_is_read() -> None:
    wanted = Wanted(Mode.FREE, ScoringPath.DECODE)
    (evidence,) = gather(bundled_library(), wanted, lambda text: pytest.fail(text))
    assert {(lane.mode, lane.scoring_path) for lane in evidence.lanes} == {(Mode.FREE, ScoringPath.DECODE)}
    assert study_report(evidence).sections[0].lanes == bundled_report().sections[2].lanes


def test_another_capture_of_the_same_is_told_and_left_out(tmp_path: Path) -> None:
    logits = np.random.default_rng(0).normal(0, 3, (8, 16)).astype(np.float32)
    free = make_run(logits, make_steps(logits))
    make_bundle(tmp_path / "case--plain.duckdb", [free])
    for folder, seed in (("a", 1), ("b", 2)):
        other = logits + np.random.default_rng(seed).normal(0, 1, logits.shape).astype(np.float32)
        steps = make_steps(other, free.steps.token_id.tolist(), forced=True)
        run = make_run(other, steps, Origin(Mode.FORCED, forced_along=free.run.run_id))
        make_bundle(tmp_path / folder / "case--other.duckdb", [run], make_facts("other", is_reference=False))
    said: list[str] = []
    (evidence,) = gather(tmp_path, Wanted(), said.append)
    assert len(evidence.lanes) == 1
    (sentence,) = said
    assert "another capture of other on case" in sentence


def small_study(folder: Path, captures: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """Write a reference and candidates, each (folder, runtime, time of its making); return run ids by folder."""
    logits = np.random.default_rng(0).normal(0, 3, (8, 16)).astype(np.float32)
    free = make_run(logits, make_steps(logits))
    make_bundle(folder / "case--plain.duckdb", [free])
    ids = {}
    for seed, (place, runtime, created) in enumerate(captures):
        other = logits + np.random.default_rng(seed + 1).normal(0, 1, logits.shape).astype(np.float32)
        forced = make_steps(other, free.steps.token_id.tolist(), forced=True)
        runs = [make_run(other, forced, Origin(Mode.FORCED, forced_along=free.run.run_id))]
        runs.append(make_run(other, make_steps(other)))
        facts = replace(make_facts(runtime, is_reference=False), created=created)
        make_bundle(folder / place / f"case--{runtime}.duckdb", runs, facts)
        ids[place] = str(runs[0].run.run_id)
    return ids


@pytest.mark.parametrize("newest", ["a", "b"])
def test_of_two_captures_the_newest_counts(tmp_path: Path, newest: str) -> None:
    times = {place: f"2026-01-0{1 + (place == newest)}T00:00:00+00:00" for place in ("a", "b")}
    ids = small_study(tmp_path, [(place, "other", created) for place, created in times.items()])
    said: list[str] = []
    (evidence,) = gather(tmp_path, Wanted(mode=Mode.FORCED), said.append)
    assert [lane.run_id for lane in evidence.lanes] == [ids[newest]]
    assert len(said) == 1


def test_a_floor_that_cannot_be_measured_loses_no_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_study(tmp_path, [("a", "one", "1"), ("b", "two", "1")])

    def broken(_: Bundle) -> None:
        raise DamagedBundleError("its repeat is damaged")

    monkeypatch.setattr(evidence_module, "reference_floors", broken)
    said: list[str] = []
    (evidence,) = gather(tmp_path, Wanted(mode=Mode.FORCED), said.append)
    assert [lane.runtime for lane in evidence.lanes] == ["one", "two"]
    assert said == ["the floors of case--plain.duckdb are left out: its repeat is damaged"]


def test_a_candidate_that_is_left_out_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_study(tmp_path, [("a", "one", "1"), ("b", "two", "1")])
    real = sample_of

    def broken(comparison: Comparison, reference: Side, candidate: Side, kinds: Kinds) -> Sample:
        if candidate.run.mode is Mode.FREE and candidate.bundle.facts.runtime.name == "one":
            raise ComparisonError("no number")
        return real(comparison, reference, candidate, kinds)

    monkeypatch.setattr(evidence_module, "sample_of", broken)
    said: list[str] = []
    (evidence,) = gather(tmp_path, Wanted(), said.append)
    assert {lane.runtime for lane in evidence.lanes} == {"two"}
    assert {one.runtime for one in evidence.outcomes} == {"plain", "two"}
    assert set(evidence.expenses) == set(evidence.runtimes) == {"plain", "two"}
    assert said == ["left out: no number"]


def test_numbers_do_not_depend_on_the_order_of_cases() -> None:
    evidence = bundled_evidence()
    turned = study_report(replace(evidence, lanes=evidence.lanes[::-1])).sections[0]
    for lane, other in zip(turned.lanes, bundled_report().sections[0].lanes, strict=True):
        assert lane.summary.disagreement == other.summary.disagreement
        assert lane.summary.bounded is not None
        assert other.summary.bounded is not None
        assert lane.summary.bounded.kl_forward.mean == pytest.approx(other.summary.bounded.kl_forward.mean)
        assert lane.summary.bounded.kl_forward.quantiles == other.summary.bounded.kl_forward.quantiles
