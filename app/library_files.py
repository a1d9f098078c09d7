"""Finds the files of a library and reads what its catalog needs, many at a time. Imports duckdb.

One instance in memory attaches many files read-only, which takes a tenth of opening each alone. It can reach nothing
outside of the library's folder, and since its own catalog is the default one, no name in our SQL can mean a view,
macro or function of a file; files that hold any are refused all the same.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from app.catalog import BrokenFile, BundleEntry, ComparedPair, ComparisonEntry, Entry, FirstFlip, Stamp
from app.deadline import Deadline
from capture import bundle, comparison
from capture.bundle_facts import BundleFacts, facts_from_json, run_from_json
from capture.database import SIZES, check_schema, check_size, first_line
from capture.divergence import Divergence
from capture.errors import BundleError, DamagedBundleError, ForeignBundleError
from capture.model import FlipClass, RunId
from capture.prefix import PREFIX_ID_BYTES, prefix_of
from capture.trust import require_types

SUFFIX = ".duckdb"

MOST_RUNS = 20_000
"""Runs in one bundle, or comparisons in one file; more are no work of ours."""

LONGEST_TEXT = 4_000_000
"""Characters of a description in JSON."""

LONGEST_NAME, LONGEST_TITLE = 200, 1000

_CASE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")

_BATCH = 64
_SECONDS_PER_BATCH = 20.0

_SETTINGS = (
    "autoinstall_known_extensions=false",
    "autoload_known_extensions=false",
    "allow_community_extensions=false",
    "temp_directory=''",
    "threads=1",
    "memory_limit='512MB'",
)

Found = Mapping[str, Stamp | BrokenFile]
"""By name inside the library: a file that may be a bundle or comparison, or something that cannot be one."""

_Groups = dict[bool, tuple[int, float | None]]
"""How many positions have lower bounds (True) or whole vocabularies (False), and the mean KL of each of both."""


def find_files(folder: Path) -> dict[str, Stamp | BrokenFile]:
    """Return every DuckDB file below a folder but for hidden ones; partial files do not count."""
    found: dict[str, Stamp | BrokenFile] = {}

    def unreadable(error: OSError) -> None:
        name = Path(error.filename or folder).relative_to(folder).as_posix()
        found[name] = BrokenFile(name, f"the folder cannot be read: {error.strerror}")

    skipped = len(os.path.join(folder, ""))
    for place, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = [name for name in folders if not name.startswith(".")]
        present = set(names)
        for name in names:
            if name.endswith(SUFFIX) and not name.startswith("."):
                path = os.path.join(place, name)
                inside = path[skipped:].replace(os.sep, "/")
                found[inside] = _stamp(path, inside, has_log=f"{name}.wal" in present)
    return found


def stamp_of(path: str | Path) -> Stamp:
    """Return the stamp of a file; raises OSError where there is none, or a pipe, which would be waited for for ever."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_known(path: Path, stamp: Stamp) -> bool:
    """Return whether the file that lies there is the one that was checked, with nothing to be replayed into it."""
    return stamp_of(path) == stamp and not path.with_name(f"{path.name}.wal").exists()


def _stamp(path: str, name: str, *, has_log: bool) -> Stamp | BrokenFile:
    if has_log:
        return BrokenFile(name, "a write-ahead log lies beside it, so it was never sealed; capture it again")
    try:
        return stamp_of(path)
    except OSError as error:
        return BrokenFile(name, f"it cannot be read: {error.strerror}")


def read_files(folder: Path, names: Mapping[str, Stamp]) -> Iterator[Entry]:
    """Yield the entry of each named file below a folder; a file that cannot be used becomes a `BrokenFile`."""
    whole = list(names.items())
    for start in range(0, len(whole), _BATCH):
        batch = whole[start : start + _BATCH]
        try:
            yield from _read_batch(folder, batch)
        except (duckdb.Error, BundleError):
            # One file can bring the whole instance down; alone it harms only itself.
            for item in batch:
                yield _read_alone(folder, item)


