"""Bundles: what one runtime did on one case, as one DuckDB file. Knows the tables, through `database`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from capture.bundle_facts import (
    BundleFacts,
    facts_from_json,
    facts_to_json,
    prompt_facts,
    run_from_json,
    run_to_json,
    turns_from_json,
)
from capture.bundle_steps import read_steps
from capture.codec import SHUFFLE_ZSTD, decode, encode
from capture.database import Database, open_database, write_database
from capture.errors import DamagedBundleError, ForeignBundleError, NotFoundError
from capture.model import Json, PrefixId, Prompt, Run, Steps, Token
from capture.prefix import chain, prefix_of
from capture.rows import row_hash
from capture.trust import require_types

FORMAT = 1

TABLES: dict[str, dict[str, str]] = {
    "bundle": {"format": "INTEGER", "facts": "VARCHAR"},
    "prompt": {"text": "VARCHAR", "token_ids": "INTEGER[]", "facts": "VARCHAR"},
    "run": {"run": "INTEGER", "run_id": "VARCHAR", "facts": "VARCHAR", "manifest": "VARCHAR"},
    "step": {
        "run": "INTEGER",
        "position": "INTEGER",
        "prefix_id": "BLOB",
        "token_id": "INTEGER",
        "forced": "BOOLEAN",
        "top1": "INTEGER",
        "emitted": "INTEGER",
        "tie_count": "INTEGER",
        "log_sum_exp": "DOUBLE",
        "entropy": "DOUBLE",
        "margin_nats": "DOUBLE",
        "top_ids": "INTEGER[]",
        "top_logits": "FLOAT[]",
        "row_hash": "BLOB",
    },
    "logits": {"row_hash": "BLOB", "codec": "VARCHAR", "payload": "BLOB"},
    "token": {"token_id": "INTEGER", "bytes": "BLOB", "special": "BOOLEAN"},
}

_CHUNK = 256

Insert = Callable[[str, list[list[Any]]], None]

Rows = Callable[[int], bytes]
"""Gives the raw row at an index into a run's steps."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run with its steps, its manifest, and its raw rows for those indices of steps that are kept."""

    run: Run
    steps: Steps
    manifest: Json
    kept: Sequence[int]
    rows: Rows


def write_bundle(
    path: Path, facts: BundleFacts, prompt: Prompt, runs: Sequence[RecordedRun], tokens: Iterable[Token]
) -> None:
    """Write, verify and seal a bundle; the path holds a whole bundle afterwards, or nothing new.

    Raises:
        StorageFullError: the disk is full.
        DamagedBundleError: what was written does not read back.
    """

    def fill(database: Database) -> None:
        insert = partial(database.insert, TABLES)
        insert("bundle", [[FORMAT], [json.dumps(facts_to_json(facts))]])
        insert("prompt", [[prompt.text], [list(prompt.token_ids)], [json.dumps(prompt_facts(prompt))]])
        stored: set[bytes] = set()
        for index, recorded in enumerate(runs):
            _write_run(insert, index, recorded)
            _write_rows(insert, recorded, stored)
        rows = [(token.token_id, token.data, token.special) for token in tokens]
        insert("token", [list(column) for column in zip(*rows, strict=True)])

    write_database(path, TABLES, fill, verify_bundle)


def verify_bundle(path: Path) -> None:
    """Open a bundle and check every row; raises what `Bundle.verify` raises."""
    with Bundle(path) as bundle:
        bundle.verify()


