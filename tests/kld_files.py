"""Writes llama.cpp's `_logits_` files from logits, by the description of the format and not by our reader."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def encoded_row(logits: Sequence[float], window: float = 16.0) -> bytes:
    """Return one row: scale and minimum as float32, a 16-bit code for each logit, and one more where they are odd."""
    largest = max(logits)
    lowest = max(min(logits), largest - window)
    log_sum = math.log(math.fsum(math.exp(value - largest) for value in logits))
    scale = (largest - lowest) / 65535
    codes = [round((value - lowest) / scale) if scale and value > lowest else 0 for value in logits]
    filled = [*codes, 12345] if len(codes) % 2 else codes
    return struct.pack("<ff", scale, lowest - largest - log_sum) + struct.pack(f"<{len(filled)}H", *filled)


def write_kld(
    path: Path,
    tokens: NDArray[np.int32],
    logits: NDArray[np.float64],
    *,
    magic: bytes = b"_logits_",
    window: float = 16.0,
) -> Path:
    """Write a file.

    Args:
        path: where to.
        tokens: [chunks, context length].
        logits: [chunks, rows, V]; a chunk has context length - 1 - context length // 2 rows.
        magic: the first 8 bytes.
        window: how far below the highest logit codes reach, in nats.
    """
    chunks, context = tokens.shape
    assert logits.shape[:2] == (chunks, context - 1 - context // 2)
    with open(path, "wb") as file:
        file.write(magic + struct.pack("<iii", context, logits.shape[2], chunks) + tokens.astype("<i4").tobytes())
        for chunk in logits:
            for row in chunk:
                file.write(encoded_row(row.tolist(), window))
    return path


def random_text(chunks: int, context: int, vocabulary_size: int) -> NDArray[np.int32]:
    """Return tokens [chunks, context]."""
    return np.random.default_rng(5).integers(0, vocabulary_size, (chunks, context)).astype(np.int32)


def random_logits(
    tokens: NDArray[np.int32], vocabulary_size: int, seed: int = 1, scale: float = 5.0
) -> NDArray[np.float64]:
    """Return logits [chunks, rows, V] for tokens [chunks, context]."""
    chunks, context = tokens.shape
    shape = (chunks, context - 1 - context // 2, vocabulary_size)
    return np.random.default_rng(seed).normal(scale=scale, size=shape)
