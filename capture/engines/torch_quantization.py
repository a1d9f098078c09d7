"""Weight quantization at load for the `torch` engine. Imports torch; torchao only when it is asked for."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from capture.engines.torch_options import AS_STORED, W8A8, WEIGHT_BITS, TorchOptions
from capture.errors import EngineError

Named = tuple[str, nn.Linear]


def quantize_weights(model: Any, options: TorchOptions) -> Mapping[str, Any]:
    """Quantize the model's linear layers in place, all but its output head, and describe what was done.

    The output head keeps its precision, as transformers and llama.cpp keep theirs.

    Raises:
        EngineError: a layer's width is not a multiple of the group size, or `w8a8` is wanted without torchao.
    """
    if options.weights == AS_STORED:
        return {"method": AS_STORED}
    layers = tuple(_linear_layers(model))
    if not layers:
        raise EngineError(
            f"the model has no linear layer to quantize; leave out the option 'weights' ({options.weights})"
        )
    has_torchao = importlib.util.find_spec("torchao") is not None
    if options.weights == W8A8:
        done = _quantize_with_activations(model, layers, has_torchao=has_torchao)
    else:
        done = _round_in_groups(model, layers, options, has_torchao=has_torchao)
    return {**done, "layers": len(layers), "kept": "output head"}


def round_to_nearest(weight: torch.Tensor, bits: int, group_size: int) -> torch.Tensor:
    """Return weights [rows, columns] rounded to nearest in groups along a row, symmetric around 0.

    The scale of a group is its largest absolute value over 2**(bits - 1) - 1; the result has the weight's dtype.
    """
    limit = 2 ** (bits - 1) - 1
    groups = weight.float().reshape(weight.shape[0], -1, group_size)
    scale = groups.abs().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / limit
    rounded = (groups / scale).round().clamp(-limit, limit) * scale
    return rounded.reshape(weight.shape).to(weight.dtype)


def _linear_layers(model: Any) -> Iterator[Named]:
    head = model.get_output_embeddings()
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and module is not head:
            yield name, module


def _round_in_groups(
    model: Any, layers: tuple[Named, ...], options: TorchOptions, *, has_torchao: bool
) -> Mapping[str, Any]:
    bits, group_size = WEIGHT_BITS[options.weights], int(options.group_size or 0)
    _check_widths(layers, group_size)
    if has_torchao:
        _torchao_round(model, layers, bits, group_size)
        method = f"torchao {importlib.metadata.version('torchao')} round to nearest, dequantized at load"
    else:
        for _, layer in layers:
            layer.weight = _fixed(round_to_nearest(layer.weight, bits, group_size))
        method = "flipscope round to nearest, symmetric, dequantized at load"
    return {"method": method, "bits": bits, "group_size": group_size}


def _check_widths(layers: tuple[Named, ...], group_size: int) -> None:
    for name, layer in layers:
        if layer.in_features % group_size:
            raise EngineError(
                f"option 'group_size' {group_size} does not divide the {layer.in_features} columns of '{name}'; "
                "choose one that divides every layer's width"
            )


def _torchao_round(model: Any, layers: tuple[Named, ...], bits: int, group_size: int) -> None:
    """Let torchao round, then keep the rounded weights as plain tensors.

    torchao's own layer does the same at every step, dequantize and multiply, several times slower: the results are
    equal bit for bit, which the tests check.
    """
    quantization = importlib.import_module("torchao.quantization")
    granularity = importlib.import_module("torchao.quantization.granularity")
    dtype = getattr(torch, f"int{bits}")
    config = quantization.IntxWeightOnlyConfig(weight_dtype=dtype, granularity=granularity.PerGroup(group_size))
    quantization.quantize_(model, config, filter_fn=_only(layers))
    for _, layer in layers:
        layer.weight = _fixed(layer.weight.dequantize())


def _quantize_with_activations(model: Any, layers: tuple[Named, ...], *, has_torchao: bool) -> Mapping[str, Any]:
    if not has_torchao:
        raise EngineError(f"option 'weights' is '{W8A8}', which needs the package torchao; install it")
    quantization = importlib.import_module("torchao.quantization")
    quantization.quantize_(model, quantization.Int8DynamicActivationInt8WeightConfig(), filter_fn=_only(layers))
    version = importlib.metadata.version("torchao")
    return {"method": f"torchao {version} int8 weights and activations, one scale a row and a token", "bits": 8}


def _only(layers: tuple[Named, ...]) -> Callable[[nn.Module, str], bool]:
    chosen = {id(layer) for _, layer in layers}
    return lambda module, _name: id(module) in chosen


def _fixed(weight: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(weight.detach(), requires_grad=False)
