from __future__ import annotations

import sys
from typing import Any

import pytest

from capture.engines import validate_options as validate_by_name
from capture.engines.vllm_options import OPTION_NAMES, RESERVED, VllmOptions, validate_options
from capture.errors import UsageError


def test_no_option_leaves_the_choices_to_vllm() -> None:
    options = validate_options({})
    assert options == VllmOptions()
    assert options.dtype == "auto"
    assert options.max_num_seqs == 1
    assert options.enforce_eager


def test_options_are_checked_by_name_without_vllm() -> None:
    validate_by_name("vllm", {"kv_cache_dtype": "fp8_e5m2", "tensor_parallel_size": 3})
    assert "vllm" not in sys.modules


def test_batched_forks_make_room_for_a_batch() -> None:
    assert validate_options({"batched_forks": True}).max_num_seqs == 16
    assert validate_options({"batched_forks": True, "max_num_seqs": 4}).max_num_seqs == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attention": "sdpa"}, "no option 'attention'"),
        ({"dtype": "int8"}, "'bfloat16'"),
        ({"kv_cache_dtype": ""}, "kv_cache_dtype"),
        ({"kv_cache_dtype": "fp8; rm"}, "kv_cache_dtype"),
        ({"tensor_parallel_size": 0}, "at least 1"),
        ({"tensor_parallel_size": True}, "at least 1"),
        ({"tensor_parallel_size": 2.0}, "at least 1"),
        ({"gpu_memory_utilization": 1.5}, "at most 1"),
        ({"kv_cache_gib": 0}, "GiB"),
        ({"enforce_eager": 1}, "true or false"),
        ({"model_runner": "v3"}, "'v2'"),
        ({"seed": -1}, "seed"),
        ({"engine_arguments": ["a"]}, "table"),
        ({"engine_arguments": {"dtype": "float32"}}, "option of its own"),
        ({"engine_arguments": {"model": "x"}}, "'model' names both"),
        ({"batched_forks": True, "reprefill_forks": True}, "exclude each other"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        validate_options(options)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_what_would_corrupt_the_record_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(UsageError) as inside:
        validate_options({"engine_arguments": {name: 1}})
    assert RESERVED[name] in str(inside.value)
    with pytest.raises(UsageError) as outside:
        validate_options({name: 1})
    assert RESERVED[name] in str(outside.value)


def test_speculative_decoding_is_refused_under_all_of_its_names() -> None:
    assert {"speculative_config", "spec_method", "spec_model", "spec_tokens"} <= set(RESERVED)


def test_no_option_is_reserved() -> None:
    assert not set(OPTION_NAMES) & set(RESERVED)
