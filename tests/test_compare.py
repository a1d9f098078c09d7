from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from capture.bundle import Bundle, RecordedRun
from capture.compare import Comparison, Side, compare_runs
from capture.comparison import read_comparisons, write_comparisons
from capture.errors import ComparisonError, VocabularyError
from capture.metrics import compare_rows
from capture.model import Mode, Origin, ScoringPath
from tests.factories import make_bundle, make_facts, make_run, make_steps

RANDOM = np.random.default_rng(2)
FIRST = RANDOM.normal(0, 3, (150, 16)).astype(np.float32)
SECOND = (FIRST + RANDOM.normal(0, 0.7, FIRST.shape)).astype(np.float32)


def forced_pair(kept: list[int] | None = None) -> tuple[RecordedRun, RecordedRun]:
    steps = make_steps(FIRST)
    free = make_run(FIRST, steps)
    along = Origin(Mode.FORCED, forced_along=free.run.run_id)
    return free, make_run(SECOND, make_steps(SECOND, steps.token_id.tolist(), forced=True), along, kept)


def compare(tmp_path: Path, first: RecordedRun, second: RecordedRun) -> Comparison:
    one = make_bundle(tmp_path / "a.duckdb", [first])
    other = make_bundle(tmp_path / "b.duckdb", [second], make_facts("other", is_reference=False))
    with Bundle(one) as reference, Bundle(other) as candidate:
        return compare_runs(Side.of(reference, first.run.run_id), Side.of(candidate, second.run.run_id))


def test_stored_runs_give_the_numbers_of_their_logits(tmp_path: Path) -> None:
    free, forced = forced_pair()
    found = compare(tmp_path, free, forced)
    direct = compare_rows(FIRST, SECOND, free.steps.token_id)
    assert np.allclose(found.metrics.kl_forward, direct.kl_forward, atol=1e-12)
    assert np.allclose(found.metrics.jensen_shannon, direct.jensen_shannon, atol=1e-12)
    differing = np.flatnonzero(FIRST.argmax(1) != SECOND.argmax(1)).tolist()
    assert [flip.position for flip in found.flips] == differing
    assert found.disagreement == len(differing) / 150


def test_positions_without_rows_become_lower_bounds_in_their_place(tmp_path: Path) -> None:
    free, forced = forced_pair(kept=list(range(10, 140)))
    found = compare(tmp_path, free, forced)
    direct = compare_rows(FIRST, SECOND, free.steps.token_id)
    assert np.flatnonzero(found.metrics.lower_bound).tolist() == [*range(10), *range(140, 150)]
    assert (found.metrics.kl_forward <= direct.kl_forward + 1e-12).all()
    assert np.allclose(found.metrics.kl_forward[10:140], direct.kl_forward[10:140], atol=1e-12)


def test_a_replica_is_identical(tmp_path: Path) -> None:
    steps = make_steps(FIRST)
    assert compare(tmp_path, make_run(FIRST, steps), make_run(FIRST, steps, Origin(Mode.FREE, replica=1))).identical


def test_scoring_paths_are_not_mixed(tmp_path: Path) -> None:
    free, _ = forced_pair()
    prefill = make_run(SECOND, make_steps(SECOND), Origin(Mode.FORCED, ScoringPath.PREFILL))
    with pytest.raises(ComparisonError, match="scoring path"):
        compare(tmp_path, free, prefill)


def test_other_bytes_for_a_token_refuse_the_pair(tmp_path: Path) -> None:
    import duckdb

    free, forced = forced_pair()
    one, other = make_bundle(tmp_path / "a.duckdb", [free]), make_bundle(tmp_path / "b.duckdb", [forced])
    with duckdb.connect(str(other)) as connection:
        connection.execute("UPDATE token SET bytes = 'zz'::BLOB WHERE token_id = 4")
    with Bundle(one) as reference, Bundle(other) as candidate, pytest.raises(VocabularyError, match="token 4 is b't4'"):
        compare_runs(Side.of(reference, free.run.run_id), Side.of(candidate, forced.run.run_id))


def test_a_comparison_file_gives_back_what_it_was_given(tmp_path: Path) -> None:
    free, forced = forced_pair(kept=[1, 2])
    found = compare(tmp_path, free, forced)
    write_comparisons(tmp_path / "c.comparison.duckdb", [found])
    (read,) = read_comparisons(tmp_path / "c.comparison.duckdb")
    assert (read.reference, read.candidate, read.flips) == (found.reference, found.candidate, found.flips)
    assert read.prefix_id == found.prefix_id
    for name in found.metrics.__slots__:
        assert np.array_equal(getattr(read.metrics, name), getattr(found.metrics, name)), name


def test_rows_of_other_widths_are_compared_over_the_ids_of_both(tmp_path: Path) -> None:
    free, _ = forced_pair()
    wider = np.concatenate([SECOND, np.full((len(SECOND), 2), -1, np.float32)], axis=1)
    along = Origin(Mode.FORCED, forced_along=free.run.run_id)
    padded = make_run(wider, make_steps(wider, free.steps.token_id.tolist(), forced=True), along)
    found = compare(tmp_path, free, padded)
    direct = compare_rows(FIRST, SECOND, free.steps.token_id)
    assert np.allclose(found.metrics.kl_forward, direct.kl_forward, atol=1e-12)
    odds = np.exp(wider.astype(np.float64))
    assert np.allclose(found.metrics.candidate_outside, odds[:, 16:].sum(1) / odds.sum(1), atol=1e-12)
    assert not found.metrics.reference_outside.any()
    assert not found.metrics.lower_bound.any()


def test_vocabularies_without_an_id_in_common_are_refused(tmp_path: Path) -> None:
    free, forced = forced_pair()
    facts = (
        replace(make_facts(), id_spans=((0, 8),)),
        replace(make_facts("other", is_reference=False), id_spans=((8, 16),)),
    )
    one = make_bundle(tmp_path / "a.duckdb", [free], facts[0])
    other = make_bundle(tmp_path / "b.duckdb", [forced], facts[1])
    with Bundle(one) as reference, Bundle(other) as candidate, pytest.raises(VocabularyError, match="in common"):
        compare_runs(Side.of(reference, free.run.run_id), Side.of(candidate, forced.run.run_id))
