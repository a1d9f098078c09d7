"""What really runs inside a vLLM worker: attention per layer, kernels, dtypes. Imports torch, reads vLLM's objects.

Nothing here is promised by vLLM, so everything is looked for and nothing is required.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

_LIBRARIES = (
    "libgomp",
    "libiomp5",
    "libomp",
    "libmkl_core",
    "libdnnl",
    "libcublas",
    "libcudart",
    "libcudnn.",
    "libnccl",
    "librccl",
    "_C",
    "_flash_attn",
    "_vllm_fa",
)

_KERNEL_HOLDERS = ("kernel", "fp8_linear", "mp_kernel", "experts", "fused_experts", "moe_kernel")


def describe_worker(runner: Any, vllm_config: Any) -> dict[str, Any]:
    """Return plain values about one worker, the same in every process that runs the same."""
    model = runner.model
    layers = getattr(vllm_config.compilation_config, "static_forward_context", {}) or {}
    return {
        "model_runner": _name(runner),
        "device": runner.device.type,
        "architecture": type(model).__name__,
        "dtypes": _counted(_dtype(value) for value in model.parameters()),
        "layers": [_mixer(layer) for layer in layers.values()],
        "linear": _counted(_linear_kinds(model)),
        **_weights(runner),
        "threads": torch.get_num_threads(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "libraries": loaded_libraries(Path("/proc/self/maps")),
    }


def _weights(runner: Any) -> dict[str, int]:
    """Return what weights take in memory; nothing on a CPU, where kernels keep packed copies that cannot be seen."""
    return {} if runner.device.type == "cpu" else {"weight_bytes": weight_bytes(runner.model)}


def weight_bytes(model: Any) -> int:
    """Return the memory of all weights of a module in bytes, those that layers share counted once."""
    storages = (weight.untyped_storage() for weight in (*model.parameters(), *model.buffers()))
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def loaded_libraries(maps: Path) -> list[str]:
    """Return the file names of the loaded libraries that decide bits, whatever brought them in; empty off Linux."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    names = {line.rpartition("/")[2] for line in lines if ".so" in line}
    return sorted(name for name in names if name.startswith(_LIBRARIES))


def _mixer(layer: Any) -> str:
    """Name a layer's attention backend, the implementation behind it, and the dtype of its part of the cache."""
    backend: Any = getattr(layer, "attn_backend", None)
    name = backend.get_name() if hasattr(backend, "get_name") else type(layer).__name__
    implementation = getattr(layer, "impl", None)
    inside = "" if implementation is None else f" ({type(implementation).__name__})"
    asked = getattr(layer, "kv_cache_dtype", None)
    return f"{name}{inside}, cache {asked} as {_cache_dtype(layer)}"


def _cache_dtype(layer: Any) -> str:
    found = sorted({_dtype(part) for part in _tensors(getattr(layer, "kv_cache", None))})
    return "+".join(found) or "none"


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)


def _linear_kinds(model: Any) -> Iterator[str]:
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if method is not None:
            kernels = [*_kernels(method), *_kernels(getattr(module, "scheme", None))]
            yield " / ".join([type(module).__name__, type(method).__name__, *kernels])


def _kernels(holder: Any) -> Iterator[str]:
    if holder is None:
        return
    for attribute in _KERNEL_HOLDERS:
        kernel = getattr(holder, attribute, None)
        if kernel is not None and not isinstance(kernel, str | int | torch.Tensor):
            yield kernel.__name__ if isinstance(kernel, type) else type(kernel).__name__


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
