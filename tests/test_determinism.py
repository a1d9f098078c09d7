"""What a runtime computed twice: identical, or the first difference."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from capture.bundle import Bundle
from capture.determinism import RepeatKind, bundle_repeats, determinism
from capture.errors import NotFoundError
from capture.model import Mode, Origin, ScoringPath
from tests.factories import make_bundle, make_run, make_steps
from tests.report_samples import FOLDER, bundled

LOGITS = np.random.default_rng(2).normal(0, 3, (10, 16)).astype(np.float32)


def repeated(folder: Path, changed: dict[int, float], kept: list[int] | None = None) -> Path:
    """Write a run and its replica, in which the logit of the fourth token differs at some positions."""
    steps = make_steps(LOGITS)
    other = LOGITS.copy()
    for position, change in changed.items():
        other[position, 3] += change
    replica = make_run(other, make_steps(other), Origin(Mode.FREE, replica=1), kept)
    return make_bundle(folder / "study/case--plain.duckdb", [make_run(LOGITS, steps), replica])


def test_a_replica_that_repeats_every_bit(tmp_path: Path) -> None:
    with Bundle(repeated(tmp_path, {})) as bundle:
        (found,) = bundle_repeats(bundle)
    assert found.identical
    assert (found.kind, found.rows, found.equal) == (RepeatKind.REPLICA, 10, 10)
    assert (found.first_difference, found.largest_difference, found.changed, found.first_change) == (
        None,
        None,
        0,
        None,
    )


def test_the_first_difference_and_the_largest_change_of_a_logit(tmp_path: Path) -> None:
    with Bundle(repeated(tmp_path, {4: 0.25, 6: -0.5})) as bundle:
        (found,) = bundle_repeats(bundle)
    assert not found.identical
    assert (found.rows, found.equal, found.first_difference) == (10, 8, 4)
    assert found.largest_difference == pytest.approx(0.5, rel=1e-6)


def test_a_replica_that_takes_another_token_shares_no_prefix_from_there_on(tmp_path: Path) -> None:
    with Bundle(repeated(tmp_path, {5: 40.0})) as bundle:
        (found,) = bundle_repeats(bundle)
    assert (found.rows, found.equal, found.first_difference) == (6, 5, 5)
    assert (found.changed, found.first_change) == (1, 5)
    assert found.largest_difference == pytest.approx(40.0, rel=1e-5)


def test_the_largest_change_is_told_of_rows_that_both_keep(tmp_path: Path) -> None:
    with Bundle(repeated(tmp_path, {4: 0.25, 6: -0.5}, kept=[4])) as bundle:
        (partly,) = bundle_repeats(bundle)
    with Bundle(repeated(tmp_path / "none", {4: 0.25, 6: -0.5}, kept=[])) as bundle:
        (none,) = bundle_repeats(bundle)
    assert partly.largest_difference == pytest.approx(0.25, rel=1e-6)
    assert none.largest_difference is None


def test_real_runtimes_repeat_their_free_runs_and_differ_by_scoring_path() -> None:
    found = {one.runtime: one for one in determinism(FOLDER, lambda text: pytest.fail(text))}
    assert set(found) == {"bf16", "fp32", "kv-e4m3", "kv-e5m2", "tp3", "w8a8"}
    for name, runtime in found.items():
        forced = [one for one in runtime.repeats if one.kind is RepeatKind.FORCED]
        assert all(one.identical and one.changed == 0 for one in forced)
        assert bool(forced) == (name != "bf16")
        again = [one for one in runtime.repeats if one.kind is RepeatKind.REPLICA]
        assert [one.identical for one in again] == [True] * 3
        paths = [one for one in runtime.repeats if one.kind is RepeatKind.PATHS]
        assert len(paths) == 3
        assert not any(one.identical for one in paths)


def test_the_scoring_paths_of_a_reference_are_its_free_run_and_its_prefill() -> None:
    with Bundle(bundled("mac", "bf16")) as bundle:
        (found,) = [one for one in bundle_repeats(bundle) if one.kind is RepeatKind.PATHS]
        first, second = bundle.run(found.first_run), bundle.run(found.second_run)
    assert (first.mode, second.scoring_path) == (Mode.FREE, ScoringPath.PREFILL)
    assert found.rows == 52


def test_the_command_tells_people_and_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repeated(tmp_path, {4: 0.25})
    assert main(["determinism", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "replica" in line]
    assert line.split() == ["plain", "replica", "1", "9", "of", "10", "0", "0.25", "case,", "position", "4"]
    assert main(["determinism", str(tmp_path), "--json"]) == 0
    (runtime,) = json.loads(capsys.readouterr().out)["runtimes"]
    (found,) = runtime["repeats"]
    assert (found["kind"], found["first_difference"], found["equal"]) == ("replica", 4, 9)


def test_a_broken_file_hides_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repeated(tmp_path, {})
    (tmp_path / "study/case--broken.duckdb").write_bytes(b"nothing")
    assert main(["determinism", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "all 10" in said.out
    assert "case--broken.duckdb" in said.err


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no bundle"):
        determinism(tmp_path, lambda text: pytest.fail(text))
    with pytest.raises(NotFoundError, match="no library"):
        determinism(tmp_path / "none", lambda text: pytest.fail(text))


def test_a_study_in_which_nothing_was_repeated_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits = np.random.default_rng(0).normal(0, 3, (4, 16)).astype(np.float32)
    make_bundle(tmp_path / "case--plain.duckdb", [make_run(logits, make_steps(logits))])
    assert main(["determinism", str(tmp_path)]) == 0
    assert "Nothing was computed twice" in capsys.readouterr().out
