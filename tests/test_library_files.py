"""Files from strangers are data: what is not a sound bundle is listed with its reason, and hides nothing else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from app.catalog import BrokenFile, ComparisonEntry, Stamp, build_catalog
from app.library import Library
from app.library_files import find_files, read_files, stamp_of
from capture.comparison import SUFFIX, read_comparisons, write_comparisons
from capture.divergence import Divergence
from capture.model import Mode
from tests.synthetic import make_library

BAD = "synthetic/hostile--int4.duckdb"

Harm = Callable[[Path], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_library(tmp_path_factory.mktemp("library"), lanes=2, positions=60)


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "copy")


def _sql(*statements: str) -> Harm:
    def harm(path: Path) -> None:
        with duckdb.connect(str(path)) as connection:
            for statement in statements:
                connection.execute(statement)

    return harm


def _facts(**changes: object) -> Harm:
    def harm(path: Path) -> None:
        with duckdb.connect(str(path)) as connection:
            row = connection.execute("SELECT facts FROM bundle").fetchone()
            assert row is not None
            facts = {**json.loads(row[0]), **changes}
            connection.execute("UPDATE bundle SET facts = ?", [json.dumps(facts)])

    return harm


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


def _link(target: str) -> Harm:
    def harm(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return harm


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


HARMS: dict[str, tuple[Harm, str]] = {
    "pipe": (_pipe, "no regular file"),
    "garbage": (lambda path: path.write_bytes(b"<script>" * 999), "no readable DuckDB file"),
    "empty": (lambda path: path.write_bytes(b""), "file"),
    "truncated": (_cut, "truncated"),
    "last block missing": (lambda path: path.write_bytes(path.read_bytes()[:-9000]), "truncated"),
    "zeroed": (lambda path: path.write_bytes(bytes(path.stat().st_size)), "no readable DuckDB file"),
    "link out of the folder": (_link("/etc/hostname"), "no readable DuckDB file"),
    "dangling link": (_link("nowhere"), "cannot be read"),
    "view": (_sql("CREATE VIEW evil AS SELECT * FROM read_text('/etc/hostname')"), "views, macros or functions"),
    "view in place of a table": (
        _sql("DROP TABLE token", "CREATE VIEW token AS SELECT 1 AS token_id, ''::BLOB AS bytes, false AS special"),
        "views, macros or functions",
    ),
    "macro": (_sql("CREATE MACRO list_contains(a, b) AS true"), "views, macros or functions"),
    "table macro": (
        _sql("CREATE MACRO unnest(a) AS TABLE SELECT * FROM read_text('/etc/hostname')"),
        "views, macros or functions",
    ),
    "computed column": (
        _sql(
            "DROP TABLE token",
            "CREATE TABLE token (token_id INTEGER, special BOOLEAN, bytes BLOB GENERATED ALWAYS AS ('x'::BLOB))",
        ),
        "views, macros or functions",
    ),
    "extra table": (_sql("CREATE TABLE extra (a INTEGER)"), "no flipscope bundle"),
    "missing table": (_sql("DROP TABLE logits"), "no flipscope bundle"),
    "other column type": (_sql("ALTER TABLE token ALTER token_id TYPE VARCHAR"), "no flipscope bundle"),
    "extra column": (_sql("ALTER TABLE run ADD COLUMN more INTEGER"), "no flipscope bundle"),
    "other format": (_sql("UPDATE bundle SET format = 99"), "format 99"),
    "no facts": (_sql("DELETE FROM bundle"), "incomplete"),
    "two prompts": (_sql("INSERT INTO prompt SELECT * FROM prompt"), "incomplete"),
    "null prompt": (_sql("UPDATE prompt SET token_ids = NULL"), "description cannot be read"),
    "negative token": (_sql("UPDATE prompt SET token_ids = [-5]"), "description cannot be read"),
    "no JSON": (_sql("UPDATE bundle SET facts = '{'"), "description cannot be read"),
    "a list": (_sql("UPDATE bundle SET facts = '[]'"), "description cannot be read"),
    "deep JSON": (_sql("UPDATE bundle SET facts = repeat('[', 100000)"), "description cannot be read"),
    "number as study": (_facts(study=7), "study"),
    "list as title": (_facts(study_title=["a"]), "study_title"),
    "unknown fact": (_facts(colour="red"), "description cannot be read"),
    "half a surrogate pair": (_facts(study="\ud800"), "study"),
    "endless name": (_facts(study="x" * 5000), "too long"),
    "case that is a path": (
        _sql("UPDATE bundle SET facts = replace(facts, '\"hostile\"', '\"../../etc\"')"),
        "a case's name",
    ),
    "run id that is HTML": (_sql("UPDATE run SET run_id = '<b>'"), "run's id"),
    "run without a mode": (_sql("UPDATE run SET facts = replace(facts, '\"free\"', '\"dream\"')"), "dream"),
    "text as positions": (
        _sql("""UPDATE run SET facts = regexp_replace(facts, '"positions": \\d+', '"positions": "many"')"""),
        "positions",
    ),
    "NaN seconds": (_sql("""UPDATE run SET facts = replace(facts, '"seconds": 0.5', '"seconds": NaN')"""), "seconds"),
}


@pytest.mark.parametrize("name", HARMS)
def test_a_bad_bundle_is_listed_with_its_reason_and_the_others_work(name: str, copy: Path) -> None:
    harm, reason = HARMS[name]
    harm(copy / BAD)
    library = Library(copy)
    assert [file.name for file in library.broken()] == [BAD]
    assert reason in library.broken()[0].reason
    assert str(copy) not in library.broken()[0].reason
    assert len(library.open_case("iface", Mode.FORCED).lanes) == 2
    alone = library.open_case("hostile")
    assert [lane.facts.runtime.name for lane in alone.lanes] == ["bf16-eager"]
    library.close()


def test_a_write_ahead_log_beside_a_bundle_is_not_replayed(copy: Path) -> None:
    (copy / f"{BAD}.wal").write_bytes(b"anything")
    assert "write-ahead log" in Library(copy).broken()[0].reason


def test_whole_vocabularies_and_lower_bounds_of_a_comparison_stay_apart(copy: Path) -> None:
    name = next(path for path in find_files(copy) if path.startswith("synthetic/") and path.endswith(SUFFIX))
    (plain, *rest) = read_comparisons(copy / name)
    kl = np.arange(len(plain.position), dtype=np.float64)
    metrics = replace(plain.metrics, kl_forward=kl, lower_bound=np.arange(len(kl)) % 3 == 0)
    write_comparisons(copy / name, [replace(plain, metrics=metrics), *rest])
    (entry,) = read_files(copy, {name: stamp_of(copy / name)})
    assert isinstance(entry, ComparisonEntry)
    bound = metrics.lower_bound
    assert entry.pairs[0].positions == len(kl)
    assert entry.pairs[0].whole == Divergence(float(kl[~bound].mean()), int((~bound).sum()), lower_bound=False)
    assert entry.pairs[0].bounded == Divergence(float(kl[bound].mean()), int(bound.sum()), lower_bound=True)
    kl[0] = np.inf
    write_comparisons(copy / name, [replace(plain, metrics=metrics), *rest])
    (entry,) = read_files(copy, {name: stamp_of(copy / name)})
    assert isinstance(entry, ComparisonEntry)
    assert entry.pairs[0].bounded == Divergence(float("inf"), int(bound.sum()), lower_bound=True)


def test_a_comparison_with_wrong_values_is_listed_too(copy: Path) -> None:
    path = next((copy / "synthetic").glob("hostile--*.comparison.duckdb"))
    _sql("UPDATE flip SET flip_class = 'enormous'")(path)
    library = Library(copy)
    assert [file.name for file in library.broken()] == [f"synthetic/{path.name}"]
    assert len(library.open_case("hostile").comparisons) == 1


LATE: dict[str, str] = {
    "gap": "UPDATE step SET position = position + 1 WHERE position > 5",
    "short prefix id": "UPDATE step SET prefix_id = 'x'::BLOB WHERE position = 4",
    "other prompt": "UPDATE step SET prefix_id = unhex(repeat('00', 16)) WHERE position = 0",
    "NaN": "UPDATE step SET margin_nats = 'nan'::DOUBLE WHERE position = 2",
    "infinity": "UPDATE step SET entropy = 'inf'::DOUBLE WHERE position = 2",
    "null": "UPDATE step SET top1 = NULL WHERE position = 1",
    "negative token": "UPDATE step SET token_id = -7 WHERE position = 1",
    "ragged top-k": "UPDATE step SET top_ids = [1], top_logits = [1.0] WHERE position = 3",
    "lists of two lengths": "UPDATE step SET top_ids = [1, 2] WHERE position = 3",
    "null in a list": "UPDATE step SET top_logits = list_transform(top_logits, lambda x: NULL) WHERE position = 3",
    "fewer positions": "DELETE FROM step WHERE position > 10",
    "no positions": "DELETE FROM step",
    "null bytes": "UPDATE token SET bytes = NULL WHERE token_id = 3",
    "manifest that is a list": "UPDATE run SET manifest = '[1]'",
    "manifest with NaN": """UPDATE run SET manifest = '{"a": NaN}'""",
    "manifest that is no JSON": "UPDATE run SET manifest = 'x'",
}
"""Harm that is not seen before the run is read."""


@pytest.mark.parametrize("name", LATE)
def test_a_lane_that_cannot_be_read_is_left_out_with_a_notice(name: str, copy: Path) -> None:
    _sql(LATE[name])(copy / BAD)
    library = Library(copy)
    assert library.broken() == ()
    opened = library.open_case("hostile", Mode.FREE)
    assert [lane.facts.runtime.name for lane in opened.lanes] == ["bf16-eager"]
    assert [notice for notice in opened.notices if "hostile--int4" in notice]
    library.close()


def test_a_reference_that_cannot_be_read_gives_way(copy: Path) -> None:
    _sql(LATE["gap"])(copy / "synthetic" / "iface--bf16-eager.duckdb")
    opened = Library(copy).open_case("iface", Mode.FREE)
    assert [lane.facts.runtime.name for lane in opened.lanes] == ["int4"]
    assert opened.lanes[0].is_reference


@pytest.mark.parametrize("change", ["payload = 'rubbish'::BLOB", "payload = NULL", "codec = NULL"])
def test_damaged_logits_cost_the_comparison_not_the_lane(copy: Path, change: str) -> None:
    for path in copy.rglob("*.comparison.duckdb"):
        path.unlink()
    _sql(f"UPDATE logits SET {change} WHERE row_hash IN (SELECT row_hash FROM step WHERE position = 2)")(
        copy / "synthetic" / "iface--int4.duckdb"
    )
    opened = Library(copy).open_case("iface", Mode.FREE)
    assert len(opened.lanes) == 2
    assert opened.comparisons == {}
    assert any("could not be compared" in notice for notice in opened.notices)


def test_other_tokenizers_are_refused_as_lanes(copy: Path) -> None:
    path = copy / "synthetic" / "iface--int4.duckdb"
    _facts(vocabulary_hash="other")(path)
    _sql("UPDATE token SET bytes = 'other'::BLOB WHERE token_id = 65")(path)
    opened = Library(copy).open_case("iface", Mode.FREE)
    assert len(opened.lanes) == 1
    assert any("different tokenizers" in notice and "token 65" in notice for notice in opened.notices)


def test_one_bad_file_in_a_batch_is_read_apart(copy: Path) -> None:
    for number in range(4):
        shutil.copy(copy / "synthetic" / "iface--int4.duckdb", copy / f"copy{number}.duckdb")
    _cut(copy / "copy2.duckdb")
    found = {name: stamp for name, stamp in find_files(copy).items() if isinstance(stamp, Stamp)}
    entries = list(read_files(copy, found))
    assert len(entries) == len(found)
    assert [entry.name for entry in entries if isinstance(entry, BrokenFile)] == ["copy2.duckdb"]
    assert build_catalog(entries).cases.keys() == Library(copy).catalog().cases.keys()


def test_names_with_quotes_and_other_letters_are_read(copy: Path) -> None:
    folder = copy / "o'brien; DROP TABLE bundle --"
    folder.mkdir()
    shutil.copy(copy / "synthetic" / "iface--int4.duckdb", folder / 'größe "x".duckdb')
    library = Library(copy)
    assert library.broken() == ()
    assert any(entry.name.endswith('größe "x".duckdb') for entry in library.entries())


@pytest.mark.parametrize("data", ["NULL", "repeat('<b>', 3000000)::BLOB"])
def test_a_token_that_no_vocabulary_has_costs_only_its_lane(copy: Path, data: str) -> None:
    _sql(f"UPDATE token SET bytes = {data} WHERE token_id = 65")(copy / "synthetic" / "iface--int4.duckdb")
    opened = Library(copy).open_case("iface", Mode.FREE)
    assert len(opened.lanes) == 1
    assert any("table token holds wrong values" in notice for notice in opened.notices)
