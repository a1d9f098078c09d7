"""DuckDB files that are whole or absent, and harmless when they come from strangers. The only importer of duckdb here.

A stranger's file is data, never code: it is opened read-only with everything that reaches outside switched off, and
refused when it holds anything but the expected tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
from numpy.typing import NDArray

from capture.errors import DamagedBundleError, ForeignBundleError, StorageFullError
from capture.spool import sync_folder

Tables = Mapping[str, Mapping[str, str]]
"""Column types by column by table."""

UNCOMPRESSED = frozenset({"payload"})
"""Columns that are compressed already: DuckDB would compress them again, and reading a row then takes 300 ms."""


_HEADER_BYTES = 3 * 4096

VIEWS = "SELECT database_name FROM duckdb_views() WHERE NOT internal"

MACROS = "SELECT database_name FROM duckdb_functions() WHERE NOT internal"

SIZES = "PRAGMA database_size"

COLUMNS = (
    "SELECT table_name, column_name, data_type, column_default FROM duckdb_columns() WHERE NOT internal "
    "ORDER BY table_oid, column_index"
)


class Database:
    """An open file; a thin wrapper that turns DuckDB's errors into ours."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        self._connection = connection
        self.name = name

    def query(self, sql: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return every row of a query.

        Raises:
            DamagedBundleError: the file cannot be read there.
        """
        try:
            return self._connection.execute(sql, values or []).fetchall()
        except duckdb.Error as error:
            raise DamagedBundleError(f"{self.name} is damaged: {first_line(error)}") from error

    def columns(self, sql: str, values: list[Any] | None = None) -> dict[str, NDArray[Any]]:
        """Return the result of a query as columns by name; masked where they hold NULL. Quick for many rows.

        Raises:
            DamagedBundleError: the file cannot be read there.
        """
        try:
            columns: dict[str, NDArray[Any]] = self._connection.execute(sql, values or []).fetchnumpy()
        except duckdb.Error as error:
            raise DamagedBundleError(f"{self.name} is damaged: {first_line(error)}") from error
        return columns

    def one(self, sql: str, values: list[Any] | None = None) -> tuple[Any, ...]:
        """Return the only row of a query.

        Raises:
            DamagedBundleError: there is none, or more than one.
        """
        rows = self.query(sql, values)
        if len(rows) != 1:
            raise DamagedBundleError(f"{self.name} is incomplete; make it again")
        return rows[0]

    def insert(self, tables: Tables, table: str, columns: list[list[Any]]) -> None:
        """Append rows given as columns, in the order of the table's columns; nothing for no rows."""
        if columns and columns[0]:
            values = ", ".join(f"unnest(?::{kind}[])" for kind in tables[table].values())
            self._connection.execute(f"INSERT INTO {table} SELECT {values}", columns)

    def interrupt(self) -> None:
        """Stop the query that runs in another thread."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def open_database(path: Path, tables: Tables, *, known: bool = False) -> Database:
    """Open a file for reading, harmless whatever it holds, and check that it has exactly `tables`.

    Args:
        path: the file.
        tables: what it must hold, and nothing else.
        known: whether this very file was checked before, so that looking for macros (16 ms) need not be repeated.

    Raises:
        DamagedBundleError: the file is missing, truncated or unreadable.
        ForeignBundleError: it has other tables, or it holds views, macros or functions.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "threads": "1",
        "memory_limit": "512MB",
        "temp_directory": "",
        "lock_configuration": "true",
    }
    if path.exists() and not path.is_file():
        raise DamagedBundleError(f"{path.name} is no regular file; name a bundle")
    try:
        connection = duckdb.connect(str(path), read_only=True, config=config)
    except duckdb.Error as error:
        raise DamagedBundleError(f"{path.name} is no readable DuckDB file: {first_line(error)}") from error
    try:
        _check_schema(connection, path.name, tables, known)
        _refuse_truncated(connection, path)
    except BaseException:
        connection.close()
        raise
    return Database(connection, path.name)


def write_database(path: Path, tables: Tables, fill: Callable[[Database], None], check: Callable[[Path], None]) -> None:
    """Create a file, fill it, check it, make it durable and put it in place; afterwards it is whole or unchanged.

    Raises:
        StorageFullError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    _remove(partial)
    try:
        _create(partial, tables, fill)
        check(partial)
        _sync_file(partial)
        os.replace(partial, path)
        sync_folder(path.parent)
    except (duckdb.Error, OSError) as error:
        raise StorageFullError(f"cannot write {path}: {first_line(error)}; see that the disk has space") from error
    finally:
        _remove(partial)


def _create(path: Path, tables: Tables, fill: Callable[[Database], None]) -> None:
    with duckdb.connect(":memory:", config={"threads": "1", "autoload_known_extensions": "false"}) as connection:
        quoted = str(path).replace("'", "''")
        # Small blocks keep small files small; small row groups keep memory small.
        connection.execute(f"ATTACH '{quoted}' AS b (BLOCK_SIZE 16384, ROW_GROUP_SIZE 2048)")
        connection.execute("USE b")
        connection.execute("BEGIN")
        for table, columns in tables.items():
            connection.execute(f"CREATE TABLE {table} ({', '.join(_column(*column) for column in columns.items())})")
        fill(Database(connection, path.name))
        connection.execute("COMMIT")
        connection.execute("USE memory")
        connection.execute("DETACH b")


def _column(name: str, kind: str) -> str:
    return f"{name} {kind} USING COMPRESSION uncompressed" if name in UNCOMPRESSED else f"{name} {kind}"


def _check_schema(connection: duckdb.DuckDBPyConnection, name: str, tables: Tables, known: bool) -> None:
    try:
        extras = [] if known else connection.execute(MACROS).fetchall()
        extras += connection.execute(VIEWS).fetchall()
        columns = connection.execute(COLUMNS).fetchall()
    except duckdb.Error as error:
        raise DamagedBundleError(f"{name} is damaged: {first_line(error)}") from error
    check_schema(name, tables, extras, columns)


def _refuse_truncated(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    check_size(path.name, path.stat().st_size, connection.execute(SIZES).fetchall()[0])


def check_size(name: str, size: int, found: tuple[Any, ...]) -> None:
    """Check a file's size against what `SIZES` found: DuckDB would see only where a block is missing.

    Blocks that are free may lie behind the end, so only those in use count; a sealed file has no others.

    Raises:
        DamagedBundleError: the file is too short.
    """
    if size < _HEADER_BYTES + found[2] * found[4]:
        raise DamagedBundleError(f"{name} is truncated; copy it again")


def check_schema(
    name: str, tables: Tables, extras: Sequence[object], columns: Sequence[tuple[str, str, str, str]]
) -> None:
    """Check what `MACROS` and `VIEWS` (as extras) and `COLUMNS` found in a file.

    Raises:
        ForeignBundleError: it has other tables, or it holds views, macros, functions or computed columns.
    """
    if extras or any(computed for *_, computed in columns):
        raise ForeignBundleError(f"{name} holds views, macros or functions; a bundle has none, so it is not opened")
    found: dict[str, dict[str, str]] = {}
    for table, column, kind, _ in columns:
        found.setdefault(table, {})[column] = kind
    if found != tables:
        raise ForeignBundleError(f"{name} is a DuckDB file but no flipscope bundle")


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_name(path.name + ".wal").unlink(missing_ok=True)


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, shortened."""
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
