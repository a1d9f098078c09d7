"""What a runtime is, trait by trait: what a library's matrix groups its rows by and what its facets offer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from app.labels import short_value
from capture.model import Json, Runtime

TRAITS = ("model", "weights", "KV cache", "attention", "tensor parallel", "dtype", "GPU", "engine", "version")
"""In the order in which they group rows and stand as facets."""

OTHER, SAME = "other options", "same options"

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "weights": ("weights", "quantization"),
    "KV cache": ("kv_cache", "kv_cache_dtype"),
    "attention": ("attention", "attention_backend"),
    "tensor parallel": ("tensor_parallel_size",),
    "dtype": ("dtype",),
}

_UNSET = (None, "", "auto", "as stored", "as computed")
"""Values that say that an option was left as it is."""

_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "vllm": ("vllm",),
    "torch": ("torch",),
    "llamacpp": ("llama_cpp_python", "llama-cpp-python", "llama_cpp", "llama.cpp"),
}

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Capture:
    """What a run's manifest tells of how it was captured; None and empty where it does not tell.

    Attributes:
        gpu: the accelerator, or the processor's kind.
        version: of the engine.
        model: the model's name.
        weight_bytes: memory of the weights.
        disk_bytes: size of the model's files.
    """

    gpu: str = ""
    version: str = ""
    model: str = ""
    weight_bytes: int | None = None
    disk_bytes: int | None = None


def capture_of(runtime: Runtime, manifest: Json) -> Capture:
    """Return what a manifest tells; it may be a stranger's, so nothing in it is taken for granted."""
    hardware, ran, model = (_mapping(manifest.get(name)) for name in ("hardware", "ran", "model"))
    versions = _mapping(manifest.get("versions"))
    packages = _PACKAGES.get(runtime.engine, (runtime.engine,))
    return Capture(
        gpu=_gpu(hardware),
        version=next((_text(versions[name]) for name in packages if name in versions), ""),
        model=_text(model.get("name", "")),
        weight_bytes=_bytes(ran.get("weight_bytes")),
        disk_bytes=_bytes(model.get("bytes")),
    )


def traits_of(runtime: Runtime, capture: Capture | None = None) -> dict[str, str]:
    """Return the traits of a runtime that are known, by name."""
    capture = capture or Capture()
    model = PurePath(runtime.model).name or runtime.model
    found = {
        "model": _text(capture.model or model.removeprefix("packaged:")),
        **{trait: _option(runtime.options, names) for trait, names in _OPTIONS.items()},
        "GPU": capture.gpu,
        "engine": runtime.engine,
        "version": capture.version,
    }
    return {name: found[name] for name in TRAITS if found[name]}


def group_of(reference: Runtime, candidate: Runtime, captures: tuple[Capture | None, Capture | None]) -> str:
    """Return what differs between two runtimes, as the name of a group of rows."""
    first, second = (traits_of(one, seen) for one, seen in zip((reference, candidate), captures, strict=True))
    differing = [name for name in TRAITS if first.get(name) != second.get(name)]
    if not all(captures):  # a manifest that is not read yet says nothing of what only manifests tell
        differing = [name for name in differing if name not in ("GPU", "version")]
    if differing:
        return " + ".join(differing[:3])
    same = (dict(reference.options), dict(reference.environment)) == (
        dict(candidate.options),
        dict(candidate.environment),
    )
    return SAME if same else OTHER


def group_order(group: str) -> tuple[int, ...]:
    """Return the key by which groups stand in order: the first trait first, what differs in one before several."""
    names = group.split(" + ")
    return (len(names), *(TRAITS.index(name) if name in TRAITS else len(TRAITS) + (name == SAME) for name in names))


def _option(options: Mapping[str, Any], names: tuple[str, ...]) -> str:
    value = next((options[name] for name in names if options.get(name) not in _UNSET), None)
    return "" if value is None else _text(short_value(value))


def _gpu(hardware: Mapping[str, Any]) -> str:
    gpus = hardware.get("gpus")
    listed = [_gpu_name(one) for one in gpus] if isinstance(gpus, list | tuple) else []
    names = [name for name in (listed or [_gpu_name(hardware.get("gpu"))]) if name]
    if names:
        return names[0] if len(names) == 1 else _text(f"{len(names)} × {names[0]}")
    kind = hardware.get("cpu_capability") or hardware.get("cpu")
    return _text(f"CPU {kind}") if kind else _text(hardware.get("device") or "")


def _gpu_name(value: object) -> str:
    return _text(value.get("name", "")) if isinstance(value, Mapping) else _text(value or "")


def _bytes(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 50 else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
