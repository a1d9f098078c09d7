"""Compress the rows of a folder's bundles again, as small as zstandard can: for what ships, where every byte counts.

Usage: python pack_bundles.py FOLDER   (every row stays the same, bit for bit; only its compressed form is shorter)
"""

from __future__ import annotations

import pathlib
import sys
from functools import partial
from typing import Any

import zstandard

from capture.bundle import TABLES, verify_bundle
from capture.database import Database, open_database, write_database
from capture.pairs import bundle_paths

LEVEL = 22


def packed(payload: bytes) -> bytes:
    """Return a payload's content at the highest level."""
    content = zstandard.ZstdDecompressor().decompress(payload)
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=False).compress(content)


def columns_of(database: Database, table: str) -> list[list[Any]]:
    """Return the columns of a table, payloads packed."""
    rows = database.query(f"SELECT * FROM {table} ORDER BY rowid")
    if table == "logits":
        rows = [(row_hash, codec, packed(payload)) for row_hash, codec, payload in rows]
    return [list(column) for column in zip(*rows, strict=True)]


def fill(columns: dict[str, list[list[Any]]], database: Database) -> None:
    """Write every table into a new file."""
    for table in TABLES:
        database.insert(TABLES, table, columns[table])


def main(folder: pathlib.Path) -> None:
    """Pack every bundle below `folder`, each in its place."""
    for path in bundle_paths(folder):
        database = open_database(path, TABLES)
        columns = {table: columns_of(database, table) for table in TABLES}
        database.close()
        write_database(path, TABLES, partial(fill, columns), verify_bundle)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
