from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from capture.engines.torch_engine import TorchEngine
from capture.model import Runtime
from tests.engines import tiny_models

Start = Callable[..., TorchEngine]


@pytest.fixture(scope="session", autouse=True)
def _offline() -> Iterator[None]:
    """A test that reaches for the network fails."""
    patch = pytest.MonkeyPatch()
    patch.setenv("HF_HUB_OFFLINE", "1")
    patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_hybrid(tmp_path_factory.mktemp("hybrid"))


@pytest.fixture
def start() -> Iterator[Start]:
    """Start engines on one thread; they are closed after the test."""
    engines: list[TorchEngine] = []

    def begin(model: Path, **options: Any) -> TorchEngine:
        engine = TorchEngine()
        engine.start(Runtime("tiny", "torch", str(model), {"threads": 1, **options}))
        engines.append(engine)
        return engine

    yield begin
    for engine in engines:
        engine.close()
