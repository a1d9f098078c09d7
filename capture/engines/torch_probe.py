"""One step of a model, taken at start to see what really runs. Imports torch."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from capture.engines.torch_decoder import Decoder
from capture.errors import EngineError

_KERNEL = re.compile(r"mm|mv|attention|conv|linear|dot|quanto|scan|delta")


@dataclass(frozen=True, slots=True)
class Probe:
    """What a step of one token showed.

    Attributes:
        dtype: the dtype of the logits.
        vocabulary_size: how many logits a position has.
        kernels: how often each matrix, attention and convolution operator ran.
        cache: how many layers of each kind the cache has.
    """

    dtype: str
    vocabulary_size: int
    kernels: Mapping[str, int]
    cache: Mapping[str, int]


def probe(decoder: Decoder) -> Probe:
    """Compute two tokens, the second by decode, and forget them.

    Raises:
        EngineError: the model does not run with these options.
    """
    with _KernelCount() as kernels, torch.inference_mode():
        try:
            decoder.prefill((0,))
            kernels.counts.clear()
            logits = decoder.step(0)
        except (RuntimeError, ValueError, TypeError, ImportError, OSError, subprocess.SubprocessError) as error:
            raise EngineError(f"the model does not run with these options: {_reason(error, decoder)}") from error
    cache = Counter(type(layer).__name__ for layer in decoder.cache.layers)
    decoder.reset()
    dtype = str(logits.dtype).removeprefix("torch.")
    return Probe(dtype, logits.shape[-1], dict(sorted(kernels.counts.items())), dict(sorted(cache.items())))


def _reason(error: Exception, decoder: Decoder) -> str:
    """Return the first line of an error, and what a KV cache in groups needs, which that line may not tell."""
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    if decoder.options.kv_group_size is None:
        return reason
    if "group size" in reason.lower():
        return f"{reason}; change 'kv_group_size'"
    return f"{reason}; on a CPU, 'kv_cache' '{decoder.options.kv_cache}' needs a C++ compiler and the package ninja"


class _KernelCount(TorchDispatchMode):  # type: ignore[misc]
    """Counts operators while it is active, each composed one by the parts that it really calls."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        with self:
            parts = func.decompose(*args, **named)
        if parts is not NotImplemented:
            return parts
        name = str(func).removesuffix(".default")
        if _KERNEL.search(name):
            self.counts[name] += 1
        return func(*args, **named)
