"""Comparisons as files beside the bundles: derived, replaceable, and quick for pages to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from capture.compare import Comparison
from capture.database import Database, open_database, write_database
from capture.errors import DamagedBundleError, ForeignBundleError
from capture.flips import Flip
from capture.metrics import PairMetrics
from capture.model import FlipClass, RunId

FORMAT = 1

SUFFIX = ".comparison.duckdb"

_METRICS = {
    **dict.fromkeys(("kl_forward", "kl_reverse", "jensen_shannon", "reference_entropy", "candidate_entropy"), "DOUBLE"),
    **dict.fromkeys(("reference_rank", "candidate_rank"), "INTEGER"),
    **dict.fromkeys(("reference_winner_probability", "candidate_winner_probability", "delta_probability"), "DOUBLE"),
    "top5_overlap": "INTEGER",
    **dict.fromkeys(("reference_outside", "candidate_outside"), "DOUBLE"),
    "lower_bound": "BOOLEAN",
}

TABLES: dict[str, dict[str, str]] = {
    "comparison": {"comparison": "INTEGER", "format": "INTEGER", "facts": "VARCHAR"},
    "shared": {"comparison": "INTEGER", "position": "INTEGER", "prefix_id": "BLOB", **_METRICS},
    "flip": {
        "comparison": "INTEGER",
        "position": "INTEGER",
        "prefix_id": "BLOB",
        "reference_choice": "INTEGER",
        "candidate_choice": "INTEGER",
        "flip_class": "VARCHAR",
        "reference_margin_nats": "DOUBLE",
        "candidate_margin_nats": "DOUBLE",
    },
}


def write_comparisons(path: Path, comparisons: Sequence[Comparison]) -> None:
    """Write comparisons to one file, in place of an earlier one; raises what `write_database` raises."""

    def fill(database: Database) -> None:
        insert = partial(database.insert, TABLES)
        for index, comparison in enumerate(comparisons):
            facts = {
                "reference": comparison.reference,
                "candidate": comparison.candidate,
                "identical": comparison.identical,
            }
            insert("comparison", [[index], [FORMAT], [json.dumps(facts)]])
            insert("shared", _shared_columns(index, comparison))
            insert("flip", _flip_columns(index, comparison.flips))

    write_database(path, TABLES, fill, lambda partial_path: None if read_comparisons(partial_path) else None)


def read_comparisons(path: Path) -> tuple[Comparison, ...]:
    """Return every comparison of a file.

    Raises:
        BundleError: as `open_database`, or it holds values that cannot be.
    """
    database = open_database(path, TABLES)
    try:
        rows = database.query("SELECT comparison, format, facts FROM comparison ORDER BY comparison")
        return tuple(_read(database, index, version, json.loads(facts)) for index, version, facts in rows)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DamagedBundleError(f"{path.name} holds values that cannot be; delete it and compare again") from error
    finally:
        database.close()


def _read(database: Database, index: int, version: int, facts: dict[str, Any]) -> Comparison:
    if version != FORMAT:
        raise ForeignBundleError(f"{database.name} has format {version}; delete it and compare again")
    ids = RunId(facts["reference"]), RunId(facts["candidate"])
    return read_comparison(database, index, ids, identical=facts["identical"] is True)


def read_comparison(database: Database, index: int, run_ids: tuple[RunId, RunId], *, identical: bool) -> Comparison:
    """Return one comparison of an open file.

    Args:
        database: the file.
        index: its number in the file.
        run_ids: of the reference's and the candidate's run.
        identical: what the file says of them.

    Raises:
        BundleError: it cannot be read there, or holds values that cannot be.
    """
    names = ", ".join(("position", "prefix_id", *_METRICS))
    columns = database.columns(f"SELECT {names} FROM shared WHERE comparison = ? ORDER BY position", [index])
    try:
        if any(np.ma.is_masked(column) for column in columns.values()):
            raise ValueError("a value is missing")
        plain = {name: np.ma.getdata(column) for name, column in columns.items()}
        return Comparison(
            reference=run_ids[0],
            candidate=run_ids[1],
            position=plain["position"].astype(np.int32),
            prefix_id=tuple(map(bytes, plain["prefix_id"])),
            metrics=PairMetrics(**{name: plain[name] for name in _METRICS}),
            flips=_read_flips(database, index),
            identical=identical,
        )
    except (TypeError, ValueError) as error:
        raise DamagedBundleError(f"{database.name} holds values that cannot be; delete it and compare again") from error


def _read_flips(database: Database, index: int) -> tuple[Flip, ...]:
    names = ", ".join(Flip.__slots__)
    rows = database.query(f"SELECT {names} FROM flip WHERE comparison = ? ORDER BY position", [index])
    return tuple(
        Flip(**{**dict(zip(Flip.__slots__, row, strict=True)), "flip_class": FlipClass(row[4])}) for row in rows
    )


def _shared_columns(index: int, comparison: Comparison) -> list[list[Any]]:
    metrics = [getattr(comparison.metrics, name).tolist() for name in _METRICS]
    return [[index] * len(comparison.position), comparison.position.tolist(), list(comparison.prefix_id), *metrics]


def _flip_columns(index: int, flips: Sequence[Flip]) -> list[list[Any]]:
    columns: list[list[Any]] = [[getattr(flip, name) for flip in flips] for name in Flip.__slots__]
    return [[index] * len(flips), *columns]
