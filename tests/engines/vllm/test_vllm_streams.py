from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from capture.engines.vllm_streams import Recorder, StreamPlan, plan_from_json, plan_to_json
from capture.model import Ending
from capture.spool import FORCED, RECOMPUTED, Stream, read_stream

COLUMNS = 5
SHAPE = ("float32", COLUMNS)


def row(position: int) -> memoryview:
    return memoryview(np.full(COLUMNS, position, np.float32).tobytes())


def feed(recorder: Recorder, positions: list[int], chosen: int | None = 3) -> None:
    for position in positions:
        recorder.append(position, row(position), SHAPE, chosen)


def stream(folder: Path) -> Stream:
    return read_stream(folder, COLUMNS * 4)


def plan(folder: Path, **changes: object) -> StreamPlan:
    return replace(StreamPlan(str(folder), 10), **changes)  # type: ignore[arg-type]


def test_a_plan_survives_json(tmp_path: Path) -> None:
    whole = plan(tmp_path, first=2, path=(4, 5, 6), repeated=3, stop_ids=(1, 2), stop_from=2, cached_tokens=128)
    assert plan_from_json(json.loads(json.dumps(plan_to_json(whole)))) == whole


def test_free_rows_carry_the_engines_own_choice(tmp_path: Path) -> None:
    recorder = Recorder(plan(tmp_path), writes=True)
    feed(recorder, [0, 1], chosen=7)
    recorder.finish(Ending.LENGTH, 1.5)
    found = stream(tmp_path)
    assert found.token_ids == (7, 7)
    assert found.records["emitted"].tolist() == [7, 7]
    assert found.records["flags"].tolist() == [0, 0]
    assert found.row(1) == bytes(row(1))
    assert (found.ending, found.seconds) == (Ending.LENGTH, 1.5)


def test_imposed_rows_carry_the_wanted_token_and_no_choice(tmp_path: Path) -> None:
    recorder = Recorder(plan(tmp_path, path=(4, 5)), writes=True)
    feed(recorder, [0, 1], chosen=None)
    recorder.finish(Ending.PATH, 0.0)
    found = stream(tmp_path)
    assert found.token_ids == (4, 5)
    assert found.records["emitted"].tolist() == [-1, -1]
    assert found.records["flags"].tolist() == [FORCED, FORCED]


def test_a_fork_flags_what_it_repeats_up_to_its_own_position(tmp_path: Path) -> None:
    fork = plan(tmp_path, first=2, path=(9, 9, 4, 8), repeated=4)
    recorder = Recorder(fork, writes=True)
    feed(recorder, [2, 3, 4, 5])
    recorder.finish(Ending.LENGTH, 0.0)
    found = stream(tmp_path)
    assert found.records["position"].tolist() == [2, 3, 4, 5]
    assert found.token_ids == (4, 8, 3, 3)
    assert found.records["flags"].tolist() == [FORCED | RECOMPUTED, FORCED | RECOMPUTED, 0, 0]


def test_a_fork_with_its_own_choice_is_recomputed_but_not_forced(tmp_path: Path) -> None:
    recorder = Recorder(plan(tmp_path, path=(9,), repeated=2), writes=True)
    feed(recorder, [0, 1, 2])
    recorder.finish(Ending.LENGTH, 0.0)
    assert stream(tmp_path).records["flags"].tolist() == [FORCED | RECOMPUTED, RECOMPUTED, 0]


def test_rows_after_the_stop_are_not_recorded(tmp_path: Path) -> None:
    recorder = Recorder(plan(tmp_path, stop_ids=(3,)), writes=True)
    feed(recorder, [0], chosen=8)
    feed(recorder, [1, 2])
    assert not recorder.wants_rows
    recorder.finish(Ending.END_OF_SEQUENCE, 0.0)
    assert stream(tmp_path).token_ids == (8, 3)


