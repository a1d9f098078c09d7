from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from capture.worker_process import WorkerProcess
from tests.engines import tiny_models
from tests.engines.vllm.real import COLUMNS, Recording, start


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model whose heads vLLM's attention for processors can take, and that three devices can share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_models, "PADDING", COLUMNS - 301)
        return tiny_models.save_llama(
            tmp_path_factory.mktemp("tiny"),
            num_hidden_layers=6,
            hidden_size=576,
            intermediate_size=1536,
            num_attention_heads=9,
            num_key_value_heads=3,
            max_position_embeddings=1024,
        )


@pytest.fixture(scope="session")
def worker(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """One worker with vLLM's defaults, for every test that needs no other."""
    with start(tiny, tmp_path_factory.mktemp("worker")) as running:
        yield running


@pytest.fixture
def recording(worker: WorkerProcess, tmp_path: Path) -> Recording:
    return Recording(worker, tmp_path)
