"""What a capture that is going has recorded so far: told beside its spool, read by pages while it grows.

The recorder holds a lock for as long as it works, so that a capture that was killed is seen as one that stopped.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture.errors import SpoolError
from capture.model import LOGIT_BYTES, Int32Array, Token
from capture.rows import widen
from capture.spool import FORCED, RECOMPUTED, RECORD, is_done, read_json, write_json

MARK = "live.json"
LOCK = "live.lock"
VOCABULARY = ".vocabulary"

MOST_POSITIONS = 1_024
"""Positions of a stream whose rows are looked at, its last ones."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a capture is doing.

    Attributes:
        study: its study.
        case_id: the case that is run.
        runtime: what runs it.
        job: the run in a few words.
        folder: name of the case's spool folder.
        most: positions that the job has at most.
        planned: bundles that the study will have.
    """

    study: str
    case_id: str
    runtime: str
    job: str
    folder: str
    most: int
    planned: int


@dataclass(frozen=True, slots=True)
class LiveCapture:
    """A capture of a library.

    Attributes:
        mark: what it is doing.
        bundles: bundles of the study that are sealed.
        running: False where it was killed; it goes on when it is started again.
    """

    mark: Mark
    bundles: int
    running: bool


@dataclass(frozen=True, slots=True)
class LiveStream:
    """A stream as far as it has come; n positions.

    Attributes:
        name: such as `free-0` or `forced-decode`.
        position: int32 [n].
        token_id: int32 [n], the tokens taken.
        choice: int32 [n], what the runtime itself chose: emitted, or the top-1 where a token was imposed; -1 where that
            was not looked at, since only the last `MOST_POSITIONS` are.
        forced: bool [n].
        ended: whether it ended by itself.
    """

    name: str
    position: Int32Array
    token_id: Int32Array
    choice: Int32Array
    forced: NDArray[np.bool_]
    ended: bool

    def __len__(self) -> int:
        return len(self.position)


@contextmanager
def live_capture(spool: Path) -> Iterator[None]:
    """Hold the lock of a capture that works; `spool` is the study's folder of spools, which exists."""
    with open(spool / LOCK, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            for name in (MARK, LOCK):
                (spool / name).unlink(missing_ok=True)


def tell(spool: Path, mark: Mark) -> None:
    """Say what a capture is doing; raises what `write_json` raises."""
    write_json(spool / MARK, asdict(mark))


def write_vocabulary(spool: Path, runtime: str, tokens: Iterable[Token]) -> None:
    """Write what a runtime's token ids stand for, so that its streams can be read before they are sealed."""
    rows = [[token.token_id, token.data.decode("latin-1"), token.special] for token in tokens]
    write_json(spool / f"{runtime}{VOCABULARY}", rows)


def read_vocabulary(spool: Path, runtime: str) -> Mapping[int, Token]:
    """Return what `write_vocabulary` wrote; nothing where it is missing or damaged."""
    try:
        rows: Any = read_json(spool / f"{runtime}{VOCABULARY}")
        return {int(row[0]): Token(int(row[0]), str(row[1]).encode("latin-1"), row[2] is True) for row in rows}
    except (OSError, ValueError, TypeError, LookupError):
        return {}


def vocabulary_stamp(spool: Path, runtime: str) -> int:
    """Return what tells a vocabulary from one that is written later; 0 where there is none."""
    path = spool / f"{runtime}{VOCABULARY}"
    return path.stat().st_mtime_ns if path.is_file() else 0


def live_captures(library: Path) -> tuple[LiveCapture, ...]:
    """Return the captures of a library that work, or that were killed and can go on; by study."""
    found = (_capture(path.parent) for path in sorted((library / ".spool").glob(f"*/{MARK}")))
    return tuple(capture for capture in found if capture is not None)


class LiveReader:
    """Reads the streams of captures again and again; of rows that it has seen it keeps the top-1 alone."""

    def __init__(self, library: Path) -> None:
        self._library = library
        self._known: dict[str, tuple[str, dict[tuple[str, int], dict[int, int]]]] = {}

    def streams(self, mark: Mark) -> tuple[LiveStream, ...]:
        """Return the streams of the case that a capture is at, the one that was written to last at the end.

        Streams whose rows are all computed again, to certify forks, are left out.

        Raises:
            SpoolError: it has gone on meanwhile.
        """
        folder, known = self._folder(mark), self._known_of(mark)
        try:
            facts: Any = read_json(folder / "runtime.json")
            shape = (int(facts["columns"]) * LOGIT_BYTES[facts["dtype"]], str(facts["dtype"]))
            streams = [_stream(path, *shape, known) for path in _by_time(folder)]
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise SpoolError(f"the capture of {mark.case_id} has gone on meanwhile; look again in a moment") from error
        return tuple(stream for stream in streams if len(stream))

    def done(self, mark: Mark) -> int:
        """Return how many positions the stream that was written to last has, by its size alone; 0 without one."""
        try:
            latest = _by_time(self._folder(mark))[-1:]
            return sum((path / "steps.bin").stat().st_size // RECORD.itemsize for path in latest)
        except OSError:
            return 0

    def _folder(self, mark: Mark) -> Path:
        return self._library / ".spool" / mark.study / mark.folder

    def _known_of(self, mark: Mark) -> dict[tuple[str, int], dict[int, int]]:
        folder, known = self._known.get(mark.study, ("", {}))
        if folder != mark.folder:
            known = {}
            self._known[mark.study] = (mark.folder, known)
        return known


def _by_time(folder: Path) -> list[Path]:
    """Return the folders of streams, the one that was written to last at the end."""
    found = [(path, path / "steps.bin") for path in folder.iterdir()]
    return [path for _, path in sorted((steps.stat().st_mtime_ns, path) for path, steps in found if steps.is_file())]


def _capture(spool: Path) -> LiveCapture | None:
    try:
        value: Any = json.loads((spool / MARK).read_text(encoding="utf-8"))
        mark = Mark(**{name: kind(value[name]) for name, kind in _FIELDS.items()})
    except (OSError, ValueError, TypeError, LookupError):
        return None
    names = (mark.study, mark.case_id, mark.runtime, mark.folder)
    if mark.study != spool.name or not all(_NAME.fullmatch(name) and ".." not in name for name in names):
        return None
    bundles = [path.name for path in (spool.parent.parent / spool.name).glob("*--*.duckdb")]
    sealed = sum(not name.endswith(".comparison.duckdb") and ".grown-" not in name for name in bundles)
    return LiveCapture(mark, sealed, _is_held(spool / LOCK))


_FIELDS = {**dict.fromkeys(("study", "case_id", "runtime", "job", "folder"), str), "most": int, "planned": int}


def _is_held(lock: Path) -> bool:
    try:
        with open(lock, encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _stream(folder: Path, row_bytes: int, dtype: str, known: dict[tuple[str, int], dict[int, int]]) -> LiveStream:
    """Read a stream that may be written to meanwhile: a whole record stands for a whole row."""
    steps, rows_file = folder / "steps.bin", folder / "rows.bin"
    records = np.fromfile(steps, RECORD, steps.stat().st_size // RECORD.itemsize)
    rows = np.flatnonzero((records["flags"] & RECOMPUTED) == 0)
    records = records[rows]
    choice = records["emitted"].astype(np.int32)
    looked_at = np.flatnonzero(choice[-MOST_POSITIONS:] < 0) + max(len(choice) - MOST_POSITIONS, 0)
    # A stream that is recorded anew is another file.
    seen = known.setdefault((folder.name, rows_file.stat().st_ino), {})
    choice[looked_at] = _top1(rows_file, rows[looked_at].tolist(), row_bytes, dtype, seen)
    return LiveStream(
        name=folder.name,
        position=records["position"].astype(np.int32),
        token_id=records["token_id"].astype(np.int32),
        choice=choice,
        forced=(records["flags"] & FORCED) != 0,
        ended=is_done(folder),
    )


def _top1(path: Path, rows: list[int], row_bytes: int, dtype: str, known: dict[int, int]) -> list[int]:
    """Return the lowest id among the maxima of each raw row; `known` has those that were read before."""
    with open(path, "rb") as file:
        for row in rows:
            if row not in known:
                file.seek(row * row_bytes)
                known[row] = int(widen([file.read(row_bytes)], dtype).argmax())
    return [known[row] for row in rows]
