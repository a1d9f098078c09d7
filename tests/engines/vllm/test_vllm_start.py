from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capture.engines import vllm_start
from capture.engines.vllm_options import RESERVED, VllmOptions
from capture.engines.vllm_start import RUNNER_VARIABLE, choose_model_runner, reason_of, refuse_unrecordable
from capture.errors import EngineError


@pytest.fixture(autouse=True)
def _no_choice_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUNNER_VARIABLE, "0")
    monkeypatch.delenv(RUNNER_VARIABLE)


def lacking(monkeypatch: pytest.MonkeyPatch, *runners: str) -> None:
    def missing(name: str, _: Path) -> tuple[str, ...]:
        return ("GPUModelRunner has no sample",) if name in runners else ()

    monkeypatch.setattr(vllm_start, "vllm_package", lambda: Path("vllm"))
    monkeypatch.setattr(vllm_start, "missing_symbols", missing)


def test_vllm_chooses_where_the_tap_knows_the_newer_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch)
    assert choose_model_runner(VllmOptions()) == "vLLM's choice"
    assert RUNNER_VARIABLE not in os.environ


def test_the_older_runner_is_requested_where_the_newer_one_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, "v2")
    assert choose_model_runner(VllmOptions()) == "v1 requested: GPUModelRunner has no sample"
    assert os.environ[RUNNER_VARIABLE] == "0"


def test_the_runtimes_own_environment_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, "v2")
    monkeypatch.setenv(RUNNER_VARIABLE, "1")
    choose_model_runner(VllmOptions())
    assert os.environ[RUNNER_VARIABLE] == "1"


@pytest.mark.parametrize(("runner", "value"), [("v1", "0"), ("v2", "1")])
def test_an_option_names_the_runner(monkeypatch: pytest.MonkeyPatch, runner: str, value: str) -> None:
    lacking(monkeypatch)
    assert choose_model_runner(VllmOptions(model_runner=runner)) == "asked for"
    assert os.environ[RUNNER_VARIABLE] == value


def test_a_runner_that_was_asked_for_and_has_changed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, "v2")
    with pytest.raises(EngineError, match="'v2' of this vLLM cannot be recorded: GPUModelRunner has no sample"):
        choose_model_runner(VllmOptions(model_runner="v2"))


def config(**changes: Any) -> Any:
    parallel = {"enable_batch_sharded_sampling": False, "data_parallel_size": 1, "prefill_context_parallel_size": 1}
    parallel.update({name: value for name, value in changes.items() if name in parallel})
    return SimpleNamespace(
        speculative_config=changes.get("speculative_config"),
        parallel_config=SimpleNamespace(**parallel),
        cache_config=SimpleNamespace(kv_sharing_fast_prefill=changes.get("kv_sharing_fast_prefill", False)),
    )


def test_a_plain_configuration_is_recorded() -> None:
    refuse_unrecordable(config())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("speculative_config", object()),
        ("enable_batch_sharded_sampling", True),
        ("data_parallel_size", 2),
        ("prefill_context_parallel_size", 2),
        ("kv_sharing_fast_prefill", True),
    ],
)
def test_what_corrupts_the_record_is_refused_however_it_got_there(name: str, value: object) -> None:
    with pytest.raises(EngineError) as error:
        refuse_unrecordable(config(**{name: value}))
    assert name in str(error.value)
    assert RESERVED[name] in str(error.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("out of memory.\nmore", "out of memory"),
        ("1 validation error for CacheConfig\ncache_dtype\n  Input should be 'auto'", "cache_dtype: Input should"),
        ("1 validation error for VllmConfig\n  Value error, Triton is missing [type=...]", "Value error, Triton"),
        ("", "RuntimeError"),
    ],
)
def test_a_reason_is_one_line_that_says_something(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text)).startswith(reason)
