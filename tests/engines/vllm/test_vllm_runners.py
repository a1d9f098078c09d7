"""Both model runners behind one contract: what is recorded and imposed, on stand-ins with the layouts of the real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from capture.engines.vllm_capture import runner_name
from capture.engines.vllm_pipe import CopyingPipe, DirectPipe, RowPipe, make_pipe
from capture.engines.vllm_streams import StreamPlan
from capture.engines.vllm_tap import Tap
from capture.errors import EngineError
from capture.model import Ending
from capture.spool import Stream, read_stream
from tests.engines.vllm.runners import COLUMNS, RUNNERS, FakeEngine, logits_of

pytestmark = pytest.mark.engine

PROMPT = [5, 2, 4]


@pytest.fixture(params=sorted(RUNNERS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["direct", "copying"])
def pipe(request: pytest.FixtureRequest) -> RowPipe:
    return DirectPipe() if request.param == "direct" else CopyingPipe(torch.device("cpu"), depth=2)


class Bench:
    """One stand-in runner with the tap in it."""

    def __init__(self, kind: str, pipe: RowPipe, *, writes: bool = True, chunk: int = 100) -> None:
        self.tap = Tap(pipe, writes=writes)
        self.engine: Any = RUNNERS[kind](self.tap)
        self.engine.chunk = chunk
        self.runner = self.engine.runner()

    def run(self, steps: int, resumed: Sequence[str] = ()) -> FakeEngine:
        for _ in range(steps):
            self.engine.step(self.runner, resumed)
        engine: FakeEngine = self.engine
        return engine


def raw(token_ids: Sequence[int]) -> bytes:
    return bytes(logits_of(token_ids).view(torch.uint8).numpy().tobytes())


def stream(folder: Path) -> Stream:
    return read_stream(folder, COLUMNS * 2)


def free_tokens(prompt: Sequence[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(sum(tokens) % COLUMNS)
    return tokens[len(prompt) :]


def test_the_stand_ins_are_taken_for_what_they_stand_for(kind: str) -> None:
    assert runner_name(Bench(kind, DirectPipe()).runner) == kind


def test_a_runner_of_no_kind_is_refused_with_what_it_lacks(kind: str) -> None:
    runner = Bench(kind, DirectPipe()).runner
    delattr(runner, {"v1": "_sample", "v2": "sample"}[kind])
    with pytest.raises(EngineError, match="sample"):
        runner_name(runner)


def test_a_free_run_records_native_rows_and_the_engines_choices(kind: str, pipe: RowPipe, tmp_path: Path) -> None:
    bench = Bench(kind, pipe)
    bench.engine.spoil = True
    bench.tap.open("s", StreamPlan(str(tmp_path), len(PROMPT)))
    bench.engine.add("r-1a2b", PROMPT, "s")
    bench.run(4)
    bench.tap.finish("s", Ending.LENGTH)
    tokens = free_tokens(PROMPT, 4)
    found = stream(tmp_path)
    assert found.token_ids == tuple(tokens)
    assert found.records["emitted"].tolist() == tokens
    assert [found.row(index) for index in range(4)] == [raw(PROMPT + tokens[:index]) for index in range(4)]


def test_imposed_tokens_are_what_the_engine_goes_on_with(kind: str, pipe: RowPipe, tmp_path: Path) -> None:
    path = (1, 1, 8)
    bench = Bench(kind, pipe)
    bench.tap.open("s", StreamPlan(str(tmp_path), len(PROMPT), path=path))
    request = bench.engine.add("r", PROMPT, "s")
    bench.run(3)
    assert request.token_ids == [*PROMPT, *path]
    bench.tap.finish("s", Ending.PATH)
    found = stream(tmp_path)
    assert found.token_ids == path
    assert [found.row(index) for index in range(3)] == [raw([*PROMPT, *path[:index]]) for index in range(3)]


def test_after_the_path_the_engine_goes_free(kind: str, tmp_path: Path) -> None:
    bench = Bench(kind, DirectPipe())
    bench.tap.open("s", StreamPlan(str(tmp_path), len(PROMPT), path=(9,), repeated=1))
    request = bench.engine.add("r", PROMPT, "s")
    bench.run(3)
    assert request.token_ids[3:] == [9, *free_tokens([*PROMPT, 9], 2)]


def test_a_worker_that_does_not_write_imposes_all_the_same(kind: str, tmp_path: Path) -> None:
    bench = Bench(kind, DirectPipe(), writes=False)
    bench.tap.open("s", StreamPlan(str(tmp_path / "s"), len(PROMPT), path=(1, 1)))
    request = bench.engine.add("r", PROMPT, "s")
    bench.run(2)
    assert request.token_ids[3:] == [1, 1]
    assert bench.tap.finish("s", Ending.PATH).token_ids == []
    assert not (tmp_path / "s").exists()


def test_partial_prefill_rows_are_no_rows(kind: str, tmp_path: Path) -> None:
    bench = Bench(kind, DirectPipe(), chunk=2)
    bench.tap.open("s", StreamPlan(str(tmp_path), 5))
    bench.engine.add("r", [5, 2, 4, 1, 1], "s")
    bench.run(4)
    bench.tap.finish("s", Ending.LENGTH)
    assert stream(tmp_path).records["position"].tolist() == [0, 1]
    assert stream(tmp_path).token_ids == tuple(free_tokens([5, 2, 4, 1, 1], 2))


def test_requests_of_one_batch_keep_their_rows_apart(kind: str, pipe: RowPipe, tmp_path: Path) -> None:
    bench = Bench(kind, pipe)
    bench.engine.add("other", [1, 1, 1, 1, 1], None)
    for name, prompt in (("a", [3, 3]), ("b", PROMPT)):
        bench.tap.open(name, StreamPlan(str(tmp_path / name), len(prompt)))
        bench.engine.add(f"request-{name}", prompt, name)
    bench.run(3)
    for name, prompt in (("a", [3, 3]), ("b", PROMPT)):
        bench.tap.finish(name, Ending.LENGTH)
        assert stream(tmp_path / name).token_ids == tuple(free_tokens(prompt, 3))
    assert bench.engine.requests[0].token_ids[5:] == free_tokens([1] * 5, 3)


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
@pytest.mark.parametrize("scoring_chunk", [1, 2, 64])
@pytest.mark.parametrize("stride", [1, 2, 4])
def test_prompt_positions_are_scored_whatever_the_chunks(
    kind: str, tmp_path: Path, chunk: int, scoring_chunk: int, stride: int
) -> None:
    path = (6, 1, 7, 0, 2, 3)
    bench = Bench(kind, DirectPipe(), chunk=chunk)
    plan = StreamPlan(str(tmp_path), len(PROMPT), path=path, scored_every=stride, scoring_chunk=scoring_chunk)
    bench.tap.open("s", plan)
    bench.engine.add("r", [*PROMPT, *path[:-1]], "s")
    bench.run(9)
    bench.tap.finish("s", Ending.PATH)
    wanted = range(0, len(path), stride)
    found = stream(tmp_path)
    assert found.records["position"].tolist() == list(wanted)
    assert [found.row(index) for index in range(len(wanted))] == [raw([*PROMPT, *path[:at]]) for at in wanted]
    assert found.token_ids == tuple(path[at] for at in wanted)


def test_logits_are_computed_in_bounded_chunks(kind: str, tmp_path: Path) -> None:
    bench = Bench(kind, DirectPipe())
    path = tuple([1] * 10)
    plan = StreamPlan(str(tmp_path), 1, path=path, scored_every=1, scoring_chunk=4)
    bench.tap.open("s", plan)
    bench.engine.add("r", [2, *path[:-1]], "s")
    bench.run(1)
    assert max(bench.runner.model.sizes) == 4
    assert sum(bench.runner.model.sizes) == 1 + len(path)


def test_a_request_that_comes_back_from_preemption_is_refused(kind: str, tmp_path: Path) -> None:
    bench = Bench(kind, DirectPipe())
    bench.tap.open("s", StreamPlan(str(tmp_path), len(PROMPT)))
    request = bench.engine.add("r", PROMPT, "s")
    bench.run(2)
    if kind == "v2":  # the newer runner gets it as a new request
        request.announced = False
        bench.run(1)
    else:
        bench.run(1, resumed=["r"])
    assert "preempted" in bench.tap.failures()["s"].message
    bench.tap.finish("s", Ending.LENGTH)
    assert len(stream(tmp_path)) == 2
    assert not stream(tmp_path).complete


@pytest.mark.parametrize(("served", "asked"), [(0, 2), (2, 0), (1, 2)])
def test_a_cache_that_serves_otherwise_is_told_before_a_row_is_written(
    kind: str, tmp_path: Path, served: int, asked: int
) -> None:
    bench = Bench(kind, DirectPipe())
    bench.tap.open("s", StreamPlan(str(tmp_path / "s"), len(PROMPT), cached_tokens=asked))
    bench.engine.add("r", PROMPT, "s", cached=served)
    bench.run(1)
    assert bench.tap.failures()["s"].kind == "cache"
    assert not (tmp_path / "s").exists()


def test_what_the_cache_serves_is_not_recorded_again(kind: str, tmp_path: Path) -> None:
    path = (4, 4, 4, 7)
    bench = Bench(kind, DirectPipe())
    plan = StreamPlan(str(tmp_path), len(PROMPT), first=3, path=path, repeated=4, cached_tokens=5)
    bench.tap.open("s", plan)
    request = bench.engine.add("r", [*PROMPT, *path[:3]], "s", cached=5)
    bench.run(2)
    bench.tap.finish("s", Ending.LENGTH)
    found = stream(tmp_path)
    assert found.records["position"].tolist() == [3, 4]
    assert found.row(0) == raw([*PROMPT, 4, 4, 4])
    assert request.token_ids[6] == 7


def test_a_request_without_a_stream_is_left_alone(kind: str) -> None:
    bench = Bench(kind, DirectPipe())
    request = bench.engine.add("r", PROMPT, "a stream that nobody opened")
    bench.run(2)
    assert request.token_ids[3:] == free_tokens(PROMPT, 2)


def test_a_full_pipe_waits_and_drops_nothing(tmp_path: Path) -> None:
    bench = Bench("v1", CopyingPipe(torch.device("cpu"), depth=1))
    bench.tap.open("s", StreamPlan(str(tmp_path), len(PROMPT)))
    bench.engine.add("r", PROMPT, "s")
    bench.run(50)
    bench.tap.finish("s", Ending.LENGTH)
    assert stream(tmp_path).token_ids == tuple(free_tokens(PROMPT, 50))


def test_rows_of_a_device_that_nobody_knows_are_refused() -> None:
    with pytest.raises(EngineError, match="meta"):
        make_pipe(torch.device("meta"))


def test_a_plan_of_another_prompt_length_is_out_of_order(kind: str, tmp_path: Path) -> None:
    bench = Bench(kind, DirectPipe())
    plan = StreamPlan(str(tmp_path / "s"), len(PROMPT))
    bench.tap.open("s", replace(plan, prompt_length=2))
    bench.engine.add("r", PROMPT, "s")
    bench.run(1)
    assert "was next" in bench.tap.failures()["s"].message
