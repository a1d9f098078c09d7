"""The spool: what a worker appends while it runs, one folder a stream. Knows bytes on disk; standard library and numpy.

A stream folder holds `rows.bin` (raw rows back to back), `steps.bin` (one fixed record a position) and, once the
stream has ended, `done.json`. A row is written before its record, so a record always stands for a whole row: after
a kill the folder is read up to its last record, and recording goes on from there.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capture.errors import SpoolError, StorageFullError
from capture.model import Ending

RECORD = np.dtype([("position", "<i4"), ("token_id", "<i4"), ("emitted", "<i4"), ("flags", "<u4"), ("checksum", "<u4")])

FORCED = 1
RECOMPUTED = 2

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StreamWriter:
    """Appends the positions of one stream; implements `engines.base.RowSink`.

    Opened on a folder that a killed worker left, it compares what is appended with what is there: equal rows are
    left alone, so that nothing recorded is lost, and at the first difference the rest is written anew.
    """

    def __init__(self, folder: Path, row_bytes: int) -> None:
        self._folder = folder
        self._row_bytes = row_bytes
        self._count = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._rows = os.open(folder / "rows.bin", os.O_RDWR | os.O_CREAT, 0o644)
            self._steps = os.open(folder / "steps.bin", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _storage_error(error, folder) from error
        fcntl.flock(self._steps, fcntl.LOCK_EX)  # waits until a worker that is being killed is gone
        (folder / "done.json").unlink(missing_ok=True)  # until it is finished again, it may lose rows
        self._recorded = _whole_records(folder, row_bytes)
        self._cut(len(self._recorded))

    def append(
        self, position: int, token_id: int, row: memoryview, *, forced: bool, emitted: int | None, recomputed: bool
    ) -> None:
        """Append one position; see `engines.base.RowSink.append`.

        Raises:
            SpoolError: the row has the wrong size.
            StorageFullError: the disk is full; what was appended before stays.
        """
        data = row.cast("B") if row.format != "B" or row.ndim != 1 else row
        if data.nbytes != self._row_bytes:
            raise SpoolError(f"the engine gave a row of {data.nbytes} bytes where {self._row_bytes} were announced")
        flags = FORCED * forced | RECOMPUTED * recomputed
        record = np.array([(position, token_id, -1 if emitted is None else emitted, flags, zlib.crc32(data))], RECORD)
        if self._is_recorded(record):
            self._count += 1
            return
        self._write(self._rows, data, self._count * self._row_bytes)
        self._write(self._steps, memoryview(record.tobytes()), self._count * RECORD.itemsize)
        self._count += 1

    def finish(self, ending: Ending, seconds: float) -> None:
        """Cut what a longer earlier attempt left, make the bytes durable and mark the stream as ended."""
        self._cut(self._count)
        try:
            for descriptor in (self._rows, self._steps):
                os.fsync(descriptor)
        except OSError as error:
            raise _storage_error(error, self._folder) from error
        write_json(self._folder / "done.json", {"ending": ending.value, "seconds": seconds})
        self.close()

    def close(self) -> None:
        """Close the files without marking the stream as ended."""
        for descriptor in (self._rows, self._steps):
            if descriptor >= 0:
                os.close(descriptor)
        self._rows = self._steps = -1

    def _is_recorded(self, record: NDArray[np.void]) -> bool:
        if self._count >= len(self._recorded):
            return False
        if self._recorded[self._count] == record[0]:
            return True
        self._recorded = self._recorded[: self._count]
        self._cut(self._count)
        return False

    def _cut(self, count: int) -> None:
        os.ftruncate(self._steps, count * RECORD.itemsize)
        os.ftruncate(self._rows, count * self._row_bytes)

    def _write(self, descriptor: int, data: memoryview, offset: int) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], offset + written)
        except OSError as error:
            raise _storage_error(error, self._folder) from error


@dataclass(frozen=True, slots=True)
class Stream:
    """What a stream folder holds; rows stay on disk until asked for.

    Attributes:
        records: n records of dtype `RECORD`.
        rows: uint8 [n, row_bytes], mapped from the file.
        ending: why it ended; `INTERRUPTED` where it did not.
        seconds: wall time, 0 where it did not end.
    """

    records: NDArray[np.void]
    rows: NDArray[np.uint8]
    ending: Ending
    seconds: float

    def __len__(self) -> int:
        return len(self.records)

    @property
    def complete(self) -> bool:
        """Whether the stream ended by itself."""
        return self.ending is not Ending.INTERRUPTED

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens taken, in order."""
        return tuple(int(token_id) for token_id in self.records["token_id"])

    def row(self, index: int) -> bytes:
        """Return the raw row of record `index`."""
        return bytes(self.rows[index].tobytes())

    def from_position(self, position: int) -> Stream:
        """Return the stream without the rows before `position`."""
        later = self.records["position"] >= position
        return Stream(self.records[later], self.rows[later], self.ending, self.seconds)


def is_done(folder: Path) -> bool:
    """Return whether the stream in `folder` ended by itself."""
    return (folder / "done.json").is_file()


def read_stream(folder: Path, row_bytes: int) -> Stream:
    """Read a stream folder, whether it ended or not.

    Raises:
        SpoolError: the folder holds no stream, or its rows do not match their checksums.
    """
    records = _whole_records(folder, row_bytes)
    rows = _map_rows(folder / "rows.bin", len(records), row_bytes)
    for index, record in enumerate(records):
        if zlib.crc32(rows[index].tobytes()) != record["checksum"]:
            raise SpoolError(f"{folder}: position {record['position']} does not match its checksum; delete the folder")
    return Stream(records, rows, *_read_done(folder / "done.json"))


def write_json(path: Path, value: object) -> None:
    """Write a JSON file that is either whole or absent, durably.

    Raises:
        StorageFullError: the disk is full.
    """
    temporary = path.with_name(path.name + ".partial")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _storage_error(error, path) from error


def read_json(path: Path) -> object:
    """Read what `write_json` wrote."""
    value: object = json.loads(path.read_text(encoding="utf-8"))
    return value


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _whole_records(folder: Path, row_bytes: int) -> NDArray[np.void]:
    steps, rows = folder / "steps.bin", folder / "rows.bin"
    if not steps.is_file() or not rows.is_file():
        return np.zeros(0, RECORD)
    count = min(steps.stat().st_size // RECORD.itemsize, rows.stat().st_size // row_bytes)
    return np.fromfile(steps, RECORD, count)


def _map_rows(path: Path, count: int, row_bytes: int) -> NDArray[np.uint8]:
    if count == 0:
        return np.zeros((0, row_bytes), np.uint8)
    return np.memmap(path, np.uint8, "r", shape=(count, row_bytes))


def _read_done(path: Path) -> tuple[Ending, float]:
    if not path.is_file():
        return Ending.INTERRUPTED, 0.0
    done = json.loads(path.read_text(encoding="utf-8"))
    return Ending(done["ending"]), float(done["seconds"])


def _storage_error(error: OSError, path: Path) -> StorageFullError | SpoolError:
    if error.errno in _FULL:
        return StorageFullError(
            f"the disk is full at {path}; free some space and start again, nothing recorded is lost"
        )
    return SpoolError(f"cannot write {path}: {error.strerror}")
