"""Starts vLLM for a runtime: its engine arguments, which model runner, and errors in plain words. Imports vLLM."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capture.engines.model_files import ModelSource
from capture.engines.vllm_options import RESERVED, VllmOptions
from capture.engines.vllm_symbols import missing_symbols
from capture.errors import EngineError, UsageError

RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"

_OPTIONS_AS_THEY_ARE = (
    "dtype",
    "kv_cache_dtype",
    "quantization",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "attention_backend",
    "enforce_eager",
    "max_model_len",
    "block_size",
    "gpu_memory_utilization",
    "seed",
    "max_num_seqs",
    "max_num_batched_tokens",
    "async_scheduling",
)

_FIXED: Mapping[str, Any] = {
    "enable_prefix_caching": True,
    "generation_config": "vllm",
    "logprobs_mode": "raw_logits",
    "max_logprobs": -1,
    "trust_remote_code": False,
    "disable_log_stats": True,
    "use_tqdm_on_load": False,
}


def choose_model_runner(options: VllmOptions) -> str:
    """Set which model runner vLLM takes and return why, for the manifest.

    vLLM's own choice is left alone where the tap knows all parts of the newer runner that it needs. Otherwise the
    older one is requested.

    Raises:
        EngineError: the runner that the options name lacks parts that the tap stands on.
    """
    package = vllm_package()
    if options.model_runner != "auto":
        lacking = missing_symbols(options.model_runner, package)
        if lacking:
            raise EngineError(
                f"the model runner '{options.model_runner}' of this vLLM cannot be recorded: {lacking[0]}; "
                "set 'model_runner' to the other one"
            )
        os.environ[RUNNER_VARIABLE] = "1" if options.model_runner == "v2" else "0"
        return "asked for"
    lacking = missing_symbols("v2", package)
    if lacking and RUNNER_VARIABLE not in os.environ:
        os.environ[RUNNER_VARIABLE] = "0"
        return f"v1 requested: {lacking[0]}"
    return "vLLM's choice"


def set_threads(options: VllmOptions) -> None:
    """Set how many threads an operation takes; works only before torch is imported for the first time."""
    if options.threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)


def vllm_package() -> Path:
    """Return the folder of the installed vllm package, which is not imported for it.

    Raises:
        EngineError: it is not installed.
    """
    found = importlib.util.find_spec("vllm")
    if found is None or not found.submodule_search_locations:
        raise EngineError(
            "this interpreter has no vllm; install it there, or name one that has it in the runtime's 'command'"
        )
    return Path(found.submodule_search_locations[0])


def engine_arguments(source: ModelSource, options: VllmOptions, extension: str, *, tokenizer: bool) -> dict[str, Any]:
    """Return vLLM's engine arguments for a runtime; what is None is left to vLLM.

    Args:
        source: the model on disk.
        options: of the runtime.
        extension: the worker extension that taps.
        tokenizer: whether the model has one.

    Raises:
        UsageError: an argument of the table `engine_arguments` is none of vLLM's.
    """
    known = _argument_names()
    for name in options.engine_arguments:
        if name not in known:
            raise UsageError(f"vLLM has no engine argument '{name}'{_guess(name, known)}; mend 'engine_arguments'")
    asked = {name: getattr(options, name) for name in _OPTIONS_AS_THEY_ARE}
    place = source.directory if source.gguf is None else source.directory / source.gguf
    wanted = {
        **{name: value for name, value in asked.items() if value is not None},
        **_cache_size(options),
        **{name: value for name, value in _FIXED.items() if name in known},
        "model": str(place),
        "skip_tokenizer_init": not tokenizer,
        "worker_extension_cls": extension,
        **options.engine_arguments,
    }
    lacking = sorted(name for name in wanted if name not in known)
    if lacking:
        raise EngineError(f"this version of vLLM lacks the engine argument '{lacking[0]}'; install a documented one")
    return wanted


def load(arguments: Mapping[str, Any], model: str) -> Any:
    """Return a running driver.

    Raises:
        EngineError: vLLM does not load the model; the message holds its reason.
    """
    driver = importlib.import_module("capture.engines.vllm_driver")
    try:
        return driver.VllmDriver(arguments)
    except Exception as error:
        raise EngineError(
            f"vLLM cannot load the model '{model}': {reason_of(error)}; its own words are in the worker's log"
        ) from error


def refuse_unrecordable(config: Any) -> None:
    """Refuse what would corrupt the record, however it got into vLLM's resolved configuration.

    Raises:
        EngineError: such a feature is on; the message names it and why it cannot be.
    """
    parallel = config.parallel_config
    on = {
        "speculative_config": config.speculative_config is not None,
        "enable_batch_sharded_sampling": bool(getattr(parallel, "enable_batch_sharded_sampling", False)),
        "data_parallel_size": parallel.data_parallel_size > 1,
        "prefill_context_parallel_size": getattr(parallel, "prefill_context_parallel_size", 1) > 1,
        "kv_sharing_fast_prefill": bool(getattr(config.cache_config, "kv_sharing_fast_prefill", False)),
    }
    for name, active in on.items():
        if active:
            raise EngineError(f"vLLM runs with '{name}', which cannot be recorded: {RESERVED[name]}; turn it off")


def reason_of(error: BaseException) -> str:
    """Return the first line of an error, or the one that a validation error is about."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if len(lines) > 1 and "validation error" in lines[0]:
        return lines[1] if "Value error" in lines[1] or "Assertion" in lines[1] else f"{lines[1]}: {lines[-1]}"
    return lines[0].rstrip(".") if lines else type(error).__name__


def _argument_names() -> set[str]:
    arguments = importlib.import_module("vllm.engine.arg_utils").EngineArgs
    return {field.name for field in dataclasses.fields(arguments)}


def _guess(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _cache_size(options: VllmOptions) -> dict[str, int]:
    return {} if options.kv_cache_gib is None else {"kv_cache_memory_bytes": int(options.kv_cache_gib * 2**30)}
