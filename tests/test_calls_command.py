from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.cli import main
from capture.bundle import Bundle
from capture.grammar import call_grammar_mass
from capture.resources import bundled_library

pytest.importorskip("llguidance")

FOLDER = bundled_library() / "network-automation"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    for name in ("mac--w8a8.duckdb", "arp-explain--bf16.duckdb"):
        shutil.copy(FOLDER / name, tmp_path / name)
    return tmp_path


def test_each_run_that_wrote_a_call_gets_a_line(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calls", str(library), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with Bundle(library / "mac--w8a8.duckdb") as bundle:
        runs = [run.run_id for run in bundle.runs if not run.replica]
        wanted = {run_id: call_grammar_mass(bundle, run_id) for run_id in runs}
    assert {line["case"] for line in lines} == {"mac"}
    assert {line["run"] for line in lines} == {run_id for run_id, mass in wanted.items() if len(mass)}
    for line in lines:
        assert line["position"] == wanted[line["run"]].position.tolist()
        assert line["breaking"] == wanted[line["run"]].breaking.tolist()


def test_the_table_tells_the_mean_and_where_a_call_broke(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calls", str(library)]) == 0
    head, *rows, note = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["case", "runtime", "run", "positions"]
    with Bundle(library / "mac--w8a8.duckdb") as bundle:
        masses = [call_grammar_mass(bundle, run.run_id) for run in bundle.runs]
    broken = [mass for mass in masses if mass.broken.any()]
    assert sorted(row.split()[-1] for row in rows if not row.endswith("-")) == sorted(
        str(int(mass.position[mass.broken][0])) for mass in broken
    )
    assert f"{100 * masses[0].breaking.mean():.2f} %" in rows[0]
    assert note.startswith("breaking:")


def test_without_calls_there_is_nothing_to_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(FOLDER / "arp-explain--bf16.duckdb", tmp_path)
    assert main(["calls", str(tmp_path)]) == 2
    assert "holds no tool call" in capsys.readouterr().err
