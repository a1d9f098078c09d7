from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.errors import UsageError
from capture.importers.llama_kld import KldFile, decode_row
from tests.kld_files import encoded_row, random_logits, random_text, write_kld

CONTEXT, SIZE = 9, 41


@pytest.fixture
def written(tmp_path: Path) -> Path:
    tokens = random_text(3, CONTEXT, SIZE)
    return write_kld(tmp_path / "base.kld", tokens, random_logits(tokens, SIZE))


def log_softmax(row: np.ndarray) -> np.ndarray:
    found: np.ndarray = row - row.max() - math.log(math.fsum(np.exp(row - row.max()).tolist()))
    return found


def test_a_file_is_read_as_it_was_written(written: Path) -> None:
    tokens = random_text(3, CONTEXT, SIZE)
    logits = random_logits(tokens, SIZE)
    with KldFile(written) as file:
        assert (file.header.context_length, file.header.vocabulary_size, file.header.chunks) == (CONTEXT, SIZE, 3)
        assert (file.header.prompt_length, file.header.rows, file.chunks) == (5, 4, 3)
        assert file.tokens.tolist() == tokens.tolist()
        for chunk in range(3):
            for row in range(4):
                exact = log_softmax(logits[chunk, row])
                found = file.row(chunk, row).log_probabilities
                above = exact > exact.max() - 16
                assert np.abs(found - exact)[above].max() < 1.3e-4
                assert (found[~above] < found[above].min()).all()


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=60), st.sampled_from([16.0, 24.0]))
def test_a_row_sums_to_one_and_keeps_its_order(logits: list[float], window: float) -> None:
    row = decode_row(encoded_row(logits, window), len(logits))
    assert row is not None
    assert math.fsum(np.exp(row.log_probabilities.astype(float)).tolist()) == pytest.approx(1, abs=1.5e-4)
    assert row.log_probabilities[int(np.argmax(logits))] == row.log_probabilities.max()
    assert row.window_nats <= window + 1e-3


def test_what_the_window_cuts_off_shares_what_the_others_leave() -> None:
    logits = [0.0, -1.0, *[-14.0] * 10, *[-20.0] * 4000]
    row = decode_row(encoded_row(logits), len(logits))
    assert row is not None
    exact = log_softmax(np.array(logits))
    assert row.log_probabilities[-1] == row.log_probabilities[-2000]
    assert row.log_probabilities[-1] < exact.max() - 16
    assert np.exp(row.log_probabilities.astype(float)).sum() == pytest.approx(1, abs=1.5e-4)


def test_a_row_without_a_window_keeps_its_lowest_value() -> None:
    row = decode_row(encoded_row([0.0, -1.0, -2.0]), 3)
    assert row is not None
    np.testing.assert_allclose(row.log_probabilities, log_softmax(np.array([0.0, -1.0, -2.0])), atol=2e-5)


def test_equal_logits_are_a_row_too() -> None:
    row = decode_row(encoded_row([3.0] * 5), 5)
    assert row is not None
    np.testing.assert_allclose(row.log_probabilities, [-math.log(5)] * 5, atol=1e-6)


@pytest.mark.parametrize(
    "damage",
    [
        struct.pack("<ff", math.nan, -16.0),
        struct.pack("<ff", -1.0, -16.0),
        struct.pack("<ff", 16 / 65535, math.inf),
        struct.pack("<ff", 16 / 65535, 3.0),
        struct.pack("<ff", 16 / 65535, -40.0),
        struct.pack("<ff", 1e30, -16.0),
    ],
)
def test_a_row_that_cannot_be_one_is_none(damage: bytes) -> None:
    good = encoded_row([5.0, 0.0, -40.0])
    assert decode_row(good, 3) is not None
    assert decode_row(damage + good[8:], 3) is None


def test_a_row_whose_highest_code_is_missing_is_none() -> None:
    good = encoded_row([5.0, 0.0, -40.0])
    assert decode_row(good[:8] + struct.pack("<4H", 100, 50, 0, 0), 3) is None


def test_a_truncated_file_gives_its_whole_chunks(written: Path) -> None:
    data = written.read_bytes()
    with KldFile(written) as file:
        chunk = file.header.chunk_bytes
    written.write_bytes(data[: -chunk // 2])
    with KldFile(written) as file:
        assert (file.chunks, file.header.chunks) == (2, 3)
        assert file.row(1, 3).log_probabilities.shape == (SIZE,)


def test_offsets_beyond_four_gigabytes_are_read(tmp_path: Path) -> None:
    """A context and a vocabulary whose product overflows 32 bits, in a file that is mostly a hole."""
    context, size = 32_768, 248_320
    path = tmp_path / "large.kld"
    with open(path, "wb") as file:
        file.write(b"_logits_" + struct.pack("<iii", context, size, 1))
        rows = context - 1 - context // 2
        offset = 20 + 4 * context + (rows - 1) * 2 * (size + 4)
        assert offset > 1 << 32
        file.seek(offset)
        wide = np.full(size, -30.0)
        wide[7], wide[9] = 1.0, 0.0
        file.write(encoded_row(wide.tolist()))
    with KldFile(path) as file:
        found = file.row(0, rows - 1).log_probabilities
        assert found.argmax() == 7
        assert found[7] - found[9] == pytest.approx(1, abs=3e-4)
        with pytest.raises(UsageError, match="row 1 of chunk 1 holds no log-probabilities"):
            file.row(0, 0)


def header(context: int = CONTEXT, size: int = SIZE, chunks: int = 1, magic: bytes = b"_logits_") -> bytes:
    return magic + struct.pack("<iii", context, size, chunks)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is no file of llama.cpp"),
        (b"GGUF" * 10, "is no file of llama.cpp"),
        (b"_logits_", "is no file of llama.cpp"),
        (header(magic=b"_logits2"), "beellama.cpp's second format"),
        (header(magic=b"DECKLK01"), "the format of decode-kl"),
        (header(context=-1), "header that cannot be"),
        (header(context=2), "header that cannot be"),
        (header(size=-5), "header that cannot be"),
        (header(size=1 << 30), "header that cannot be"),
        (header(chunks=0), "header that cannot be"),
        (header(chunks=2**31 - 1), "header that cannot be"),
        (header(chunks=50), "ends before its tokens do"),
        (header() + b"\xff" * 4 * CONTEXT, "tokens outside its vocabulary"),
        (header() + struct.pack("<i", SIZE) * CONTEXT, "tokens outside its vocabulary"),
        (header() + b"\0" * 4 * CONTEXT, "ends before its first chunk does"),
        (header() + b"\0" * 4000, "longer than its header says"),
    ],
)
def test_a_hostile_file_is_refused_with_a_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "hostile.kld"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=words):
        KldFile(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.kld"):
        with pytest.raises(UsageError, match="is no file"):
            KldFile(path)
