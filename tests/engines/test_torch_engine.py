from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from capture.engines import create_engine
from capture.engines.base import FreeJob, ModelFacts
from capture.engines.torch_engine import TorchEngine
from capture.engines.vocabulary import tokenizer_json
from capture.errors import EngineError, UsageError
from capture.model import Case, Runtime
from tests.engines import tiny_models
from tests.engines.recorder import MemorySinks

pytestmark = pytest.mark.engine

Start = Callable[..., TorchEngine]


def begin(model: object, **options: Any) -> ModelFacts:
    return TorchEngine().start(Runtime("tiny", "torch", str(model), {"threads": 1, **options}))


@pytest.fixture
def broken(llama: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that a test may damage."""
    return Path(shutil.copytree(llama, tmp_path / "broken"))


class TestStart:
    def test_facts(self, llama: Path) -> None:
        columns = json.loads((llama / "config.json").read_text())["vocab_size"]
        assert begin(llama) == ModelFacts("bfloat16", columns, 256, (1,))
        assert begin(llama, dtype="float32").dtype == "float32"
        assert begin(llama, dtype="float16").dtype == "float16"

    def test_stop_ids_of_the_generation_configuration_win(self, broken: Path) -> None:
        (broken / "generation_config.json").write_text('{"eos_token_id": [7, 3]}')
        assert begin(broken).stop_ids == (3, 7)
        (broken / "generation_config.json").unlink()
        assert begin(broken).stop_ids == (1,)

    def test_registry_knows_the_engine(self) -> None:
        assert isinstance(create_engine("torch"), TorchEngine)

    def test_local_folder_never_touches_the_network(self, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise AssertionError("the network was touched")

        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        assert begin(llama).vocabulary_size > 0

    def test_unknown_option(self, llama: Path) -> None:
        with pytest.raises(UsageError, match="no option 'quant'"):
            begin(llama, quant="int4")

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    def test_no_gpu(self, llama: Path) -> None:
        with pytest.raises(EngineError, match="torch sees no GPU"):
            begin(llama, device="cuda")

    def test_group_size_of_the_cache_that_does_not_fit(self, llama: Path) -> None:
        with pytest.raises(EngineError, match="change 'kv_group_size'"):
            begin(llama, kv_cache="int4", kv_group_size=48)

    def test_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(EngineError, match=f"no model '{tmp_path / 'none'}': no such folder"):
            begin(tmp_path / "none")

    def test_hub_name_that_was_not_downloaded(self) -> None:
        with pytest.raises(EngineError, match="no model 'nobody/no-such-model'"):
            begin("nobody/no-such-model")

    def test_folder_without_weights(self, broken: Path) -> None:
        (broken / "model.safetensors").unlink()
        with pytest.raises(EngineError, match=f"'{broken}' has no weights"):
            begin(broken)

    @pytest.mark.parametrize("config", ["{", '{"model_type": "no such type"}', "{}", "[1]"])
    def test_broken_configuration(self, broken: Path, config: str) -> None:
        (broken / "config.json").write_text(config)
        with pytest.raises(EngineError, match=f"the model '{broken}' cannot be loaded: .") as caught:
            begin(broken)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("keep", [0, 5, 1000, -10])
    def test_truncated_weights(self, broken: Path, keep: int) -> None:
        weights = broken / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:keep])
        with pytest.raises(EngineError, match=f"the model '{broken}' cannot be loaded"):
            begin(broken)

    def test_weights_of_a_layer_are_missing(self, broken: Path) -> None:
        config = json.loads((broken / "config.json").read_text())
        (broken / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
        with pytest.raises(EngineError, match=r"lacks 9 of its weights, such as 'model\.layers\.2"):
            begin(broken)

    def test_weights_of_another_shape(self, broken: Path) -> None:
        config = json.loads((broken / "config.json").read_text())
        (broken / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))
        with pytest.raises(EngineError, match=f"the model '{broken}' cannot be loaded"):
            begin(broken)

    def test_folder_without_a_tokenizer(self, broken: Path) -> None:
        (broken / "tokenizer.json").unlink()
        (broken / "tokenizer_config.json").unlink()
        with pytest.raises(EngineError, match=f"the model '{broken}' cannot be loaded"):
            begin(broken)


class TestNotStarted:
    @pytest.mark.parametrize(
        "call",
        [
            lambda engine: engine.vocabulary(),
            lambda engine: engine.manifest(),
            lambda engine: engine.tokenize(Case("x", ()), "2025-01-01"),
            lambda engine: engine.generate(FreeJob((1,), (), 1), MemorySinks(), lambda _: None),
        ],
    )
    def test_calls_are_refused(self, llama: Path, call: Callable[[TorchEngine], object]) -> None:
        with pytest.raises(EngineError, match="not started"):
            call(TorchEngine())
        closed = TorchEngine()
        closed.start(Runtime("tiny", "torch", str(llama)))
        closed.close()
        with pytest.raises(EngineError, match="not started"):
            call(closed)


def test_prompt_and_vocabulary_belong_together(llama: Path, start: Start) -> None:
    engine = start(llama)
    prompt = engine.tokenize(Case("x", ({"role": "user", "content": "show ip route 😀"},)), "2025-01-02")
    table = {token.token_id: token.data for token in engine.vocabulary()}
    assert b"".join(table[token_id] for token_id in prompt.token_ids).decode() == prompt.text
    assert prompt.text.startswith("<s>02 Jan 2025")
    columns = json.loads((llama / "config.json").read_text())["vocab_size"]
    assert len(table) == columns - tiny_models.PADDING


def test_tokenizer_that_is_not_a_fast_one() -> None:
    with pytest.raises(EngineError, match="add its tokenizer.json"):
        tokenizer_json(object())


class TestManifest:
    def test_says_what_ran(self, llama: Path, start: Start) -> None:
        manifest = start(llama).manifest()
        ran = manifest["ran"]
        assert manifest["engine"] == "torch"
        assert manifest["versions"]["torch"] == torch.__version__
        assert ran["dtypes"] == {"bfloat16": 21}
        assert ran["layers"] == ["LlamaAttention (sdpa)"] * 2
        assert ran["linear"] == {"Linear": 15}
        assert ran["threads"] == 1
        assert ran["weight_bytes"] == 2 * sum(
            parameter.numel() for parameter in start(llama)._started.loaded.model.parameters()
        )
        assert list(manifest["model"]["files"]) == sorted(path.name for path in llama.iterdir())

    def test_tells_attention_kernels_apart(self, llama: Path, start: Start) -> None:
        names = {
            attention: set(start(llama, attention=attention).manifest()["ran"]["kernels of a decode step"])
            for attention in ("sdpa", "eager")
        }
        assert any("attention" in name for name in names["sdpa"])
        assert not any("attention" in name for name in names["eager"])
        assert "aten.mm" in names["sdpa"] & names["eager"]

    def test_tells_weights_and_caches_apart(self, llama: Path, start: Start) -> None:
        plain = start(llama).manifest()["ran"]
        rounded = start(llama, weights="int4").manifest()["ran"]
        both = start(llama, weights="w8a8", kv_cache="fp8").manifest()["ran"]
        assert rounded["weights"]["bits"] == 4
        assert rounded["weight_bytes"] == plain["weight_bytes"]
        assert both["linear"] == {"Linear": 1, "Linear of Int8Tensor": 14}
        assert both["weight_bytes"] < plain["weight_bytes"]
        assert both["cache"] == {"Fp8QuantizedLayer": 2}
        assert both["kernels of a decode step"]["aten._int_mm"] == 14

    def test_hybrid_layers_are_named(self, hybrid: Path, start: Start) -> None:
        layers = start(hybrid).manifest()["ran"]["layers"]
        assert layers == ["FalconH1Attention (sdpa) + FalconH1Mixer"] * 2

    def test_only_listed_variables_are_kept(self, llama: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        environment = start(llama).manifest()["environment"]
        assert environment["ONEDNN_MAX_CPU_ISA"] == "AVX2"
        assert environment["OMP_NUM_THREADS"] == "1"
        assert "HF_TOKEN" not in environment

    def test_holds_no_path_of_the_machine(self, llama: Path, start: Start) -> None:
        text = json.dumps(start(llama).manifest())
        assert str(llama.parent) not in text
        assert str(Path.home()) not in text
        assert sys.prefix not in text

    def test_is_the_same_in_another_process(self, llama: Path, start: Start) -> None:
        program = (
            "import json, sys\n"
            "from capture.engines.torch_engine import TorchEngine\n"
            "from capture.model import Runtime\n"
            "engine = TorchEngine(); engine.start(Runtime('other', 'torch', sys.argv[1], {'threads': 1}))\n"
            "print(json.dumps(engine.manifest()))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(llama)], check=True, capture_output=True, text=True, env=os.environ
        )
        assert json.loads(done.stdout) == json.loads(json.dumps(start(llama).manifest()))
        assert done.stderr == ""
