"""The options of the `torch` engine, checked without starting torch. Imports errors only."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from capture.errors import UsageError

AS_STORED = "as stored"
AS_COMPUTED = "as computed"
W8A8 = "w8a8"

WEIGHT_BITS: Mapping[str, int] = {"int8": 8, "int6": 6, "int5": 5, "int4": 4, "int3": 3, "int2": 2}
"""Weight-only formats: integers in groups of `group_size`, with one scale a group."""

KV_CACHE_BITS: Mapping[str, int] = {"int4": 4, "int2": 2}
"""KV-cache formats in groups of `kv_group_size`, written every `kv_residual_length` positions."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "attention": ("sdpa", "eager"),
    "dtype": ("bfloat16", "float16", "float32"),
    "weights": (AS_STORED, *WEIGHT_BITS, W8A8),
    "kv_cache": (AS_COMPUTED, "fp8", *KV_CACHE_BITS),
}
"""The allowed values of every option that is a word, the default first."""


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """Resolved options of the `torch` engine.

    Attributes:
        attention: the implementation that transformers is asked for.
        dtype: the dtype that weights are cast to and that the model computes in.
        weights: `as stored`; `int8` to `int2`, rounded at load; `w8a8`, int8 with activations quantized at each step.
        group_size: weights that share a scale along a row; None where `weights` has no groups.
        kv_cache: `as computed`, `fp8` (e4m3, one scale a layer), `int4` or `int2`.
        kv_group_size: cache entries that share a scale; None where `kv_cache` has no groups.
        kv_residual_length: positions that stay unquantized until they are written together; None as above.
        threads: processor threads of one operation.
        device: `cpu`, `cuda` or `cuda:N`.
        prefill_chunk: positions computed at once when a path is scored by prefill.
        onednn_decode: False takes torch's own kernels, not oneDNN's, for steps of one token (CPU only).
    """

    attention: str = "sdpa"
    dtype: str = "bfloat16"
    weights: str = AS_STORED
    group_size: int | None = None
    kv_cache: str = AS_COMPUTED
    kv_group_size: int | None = None
    kv_residual_length: int | None = None
    threads: int = 1
    device: str = "cpu"
    prefill_chunk: int = 128
    onednn_decode: bool = True


OPTION_NAMES = tuple(field.name for field in fields(TorchOptions))


def validate_options(options: Mapping[str, Any]) -> TorchOptions:
    """Check a runtime's options and return them with every default filled in.

    The default of `threads` is the number of processors that this process may use.

    Raises:
        UsageError: an option is unknown, has a value that is not allowed, or does not go with another one.
    """
    _refuse_unknown(options)
    values = {name: _CHECKS[name](name, value) for name, value in options.items()}
    values.setdefault("threads", available_processors())
    _pair(values, "weights", WEIGHT_BITS, {"group_size": 32})
    _pair(values, "kv_cache", KV_CACHE_BITS, {"kv_group_size": 64, "kv_residual_length": 128})
    if str(values.get("device", "cpu")) != "cpu" and not values.get("onednn_decode", True):
        raise UsageError("option 'onednn_decode' goes with device 'cpu' only; leave it out")
    return TorchOptions(**values)


def available_processors() -> int:
    """Return how many processors this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in OPTION_NAMES:
            raise UsageError(f"the torch engine has no option '{name}'; it has {', '.join(OPTION_NAMES)}")


def _pair(values: dict[str, Any], word: str, bits: Mapping[str, int], defaults: Mapping[str, int]) -> None:
    """Fill in the sizes that go with a format in groups, and refuse them where the format has no groups."""
    grouped = values.get(word) in bits
    for name, default in defaults.items():
        if grouped:
            values.setdefault(name, default)
        elif name in values:
            raise UsageError(f"option '{name}' needs '{word}' to be one of {', '.join(bits)}; leave it out")


def _choice(name: str, value: Any) -> str:
    if value not in CHOICES[name]:
        raise UsageError(f"option '{name}' cannot be {value!r}; it can be {', '.join(map(repr, CHOICES[name]))}")
    return str(value)


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"option '{name}' cannot be {value!r}; it is a whole number of at least 1")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"option '{name}' cannot be {value!r}; it can be true or false")
    return value


def _device(name: str, value: Any) -> str:
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", str(value)):
        raise UsageError(f"option '{name}' cannot be {value!r}; it can be 'cpu', 'cuda' or 'cuda:N'")
    return str(value)


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(CHOICES, _choice),
    "group_size": _count,
    "kv_group_size": _count,
    "kv_residual_length": _count,
    "threads": _count,
    "device": _device,
    "prefill_chunk": _count,
    "onednn_decode": _flag,
}
