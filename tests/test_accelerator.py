from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from capture import accelerator


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    accelerator.row_comparer.cache_clear()
    yield
    accelerator.row_comparer.cache_clear()


def test_without_a_device_torch_is_not_even_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(accelerator, "_DEVICES", (str(tmp_path / "none"),))
    monkeypatch.setitem(sys.modules, "capture.engines.torch_rows", None)  # an import of it would now fail
    rows = np.log([[0.5, 0.5]])
    assert accelerator.row_comparer()(rows, rows, np.zeros(1, np.int32), None).kl_forward.tolist() == [0.0]


def test_a_device_that_torch_does_not_see_leaves_numpy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "device").touch()
    monkeypatch.setattr(accelerator, "_DEVICES", (str(tmp_path / "device"),))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rows = np.log([[0.5, 0.5]])
    assert len(accelerator.row_comparer()(rows, rows, np.zeros(1, np.int32), None)) == 1