def _read_alone(folder: Path, item: tuple[str, Stamp]) -> Entry:
    try:
        return next(iter(_read_batch(folder, [item])))
    except duckdb.Error as error:
        return BrokenFile(item[0], f"it is damaged or cut short: {_reason(error, folder)}")
    except BundleError as error:
        return BrokenFile(item[0], str(error))


def _read_batch(folder: Path, batch: Sequence[tuple[str, Stamp]]) -> list[Entry]:
    with _instance(folder) as connection, Deadline(connection.interrupt, _SECONDS_PER_BATCH) as deadline:
        attached = [_attach(connection, folder, name, f"f{number}") for number, (name, _) in enumerate(batch)]
        schemas = _Schemas(connection)
        entries = [
            broken or _read_file(_File(connection, folder, name, stamp, f"f{number}"), schemas)
            for number, ((name, stamp), broken) in enumerate(zip(batch, attached, strict=True))
        ]
        if deadline.over:
            raise DamagedBundleError(f"it took longer than {_SECONDS_PER_BATCH:.0f} s to read")
        return entries


def _instance(folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    connection.execute(f"SET allowed_directories=[{_quoted(folder)}]")
    connection.execute("SET enable_external_access=false")
    connection.execute("SET lock_configuration=true")
    return connection


def _quoted(path: Path) -> str:
    text = str(path).replace("'", "''")
    return f"'{text}'"


def _attach(connection: duckdb.DuckDBPyConnection, folder: Path, name: str, alias: str) -> BrokenFile | None:
    try:
        connection.execute(f"ATTACH {_quoted(folder / name)} AS {alias} (READ_ONLY)")
    except duckdb.Error as error:
        return BrokenFile(name, f"it is no readable DuckDB file: {_reason(error, folder)}")
    return None


def _reason(error: Exception, folder: Path) -> str:
    return first_line(error).replace(f"{folder}{os.sep}", "")


class _Schemas:
    """What the attached files declare."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._extras = connection.execute(
            "SELECT database_name FROM duckdb_views() WHERE NOT internal "
            "UNION ALL SELECT database_name FROM duckdb_functions() WHERE NOT internal"
        ).fetchall()
        self._columns = connection.execute(
            "SELECT database_name, table_name, column_name, data_type, column_default FROM duckdb_columns() "
            "WHERE NOT internal ORDER BY database_name, table_oid, column_index"
        ).fetchall()

        self._sizes = {row[0]: row for row in connection.execute(SIZES).fetchall()}

    def check(self, file: _File, tables: Mapping[str, Mapping[str, str]]) -> None:
        """Raise a BundleError where a file is cut short or declares anything but `tables`."""
        check_size(Path(file.name).name, file.stamp.size, self._sizes[file.alias])
        extras = [row for row in self._extras if row[0] == file.alias]
        columns = [row[1:] for row in self._columns if row[0] == file.alias]
        check_schema(Path(file.name).name, tables, extras, columns)


class _File:
    """One attached file."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, folder: Path, name: str, stamp: Stamp, alias: str
    ) -> None:
        self._connection = connection
        self.folder = folder
        self.name = name
        self.stamp = stamp
        self.alias = alias

    def rows(self, columns: str, table: str, rest: str = "") -> list[tuple[Any, ...]]:
        """Return rows of one of its tables, as many as a sound file may have."""
        sql = f"SELECT {columns} FROM {self.alias}.main.{table} {rest}"
        rows = self._connection.execute(sql).fetchmany(MOST_RUNS + 1)  # LIMIT would take 2 ms more
        if len(rows) > MOST_RUNS:
            raise ForeignBundleError(f"table {table} holds more rows than any bundle")
        return rows

    def one(self, columns: str, table: str, rest: str = "") -> tuple[Any, ...]:
        """Return the only row of one of its tables."""
        rows = self.rows(columns, table, rest)
        if len(rows) != 1:
            raise DamagedBundleError("it is incomplete or its description is too long; capture it again")
        return rows[0]


def _read_file(file: _File, schemas: _Schemas) -> Entry:
    is_comparison = file.name.endswith(comparison.SUFFIX)
    try:
        schemas.check(file, comparison.TABLES if is_comparison else bundle.TABLES)
        return _read_comparison(file) if is_comparison else _read_bundle(file)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        return BrokenFile(file.name, f"its description cannot be read ({first_line(error)}); capture it again")
    except BundleError as error:
        return BrokenFile(file.name, str(error))


