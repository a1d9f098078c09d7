from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capture.branch import PlannedFork, branch_job, certify, choose_forks, first_departure, held_against, vouched
from capture.flips import Flip
from capture.model import Certificate, Ending, Exactness, FlipClass, RangeKind, Runtime, Steps
from capture.ranges import Range
from capture.spool import Stream, StreamWriter, read_stream
from capture.study import ForkBudget
from tests.factories import make_steps

LOGITS = np.random.default_rng(8).normal(0, 3, (6, 16)).astype(np.float32)


def flip(position: int, flip_class: FlipClass) -> Flip:
    return Flip(position, b"", 1, 2, flip_class, 0.5, 0.5)


def stream(folder: Path, rows: dict[int, np.ndarray], *, recomputed: bool = True) -> Stream:
    writer = StreamWriter(folder, 64)
    for position, row in rows.items():
        writer.append(position, 1, memoryview(row.tobytes()), forced=True, emitted=None, recomputed=recomputed)
    writer.finish(Ending.PATH, 0)
    return read_stream(folder, 64)


@pytest.fixture
def steps() -> Steps:
    return make_steps(LOGITS)


def row(position: int) -> bytes:
    return bytes(LOGITS[position].tobytes())


def test_decided_flips_go_first_then_those_inside_tool_calls_then_the_earlier() -> None:
    flips = [
        flip(1, FlipClass.TIE),
        flip(2, FlipClass.DECIDED),
        flip(5, FlipClass.DECIDED),
        flip(6, FlipClass.NEAR_TIE),
        flip(7, FlipClass.DECIDED),
    ]
    ranges = [Range(RangeKind.PROSE, 0, 4), Range(RangeKind.TOOL_CALL, 4, 8)]
    every = (FlipClass.DECIDED, FlipClass.NEAR_TIE, FlipClass.TIE)
    for most, expected in [(0, []), (1, [5]), (2, [5, 7]), (3, [2, 5, 7]), (4, [2, 5, 6, 7]), (9, [1, 2, 5, 6, 7])]:
        chosen = choose_forks(flips, ranges, ForkBudget(most, 8, every))
        assert [fork.position for fork in chosen] == expected
    assert choose_forks(flips, ranges, ForkBudget(9, 8, (FlipClass.TIE,)))[0].position == 1


def test_where_the_recorded_rows_were_not_kept_the_largest_difference_is_unknown(tmp_path: Path, steps: Steps) -> None:
    own = stream(tmp_path / "own", {0: LOGITS[0], 1: LOGITS[1] + 1})
    found = certify(1, (own,), steps, lambda _: None, "float32")
    assert (found.exactness, found.rows_compared) == (Exactness.APPROXIMATE, 2)
    assert (found.first_difference, found.largest_difference) == (1, None)


def test_a_branch_that_departs_from_the_free_run_is_approximate_from_there() -> None:
    exact = Certificate(Exactness.EXACT, 3, 2)
    assert held_against(exact, None) is exact
    assert held_against(None, 4) is None
    assert held_against(exact, 4) == Certificate(Exactness.APPROXIMATE, 3, 2, 4)
    unverified = Certificate(Exactness.UNVERIFIED, 0, 2)
    assert held_against(unverified, 4) is unverified


def test_the_path_is_forced_no_further_than_the_last_fork() -> None:
    flips = [flip(2, FlipClass.DECIDED), flip(4, FlipClass.DECIDED)]
    forks = choose_forks(flips, [], ForkBudget(9, 8, (FlipClass.DECIDED,)))
    job = branch_job((1, 2), tuple(range(10)), forks, (0,), 8, 4096)
    assert len(job.path) == 5


def test_equal_rows_make_an_exact_fork_and_each_position_counts_once(tmp_path: Path, steps: Steps) -> None:
    replay = stream(tmp_path / "replay", {at: LOGITS[at] for at in range(5)})
    own = stream(tmp_path / "own", {2: LOGITS[2]})
    found = certify(2, (own, replay), steps, row, "float32")
    assert (found.exactness, found.rows_compared, found.forced_steps) == (Exactness.EXACT, 3, 2)


def test_a_differing_row_is_named_with_its_largest_difference(tmp_path: Path, steps: Steps) -> None:
    changed = LOGITS[1].copy()
    changed[4] += 0.5
    changed[9] -= 0.25
    own = stream(tmp_path / "own", {0: LOGITS[0], 1: changed, 2: LOGITS[2]})
    found = certify(2, (own,), steps, row, "float32")
    assert (found.exactness, found.rows_compared, found.first_difference) == (Exactness.APPROXIMATE, 3, 1)
    assert found.largest_difference == pytest.approx(0.5, abs=1e-6)


def test_rows_that_were_not_computed_again_verify_nothing(tmp_path: Path, steps: Steps) -> None:
    own = stream(tmp_path / "own", {2: LOGITS[2]}, recomputed=False)
    assert certify(2, (own,), steps, row, "float32").exactness is Exactness.UNVERIFIED


def test_a_fork_goes_on_as_far_as_the_context_lets_it() -> None:
    forks = (PlannedFork(0, 7), PlannedFork(3, 7), PlannedFork(5, 7))
    job = branch_job((1, 2), (3,) * 6, forks, (), max_tokens=4, context_length=8)
    assert [2 + fork.position + 1 + fork.max_tokens for fork in job.forks] == [7, 8, 8]
    assert [fork.max_tokens for fork in job.forks] == [4, 2, 0]


def test_a_branch_that_leaves_its_own_free_run_is_found(steps: Steps) -> None:
    later = make_steps(LOGITS[2:], before=(7, 8, 9, *steps.token_id[:2].tolist()), first=2)
    assert first_departure(later, steps) is None
    hashes = (*later.row_hash[:2], b"0" * 16, *later.row_hash[3:])
    changed = Steps(**{name: getattr(later, name) for name in Steps.__slots__} | {"row_hash": hashes})
    assert first_departure(changed, steps) == 4


@pytest.mark.parametrize("option", ["reprefill_forks", "batched_forks"])
def test_equal_rows_do_not_vouch_for_a_fork_that_was_not_replayed_step_by_step(option: str) -> None:
    exact = Certificate(Exactness.EXACT, 1, 0)
    apart = Certificate(Exactness.APPROXIMATE, 1, 0, 4, 0.5)
    assert vouched(exact, Runtime("a", "vllm", "m", options={option: True})).exactness is Exactness.UNVERIFIED
    assert vouched(exact, Runtime("a", "vllm", "m", options={option: False})) is exact
    assert vouched(apart, Runtime("a", "vllm", "m", options={option: True})) is apart
