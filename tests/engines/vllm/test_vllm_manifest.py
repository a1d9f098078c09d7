from __future__ import annotations

from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from capture.engines.vllm_manifest import environment
from capture.engines.vllm_ran import describe_worker, loaded_libraries, weight_bytes

pytestmark = pytest.mark.engine


def test_only_allowed_variables_are_told() -> None:
    told = environment(
        {
            "HF_TOKEN": "hush",
            "NCCL_ALGO": "ring",
            "OMP_NUM_THREADS": "1",
            "PATH": "/bin",
            "VLLM_API_KEY": "hush",
            "VLLM_BATCH_INVARIANT": "1",
            "VLLM_S3_SECRET_ACCESS_KEY": "hush",
        }
    )
    assert told == {"NCCL_ALGO": "ring", "OMP_NUM_THREADS": "1", "VLLM_BATCH_INVARIANT": "1"}


def test_folders_are_cut_off() -> None:
    assert environment({"NCCL_TOPO_FILE": "/home/someone/topology.xml"}) == {"NCCL_TOPO_FILE": "topology.xml"}


def test_loaded_libraries_are_those_that_decide_bits(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text(
        "7f00 r-xp 0 08:01 1 /opt/x/libgomp-6a29.so.1\n"
        "7f01 r-xp 0 08:01 1 /opt/x/libgomp-6a29.so.1\n"
        "7f02 r-xp 0 08:01 1 /usr/lib/libssl.so.3\n"
        "7f03 r-xp 0 08:01 1 /opt/x/libnccl.so.2\n"
        "7f04 rw-p 0 00:00 0 [heap]\n"
    )
    assert loaded_libraries(maps) == ["libgomp-6a29.so.1", "libnccl.so.2"]
    assert loaded_libraries(tmp_path / "absent") == []


class Linear(torch.nn.Linear):  # type: ignore[misc]
    def __init__(self, method: object) -> None:
        super().__init__(2, 2, bias=False, dtype=torch.bfloat16)
        self.quant_method = method


class Int8Kernel:
    pass


class Scheme:
    def __init__(self) -> None:
        self.kernel = Int8Kernel()


class Plain:
    pass


class Kind(Enum):
    CPU_ATTN = 1


def test_what_runs_is_told_by_layer_and_kernel() -> None:
    model = torch.nn.Sequential(Linear(Plain()), Linear(Scheme()), Linear(Scheme()))
    attention = SimpleNamespace(
        attn_backend=SimpleNamespace(get_name=lambda: Kind.CPU_ATTN.name),
        impl=Plain(),
        kv_cache_dtype="fp8",
        kv_cache=[torch.zeros(2, dtype=torch.uint8)],
    )
    mixer = SimpleNamespace(kv_cache=(torch.zeros(1), torch.zeros(1, dtype=torch.bfloat16)))
    config = SimpleNamespace(
        compilation_config=SimpleNamespace(static_forward_context={"layers.0": attention, "layers.1": mixer})
    )
    told = describe_worker(SimpleNamespace(model=model, device=torch.device("cpu")), config)
    assert told["layers"] == [
        "CPU_ATTN (Plain), cache fp8 as uint8",
        "SimpleNamespace, cache None as bfloat16+float32",
    ]
    assert told["linear"] == {"Linear / Plain": 1, "Linear / Scheme / Int8Kernel": 2}
    assert told["dtypes"] == {"bfloat16": 3}
    assert told["device"] == "cpu"


def test_weights_that_layers_share_are_counted_once() -> None:
    first = torch.nn.Linear(3, 5, dtype=torch.bfloat16)
    tied = torch.nn.Linear(3, 5, bias=False, dtype=torch.bfloat16)
    tied.weight = first.weight
    scale = torch.nn.Module()
    scale.register_buffer("scale", torch.zeros(7))
    assert weight_bytes(torch.nn.ModuleList([first, tied, scale])) == 2 * 3 * 5 + 2 * 5 + 4 * 7


def test_on_a_cpu_the_memory_of_weights_is_not_told() -> None:
    model = torch.nn.Linear(2, 2)
    config = SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context={}))
    here, meta = (
        describe_worker(SimpleNamespace(model=model, device=torch.device(kind)), config) for kind in ("cpu", "meta")
    )
    assert "weight_bytes" not in here
    assert meta["weight_bytes"] == 4 * 6
