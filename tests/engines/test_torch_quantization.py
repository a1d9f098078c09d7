from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from capture.engines.torch_options import WEIGHT_BITS, validate_options
from capture.engines.torch_quantization import quantize_weights, round_to_nearest
from capture.errors import EngineError

pytestmark = pytest.mark.engine

needs_torchao = pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="torchao is not installed")


class TwoLayers(nn.Module):  # type: ignore[misc]
    """A linear layer and an output head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.inner = nn.Linear(64, 48, bias=False)
        self.head = nn.Linear(48, 10, bias=False)
        self.to(torch.bfloat16).requires_grad_(requires_grad=False)

    def get_output_embeddings(self) -> nn.Linear:
        return self.head


@pytest.fixture
def no_torchao(monkeypatch: pytest.MonkeyPatch) -> None:
    find: Callable[[str], Any] = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torchao" else find(name))


def test_as_stored_changes_nothing() -> None:
    model = TwoLayers()
    before = copy.deepcopy(model.state_dict())
    assert quantize_weights(model, validate_options({})) == {"method": "as stored"}
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@needs_torchao
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("weights", WEIGHT_BITS)
def test_weights_rounded_at_load_give_the_bits_of_torchaos_own_layer(weights: str, rows: int) -> None:
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    theirs, ours = TwoLayers(), TwoLayers()
    config = IntxWeightOnlyConfig(weight_dtype=getattr(torch, weights), granularity=PerGroup(32))
    quantize_(theirs, config, filter_fn=lambda module, _: module is theirs.inner)
    done = quantize_weights(ours, validate_options({"weights": weights}))
    given = torch.randn(1, rows, 64).to(torch.bfloat16)
    with torch.inference_mode():
        assert torch.equal(theirs.inner(given), ours.inner(given))
    assert type(ours.inner.weight) is nn.Parameter
    assert done["method"].startswith("torchao ")
    assert (done["bits"], done["group_size"], done["layers"], done["kept"]) == (int(weights[3:]), 32, 1, "output head")


@needs_torchao
def test_group_holds_no_more_values_than_its_bits_allow() -> None:
    model = TwoLayers()
    quantize_weights(model, validate_options({"weights": "int3", "group_size": 16}))
    groups = model.inner.weight.reshape(-1, 16)
    assert max(len(group.unique()) for group in groups) <= 8
    assert torch.equal(model.head.weight, TwoLayers().head.weight)


@needs_torchao
def test_activations_too() -> None:
    model = TwoLayers()
    done = quantize_weights(model, validate_options({"weights": "w8a8"}))
    given = torch.randn(1, 5, 64).to(torch.bfloat16)
    with torch.inference_mode():
        change = (model.inner(given) - TwoLayers().inner(given)).abs().max()
    assert 0 < change < 0.1
    assert "int8 weights and activations" in done["method"]
    assert type(model.head.weight) is nn.Parameter


def test_group_size_that_does_not_fit() -> None:
    with pytest.raises(EngineError, match="'group_size' 48 does not divide the 64 columns of 'inner'"):
        quantize_weights(TwoLayers(), validate_options({"weights": "int4", "group_size": 48}))


def test_model_without_linear_layers() -> None:
    model = TwoLayers()
    del model.inner
    with pytest.raises(EngineError, match="no linear layer"):
        quantize_weights(model, validate_options({"weights": "int4"}))


@pytest.mark.usefixtures("no_torchao")
class TestWithoutTorchao:
    def test_own_rounding_is_named(self) -> None:
        model = TwoLayers()
        done = quantize_weights(model, validate_options({"weights": "int4", "group_size": 16}))
        assert done["method"] == "flipscope round to nearest, symmetric, dequantized at load"
        assert torch.equal(model.inner.weight, round_to_nearest(TwoLayers().inner.weight, 4, 16))

    def test_quantized_activations_need_it(self) -> None:
        with pytest.raises(EngineError, match="needs the package torchao"):
            quantize_weights(TwoLayers(), validate_options({"weights": "w8a8"}))


def test_rounding_by_hand() -> None:
    weight = torch.tensor([[7.0, -3.4, 0.6, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 2.1, 3.0, 4.0, 70.0, 5.1, -4.9, -70.0]])
    expected = torch.tensor([[7.0, -3.0, 1.0, 0, 0, 0, 0, 0], [4 / 7 * 2, 4 / 7 * 4, 4 / 7 * 5, 4, 70, 10, 0, -70]])
    torch.testing.assert_close(round_to_nearest(weight, 4, 4), expected)
