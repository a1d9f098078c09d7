from __future__ import annotations

import os
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.bundle import Bundle, verify_bundle
from capture.errors import BundleError, DamagedBundleError, ForeignBundleError, NotFoundError, StorageFullError
from capture.model import Certificate, Exactness, Fork, Mode, Origin
from capture.rows import row_hash
from tests.factories import PROMPT, make_bundle, make_facts, make_run, make_steps

LOGITS = np.random.default_rng(1).normal(0, 3, (6, 16)).astype(np.float32)

OTHER = LOGITS[:3] + 1


@pytest.fixture
def bundle_path(tmp_path: Path) -> Path:
    return make_bundle(tmp_path / "case--plain.duckdb", [make_run(LOGITS, make_steps(LOGITS))])


def test_everything_written_is_read_back(tmp_path: Path) -> None:
    steps = make_steps(LOGITS)
    free = make_run(LOGITS, steps)
    fork = Fork(free.run.run_id, 2, steps.prefix_id[2], 5)
    certificate = Certificate(Exactness.APPROXIMATE, 3, 2, 1, 0.25)
    branch_steps = make_steps(OTHER, [5, 1, 1], before=(*PROMPT, *steps.token_id[:2].tolist()), first=2)
    branch = make_run(OTHER, branch_steps, Origin(Mode.BRANCH, fork=fork, certificate=certificate), kept=[1])
    path = make_bundle(tmp_path / "b.duckdb", [free, branch])
    with Bundle(path) as bundle:
        assert bundle.runs == (free.run, branch.run)
        assert bundle.facts == make_facts()
        assert bundle.prompt.token_ids == PROMPT
        assert bundle.manifest(free.run.run_id) == free.manifest
        for recorded in (free, branch):
            read = bundle.steps(recorded.run.run_id)
            for name in read.__slots__:
                assert np.array_equal(getattr(read, name), getattr(recorded.steps, name)), name
        assert bundle.row(free.run.run_id, 4) == LOGITS[4].tobytes()
        assert bundle.kept_positions(branch.run.run_id) == (3,)
        assert bundle.row(branch.run.run_id, 2) is None
        assert bundle.rows(free.run.run_id, [5, 0]) == [LOGITS[5].tobytes(), LOGITS[0].tobytes()]
        assert bundle.tokens()[3].data == b"t3"


@settings(max_examples=10, deadline=None)
@given(st.binary(min_size=64, max_size=64))
def test_any_bits_come_back(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    logits = np.frombuffer(raw, "<f4").reshape(1, 16)
    steps = make_steps(np.zeros((1, 16), np.float32))
    hashes = (row_hash(raw),)
    steps = type(steps)(**{name: getattr(steps, name) for name in steps.__slots__} | {"row_hash": hashes})
    recorded = make_run(logits, steps)
    path = make_bundle(tmp_path_factory.mktemp("bits") / "b.duckdb", [recorded])
    with Bundle(path) as bundle:
        assert bundle.row(recorded.run.run_id, 0) == raw


def test_equal_rows_are_stored_once(tmp_path: Path) -> None:
    steps = make_steps(LOGITS)
    runs = [make_run(LOGITS, steps, Origin(Mode.FREE, replica=replica)) for replica in range(3)]
    with Bundle(make_bundle(tmp_path / "b.duckdb", runs)) as bundle:
        assert bundle.database.one("SELECT count(*) FROM logits") == (len(LOGITS),)
        for recorded in runs:
            assert bundle.rows(recorded.run.run_id, range(6)) == [row.tobytes() for row in LOGITS]


def test_an_unknown_run_is_not_found(bundle_path: Path) -> None:
    with Bundle(bundle_path) as bundle, pytest.raises(NotFoundError):
        bundle.steps("0" * 32)


def test_a_damaged_row_does_not_verify(tmp_path: Path) -> None:
    steps = make_steps(LOGITS)
    recorded = make_run(LOGITS + 1, steps)
    with pytest.raises(DamagedBundleError, match="position 0"):
        make_bundle(tmp_path / "b.duckdb", [recorded])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"hello", b"\0" * 5000, b"DUCK" * 4096])