def _read_bundle(file: _File) -> BundleEntry:
    version, text = file.one("format, facts", "bundle", f"WHERE strlen(facts) <= {LONGEST_TEXT}")
    if version != bundle.FORMAT:
        raise ForeignBundleError(f"it has format {version}; this flipscope reads format {bundle.FORMAT}")
    facts = facts_from_json(json.loads(text))
    (token_ids,) = file.one("token_ids", "prompt")
    rows = file.rows("run_id, facts", "run", "ORDER BY run")
    runs = tuple(run_from_json(_run_id(run_id), json.loads(facts_text)) for run_id, facts_text in rows)
    for value in (facts, *runs):
        require_types(value)
    _check_names(facts)
    return BundleEntry(
        file.folder / file.name, file.name, file.stamp, facts, prefix_of(token_ids), len(token_ids), runs
    )


def _check_names(facts: BundleFacts) -> None:
    if not _CASE_ID.fullmatch(facts.case.case_id):
        raise ValueError("a case's name is made of letters, digits, '.', '_' and '-'")
    names = (facts.study, facts.runtime.name, facts.runtime.label, facts.runtime.engine, facts.created, facts.version)
    if max(map(len, names)) > LONGEST_NAME or len(facts.study_title) > LONGEST_TITLE:
        raise ValueError("a name is too long")


def _run_id(value: object) -> RunId:
    if not isinstance(value, str) or len(value) != 32 or value.strip("0123456789abcdef"):
        raise ValueError("a run's id is no 32 hexadecimal digits")
    return RunId(value)


def _read_comparison(file: _File) -> ComparisonEntry:
    heads = file.rows("comparison, format, facts", "comparison", "ORDER BY comparison")
    groups: dict[int, _Groups] = {}
    columns = "comparison, coalesce(lower_bound, false), count(*), avg(kl_forward)"
    for number, lower_bound, positions, kl_mean in file.rows(columns, "shared", "GROUP BY ALL"):
        groups.setdefault(number, {})[lower_bound] = positions, kl_mean
    flips: dict[int, list[tuple[Any, ...]]] = {}
    columns = "comparison, flip_class, count(*), min(position), arg_min(prefix_id, position)"
    for row in file.rows(columns, "flip", "GROUP BY ALL"):
        flips.setdefault(row[0], []).append(row[1:])
    pairs = tuple(
        _pair(version, text, groups.get(number, {}), flips.get(number, [])) for number, version, text in heads
    )
    return ComparisonEntry(file.folder / file.name, file.name, file.stamp, pairs)


def _pair(version: int, text: str, groups: _Groups, flips: Sequence[tuple[Any, ...]]) -> ComparedPair:
    if version != comparison.FORMAT:
        raise ForeignBundleError(f"it has format {version}; delete it and compare again")
    facts = json.loads(text)
    decided = [row for row in flips if row[0] == FlipClass.DECIDED]
    pair = ComparedPair(
        reference=_run_id(facts["reference"]),
        candidate=_run_id(facts["candidate"]),
        positions=sum(positions for positions, _ in groups.values()),
        flips={FlipClass(name): count for name, count, *_ in flips},
        first_decided=_first_flip(*decided[0][2:]) if decided else None,
        identical=facts.get("identical") is True,
    )
    require_types(pair)
    return replace(pair, whole=_divergence(groups, False), bounded=_divergence(groups, True))


def _divergence(groups: _Groups, lower_bound: bool) -> Divergence | None:
    positions, kl_mean = groups.get(lower_bound, (0, None))
    return None if kl_mean is None or math.isnan(kl_mean) else Divergence(kl_mean, positions, lower_bound)


def _first_flip(position: int, prefix_id: bytes) -> FirstFlip:
    if len(prefix_id) != PREFIX_ID_BYTES or position < 0:
        raise ValueError("a flip has no position or prefix id")
    return FirstFlip(position, bytes(prefix_id))
