"""The engine on the real thing: vLLM on processors, with a small random model."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from capture.engines.base import ForkRequest, FreeJob
from capture.errors import EngineError, WorkerDiedError
from capture.model import Case, Ending, Float32Array, ScoringPath
from capture.rows import widen
from capture.spool import Stream, is_done
from capture.worker_process import WorkerProcess
from tests.engines.vllm.real import COLUMNS, PROMPT, Recording, bits, by_position, computed_again, needs_vllm, start

pytestmark = [needs_vllm, pytest.mark.vllm, pytest.mark.engine]

BLOCK = 128
TRITON_ON_CPU = str(Path(__file__).parent / "triton_on_cpu.py")


def test_the_self_test_has_passed_and_the_facts_are_the_models(worker: WorkerProcess) -> None:
    assert (worker.facts.dtype, worker.facts.vocabulary_size) == ("bfloat16", COLUMNS)
    assert worker.facts.context_length == 1024
    assert worker.facts.stop_ids == (1,)
    assert worker.manifest["self_test"] == {
        "dtype": "bfloat16",
        "vocabulary_size": COLUMNS,
        "generated": 3,
        "scored": 3,
    }


def test_free_forced_and_repeated_runs_are_bit_identical(recording: Recording) -> None:
    runs = [recording.free(24) for _ in range(3)]
    assert bits(runs[0]) == bits(runs[1]) == bits(runs[2])
    assert runs[0].token_ids == runs[1].token_ids
    assert runs[0].ending is Ending.LENGTH
    assert runs[0].records["emitted"].tolist() == list(runs[0].token_ids)
    forced = recording.forced(runs[0].token_ids)
    assert bits(forced) == bits(runs[0])
    assert forced.ending is Ending.PATH
    assert set(forced.records["emitted"].tolist()) == {-1}


def test_the_emitted_token_is_a_maximum_of_its_own_row(recording: Recording) -> None:
    free = recording.free(12)
    assert as_numbers(free).argmax(axis=1).tolist() == list(free.token_ids)


def test_another_path_gives_other_logits_after_it_leaves(recording: Recording) -> None:
    free = recording.free(8)
    other = (*free.token_ids[:3], (free.token_ids[3] + 1) % COLUMNS, *free.token_ids[4:])
    forced = recording.forced(other)
    assert bits(forced)[:4] == bits(free)[:4]
    assert bits(forced)[4] != bits(free)[4]
    assert forced.token_ids == other


def test_a_stop_token_is_the_last_position(recording: Recording) -> None:
    free = recording.free(12)
    stop = free.token_ids[6]
    stopped = recording.free(12, stop_ids=(stop,))
    first = free.token_ids.index(stop)
    assert stopped.token_ids == free.token_ids[: first + 1]
    assert stopped.ending is Ending.END_OF_SEQUENCE


def test_prefill_scores_every_position_or_every_so_many(recording: Recording) -> None:
    path = recording.free(24).token_ids
    scored = recording.forced(path, ScoringPath.PREFILL)
    assert scored.token_ids == path
    assert bits(recording.forced(path, ScoringPath.PREFILL)) == bits(scored)
    probed = recording.forced(path, ScoringPath.PREFILL, stride=5)
    assert probed.records["position"].tolist() == [0, 5, 10, 15, 20]
    assert by_position(probed).items() <= by_position(scored).items()
    apart = np.abs(as_numbers(recording.forced(path)) - as_numbers(scored)).max()
    assert 0 < apart < 2


def as_numbers(stream: Stream) -> Float32Array:
    return widen(bits(stream), "bfloat16")


def test_forks_are_exact_from_the_block_boundary(recording: Recording) -> None:
    free = recording.free(40)
    original = by_position(recording.forced(free.token_ids))
    forks = [ForkRequest(at, None if at % 2 else 5, 6, f"f{at}") for at in (0, 4, 8, 9, 21, 32)]
    streams = recording.branch(free.token_ids[:33], *forks)
    for fork in forks:
        again = computed_again(streams[fork.sink])
        assert max(again) == fork.position
        assert again.items() <= original.items()
        assert min(again) == (9 if fork.position >= 9 else 0)
        assert len(again) - 1 <= BLOCK
        assert len(streams[fork.sink]) == len(again) + 6
    assert len(streams["replay"]) == 0
    assert by_position(streams["f21"]).items() <= by_position(free).items()
    assert streams["f32"].token_ids[32 - 9] == 5


def test_jobs_that_cannot_be_run_are_refused(recording: Recording) -> None:
    with pytest.raises(EngineError, match="1121 positions but the model has 1024"):
        recording.free(1001)
    with pytest.raises(EngineError, match=f"token id {COLUMNS} is not one of the model's {COLUMNS}"):
        recording.forced((COLUMNS,))
    assert len(recording.free(2)) == 2


def test_cases_are_rendered_and_tokens_have_bytes(worker: WorkerProcess) -> None:
    prompt = worker.tokenize(Case("c", ({"role": "user", "content": "show version"},)), "2026-03-04")
    assert "04 Mar 2026" in prompt.text
    tokens = {token.token_id: token for token in worker.vocabulary()}
    assert b"".join(tokens[token_id].data for token_id in prompt.token_ids).decode() == prompt.text


def test_the_manifest_tells_what_ran_and_nothing_private(worker: WorkerProcess, tiny: Path) -> None:
    manifest = worker.manifest
    assert manifest["ran"]["layers"] == ["CPU_ATTN (CPUAttentionBackendImpl), cache auto as bfloat16"] * 6
    assert manifest["ran"]["linear"]["QKVParallelLinear / UnquantizedLinearMethod"] == 6
    assert manifest["resolved"]["cache"]["block_size"] == BLOCK
    assert manifest["ran"]["threads"] == 1
    assert len(manifest["model"]["files"]["model.safetensors"]) == 64
    text = json.dumps(manifest)
    assert str(tiny.parent) not in text
    assert str(Path.home()) + "/" not in text
    assert '"/' not in text


@pytest.mark.slow
def test_a_killed_worker_is_told_resumed_and_the_same_again(
    worker: WorkerProcess, recording: Recording, tiny: Path, tmp_path: Path
) -> None:
    whole = recording.free(40)
    folder = tmp_path / "killed"
    done = 0

    def kill_half_way(steps: int) -> None:
        nonlocal done
        done += steps
        if done == 20:
            os.kill(first._process.pid, signal.SIGKILL)

    with start(tiny, tmp_path, {"VLLM_API_KEY": "hush"}) as first:
        with pytest.raises(WorkerDiedError, match="was killed by signal 9; what it recorded is kept, start again"):
            first.generate(FreeJob(PROMPT, (), 40), {"main": folder}, kill_half_way)
        left = recording.read(folder)
        assert not left.complete
        assert 20 <= len(left) < 40
        assert bits(left) == bits(whole)[: len(left)]
    with start(tiny, tmp_path, {"VLLM_API_KEY": "hush"}) as again:
        assert again.manifest == worker.manifest
        assert "hush" not in json.dumps(again.manifest)
        again.generate(FreeJob(PROMPT, (), 40), {"main": folder})
        assert bits(recording.read(folder)) == bits(whole)
        assert is_done(folder)
        fresh = Recording(again, tmp_path / "fresh")
        fork = fresh.branch(whole.token_ids[:30], ForkRequest(29, None, 4, "f"))["f"]
        assert computed_again(fork).items() <= by_position(recording.forced(whole.token_ids)).items()
        assert min(computed_again(fork)) == 9


@pytest.mark.slow
def test_batched_forks_and_chunked_prefill_are_recorded_whole_or_refused(tiny: Path, tmp_path: Path) -> None:
    twelve_blocks = {"num_gpu_blocks_override": 12}
    with start(
        tiny,
        tmp_path,
        batched_forks=True,
        max_num_batched_tokens=64,
        max_model_len=512,
        engine_arguments=twelve_blocks,
    ) as worker:
        recording = Recording(worker, tmp_path)
        free = recording.free(30)
        original = by_position(recording.forced(free.token_ids))
        assert original == by_position(free)
        forks = [ForkRequest(at, 5, 6, f"f{at}") for at in (3, 12, 20, 28)]
        streams = recording.branch(free.token_ids[:29], *forks)
        for fork in forks:
            again = computed_again(streams[fork.sink])
            assert max(again) == fork.position
            assert again.keys() <= original.keys()
            assert len(streams[fork.sink]) == len(again) + 6
        scored = recording.forced(free.token_ids, ScoringPath.PREFILL)
        assert scored.token_ids == free.token_ids
        alone = recording.branch(free.token_ids[:29], ForkRequest(28, 5, 6, "f"))["f"]
        assert computed_again(alone).items() <= original.items()
        with pytest.raises(EngineError, match="preempted the request"):
            recording.branch(free.token_ids[:9], *(ForkRequest(at, 5, 200, f"f{at}") for at in range(8)))
        assert bits(recording.free(30)) == bits(free)


@pytest.mark.slow
def test_the_control_that_prefills_the_prefix_is_not_exact(tiny: Path, tmp_path: Path) -> None:
    with start(tiny, tmp_path, reprefill_forks=True) as worker:
        recording = Recording(worker, tmp_path)
        free = recording.free(30)
        original = by_position(free)
        forks = [ForkRequest(at, None, 4, f"f{at}") for at in (10, 20, 29)]
        streams = recording.branch(free.token_ids, *forks)
        again = [computed_again(streams[fork.sink]) for fork in forks]
        assert [list(rows) for rows in again] == [[10], [20], [29]]
        assert any(rows.items() - original.items() for rows in again)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "cache"), [("auto", "fp8"), ("auto", "fp8_e5m2"), ("float32", "auto")])
def test_other_lanes_are_captured_whole_and_exact(tiny: Path, tmp_path: Path, dtype: str, cache: str) -> None:
    with start(tiny, tmp_path, dtype=dtype, kv_cache_dtype=cache) as worker:
        check_a_lane(Recording(worker, tmp_path))
        stored = "float32" if dtype == "float32" else "uint8"
        assert worker.manifest["ran"]["layers"][0].endswith(f"cache {cache} as {stored}")


@pytest.mark.slow
def test_three_devices_write_one_stream(tiny: Path, tmp_path: Path) -> None:
    with start(tiny, tmp_path, {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}, tensor_parallel_size=3) as worker:
        check_a_lane(Recording(worker, tmp_path))
        assert worker.manifest["ran"]["workers"] == 3
        assert "workers that differ" not in worker.manifest["ran"]
        assert worker.manifest["resolved"]["parallel"]["tensor_parallel_size"] == 3


@pytest.mark.slow
def test_the_newer_model_runner_records_the_same_way(tiny: Path, tmp_path: Path) -> None:
    with start(tiny, tmp_path, before=[TRITON_ON_CPU], model_runner="v2") as worker:
        assert worker.manifest["ran"]["model_runner"].startswith("v2: vllm.v1.worker")
        check_a_lane(Recording(worker, tmp_path))


def check_a_lane(recording: Recording) -> None:
    """Free equals forced, a fork is exact and goes on as the free run did, and prefill scores every position."""
    assert recording.worker.manifest["self_test"]["generated"] == 3
    free = recording.free(20)
    assert len(free) == 20
    assert bits(recording.forced(free.token_ids)) == bits(free)
    fork = recording.branch(free.token_ids[:15], ForkRequest(14, None, 5, "f"))["f"]
    assert sorted(computed_again(fork)) == list(range(9, 15))
    assert by_position(fork).items() <= by_position(free).items()
    assert recording.forced(free.token_ids, ScoringPath.PREFILL).token_ids == free.token_ids


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    with pytest.raises(EngineError, match=r"has no weights; put its \.safetensors files there"):
        start(model, tmp_path)


def test_a_model_that_nobody_knows_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="there is no model 'nobody/nothing'"):
        start(Path("nobody/nothing"), tmp_path)


@pytest.mark.slow
def test_an_engine_that_does_not_load_says_why(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError) as error:
        start(tiny, tmp_path, kv_cache_dtype="fp9")
    assert "vLLM cannot load the model" in str(error.value)
    assert "cache_dtype" in str(error.value)
    assert "\n" not in str(error.value)
    assert (tmp_path / "worker.log").stat().st_size > 0


@pytest.mark.slow
def test_an_unknown_engine_argument_is_named_with_what_was_meant(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no engine argument 'max_model_length'.*did you mean 'max_model_len'"):
        start(tiny, tmp_path, engine_arguments={"max_model_length": 5})


@pytest.mark.slow
def test_the_newer_model_runner_without_triton_says_what_it_lacks(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="Triton"):
        start(tiny, tmp_path, model_runner="v2")
