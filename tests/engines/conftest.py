from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from capture.model import Runtime

if TYPE_CHECKING:
    from capture.engines.torch_engine import TorchEngine

HAS_TORCH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("transformers") is not None

collect_ignore = (
    []
    if HAS_TORCH
    else [path.name for path in Path(__file__).parent.glob("test_torch_*.py") if path.name != "test_torch_options.py"]
)
"""Without the torch extra, what needs it is left out."""


@pytest.fixture(scope="session", autouse=True)
def _offline() -> Iterator[None]:
    """Nothing is looked up on the hub."""
    patch = pytest.MonkeyPatch()
    patch.setenv("HF_HUB_OFFLINE", "1")
    if HAS_TORCH:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.engines import tiny_models

    return tiny_models.save_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.engines import tiny_models

    return tiny_models.save_hybrid(tmp_path_factory.mktemp("hybrid"))


@pytest.fixture
def start() -> Iterator[Callable[..., TorchEngine]]:
    """Start engines on one thread; they are closed after the test."""
    from capture.engines.torch_engine import TorchEngine

    engines: list[TorchEngine] = []

    def begin(model: Path, **options: Any) -> TorchEngine:
        engine = TorchEngine()
        engine.start(Runtime("tiny", "torch", str(model), {"threads": 1, **options}))
        engines.append(engine)
        return engine

    yield begin
    for engine in engines:
        engine.close()
