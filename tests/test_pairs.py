from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from capture.bundle import Bundle, RecordedRun
from capture.comparison import read_comparisons
from capture.model import Mode, Origin
from capture.pairs import comparison_path, stored_comparisons, study_pairs, write_missing_comparisons
from capture.progress import SilentReporter
from capture.stats import library_statistics
from tests.factories import make_bundle, make_facts, make_run, make_steps

RANDOM = np.random.default_rng(5)
FIRST = RANDOM.normal(0, 3, (12, 16)).astype(np.float32)


def forced(reference: RecordedRun, noise: float) -> RecordedRun:
    logits = (FIRST + RANDOM.normal(0, noise, FIRST.shape)).astype(np.float32)
    along = Origin(Mode.FORCED, forced_along=reference.run.run_id)
    return make_run(logits, make_steps(logits, reference.steps.token_id.tolist(), forced=True), along)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    free = make_run(FIRST, make_steps(FIRST))
    reference = make_bundle(tmp_path / "one--a.duckdb", [free])
    candidate = make_bundle(tmp_path / "one--b.duckdb", [forced(free, 1.0)], make_facts("b", is_reference=False))
    return reference, candidate


def test_a_comparison_of_runs_that_were_replaced_is_made_again(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    write_missing_comparisons(tmp_path, SilentReporter())
    path = comparison_path(*pair)
    old = read_comparisons(path)
    with Bundle(pair[0]) as reference:
        free = replace_candidate(reference, pair[1])
    notes: list[str] = []
    (row,) = library_statistics(tmp_path, notes.append)
    assert row.run_id == free != old[0].candidate
    assert notes == [f"compared without a file: {path.name} does not fit one--b.duckdb; delete it and compare again"]
    write_missing_comparisons(tmp_path, SilentReporter())
    assert [comparison.candidate for comparison in read_comparisons(path)] == [free]


def replace_candidate(reference: Bundle, path: Path) -> str:
    run = reference.runs[0]
    steps = reference.steps(run.run_id)
    again = forced(RecordedRun(run, steps, {}, (), lambda _: b""), 2.0)
    path.unlink()
    make_bundle(path, [again], make_facts("b", is_reference=False))
    return again.run.run_id


def test_a_damaged_comparison_counts_as_missing(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    path = comparison_path(*pair)
    path.write_bytes(b"no database")
    with Bundle(pair[0]) as reference, Bundle(pair[1]) as candidate:
        assert stored_comparisons(path, reference, candidate) is None
    write_missing_comparisons(tmp_path, SilentReporter())
    assert len(read_comparisons(path)) == 1


def test_a_candidate_of_another_study_can_be_the_reference(tmp_path: Path) -> None:
    free = make_run(FIRST, make_steps(FIRST))
    facts = make_facts("a", is_reference=False)
    borrowed = make_bundle(tmp_path / "one--a.duckdb", [free], replace(facts, study="elsewhere"))
    candidate = make_bundle(tmp_path / "one--b.duckdb", [forced(free, 1.0)], make_facts("b", is_reference=False))
    assert list(study_pairs(tmp_path, pytest.fail)) == [(borrowed, candidate)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE comparison SET facts = '['",
        "UPDATE shared SET kl_forward = NULL",
        "INSERT INTO flip SELECT comparison, position, prefix_id, 1, 2, '<b>', 1, 1 FROM shared",
    ],
)
def test_a_comparison_with_impossible_values_counts_as_missing(
    tmp_path: Path, pair: tuple[Path, Path], statement: str
) -> None:
    write_missing_comparisons(tmp_path, SilentReporter())
    expected = library_statistics(tmp_path, pytest.fail)
    with duckdb.connect(str(comparison_path(*pair))) as connection:
        connection.execute(statement)
    notes: list[str] = []
    assert library_statistics(tmp_path, notes.append) == expected
    assert [comparison_path(*pair).name in note for note in notes] == [True]


def test_a_pair_that_cannot_be_compared_is_told_and_hides_nothing(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    other = pair[1].with_name(pair[1].name.replace("--", "--other-"))
    shutil.copyfile(pair[1], other)
    with duckdb.connect(str(other)) as connection:
        connection.execute("UPDATE logits SET payload = NULL")
    notes: list[str] = []
    assert library_statistics(tmp_path, notes.append) == library_statistics(pair[1].parent, lambda _: None)
    assert len(notes) == 1
    assert other.name in notes[0]
