"""The options of the `vllm` engine, checked without importing vLLM. Imports errors only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from capture.errors import UsageError

DTYPES = ("auto", "bfloat16", "float16", "float32")
MODEL_RUNNERS = ("auto", "v1", "v2")

_WORD = re.compile(r"[A-Za-z0-9_.+-]{1,64}")

RESERVED: Mapping[str, str] = {
    "additional_config": "it can hold anything, and a manifest tells everything",
    "data_parallel_size": "a runtime is one replica",
    "diffusion_config": "only models that write one token after another can be recorded",
    "download_dir": "models are looked for where HF_HOME says",
    "enable_batch_sharded_sampling": "it splits a row over the devices, so no worker would hold it whole",
    "enable_prefix_caching": "exact forks need it, and full runs never read it",
    "enable_trace_replay": "tokens are imposed by the recorder",
    "generation_config": "a model's own sampling defaults must stay off",
    "hf_token": "a secret belongs into the environment (HF_TOKEN), not into a study",
    "kv_transfer_config": "the cache would be filled from elsewhere",
    "kv_sharing_fast_prefill": "it leaves prompt positions out",
    "logits_processors": "they change logits",
    "logprobs_mode": "the self-test needs raw logits",
    "max_logprobs": "the self-test needs every logit of a position",
    "override_generation_config": "a model's own sampling defaults must stay off",
    "prefill_context_parallel_size": "it spreads a prompt's positions over the devices",
    "reasoning_config": "it can end a thinking part early",
    "return_sampling_mask": "it changes what is sampled from",
    "scheduler_cls": "the recorder knows vLLM's own",
    "skip_tokenizer_init": "the recorder tokenizes",
    "spec_method": "speculative decoding computes rows of tokens that are then rejected",
    "spec_model": "speculative decoding computes rows of tokens that are then rejected",
    "spec_tokens": "speculative decoding computes rows of tokens that are then rejected",
    "speculative_config": "speculative decoding computes rows of tokens that are then rejected",
    "tokens_only": "the recorder tokenizes",
    "watermark_config": "it changes logits",
    "worker_cls": "the recorder knows vLLM's own",
    "worker_extension_cls": "the recorder's tap takes that place",
}
"""Engine arguments that a runtime may not set, with the reason."""


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """Resolved options of the `vllm` engine; None leaves a choice to vLLM.

    Attributes:
        dtype: weights and activations; `auto` takes the model's own.
        kv_cache_dtype: such as `auto`, `fp8`, `fp8_e5m2`.
        quantization: such as `fp8`; None takes what the checkpoint says.
        tensor_parallel_size: devices that share every layer.
        pipeline_parallel_size: devices that share out the layers.
        attention_backend: such as `FLASH_ATTN`.
        enforce_eager: False compiles the model and captures graphs.
        max_model_len: the most positions of a prompt and its output.
        block_size: positions in a block of the KV cache.
        gpu_memory_utilization: share of a device's memory that vLLM takes.
        kv_cache_gib: size of the KV cache in GiB; takes the place of `gpu_memory_utilization`.
        seed: of vLLM's random numbers; greedy decoding takes none.
        max_num_seqs: the most requests in one batch; 1 but for batched forks.
        max_num_batched_tokens: the most prompt positions computed at once.
        async_scheduling: whether a step is scheduled before the one before it has ended.
        model_runner: `v1`, `v2`, or `auto`: the one that vLLM prefers, if the tap knows its parts.
        threads: processor threads of one worker; on a GPU they decide nothing.
        scoring_chunk: rows computed at once when positions are scored by prefill; bounds memory.
        batched_forks: grow all forks of a path at once: faster, and not exact on most runtimes.
        reprefill_forks: restore forks by a prefill of the whole prefix; a control that shows why not to.
        engine_arguments: any other argument of vLLM's `EngineArgs`, by its name there.
    """

    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    quantization: str | None = None
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    attention_backend: str | None = None
    enforce_eager: bool = True
    max_model_len: int | None = None
    block_size: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_gib: float | None = None
    seed: int = 0
    max_num_seqs: int = 1
    max_num_batched_tokens: int | None = None
    async_scheduling: bool | None = None
    model_runner: str = "auto"
    threads: int | None = None
    scoring_chunk: int = 64
    batched_forks: bool = False
    reprefill_forks: bool = False
    engine_arguments: Mapping[str, Any] = field(default_factory=dict)


OPTION_NAMES = tuple(option.name for option in fields(VllmOptions))


def validate_options(options: Mapping[str, Any]) -> VllmOptions:
    """Check a runtime's options and return them with every default filled in.

    Raises:
        UsageError: an option is unknown, has a value that is not allowed, or does not go with another one.
    """
    for name in options:
        if name not in OPTION_NAMES:
            raise UsageError(f"the vllm engine has no option '{name}'; {_advice(name)}")
    values = {name: _CHECKS[name](name, value) for name, value in options.items()}
    if values.get("batched_forks"):
        values.setdefault("max_num_seqs", 16)
        if values.get("reprefill_forks"):
            raise UsageError("options 'batched_forks' and 'reprefill_forks' exclude each other; leave one out")
    return VllmOptions(**values)


def _advice(name: str) -> str:
    if name in RESERVED:
        return f"it cannot be set, since {RESERVED[name]}"
    return f"it has {', '.join(OPTION_NAMES)}; vLLM's own arguments go into the table 'engine_arguments'"


def _one_of(choices: tuple[str, ...]) -> Callable[[str, Any], str]:
    def check(name: str, value: Any) -> str:
        if value not in choices:
            raise UsageError(f"option '{name}' cannot be {value!r}; it can be {', '.join(map(repr, choices))}")
        return str(value)

    return check


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise UsageError(f"option '{name}' cannot be {value!r}; it is one of vLLM's own names for it")
    return value


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"option '{name}' cannot be {value!r}; it is a whole number of at least 1")
    return value


def _seed(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise UsageError(f"option '{name}' cannot be {value!r}; it is a whole number from 0 to 4,294,967,295")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"option '{name}' cannot be {value!r}; it can be true or false")
    return value


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise UsageError(f"option '{name}' cannot be {value!r}; it is a number above 0 and at most 1")
    return float(value)


def _size(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 2**20:
        raise UsageError(f"option '{name}' cannot be {value!r}; it is a number of GiB above 0")
    return float(value)


def _engine_arguments(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"option '{name}' cannot be {value!r}; it is a table of vLLM's engine arguments")
    for argument in value:
        if argument in RESERVED:
            raise UsageError(
                f"the engine argument '{argument}' cannot be set, since {RESERVED[argument]}; leave it out"
            )
        if argument in OPTION_NAMES:
            raise UsageError(f"'{argument}' is an option of its own; move it out of '{name}'")
        if argument in ("model", "tokenizer"):
            raise UsageError(f"the engine argument '{argument}' cannot be set; the runtime's 'model' names both")
    return dict(value)


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "dtype": _one_of(DTYPES),
    "kv_cache_dtype": _word,
    "quantization": _word,
    "tensor_parallel_size": _count,
    "pipeline_parallel_size": _count,
    "attention_backend": _word,
    "enforce_eager": _flag,
    "max_model_len": _count,
    "block_size": _count,
    "gpu_memory_utilization": _share,
    "kv_cache_gib": _size,
    "seed": _seed,
    "max_num_seqs": _count,
    "max_num_batched_tokens": _count,
    "async_scheduling": _flag,
    "model_runner": _one_of(MODEL_RUNNERS),
    "threads": _count,
    "scoring_chunk": _count,
    "batched_forks": _flag,
    "reprefill_forks": _flag,
    "engine_arguments": _engine_arguments,
}
