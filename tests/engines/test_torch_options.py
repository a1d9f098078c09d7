from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from capture.engines.torch_options import TorchOptions, available_processors, validate_options
from capture.errors import UsageError


def test_defaults() -> None:
    options = validate_options({})
    assert options == TorchOptions(threads=available_processors())
    assert (options.attention, options.dtype, options.device) == ("sdpa", "bfloat16", "cpu")
    assert (options.weights, options.kv_cache) == ("as stored", "as computed")
    assert (options.group_size, options.kv_group_size, options.kv_residual_length) == (None, None, None)


def test_sizes_are_filled_in_where_a_format_has_groups() -> None:
    options = validate_options({"weights": "int4", "kv_cache": "int2", "kv_group_size": 16})
    assert (options.group_size, options.kv_group_size, options.kv_residual_length) == (32, 16, 128)


def test_every_option_is_taken() -> None:
    given: dict[str, Any] = {
        "attention": "eager",
        "dtype": "float32",
        "weights": "int8",
        "group_size": 64,
        "kv_cache": "int4",
        "kv_group_size": 32,
        "kv_residual_length": 16,
        "threads": 3,
        "device": "cpu",
        "prefill_chunk": 7,
        "onednn_decode": False,
    }
    options = validate_options(given)
    assert {name: getattr(options, name) for name in given} == given


def test_unknown_option_is_named_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"no option 'attn'; it has attention, dtype, weights"):
        validate_options({"attn": "eager"})


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("attention", "flash", "'sdpa', 'eager'"),
        ("dtype", "int8", "'bfloat16', 'float16', 'float32'"),
        ("weights", "int7", "'as stored', 'int8'"),
        ("kv_cache", "int8", "'as computed', 'fp8', 'int4', 'int2'"),
        ("threads", 0, "at least 1"),
        ("threads", "2", "at least 1"),
        ("threads", True, "at least 1"),
        ("prefill_chunk", -1, "at least 1"),
        ("prefill_chunk", 1.5, "at least 1"),
        ("device", "mps", "'cuda'"),
        ("device", "cpu:0", "'cuda'"),
        ("device", "cuda:x", "'cuda'"),
        ("device", "cuda:", "'cuda'"),
        ("onednn_decode", 1, "true or false"),
        ("attention", ["sdpa"], "'sdpa'"),
    ],
)
def test_value_that_is_not_allowed(option: str, value: object, allowed: str) -> None:
    with pytest.raises(UsageError) as caught:
        validate_options({option: value})
    assert f"option '{option}' cannot be {value!r}" in str(caught.value)
    assert allowed in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"group_size": 32},
        {"weights": "w8a8", "group_size": 32},
        {"kv_group_size": 32},
        {"kv_cache": "fp8", "kv_residual_length": 8},
    ],
)
def test_size_without_a_format_that_has_groups(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="leave it out"):
        validate_options(options)


def test_kernels_of_the_processor_do_not_go_with_a_gpu() -> None:
    assert validate_options({"device": "cuda:1"}).device == "cuda:1"
    with pytest.raises(UsageError, match="'onednn_decode'"):
        validate_options({"device": "cuda", "onednn_decode": False})


def test_checking_options_starts_no_torch() -> None:
    program = (
        "import sys; from capture.engines.torch_options import validate_options; validate_options({}); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
