from __future__ import annotations

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from capture.codec import LARGEST_ROW_BYTES, SHUFFLE_ZSTD, decode, encode
from capture.errors import DamagedBundleError
from capture.model import LOGIT_BYTES


@given(st.data(), st.sampled_from(sorted(LOGIT_BYTES)), st.integers(1, 200))
def test_every_row_comes_back_bit_for_bit(data: st.DataObject, dtype: str, columns: int) -> None:
    size = columns * LOGIT_BYTES[dtype]
    row = data.draw(st.binary(min_size=size, max_size=size))
    assert decode(SHUFFLE_ZSTD, encode(row, dtype), dtype, columns) == row


@pytest.mark.parametrize("payload", [b"", b"not zstandard", zstandard.compress(b"\0" * 10)])
def test_damaged_payloads_are_refused(payload: bytes) -> None:
    with pytest.raises(DamagedBundleError):
        decode(SHUFFLE_ZSTD, payload, "bfloat16", 4)


def test_a_payload_that_unfolds_beyond_its_row_is_refused() -> None:
    bomb = zstandard.compress(b"\0" * (64 << 20))
    with pytest.raises(DamagedBundleError):
        decode(SHUFFLE_ZSTD, bomb, "bfloat16", 1000)


def test_a_claimed_vocabulary_is_bounded() -> None:
    with pytest.raises(DamagedBundleError, match="larger"):
        decode(SHUFFLE_ZSTD, b"", "float32", LARGEST_ROW_BYTES)


def test_unknown_codecs_are_named() -> None:
    with pytest.raises(DamagedBundleError, match="'pickle'"):
        decode("pickle", b"", "bfloat16", 4)