class Bundle:
    """A sealed bundle, open for reading; use it in a `with` block."""

    def __init__(self, path: Path, *, known: bool = False) -> None:
        """Open the file; `known` and what it raises are those of `open_database`."""
        self.path = path
        self.database = open_database(path, TABLES, known=known)
        try:
            self.facts = self._read_facts()
            self.prompt = self._read_prompt()
            self.runs = self._read_runs()
            for value in (self.facts, *self.runs):
                require_types(value)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            self.close()
            raise DamagedBundleError(
                f"{path.name}: its description cannot be read ({error}); capture it again"
            ) from error

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    def run(self, run_id: str) -> Run:
        """Return the run of that id.

        Raises:
            NotFoundError: the bundle holds no such run.
        """
        return self.runs[self._index(run_id)]

    def manifest_length(self, run_id: str) -> int:
        """Return how many characters the manifest of a run has."""
        return int(self.database.one("SELECT length(manifest) FROM run WHERE run_id = ?", [run_id])[0] or 0)

    def manifest(self, run_id: str) -> Json:
        """Return the manifest of a run."""
        text = self.database.one("SELECT manifest FROM run WHERE run_id = ?", [run_id])[0]
        manifest: dict[str, Any] = json.loads(text)
        return manifest

    def steps(self, run_id: str) -> Steps:
        """Return the step records of a run, by rising position; raises what `read_steps` raises."""
        (found,) = read_steps(self.database, [self._index(run_id)])
        return found

    def kept_positions(self, run_id: str) -> tuple[int, ...]:
        """Return the positions whose raw rows the bundle holds, rising."""
        rows = self.database.query(
            "SELECT position FROM step SEMI JOIN logits USING (row_hash) WHERE run = ? ORDER BY position",
            [self._index(run_id)],
        )
        return tuple(position for (position,) in rows)

    def row(self, run_id: str, position: int) -> bytes | None:
        """Return the raw row at a position, bit for bit as the engine gave it; None where it was not kept."""
        return self._rows(run_id, [position]).get(position)

    def rows(self, run_id: str, positions: Sequence[int]) -> list[bytes]:
        """Return the raw rows at positions, in the order asked.

        Raises:
            NotFoundError: one of them was not kept.
        """
        found = self._rows(run_id, positions)
        if not found.keys() >= set(positions):
            raise NotFoundError(f"{self.path.name} keeps no logits for some positions of run {run_id}")
        return [found[position] for position in positions]

    def _rows(self, run_id: str, positions: Sequence[int]) -> dict[int, bytes]:
        run = self.run(run_id)
        hashes = dict(
            self.database.query(
                "SELECT position, row_hash FROM step WHERE run = ? AND list_contains(?::INTEGER[], position)",
                [self._index(run_id), list(positions)],
            )
        )
        stored = self.database.query(
            "SELECT row_hash, codec, payload FROM logits WHERE list_contains(?::BLOB[], row_hash)",
            [list(hashes.values())],
        )
        if any(codec is None or payload is None for _, codec, payload in stored):
            raise DamagedBundleError(f"{self.path.name}: a row of logits is empty; capture it again")
        rows = {name: decode(codec, payload, run.dtype, run.vocabulary_size) for name, codec, payload in stored}
        return {position: rows[name] for position, name in hashes.items() if name in rows}

    def tokens(self) -> dict[int, Token]:
        """Return every token the bundle mentions, by id."""
        rows = self.database.query("SELECT token_id, bytes, special FROM token")
        return {token_id: Token(token_id, data, special) for token_id, data, special in rows}

    def verify(self) -> None:
        """Check that rows and prefix ids are what the records say.

        Raises:
            DamagedBundleError: something differs; the message names it.
        """
        after_prompt = prefix_of(self.prompt.token_ids)
        for run in self.runs:
            steps = self.steps(run.run_id)
            if len(steps) != run.positions:
                raise DamagedBundleError(f"{self.path.name}: run {run.run_id} lacks positions; capture it again")
            if run.probe_stride:
                self._verify_probe(run, steps)
                self._verify_rows(run, steps)
                continue
            if run.positions and steps.position[0] == 0 and steps.prefix_id[0] != after_prompt:
                raise DamagedBundleError(f"{self.path.name}: run {run.run_id} does not follow its prompt")
            if (
                run.positions
                and steps.prefix_id != tuple(chain(steps.token_id.tolist(), PrefixId(steps.prefix_id[0])))[:-1]
            ):
                raise DamagedBundleError(
                    f"{self.path.name}: run {run.run_id} has prefix ids that its tokens do not give"
                )
            self._verify_rows(run, steps)

    def _verify_probe(self, run: Run, steps: Steps) -> None:
        """Check that a probe's positions lie in the prompt and name its prefixes and tokens."""
        ids = self.prompt.token_ids
        places = (steps.position + len(ids)).tolist()
        inside = all(0 < place < len(ids) for place in places)
        prefixes = list(chain(ids)) if inside else []
        if not inside or any(
            prefixes[place] != prefix_id or ids[place] != token_id
            for place, prefix_id, token_id in zip(places, steps.prefix_id, steps.token_id.tolist(), strict=True)
        ):
            raise DamagedBundleError(f"{self.path.name}: run {run.run_id} does not lie in its prompt; capture it again")

    def _verify_rows(self, run: Run, steps: Steps) -> None:
        hashes = dict(zip(steps.position.tolist(), steps.row_hash, strict=True))
        for position in self.kept_positions(run.run_id):
            row = self.row(run.run_id, position)
            if row is None or row_hash(row) != hashes[position]:
                raise DamagedBundleError(
                    f"{self.path.name}: run {run.run_id} has damaged logits at position {position}; capture it again"
                )

    def _index(self, run_id: str) -> int:
        for index, run in enumerate(self.runs):
            if run.run_id == run_id:
                return index
        raise NotFoundError(f"{self.path.name} holds no run {run_id}")

    def _read_facts(self) -> BundleFacts:
        version, text = self.database.one("SELECT format, facts FROM bundle")
        if version != FORMAT:
            raise ForeignBundleError(f"{self.path.name} has format {version}; this flipscope reads format {FORMAT}")
        return facts_from_json(json.loads(text))

    def _read_prompt(self) -> Prompt:
        text, token_ids, facts = self.database.one("SELECT text, token_ids, facts FROM prompt")
        if not token_ids:
            raise DamagedBundleError(f"{self.path.name} holds no prompt tokens; capture it again")
        return Prompt(text, tuple(token_ids), turns_from_json(json.loads(facts)))

    def _read_runs(self) -> tuple[Run, ...]:
        rows = self.database.query("SELECT run_id, facts FROM run ORDER BY run")
        return tuple(run_from_json(run_id, json.loads(facts)) for run_id, facts in rows)


