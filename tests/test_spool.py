from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.errors import SpoolError, StorageFullError
from capture.model import Ending
from capture.spool import FORCED, RECOMPUTED, RECORD, StreamWriter, is_done, read_json, read_stream, write_json

ROW_BYTES = 8


def row(position: int, salt: int = 0) -> memoryview:
    return memoryview(bytes([position % 256, salt] * (ROW_BYTES // 2)))


def append(writer: StreamWriter, position: int, salt: int = 0) -> None:
    writer.append(position, 100 + position, row(position, salt), forced=False, emitted=100 + position, recomputed=False)


def write(folder: Path, count: int, salt: int = 0, *, finish: bool = True) -> None:
    writer = StreamWriter(folder, ROW_BYTES)
    for position in range(count):
        append(writer, position, salt)
    writer.finish(Ending.LENGTH, 1.5) if finish else writer.close()


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    writer = StreamWriter(tmp_path / "a", ROW_BYTES)
    writer.append(3, 7, row(3), forced=True, emitted=None, recomputed=True)
    writer.append(4, 8, row(4), forced=False, emitted=8, recomputed=False)
    writer.finish(Ending.END_OF_SEQUENCE, 2.0)
    stream = read_stream(tmp_path / "a", ROW_BYTES)
    assert stream.token_ids == (7, 8)
    assert stream.records["emitted"].tolist() == [-1, 8]
    assert stream.records["flags"].tolist() == [FORCED | RECOMPUTED, 0]
    assert [stream.row(0), stream.row(1)] == [bytes(row(3)), bytes(row(4))]
    assert (stream.ending, stream.seconds, stream.complete) == (Ending.END_OF_SEQUENCE, 2.0, True)
    assert stream.from_position(4).token_ids == (8,)


def test_a_stream_that_was_killed_is_read_as_interrupted(tmp_path: Path) -> None:
    write(tmp_path / "a", 3, finish=False)
    stream = read_stream(tmp_path / "a", ROW_BYTES)
    assert (len(stream), stream.ending, is_done(tmp_path / "a")) == (3, Ending.INTERRUPTED, False)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5 * ROW_BYTES), st.integers(0, 5 * RECORD.itemsize))
def test_cut_anywhere_it_reads_whole_positions_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, rows: int, steps: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    write(folder, 5, finish=False)
    os.truncate(folder / "rows.bin", rows)
    os.truncate(folder / "steps.bin", steps)
    whole = min(rows // ROW_BYTES, steps // RECORD.itemsize)
    assert read_stream(folder, ROW_BYTES).token_ids == tuple(range(100, 100 + whole))
    write(folder, 5)
    assert read_stream(folder, ROW_BYTES).token_ids == tuple(range(100, 105))


def test_going_on_keeps_equal_rows_and_replaces_from_the_first_difference(tmp_path: Path) -> None:
    write(tmp_path, 4, salt=1, finish=False)
    writer = StreamWriter(tmp_path, ROW_BYTES)
    append(writer, 0, salt=1)
    append(writer, 1, salt=2)
    writer.finish(Ending.LENGTH, 0)
    stream = read_stream(tmp_path, ROW_BYTES)
    assert [stream.row(index) for index in range(len(stream))] == [bytes(row(0, 1)), bytes(row(1, 2))]


def test_a_shorter_second_attempt_leaves_no_rest(tmp_path: Path) -> None:
    write(tmp_path, 5, finish=False)
    write(tmp_path, 2)
    assert len(read_stream(tmp_path, ROW_BYTES)) == 2


def test_a_damaged_row_is_found(tmp_path: Path) -> None:
    write(tmp_path, 3)
    with open(tmp_path / "rows.bin", "r+b") as file:
        file.seek(ROW_BYTES)
        file.write(b"\xff")
    with pytest.raises(SpoolError, match="position 1"):
        read_stream(tmp_path, ROW_BYTES)


def test_rows_of_another_size_are_refused(tmp_path: Path) -> None:
    writer = StreamWriter(tmp_path, ROW_BYTES)
    with pytest.raises(SpoolError, match="9 bytes where 8"):
        writer.append(0, 1, memoryview(b"123456789"), forced=False, emitted=1, recomputed=False)
    writer.close()


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = StreamWriter(tmp_path, ROW_BYTES)
    append(writer, 0)
    real = os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if offset >= ROW_BYTES:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageFullError, match="disk is full"):
        append(writer, 1)
    writer.close()
    assert len(read_stream(tmp_path, ROW_BYTES)) == 1


def test_json_files_are_whole_or_absent(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": [1, "é"]})
    assert read_json(tmp_path / "a.json") == {"x": [1, "é"]}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_stream_that_is_written_again_has_not_ended_until_it_is_finished(tmp_path: Path) -> None:
    write(tmp_path / "a", 5)
    write(tmp_path / "a", 3, salt=1, finish=False)  # killed after it differed: rows of the first attempt are gone
    assert not is_done(tmp_path / "a")
    assert read_stream(tmp_path / "a", ROW_BYTES).ending is Ending.INTERRUPTED
