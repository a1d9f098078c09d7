"""Lossless storage of raw rows of logits. Knows bytes, no files; numpy and zstandard."""

from __future__ import annotations

import numpy as np
import zstandard

from capture.errors import DamagedBundleError
from capture.model import LOGIT_BYTES

SHUFFLE_ZSTD = "shuffle-zstd"
"""Bytes of equal significance side by side, then zstandard."""

LARGEST_ROW_BYTES = 4 << 20
"""No vocabulary comes near a million ids; a payload that claims more is refused."""

_LEVEL = 3


def encode(row: bytes | memoryview, dtype: str) -> bytes:
    """Return the compressed payload of one raw row, codec `SHUFFLE_ZSTD`."""
    planes = np.frombuffer(row, np.uint8).reshape(-1, LOGIT_BYTES[dtype]).T
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False).compress(planes.tobytes())


def decode(codec: str, payload: bytes, dtype: str, vocabulary_size: int) -> bytes:
    """Return the raw row that `payload` holds.

    Raises:
        DamagedBundleError: the codec is unknown, or the payload is not a row of that size.
    """
    size = vocabulary_size * LOGIT_BYTES[dtype]
    if codec != SHUFFLE_ZSTD:
        raise DamagedBundleError(
            f"logits are stored with the unknown codec '{codec[:40]}'; upgrade flipscope to read it"
        )
    if size > LARGEST_ROW_BYTES:
        raise DamagedBundleError(f"a row of {vocabulary_size:,} logits is larger than flipscope accepts")
    planes = _decompress(payload, size)
    return np.frombuffer(planes, np.uint8).reshape(LOGIT_BYTES[dtype], -1).T.tobytes()


def _decompress(payload: bytes, size: int) -> bytes:
    try:
        if zstandard.frame_content_size(payload) != size:
            raise DamagedBundleError("a row of logits has the wrong size; capture this run again")
        return zstandard.ZstdDecompressor().decompress(payload, max_output_size=size)
    except zstandard.ZstdError as error:
        raise DamagedBundleError("a row of logits does not decompress; capture this run again") from error
