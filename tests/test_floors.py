"""Floors: the reference's repeats and its own two scoring paths, measured like a candidate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capture.bundle import Bundle
from capture.compare import Side, compare_runs
from capture.control import yardsticks
from capture.floors import FloorKind, reference_floors
from capture.model import Mode, Origin, ScoringPath
from capture.summary import summarize
from tests.factories import make_bundle, make_run, make_steps
from tests.report_samples import bundled, bundled_evidence

LOGITS = np.random.default_rng(8).normal(0, 3, (12, 16)).astype(np.float32)


def reference(path: Path, *, changed: int | None) -> Path:
    """Write a free run, a replica that differs from position `changed` on, and a prefill along the run."""
    steps = make_steps(LOGITS)
    free = make_run(LOGITS, steps)
    repeated = LOGITS.copy()
    if changed is not None:
        repeated[changed:] += np.float32(0.01) * np.arange(16, dtype=np.float32)
    replica = make_run(repeated, make_steps(repeated, steps.token_id.tolist()), Origin(Mode.FREE, replica=1))
    scored = LOGITS + np.random.default_rng(9).normal(0, 0.05, LOGITS.shape).astype(np.float32)
    origin = Origin(Mode.FORCED, ScoringPath.PREFILL, forced_along=free.run.run_id)
    prefill = make_run(scored, make_steps(scored, steps.token_id.tolist(), forced=True), origin)
    return make_bundle(path / "case--plain.duckdb", [free, replica, prefill])


def test_a_replica_that_repeats_every_bit_costs_nothing(tmp_path: Path) -> None:
    with Bundle(reference(tmp_path, changed=None)) as bundle:
        replica, control = reference_floors(bundle)
    assert (replica.kind, control.kind) == (FloorKind.REPLICA, FloorKind.CONTROL)
    assert replica.identical
    assert replica.sample.kl_forward.tolist() == pytest.approx([0.0] * 12, abs=1e-12)
    assert not control.identical
    assert control.sample.kl_forward.mean() > 1e-5


def test_a_replica_that_does_not_is_measured_like_a_candidate(tmp_path: Path) -> None:
    with Bundle(reference(tmp_path, changed=5)) as bundle:
        replica = reference_floors(bundle)[0]
    assert not replica.identical
    assert (replica.sample.kl_forward[:5] < 1e-12).all()
    assert (replica.sample.kl_forward[5:] > 1e-7).all()


def test_the_control_of_a_real_reference_is_its_decode_against_its_prefill() -> None:
    with Bundle(bundled("vlan", "bf16")) as bundle:
        free, prefill = yardsticks(bundle)
        direct = compare_runs(Side.of(bundle, free.run_id), Side.of(bundle, prefill.run_id), mixed_paths=True)
    floors = {floor.kind: floor for floor in bundled_evidence().floors if floor.sample.case_id == "vlan"}
    assert floors.keys() == {FloorKind.REPLICA, FloorKind.CONTROL}
    assert not floors[FloorKind.REPLICA].sample.kl_forward.any()
    found = floors[FloorKind.CONTROL]
    assert found.sample.kl_forward.tolist() == direct.metrics.kl_forward.tolist()
    assert 0 < found.sample.kl_forward.mean() < 0.01


def test_the_rounding_of_bfloat16_explains_the_benign_control_of_a_real_study() -> None:
    floors = [floor.sample for floor in bundled_evidence().floors if floor.kind is FloorKind.CONTROL]
    rounding = np.concatenate([sample.rounding_kl for sample in floors]).mean()
    control = np.concatenate([sample.kl_forward for sample in floors]).mean()
    assert 0.3 < rounding / control < 3


def test_replicas_of_a_case_are_one_case_of_a_report(tmp_path: Path) -> None:
    steps = make_steps(LOGITS)
    free = make_run(LOGITS, steps)
    replicas = [make_run(LOGITS, steps, Origin(Mode.FREE, replica=number)) for number in range(1, 12)]
    with Bundle(make_bundle(tmp_path / "case--plain.duckdb", [free, *replicas])) as bundle:
        floors = [floor for floor in reference_floors(bundle) if floor.kind is FloorKind.REPLICA]
    found = summarize([floor.sample for floor in floors])
    assert len(floors) == 11
    assert (found.cases, found.positions, found.disagreement.interval) == (1, 132, None)
