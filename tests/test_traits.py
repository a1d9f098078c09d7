"""What a runtime is by trait, and what differs from its reference as the name of a group."""

from __future__ import annotations

import pytest

from app.traits import OTHER, SAME, Capture, capture_of, group_of, group_order, traits_of
from capture.model import Runtime


def runtime(engine: str = "vllm", model: str = "packaged:small", **options: object) -> Runtime:
    return Runtime("name", engine, model, options)


def test_traits_come_from_whatever_the_engine_calls_them() -> None:
    torch = traits_of(runtime("torch", weights="int4", kv_cache="int8", attention="eager", dtype="bfloat16"))
    vllm = traits_of(runtime("vllm", quantization="int4", kv_cache_dtype="int8", attention_backend="eager"))
    names = ("weights", "KV cache", "attention")
    assert [torch[name] for name in names] == [vllm[name] for name in names] == ["int4", "int8", "eager"]
    assert torch["dtype"] == "bf16"
    assert torch["model"] == "small"


@pytest.mark.parametrize("value", [None, "auto", "as stored", ""])
def test_an_option_left_as_it_was_is_no_trait(value: object) -> None:
    assert "weights" not in traits_of(runtime(weights=value))


def test_the_manifest_tells_hardware_version_and_sizes() -> None:
    manifest = {
        "hardware": {"cpu": "some", "gpus": [{"name": "Card"}, {"name": "Card"}]},
        "versions": {"vllm": "0.32.0", "torch": "2.13"},
        "model": {"name": "tiny", "bytes": 5_000},
        "ran": {"weight_bytes": 4_000},
    }
    assert capture_of(runtime(), manifest) == Capture("2 × Card", "0.32.0", "tiny", 4_000, 5_000)


@pytest.mark.parametrize(
    "manifest",
    [
        {},
        {"hardware": [], "versions": "x", "model": None, "ran": 3},
        {"hardware": {"gpu": {"name": ["<b>"]}, "gpus": {}}, "ran": {"weight_bytes": True}, "model": {"bytes": -1}},
        {"hardware": {"gpus": [None, 7, {}]}, "ran": {"weight_bytes": 1e9}, "model": {"bytes": 1 << 80}},
    ],
)
def test_a_strangers_manifest_is_taken_for_what_it_is(manifest: dict[str, object]) -> None:
    found = capture_of(runtime(), manifest)
    assert (found.weight_bytes, found.disk_bytes) == (None, None)
    assert len(found.gpu) <= 60


def test_groups_name_what_differs() -> None:
    reference = runtime(dtype="bfloat16")
    read = (Capture(gpu="one", version="1"), Capture(gpu="one", version="1"))
    assert group_of(reference, runtime(dtype="bfloat16", kv_cache="int4"), read) == "KV cache"
    assert group_of(reference, runtime(dtype="bfloat16", tensor_parallel_size=2), read) == "tensor parallel"
    assert group_of(reference, runtime(dtype="float32", weights="int4"), read) == "weights + dtype"
    assert group_of(reference, runtime(model="derived", dtype="bfloat16"), read) == "model"
    assert group_of(reference, runtime(dtype="bfloat16", seed=2), read) == OTHER
    assert group_of(reference, reference, read) == SAME


def test_hardware_and_version_count_when_both_manifests_are_read() -> None:
    reference = runtime()
    assert group_of(reference, reference, (Capture(version="1"), Capture(version="2"))) == "version"
    assert group_of(reference, reference, (None, Capture(version="2", gpu="one"))) == SAME


def test_groups_stand_in_the_order_of_their_traits() -> None:
    groups = ["weights + KV cache", OTHER, "dtype", "model", SAME, "KV cache"]
    assert sorted(groups, key=group_order) == ["model", "KV cache", "dtype", OTHER, SAME, "weights + KV cache"]
