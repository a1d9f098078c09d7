from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from capture.bundle import Bundle, RecordedRun
from capture.model import Mode, Origin
from tests.factories import make_bundle, make_facts, make_run, make_steps

LOGITS = np.random.default_rng(3).normal(0, 3, (20, 16)).astype(np.float32)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    steps = make_steps(LOGITS)
    free = make_run(LOGITS, steps)
    changed = LOGITS + np.random.default_rng(4).normal(0, 1, LOGITS.shape).astype(np.float32)
    forced_steps = make_steps(changed, steps.token_id.tolist(), forced=True)
    forced = make_run(changed, forced_steps, Origin(Mode.FORCED, forced_along=free.run.run_id))
    make_bundle(tmp_path / "study/case--plain.duckdb", [free])
    make_bundle(tmp_path / "study/case--other.duckdb", [forced], make_facts("other", is_reference=False))
    return tmp_path


def test_stats_as_json_count_flips_and_average_divergences(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", str(library), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["runtime"], row["reference"], row["mode"], row["positions"]) == ("other", "plain", "forced", 20)
    assert row["ties"] + row["near_ties"] + row["decided"] == round(row["disagreement"] * 20)
    assert row["kl_mean"] > 0
    assert not row["lower_bound"]


def test_stats_leave_out_a_broken_bundle_and_say_so(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (library / "study/case--broken.duckdb").write_bytes(b"nothing")
    assert main(["stats", str(library), "--json"]) == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)) == 1
    assert "case--broken.duckdb" in said.err


def test_stats_for_people_name_their_units(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", str(library)]) == 0
    out = capsys.readouterr().out
    assert "nats" in out
    assert "yardstick" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats", "nowhere"],
        ["capture", "nowhere.toml"],
        ["serve", "--port", "{port}"],
        ["demo", "--port", "{port}", "--library", "{tmp}"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if arguments[0] == "demo":
        monkeypatch.setattr(
            "capture.record.Recorder.capture", lambda _: pytest.fail("captured before the port was tried")
        )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code = main([argument.format(port=port, tmp=tmp_path) for argument in arguments])
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("flipscope: ")
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == []


def test_an_unknown_option_exits_with_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", "serve", "--colour"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--colour" in done.stderr


def test_a_plan_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from capture.resources import data_folder

    study = data_folder() / "studies" / "demo.toml"
    assert main(["capture", str(study), "--library", str(tmp_path / "new"), "--plan", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert len(planned) == 12
    assert all(bundle["positions"] > 0 and bundle["bundle_bytes"] > 0 and bundle["seconds"] > 0 for bundle in planned)
    assert list(tmp_path.iterdir()) == []


def test_names_out_of_files_cannot_steer_the_terminal(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Bundle(library / "study/case--other.duckdb") as other:
        steps, run = other.steps(other.runs[0].run_id), other.runs[0]
    facts = make_facts("\x1b[2J\u202e", is_reference=False)
    make_bundle(library / "study/case--other.duckdb", [RecordedRun(run, steps, {}, (), lambda _: b"")], facts)
    assert main(["stats", str(library)]) == 0
    printed = capsys.readouterr().out
    assert "[2J" in printed
    assert not {"\x1b", "\u202e"} & set(printed)
