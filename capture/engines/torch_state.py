"""The state of a generation in torch: the cache and what a model keeps beside it. Imports torch and transformers."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from capture.engines.torch_options import AS_COMPUTED, KV_CACHE_BITS, TorchOptions
from capture.errors import EngineError

_ROTARY_MARK = "max_seq_len_cached"
_ROTARY_VALUES = (_ROTARY_MARK, "attention_scaling", "inv_freq")

RotaryValues = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class GenerationState:
    """All that decides the next row besides the weights.

    Attributes:
        cache: the transformers cache (keys and values, quantized or not, convolution and recurrent states).
        rotary: the values that dynamic rotary embeddings change while a text grows; they live in the model's modules.
    """

    cache: Any
    rotary: RotaryValues

    def copy(self) -> GenerationState:
        """Return a state that shares no memory with this one."""
        with torch.inference_mode():
            return GenerationState(copy_cache(self.cache), copy.deepcopy(self.rotary))


def new_cache(config: Any, options: TorchOptions) -> Any:
    """Return an empty cache for a model.

    Raises:
        EngineError: the quantized cache needs a package that is missing, or does not serve this kind of model.
    """
    utilities = importlib.import_module("transformers.cache_utils")
    if options.kv_cache == AS_COMPUTED:
        return utilities.DynamicCache(config=config)
    try:
        return _quantized_cache(utilities.QuantizedCache, config, options)
    except (ImportError, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise EngineError(f"option 'kv_cache' cannot be '{options.kv_cache}' here: {reason}") from error


def _quantized_cache(kind: Any, config: Any, options: TorchOptions) -> Any:
    if options.kv_cache not in KV_CACHE_BITS:
        return kind(options.kv_cache, config=config)
    return kind(
        "quanto",
        config=config,
        nbits=KV_CACHE_BITS[options.kv_cache],
        q_group_size=options.kv_group_size,
        residual_length=options.kv_residual_length,
    )


def copy_cache(cache: Any) -> Any:
    """Return a deep copy of a cache, quantized tensors included (they do not support `copy.deepcopy` themselves)."""
    memo: dict[int, Any] = {}
    for layer in cache.layers:
        for value in vars(layer).values():
            if is_wrapper(value):
                memo[id(value)] = _copy_wrapper(value)
    return copy.deepcopy(cache, memo)


def is_wrapper(value: object) -> bool:
    """Tell whether a value is a tensor made of other tensors, such as a quantized one."""
    return isinstance(value, torch.Tensor) and hasattr(value, "__tensor_flatten__")


def inner_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the plain tensors that a tensor is made of, itself if it is plain."""
    if not is_wrapper(tensor):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from inner_tensors(getattr(tensor, name))


def _copy_wrapper(tensor: Any) -> Any:
    if not is_wrapper(tensor):
        return tensor.clone()
    names, context = tensor.__tensor_flatten__()
    parts = {name: _copy_wrapper(getattr(tensor, name)) for name in names}
    return type(tensor).__tensor_unflatten__(parts, context, tensor.size(), tensor.stride())


class RotaryMemory:
    """What rotary embeddings remember of the longest text so far (rope type `dynamic`); part of the state.

    The values stay in the modules, since the model reads them there, so one generation at a time is active.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = tuple(module for module in model.modules() if hasattr(module, _ROTARY_MARK))

    def read(self) -> RotaryValues:
        """Return copies of the values as they are now."""
        return tuple(copy.deepcopy(dict(_rotary_values(module))) for module in self._modules)

    def write(self, values: RotaryValues) -> None:
        """Put values back that `read` returned; they are copied again."""
        for module, named in zip(self._modules, values, strict=True):
            for name, value in copy.deepcopy(dict(named)).items():
                if name in dict(module.named_buffers(recurse=False)):
                    module.register_buffer(name, value, persistent=False)
                else:
                    setattr(module, name, value)


def _rotary_values(module: nn.Module) -> Iterator[tuple[str, Any]]:
    named = {**vars(module), **dict(module.named_buffers(recurse=False))}
    yield from ((name, value) for name, value in named.items() if name.endswith(_ROTARY_VALUES))