def test_a_stop_on_the_way_to_a_fork_is_no_stop() -> None:
    fork = StreamPlan("x", 10, path=(3, 3), stop_ids=(3,), stop_from=1)
    assert not fork.ends_with(0, 3)
    assert fork.ends_with(1, 3)
    assert not fork.ends_with(1, 4)


@pytest.mark.parametrize("positions", [[1], [0, 2], [0, 0]])
def test_a_row_out_of_order_ends_the_recording(tmp_path: Path, positions: list[int]) -> None:
    recorder = Recorder(plan(tmp_path), writes=True)
    feed(recorder, [*positions, 1, 2])
    assert recorder.failure is not None
    assert recorder.failure.kind == "engine"
    assert "was next" in recorder.failure.message
    recorder.finish(Ending.LENGTH, 0.0)
    assert len(stream(tmp_path)) == len(positions) - 1
    assert not stream(tmp_path).complete


def test_a_missing_choice_ends_the_recording(tmp_path: Path) -> None:
    recorder = Recorder(plan(tmp_path), writes=True)
    feed(recorder, [0], chosen=None)
    assert recorder.failure is not None


def test_scored_positions_follow_the_stride(tmp_path: Path) -> None:
    scoring = plan(tmp_path, path=tuple(range(20, 28)), scored_every=3)
    assert list(scoring.scored_positions()) == [0, 3, 6]
    recorder = Recorder(scoring, writes=True)
    feed(recorder, [0, 3, 6], chosen=None)
    recorder.finish(Ending.PATH, 0.0)
    assert stream(tmp_path).token_ids == (20, 23, 26)


@pytest.mark.parametrize(("told", "words"), [([7], "number 1 on"), ([7, 8], "number 1 on"), ([7, 7, 7], "number 2 on")])
def test_tokens_that_the_engine_does_not_confirm_leave_the_stream_unfinished(
    tmp_path: Path, told: list[int], words: str
) -> None:
    recorder = Recorder(plan(tmp_path), writes=True)
    feed(recorder, [0, 1], chosen=7)
    recorder.finish(Ending.LENGTH, 0.0, told)
    assert recorder.failure is not None
    assert words in recorder.failure.message
    assert not stream(tmp_path).complete


def test_a_stream_without_rows_is_finished(tmp_path: Path) -> None:
    Recorder(plan(tmp_path), writes=True).finish(Ending.PATH, 0.0, [])
    assert len(stream(tmp_path)) == 0
    assert stream(tmp_path).complete


def test_what_a_killed_worker_left_is_kept_where_it_is_equal(tmp_path: Path) -> None:
    first = Recorder(plan(tmp_path), writes=True)
    feed(first, [0, 1])
    first.finish(None, 0.0)
    assert not stream(tmp_path).complete
    again = Recorder(plan(tmp_path), writes=True)
    feed(again, [0, 1, 2])
    again.finish(Ending.LENGTH, 0.0)
    assert len(stream(tmp_path)) == 3
    assert stream(tmp_path).complete


def test_a_process_that_does_not_write_leaves_no_folder(tmp_path: Path) -> None:
    for recorder in (Recorder(plan(tmp_path / "a"), writes=False), Recorder(StreamPlan(None, 1), writes=True)):
        assert not recorder.wants_rows
        feed(recorder, [0])
        recorder.finish(Ending.LENGTH, 0.0)
        assert len(recorder.token_ids) == 0
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_a_failure_and_not_an_exception(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    recorder = Recorder(plan(tmp_path / "file" / "stream"), writes=True)
    feed(recorder, [0])
    assert recorder.failure is not None
    assert recorder.failure.kind == "engine"


def test_a_full_disk_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    recorder = Recorder(plan(tmp_path), writes=True)
    feed(recorder, [0])
    monkeypatch.setattr("capture.spool.os.pwrite", full)
    feed(recorder, [1])
    monkeypatch.undo()
    assert recorder.failure is not None
    assert recorder.failure.kind == "storage"
    assert len(recorder.token_ids) == 1
