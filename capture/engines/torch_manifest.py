"""What decides the bits of a run of the `torch` engine, and what really ran. Imports torch."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from capture.engines.model_files import text_hash
from capture.engines.torch_chat_template import template_text
from capture.engines.torch_model import LoadedModel
from capture.engines.torch_options import TorchOptions
from capture.engines.torch_probe import Probe
from capture.engines.torch_state import inner_tensors, is_wrapper
from capture.engines.vocabulary import tokenizer_json
from capture.public import public_environment

_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "torchao", "optimum-quanto", "gguf")
_ENVIRONMENT = frozenset(
    {
        "ATEN_CPU_CAPABILITY",
        "CUBLAS_WORKSPACE_CONFIG",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_TF32_OVERRIDE",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    }
)
_ENVIRONMENT_PREFIXES = ("DNNL_", "GOMP_", "KMP_", "MKL_", "OMP_", "ONEDNN_")


def describe(
    loaded: LoadedModel, options: TorchOptions, quantization: Mapping[str, Any], probe: Probe
) -> Mapping[str, Any]:
    """Return the manifest: JSON values only, without paths of the machine, times or secrets."""
    template = template_text(loaded.tokenizer)
    return {
        "engine": "torch",
        "versions": _versions(),
        "options": asdict(options),
        "ran": _ran(loaded.model, quantization, probe),
        "hardware": _hardware(options),
        "environment": _environment(),
        "model": _model(loaded),
        "tokenizer": {
            "kind": type(loaded.tokenizer).__name__,
            "sha256": text_hash(tokenizer_json(loaded.tokenizer)),
        },
        "chat_template": {"sha256": None if template is None else text_hash(template)},
        "sampling": {"method": "greedy", "ties": "lowest id", "penalties": "none"},
        "batch": 1,
    }


def _versions() -> Mapping[str, str]:
    found = {name: importlib.metadata.version(name) for name in _PACKAGES if _installed(name)}
    return {"python": platform.python_version(), **found, "torch build": str(torch.version.git_version)}


def _installed(name: str) -> bool:
    return next(iter(importlib.metadata.distributions(name=name)), None) is not None


def _ran(model: Any, quantization: Mapping[str, Any], probe: Probe) -> Mapping[str, Any]:
    return {
        "dtypes": _counted(str(value.dtype).removeprefix("torch.") for value in model.parameters()),
        "logits": {"dtype": probe.dtype, "columns": probe.vocabulary_size},
        "weights": dict(quantization),
        "weight_bytes": _weight_bytes(model),
        "layers": _layers(model),
        "linear": _counted(_linear_kind(module) for module in model.modules() if isinstance(module, nn.Linear)),
        "cache": dict(probe.cache),
        "kernels of a decode step": dict(probe.kernels),
        "threads": torch.get_num_threads(),
        "onednn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def _layers(model: Any) -> list[str]:
    """Name the mixers of every layer, with the attention implementation that each one calls."""
    mixers: dict[int, list[str]] = {}
    for module in model.modules():
        index = getattr(module, "layer_idx", None)
        if isinstance(index, int):
            mixers.setdefault(index, []).append(_mixer(module))
    return [" + ".join(sorted(set(mixers[index]))) for index in sorted(mixers)]


def _mixer(module: nn.Module) -> str:
    name = type(module).__name__
    implementation = getattr(getattr(module, "config", None), "_attn_implementation", None)
    return f"{name} ({implementation})" if implementation and "Attention" in name else name


def _linear_kind(module: nn.Linear) -> str:
    weight = module.weight
    return f"{type(module).__name__} of {type(weight).__name__}" if is_wrapper(weight) else type(module).__name__


def _weight_bytes(model: Any) -> int:
    """Return the memory of all weights, those that layers share counted once."""
    parts = [part for weight in model.parameters() for part in inner_tensors(weight)]
    return sum({part.data_ptr(): part.numel() * part.element_size() for part in parts}.values())


def _hardware(options: TorchOptions) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    if options.device != "cpu":
        found["gpu"] = _gpu(torch.device(options.device))
    return found


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _gpu(device: torch.device) -> Mapping[str, Any]:
    return {
        "name": torch.cuda.get_device_name(device),
        "capability": list(torch.cuda.get_device_capability(device)),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "tf32": torch.backends.cuda.matmul.allow_tf32,
        "driver": _driver(),
    }


def _driver() -> str | None:
    try:
        return Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0].strip()
    except OSError:
        return None


def _environment() -> Mapping[str, str]:
    names = [name for name in os.environ if name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES)]
    return public_environment({name: os.environ[name] for name in names})


def _model(loaded: LoadedModel) -> Mapping[str, Any]:
    return {
        "name": loaded.source.name,
        "architecture": type(loaded.model).__name__,
        "files": dict(loaded.source.hashes()),
        "bytes": loaded.source.size(),
    }


def _counted(values: Iterator[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
