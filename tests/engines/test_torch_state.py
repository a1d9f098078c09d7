from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from capture.engines.torch_options import validate_options
from capture.engines.torch_state import GenerationState, RotaryMemory, inner_tensors, new_cache
from capture.errors import EngineError

pytestmark = pytest.mark.engine

needs_compiler = pytest.mark.skipif(
    shutil.which("c++") is None or shutil.which("ninja") is None, reason="optimum-quanto compiles its CPU kernels"
)

CONFIG = transformers.LlamaConfig(
    num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, hidden_size=32, vocab_size=10
)


def filled(**options: Any) -> Any:
    """A cache of 8 positions and one more, with quantized tensors where the options say so."""
    torch.manual_seed(4)
    cache = new_cache(CONFIG, validate_options(options))
    for length in (8, 1):
        keys = torch.randn(1, 2, length, 16)
        cache.update(keys, keys + 1, 0)
    return cache


def tensors(cache: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in vars(cache.layers[0]).values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, torch.Tensor):
                found += inner_tensors(part)
    return [part for part in found if part.numel()]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, 2),
        ({"kv_cache": "fp8"}, 4),
        pytest.param({"kv_cache": "int4", "kv_group_size": 32}, 8, marks=needs_compiler),
    ],
)
def test_copy_is_equal_and_shares_no_memory(options: dict[str, Any], parts: int) -> None:
    cache = filled(**options)
    copied = GenerationState(cache, ()).copy().cache
    one, other = tensors(cache), tensors(copied)
    assert len(one) == len(other) == parts
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a, b)
        assert a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr()
    assert copied.get_seq_length() == cache.get_seq_length() == 9


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.cache_utils.is_optimum_quanto_available", lambda: False)
    with pytest.raises(EngineError, match="'kv_cache' cannot be 'int4' here: .*optimum-quanto"):
        new_cache(CONFIG, validate_options({"kv_cache": "int4"}))


def test_model_that_a_quantized_cache_does_not_serve() -> None:
    config = transformers.LlamaConfig(num_hidden_layers=1, layer_types=["sliding_attention"], sliding_window=4)
    with pytest.raises(EngineError, match="'kv_cache' cannot be 'fp8' here: .*full attention"):
        new_cache(config, validate_options({"kv_cache": "fp8"}))


def test_rotary_values_come_back() -> None:
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    config = transformers.LlamaConfig(
        hidden_size=32, num_attention_heads=2, max_position_embeddings=8, rope_parameters=rope
    )
    rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
    memory = RotaryMemory(rotary)
    start = memory.read()
    first = rotary.inv_freq.clone()
    rotary(torch.zeros(1, 20, 32), torch.arange(20)[None])
    assert not torch.equal(rotary.inv_freq, first)
    memory.write(start)
    assert torch.equal(rotary.inv_freq, first)
    assert rotary.max_seq_len_cached == 8
    rotary.inv_freq.zero_()
    memory.write(start)
    assert torch.equal(rotary.inv_freq, first)


def test_model_folder_is_untouched_by_a_start(llama: Path) -> None:
    assert sorted(path.name for path in llama.iterdir()) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
