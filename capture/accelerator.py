"""Which code compares rows: torch on a graphics processor where there is one, else numpy on all processors."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from capture.engines.torch_options import available_processors
from capture.metrics import BoolArray, PairMetrics, compare_rows
from capture.model import Int32Array
from capture.row_pair import Logits

RowComparer = Callable[[Logits, Logits, Int32Array, BoolArray | None], PairMetrics]
"""Does what `metrics.compare_rows` does."""

_DEVICES = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")
"""A machine without any of these has no graphics processor for torch, which is slow to import and then left alone."""

_MOST_THREADS = 8


@cache
def row_comparer() -> RowComparer:
    """Return the fastest code for comparing rows on this machine."""
    if any(Path(device).exists() for device in _DEVICES) and importlib.util.find_spec("torch") is not None:
        on_device: RowComparer | None = importlib.import_module("capture.engines.torch_rows").on_graphics_processor()
        if on_device is not None:
            return on_device
    return partial(compare_rows, threads=min(available_processors(), _MOST_THREADS))