def _write_run(insert: Insert, index: int, recorded: RecordedRun) -> None:
    run, steps = recorded.run, recorded.steps
    insert(
        "run",
        [[index], [run.run_id], [json.dumps(run_to_json(run))], [json.dumps(recorded.manifest, sort_keys=True)]],
    )
    for start in range(0, len(steps), _CHUNK):
        insert("step", _step_columns(index, steps, slice(start, start + _CHUNK)))


def _write_rows(insert: Insert, recorded: RecordedRun, stored: set[bytes]) -> None:
    """Store the kept rows, each distinct one once: replicas, and what a forced and a free run share, cost nothing."""
    hashes = recorded.steps.row_hash
    new = list({hashes[at]: at for at in recorded.kept if hashes[at] not in stored}.values())
    for start in range(0, len(new), _CHUNK):
        chunk = new[start : start + _CHUNK]
        payloads = [encode(recorded.rows(at), recorded.run.dtype) for at in chunk]
        insert("logits", [[hashes[at] for at in chunk], [SHUFFLE_ZSTD] * len(chunk), payloads])
    stored.update(hashes[at] for at in new)


def _step_columns(index: int, steps: Steps, part: slice) -> list[list[Any]]:
    columns = [getattr(steps, name)[part] for name in Steps.__slots__]
    values = [list(column) if isinstance(column, tuple) else column.tolist() for column in columns]
    emitted = Steps.__slots__.index("emitted")
    values[emitted] = [None if value < 0 else value for value in values[emitted]]
    return [[index] * len(values[0]), *values]
