"""Jobs as requests, on a stand-in engine with a prefix cache that knows how each of its positions was computed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.engines.base import BranchJob, ForcedJob, ForkRequest, FreeJob, Sinks
from capture.engines.vllm_jobs import JobRunner
from capture.engines.vllm_options import VllmOptions
from capture.engines.vllm_requests import Outcome, Progress, Request
from capture.engines.vllm_streams import Failure, Recorder
from capture.errors import EngineError
from capture.model import Ending, ScoringPath
from capture.spool import RECOMPUTED, Stream, read_stream
from capture.worker import FolderSinks

COLUMNS = 64
BLOCK = 4

Computed = tuple[tuple[int, ...], ...]
"""How each position's key and value came about: what was computed together with it."""


class FakeDriver:
    """A batch-of-one engine whose logits depend on how every earlier position was computed, as real ones do."""

    def __init__(self, block: int = BLOCK, *, forgets: bool = False) -> None:
        self.block = block
        self.forgets = forgets
        self.cache: dict[tuple[str, tuple[int, ...]], Computed] = {}
        self.requests: list[Request] = []

    def run(self, requests: Sequence[Request], progress: Progress) -> list[Outcome]:
        return [self._run(request, progress, batch=len(requests)) for request in requests]

    def _run(self, request: Request, progress: Progress, batch: int) -> Outcome:
        self.requests.append(request)
        plan = request.plan
        recorder = Recorder(plan, writes=True)
        computed = self._cached(request)
        if len(computed) != plan.cached_tokens:
            return Outcome((), Ending.LENGTH, 0, None, Failure("cache", "not served"), ())
        tokens, state = list(request.token_ids), list(computed)
        state += [(batch, len(computed), len(tokens))] * (len(tokens) - len(computed))
        if plan.scored_every:
            for position in plan.scored_positions():
                self._append(recorder, position, tokens[: plan.prompt_length + position], [(0, 0)], None)
            recorder.finish(Ending.PATH, 0.0)
            return Outcome((), Ending.PATH, len(recorder.token_ids), ("float32", COLUMNS), None, ())
        ending, generated = request.exhausted, 0
        while generated < request.max_tokens:
            position = len(tokens) - plan.prompt_length
            if generated:
                state.append((batch, len(tokens) - 1, len(tokens)))
            row = self._logits(tokens, state)
            imposed = plan.imposed(position)
            taken = int(row.argmax()) if imposed is None else imposed
            self._append(recorder, position, tokens, state, taken)
            tokens.append(taken)
            generated += 1
            progress(1)
            if plan.ends_with(position, taken):
                ending = Ending.END_OF_SEQUENCE
                break
        self._keep(request, tokens, state)
        recorder.finish(ending, 0.0)
        assert recorder.failure is None
        return Outcome(tuple(tokens[len(request.token_ids) :]), ending, len(recorder.token_ids), None, None, ())

    def _append(
        self, recorder: Recorder, position: int, tokens: list[int], state: list[tuple[int, ...]], taken: int | None
    ) -> None:
        row = self._logits(tokens, state)
        recorder.append(position, memoryview(row.tobytes()), ("float32", COLUMNS), taken)

    def _logits(self, tokens: list[int], state: list[tuple[int, ...]]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        row = np.zeros(COLUMNS, np.float32)
        row[sum(tokens) % (COLUMNS - 1)] = 1.0
        row[COLUMNS - 1] = hash(tuple(state)) % 1000003 * 1e-9
        return row

    def _cached(self, request: Request) -> Computed:
        computed: Computed = ()
        while request.reads_cache:
            stop = len(computed) + self.block
            found = self.cache.get((request.salt, tuple(request.token_ids[:stop])))
            if stop >= len(request.token_ids) or found is None:
                break
            computed += found
        return computed

    def _keep(self, request: Request, tokens: list[int], state: list[tuple[int, ...]]) -> None:
        for stop in range(self.block, len(state) + 1, self.block):
            if not self.forgets:
                self.cache.setdefault((request.salt, tuple(tokens[:stop])), tuple(state[stop - self.block : stop]))


class Jobs:
    """A job runner on a stand-in, and the streams that it wrote."""

    def __init__(self, folder: Path, driver: FakeDriver, block: int | None = BLOCK, **options: bool) -> None:
        self.folder = folder
        self.driver = driver
        self.runner = JobRunner(driver, VllmOptions(**options), block)  # type: ignore[arg-type]
        self.steps = 0

    def sinks(self, names: Sequence[str]) -> Sinks:
        return FolderSinks({name: str(self.folder / name) for name in names}, COLUMNS * 4)

    def count(self, steps: int) -> None:
        self.steps += steps

    def stream(self, name: str) -> Stream:
        return read_stream(self.folder / name, COLUMNS * 4)

    def forced(self, prompt: tuple[int, ...], path: tuple[int, ...]) -> Stream:
        job = ForcedJob(prompt, path, ScoringPath.DECODE)
        self.runner.run_forced(job, self.sinks(["main"]), self.count)
        return self.stream("main")

    def branch(
        self, prompt: tuple[int, ...], path: tuple[int, ...], forks: Sequence[ForkRequest], stops: tuple[int, ...] = ()
    ) -> dict[str, Stream]:
        names = [*(fork.sink for fork in forks), "replay"]
        self.runner.run_branch(BranchJob(prompt, path, tuple(forks), stops), self.sinks(names), self.count)
        return {name: self.stream(name) for name in names}


def recomputed(stream: Stream) -> dict[int, bytes]:
    return {
        int(record["position"]): stream.row(index)
        for index, record in enumerate(stream.records)
        if record["flags"] & RECOMPUTED
    }


def rows(stream: Stream) -> dict[int, bytes]:
    return {int(record["position"]): stream.row(index) for index, record in enumerate(stream.records)}


PROMPT = (3, 1, 4, 1, 5)
PATH = (9, 2, 6, 5, 3, 5, 8, 9, 7, 9)


@pytest.mark.parametrize("at", range(len(PATH)))
def test_every_fork_is_exact_with_at_most_a_block_of_forced_steps(tmp_path: Path, at: int) -> None:
    jobs = Jobs(tmp_path, FakeDriver())
    original = rows(jobs.forced(PROMPT, PATH))
    streams = jobs.branch(PROMPT, PATH[: at + 1], [ForkRequest(at, 50, 3, "f")])
    again = recomputed(streams["f"])
    assert max(again) == at
    assert all(original[position] == row for position, row in again.items())
    assert len(again) - 1 <= BLOCK
    assert streams["f"].token_ids[at - min(again)] == 50
    assert len(streams["f"]) == len(again) + 3
    assert streams["f"].ending is Ending.LENGTH
    assert len(streams["replay"]) == 0
    assert streams["replay"].ending is Ending.PATH


@given(prompt_length=st.integers(1, 12), length=st.integers(1, 30), block=st.integers(1, 9), data=st.data())
def test_forks_are_exact_whatever_the_lengths(
    tmp_path_factory: pytest.TempPathFactory, prompt_length: int, length: int, block: int, data: st.DataObject
) -> None:
    prompt, path = tuple(range(prompt_length)), tuple(range(20, 20 + length))
    at = data.draw(st.integers(0, length - 1))
    jobs = Jobs(tmp_path_factory.mktemp("jobs"), FakeDriver(block), block)
    original = rows(jobs.forced(prompt, path))
    again = recomputed(jobs.branch(prompt, path[: at + 1], [ForkRequest(at, 50, 1, "f")])["f"])
    assert len(again) - 1 <= block
    assert all(original[position] == row for position, row in again.items())


def test_a_forks_own_choice_goes_on_as_the_free_run_did(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver())
    jobs.runner.run_free(FreeJob(PROMPT, (), 14), jobs.sinks(["main"]), jobs.count)
    free = jobs.stream("main")
    branch = jobs.branch(PROMPT, free.token_ids[:9], [ForkRequest(8, None, 5, "f")])["f"]
    assert rows(branch).items() <= rows(free).items()
    assert branch.token_ids == free.token_ids[-len(branch) :]
    assert branch.records["emitted"][-1] == free.token_ids[-1]


def test_the_path_is_forced_once_for_all_forks_of_a_job(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver())
    jobs.branch(PROMPT, PATH, [ForkRequest(at, 50, 0, f"f{at}") for at in (6, 8, 9)])
    fills = [request for request in jobs.driver.requests if request.plan.folder is None]
    assert len(fills) == 1
    assert len(jobs.driver.requests) == 4


def test_a_path_that_was_just_forced_is_not_forced_again(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver())
    jobs.forced(PROMPT, PATH)
    jobs.branch(PROMPT, PATH[:8], [ForkRequest(7, 50, 0, "f")])
    assert [request.plan.folder is None for request in jobs.driver.requests] == [False, False]
    jobs.branch(PROMPT, (*PATH[:6], 11), [ForkRequest(6, 50, 0, "g")])
    assert jobs.driver.requests[2].plan.folder is None


def test_a_cache_that_forgets_makes_a_whole_replay(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver(forgets=True))
    original = rows(jobs.forced(PROMPT, PATH))
    again = recomputed(jobs.branch(PROMPT, PATH, [ForkRequest(9, 50, 2, "f")])["f"])
    assert again == {position: original[position] for position in range(10)}
    assert not jobs.driver.requests[-1].reads_cache


def test_a_model_without_a_prefix_cache_replays_whole(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver(), None)
    again = recomputed(jobs.branch(PROMPT, PATH, [ForkRequest(9, 50, 2, "f")])["f"])
    assert sorted(again) == list(range(10))
    assert len(jobs.driver.requests) == 1


def test_full_runs_never_read_the_cache_and_no_salt_serves_two_uses(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver())
    for _ in range(2):
        jobs.forced(PROMPT, PATH)
        jobs.runner.run_free(FreeJob(PROMPT, (), 4), jobs.sinks(["main"]), jobs.count)
        job = ForcedJob(PROMPT, PATH, ScoringPath.PREFILL)
        jobs.runner.run_forced(job, jobs.sinks(["main"]), jobs.count)
    assert not any(request.reads_cache for request in jobs.driver.requests)
    assert len({request.salt for request in jobs.driver.requests}) == 6


def test_a_prefill_of_the_prefix_is_found_out(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver(), reprefill_forks=True)
    original = rows(jobs.forced(PROMPT, PATH))
    stream = jobs.branch(PROMPT, PATH, [ForkRequest(7, 50, 2, "f")])["f"]
    assert list(recomputed(stream)) == [7]
    assert recomputed(stream)[7] != original[7]
    assert stream.token_ids[0] == 50
    assert len(stream) == 3


def test_batched_forks_run_together_and_are_found_out(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver(), batched_forks=True)
    original = rows(jobs.forced(PROMPT, PATH))
    streams = jobs.branch(PROMPT, PATH, [ForkRequest(at, 50, 2, f"f{at}") for at in (1, 7, 9)])
    assert recomputed(streams["f9"])[9] != original[9]
    assert [len(recomputed(streams[name])) for name in ("f1", "f7", "f9")] == [2, 4, 2]
    jobs.branch(PROMPT, PATH, [ForkRequest(9, 50, 2, "g")])
    salts = {request.salt for request in jobs.driver.requests if request.reads_cache}
    assert len(salts) == 2


@pytest.mark.parametrize(("token_id", "length"), [(50, 1), (51, 4)])
def test_a_fork_onto_a_stop_ends_there(tmp_path: Path, token_id: int, length: int) -> None:
    jobs = Jobs(tmp_path, FakeDriver(), None)
    stream = jobs.branch(PROMPT, (), [ForkRequest(0, token_id, 3, "f")], stops=(50,))["f"]
    assert len(stream) == length
    assert stream.ending is (Ending.END_OF_SEQUENCE if token_id == 50 else Ending.LENGTH)


def test_a_stop_inside_the_path_does_not_end_a_fork(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver())
    stream = jobs.branch(PROMPT, PATH, [ForkRequest(9, 50, 2, "f")], stops=(PATH[8],))["f"]
    assert stream.records["position"][-1] == 11


def test_probe_mode_scores_with_a_stride(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver())
    job = ForcedJob(PROMPT, PATH, ScoringPath.PREFILL, stride=4)
    jobs.runner.run_forced(job, jobs.sinks(["main"]), jobs.count)
    assert jobs.stream("main").records["position"].tolist() == [0, 4, 8]
    assert jobs.driver.requests[-1].token_ids == (*PROMPT, *PATH[:-1])
    assert jobs.steps == 3


def test_decode_leaves_no_position_out(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver())
    job = ForcedJob(PROMPT, PATH, ScoringPath.DECODE, stride=4)
    with pytest.raises(EngineError, match="prefill"):
        jobs.runner.run_forced(job, jobs.sinks(["main"]), jobs.count)


def test_jobs_without_positions_end_at_once(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, FakeDriver())
    jobs.runner.run_free(FreeJob(PROMPT, (), 0), jobs.sinks(["main"]), jobs.count)
    assert jobs.stream("main").ending is Ending.LENGTH
    assert len(jobs.forced(PROMPT, ())) == 0
    assert jobs.stream("main").ending is Ending.PATH
    assert jobs.driver.requests == []