def test_garbage_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.duckdb"
    path.write_bytes(content)
    with pytest.raises(BundleError, match=r"x\.duckdb"):
        Bundle(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_truncated_bundle_is_refused_or_fails_to_verify(bundle_path: Path, share: float) -> None:
    content = bundle_path.read_bytes()
    bundle_path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(BundleError):
        verify_bundle(bundle_path)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW evil AS SELECT * FROM read_text('/etc/hostname')",
        "CREATE MACRO evil(x) AS x + 1",
        "CREATE MACRO evil() AS TABLE SELECT * FROM read_text('/etc/hostname')",
        "CREATE TABLE extra (x INTEGER)",
        "DROP TABLE token",
        "ALTER TABLE run ADD COLUMN more INTEGER",
        "ALTER TABLE token ALTER token_id TYPE VARCHAR",
        "UPDATE bundle SET format = 99",
    ],
)
def test_a_file_that_holds_anything_else_is_refused(bundle_path: Path, statement: str) -> None:
    with duckdb.connect(str(bundle_path)) as connection:
        connection.execute(statement)
    with pytest.raises(ForeignBundleError):
        Bundle(bundle_path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE bundle SET facts = '{'",
        "UPDATE bundle SET facts = '[]'",
        "UPDATE run SET facts = '{}'",
        "DELETE FROM prompt",
        "UPDATE prompt SET token_ids = []",
        "UPDATE bundle SET facts = json_merge_patch(facts, '{\"study\": 5}')",
        'UPDATE run SET facts = json_merge_patch(facts, \'{"positions": "x"}\')',
        "UPDATE bundle SET facts = repeat('[', 100000)",
        'UPDATE bundle SET facts = replace(facts, \'"id_spans":\', \'"id_spans": [[0, 1e999]], "more":\')',
    ],
)
def test_a_description_that_cannot_be_read_is_told(bundle_path: Path, statement: str) -> None:
    with duckdb.connect(str(bundle_path)) as connection:
        connection.execute(statement)
    with pytest.raises(BundleError):
        Bundle(bundle_path)


def test_an_open_bundle_cannot_reach_outside(bundle_path: Path) -> None:
    with Bundle(bundle_path) as bundle:
        for statement in ("SELECT * FROM read_text('/etc/hostname')", "SET threads = 8", "INSTALL json"):
            with pytest.raises(DamagedBundleError):
                bundle.database.query(statement)


def test_a_place_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "folder.duckdb"
    blocked.mkdir()
    (blocked / "in-the-way").touch()
    with pytest.raises(StorageFullError):
        make_bundle(blocked, [make_run(LOGITS, make_steps(LOGITS))])
    assert [path.name for path in tmp_path.iterdir()] == ["folder.duckdb"]


@pytest.mark.parametrize("column", ["codec", "payload"])
def test_an_empty_row_is_told(bundle_path: Path, column: str) -> None:
    with duckdb.connect(str(bundle_path)) as connection:
        connection.execute(f"UPDATE logits SET {column} = NULL")
    with Bundle(bundle_path) as bundle, pytest.raises(DamagedBundleError, match="row of logits is empty"):
        bundle.row(bundle.runs[0].run_id, 0)


@pytest.mark.parametrize(
    "change",
    [
        "position = NULL",
        "top_ids = NULL",
        "top_ids = [1] WHERE position = 0",
        "top_ids = [], top_logits = []",
        "top_logits = list_transform(top_logits, lambda one: '-Infinity'::FLOAT)",
        "top_logits = list_transform(top_logits, lambda one: 'NaN'::FLOAT)",
        "top_logits = list_transform(top_logits, lambda one: 3e38::FLOAT)",
        "log_sum_exp = -1e9",
        "entropy = -5",
        "margin_nats = 'Infinity'::DOUBLE",
    ],
)
def test_steps_that_cannot_be_are_told(bundle_path: Path, change: str) -> None:
    with duckdb.connect(str(bundle_path)) as connection:
        connection.execute(f"UPDATE step SET {change}")
    with Bundle(bundle_path) as bundle, pytest.raises(DamagedBundleError, match="table step holds wrong values"):
        bundle.steps(bundle.runs[0].run_id)


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.duckdb")
    with pytest.raises(DamagedBundleError, match="no regular file"):
        Bundle(tmp_path / "pipe.duckdb")
