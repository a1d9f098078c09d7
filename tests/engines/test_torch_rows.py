from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from capture.engines import torch_rows
from capture.engines.torch_rows import compare_rows_on, on_graphics_processor
from capture.metrics import PairMetrics, compare_rows


@pytest.mark.parametrize("mask", [None, np.arange(1000) % 5 > 0])
def test_torch_gives_what_numpy_gives(mask: np.ndarray | None) -> None:
    random = np.random.default_rng(3)
    first = (random.normal(size=(20, 1000)) * 4).round(1).astype(np.float32)
    second = (first + random.normal(size=first.shape)).round(1).astype(np.float32)
    second[3, 500:] = -math.inf
    first[3, 702] = 40.0  # a winner that the other side gives nothing
    tokens = random.integers(0, 1000, 20).astype(np.int32)
    found = compare_rows_on(torch.device("cpu"), first, second, tokens, mask)
    wanted = compare_rows(first, second, tokens, mask)
    for name in PairMetrics.__slots__:
        one, other = getattr(found, name), getattr(wanted, name)
        assert one.dtype == other.dtype, name
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a graphics processor")
def test_without_a_graphics_processor_there_is_nothing_to_compare_on() -> None:
    assert on_graphics_processor() is None


def test_a_device_without_room_leaves_the_rows_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> PairMetrics:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    compare = on_graphics_processor()
    assert compare is not None
    monkeypatch.setattr(torch_rows, "compare_rows_on", full)
    rows = np.log([[0.25, 0.75]])
    assert compare(rows, rows[:, ::-1].copy(), np.zeros(1, np.int32), None).kl_forward[0] > 0.1
