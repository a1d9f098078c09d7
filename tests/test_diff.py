"""`flipscope diff` finds the runs that are meant, and says what differs and whether it had an effect."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli import main
from capture.bundle import RecordedRun
from capture.model import Mode, Origin, RunId, Runtime
from tests.factories import make_bundle, make_facts, make_run, make_steps

LOGITS = np.random.default_rng(3).normal(0, 3, (20, 16)).astype(np.float32)

PLAIN = {"engine": "torch", "options": {"attention": "eager"}, "ran": {"layers": ["eager"] * 3, "seed": None}}
OTHER = {"engine": "torch", "options": {"attention": "sdpa"}, "ran": {"layers": ["sdpa"] * 3}}

PLAIN_ID, OTHER_ID, FORCED_ID, NOISY_ID = "ab12" + "0" * 28, "ab34" + "0" * 28, "ab35" + "0" * 28, "ff" * 16


def recorded(run_id: str, manifest: dict[str, Any], logits: Any = LOGITS, origin: Origin | None = None) -> RecordedRun:
    made = make_run(logits, make_steps(logits), origin)
    return replace(made, run=replace(made.run, run_id=RunId(run_id)), manifest=manifest)


def facts(name: str, **options: object) -> Any:
    return replace(make_facts(name, is_reference=name == "plain"), runtime=Runtime(name, "torch", "tiny", options))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("library")
    noisy = LOGITS + np.random.default_rng(4).normal(0, 1, LOGITS.shape).astype(np.float32)
    forced = recorded(FORCED_ID, OTHER, origin=Origin(Mode.FORCED, forced_along=RunId(PLAIN_ID)))
    make_bundle(tmp_path / "study/case--plain.duckdb", [recorded(PLAIN_ID, PLAIN)], facts("plain", attention="eager"))
    same = [recorded(OTHER_ID, OTHER), forced]
    make_bundle(tmp_path / "study/case--other.duckdb", same, facts("other", attention="sdpa", threads=2))
    make_bundle(
        tmp_path / "study/case--noisy.duckdb", [recorded(NOISY_ID, PLAIN, noisy)], facts("noisy", weights="int4")
    )
    return tmp_path


@pytest.fixture
def copy(library: Path, tmp_path: Path) -> Path:
    return shutil.copytree(library, tmp_path / "copy")


def told(library: Path, capsys: pytest.CaptureFixture[str], left: str, right: str) -> dict[str, Any]:
    assert main(["diff", left, right, "--library", str(library), "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_the_entries_that_differ_are_told_with_both_values(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(library, capsys, "ab12", "ab34")
    assert {one["entry"]: one["values"] for one in answer["differences"]} == {
        "options.attention": {"left": "eager", "right": "sdpa"},
        "ran.layers": {"left": ["eager"] * 3, "right": ["sdpa"] * 3},
        "ran.seed": {"left": None},
    }
    assert (answer["left"]["runtime"], answer["right"]["runtime"]) == ("plain", "other")


@pytest.mark.parametrize(
    ("name", "run_id"),
    [
        ("ab12", PLAIN_ID),
        ("AB35", FORCED_ID),
        (OTHER_ID, OTHER_ID),
        ("other", OTHER_ID),
        ("case/other", OTHER_ID),
        ("study/case/noisy", NOISY_ID),
        ("study/case--other.duckdb", OTHER_ID),
        ("{library}/study/case--noisy.duckdb", NOISY_ID),
    ],
)
def test_a_run_is_found_by_id_name_and_path(
    library: Path, capsys: pytest.CaptureFixture[str], name: str, run_id: str
) -> None:
    answer = told(library, capsys, name.format(library=library), PLAIN_ID)
    assert (answer["left"]["run_id"], answer["right"]["run_id"]) == (run_id, PLAIN_ID)


def test_the_path_of_a_bundle_needs_no_library(
    library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(library / "study")
    assert main(["diff", "case--plain.duckdb", "case--other.duckdb", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["right"]["run_id"] == OTHER_ID


def test_a_run_that_was_copied_is_still_one(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "copy.duckdb").write_bytes((copy / "study/case--plain.duckdb").read_bytes())
    assert told(copy, capsys, "ab12", "case/plain")["left"]["run_id"] == PLAIN_ID


def test_logits_that_are_the_same_throughout_name_the_options_without_effect(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = told(library, capsys, "plain", "other")
    assert (answer["identical"], answer["shared_positions"], answer["equal_positions"]) == (True, 20, 20)
    assert main(["diff", "plain", "other", "--library", str(library)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "Every logit of 20 positions" in last
    assert "attention (sdpa instead of eager) and threads (2 instead of not set) may have had no effect" in last


def test_equal_manifests_of_logits_that_differ_are_called_so(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(library, capsys, "plain", "noisy")
    assert (answer["differences"], answer["identical"], answer["effect"]) == ([], False, None)
    assert main(["diff", "plain", "noisy", "--library", str(library)]) == 0
    out = capsys.readouterr().out
    assert "Nothing that the manifest tells differs." in out
    assert "no effect" not in out


def test_the_table_is_aligned_and_says_what_the_runs_are(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "plain", "other", "--library", str(library)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["left", "study/case/plain,", "run", "ab1200000000,", "free,", "20", "positions"]
    heading = lines[3]
    rows = [line for line in lines[4:-2] if line]
    assert [row.split()[0] for row in rows] == ["options.attention", "ran.layers", "ran.seed"]
    assert [row[heading.index("right") :] for row in rows] == ["sdpa", '["sdpa" × 3]', "absent"]
    assert [row[heading.index("left") :].split("  ")[0] for row in rows] == ["eager", '["eager" × 3]', "null"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ab", "plain"], ("3 runs", "ab1200000000", "ab3400000000", "study/case/other", "forced")),
        (["nothing", "plain"], ("nothing", "case/runtime")),
        (["gone.duckdb", "plain"], ("no bundle gone.duckdb",)),
        (["plain", "other", "--library", "nowhere"], ("no library nowhere", "--library")),
        (["study/case--broken.duckdb", "plain"], ("case--broken.duckdb",)),
    ],
)
def test_what_cannot_be_found_is_one_sentence_and_exit_code_2(
    copy: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: tuple[str, ...]
) -> None:
    (copy / "study/case--broken.duckdb").write_bytes(b"nothing")
    assert main(["diff", "--library", str(copy), *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("flipscope: ")
    assert said.err.count("\n") == 1
    assert [word for word in words if word not in said.err] == []


def test_manifests_cannot_steer_the_terminal(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wild = {"engine": "torch", "\x1b[2J": "\u202eevil\x07"}
    make_bundle(copy / "study/case--wild.duckdb", [recorded("cc" * 16, wild)], facts("wild"))
    assert main(["diff", "plain", "wild", "--library", str(copy)]) == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(capsys.readouterr().out)
