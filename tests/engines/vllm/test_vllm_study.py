"""A whole study with lanes in two virtual environments: the torch of these tests, and the vLLM of another."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from capture.bundle import Bundle, verify_bundle
from capture.comparison import read_comparisons
from capture.model import Exactness, Mode, Run
from capture.progress import SilentReporter
from capture.record import CaptureSummary, Recorder
from capture.study import read_study
from tests.engines.vllm.real import COLUMNS, ENVIRONMENT, INTERPRETER, needs_vllm

pytestmark = [needs_vllm, pytest.mark.vllm, pytest.mark.engine, pytest.mark.slow]

BLOCK = 128

NEVER = COLUMNS - 1
"""An id that no token has, so that no run ends early."""

QUESTION = (
    "show the route to the core switch, then the address of every neighbour that it has learned on the first port"
)

LANES = {
    "cached": {"engine": "vllm", "command": [INTERPRETER], "options": {"dtype": "bfloat16"}},
    "launched": {
        "engine": "vllm",
        "command": ["env", "VLLM_CPU_SGL_KERNEL=0", INTERPRETER, "-X", "utf8"],
        "options": {"dtype": "bfloat16"},
    },
    "fp8": {"engine": "vllm", "command": [INTERPRETER], "options": {"dtype": "bfloat16", "kv_cache_dtype": "fp8"}},
    "torch": {"engine": "torch", "options": {"dtype": "bfloat16", "attention": "eager", "threads": 1}},
}


@pytest.fixture(scope="module")
def captured(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CaptureSummary]:
    """The library of that study, and what its capture told."""
    folder = tmp_path_factory.mktemp("two-environments")
    case = {"id": "route", "messages": [{"role": "user", "content": QUESTION}]}
    (folder / "cases.json").write_text(json.dumps([case]))
    (folder / "study.toml").write_text(study_text(tiny))
    summary = Recorder(read_study(folder / "study.toml"), folder / "library", SilentReporter()).capture()
    return folder / "library" / "two", summary


def study_text(model: Path) -> str:
    head = (
        '[study]\nname = "two"\ncases = "cases.json"\nreference = "cached"\nmax_tokens = 64\nreplicas = 2\n'
        f'stop_ids = [{NEVER}]\nscoring_paths = ["decode", "prefill"]\n[forks]\nmost = 60\nmax_tokens = 4\n'
    )
    return head + "".join(lane_text(name, model) for name in LANES)


def lane_text(name: str, model: Path) -> str:
    lane = LANES[name]
    command = f"command = {json.dumps(lane['command'])}\n" if "command" in lane else ""
    variables = f"[runtime.environment]\n{table(ENVIRONMENT)}" if lane["engine"] == "vllm" else ""
    return (
        f'[[runtime]]\nname = "{name}"\nengine = "{lane["engine"]}"\nmodel = "{model}"\n{command}'
        f"[runtime.options]\n{table(lane['options'])}{variables}"
    )


def table(values: object) -> str:
    assert isinstance(values, dict)
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def runs(bundle: Bundle, mode: Mode) -> list[Run]:
    return [run for run in bundle.runs if run.mode is mode]


def identical(path: Path) -> set[bool]:
    return {comparison.identical for comparison in read_comparisons(path)}


def test_each_lane_ran_in_the_environment_that_it_names(captured: tuple[Path, CaptureSummary]) -> None:
    ask = "from importlib.metadata import version; print(version('transformers'))"
    elsewhere = subprocess.run([INTERPRETER, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
    here = version("transformers")
    assert Path(INTERPRETER).parent != Path(sys.executable).parent
    assert elsewhere != here
    for name in LANES:
        with Bundle(captured[0] / f"route--{name}.duckdb") as bundle:
            manifest = bundle.manifest(bundle.runs[0].run_id)
            assert manifest["versions"]["transformers"] == (here if name == "torch" else elsewhere)
            assert manifest["engine"] == ("torch" if name == "torch" else "vllm")


def test_a_launch_command_is_run_as_it_stands(captured: tuple[Path, CaptureSummary]) -> None:
    with Bundle(captured[0] / "route--launched.duckdb") as bundle:
        assert bundle.manifest(bundle.runs[0].run_id)["environment"]["VLLM_CPU_SGL_KERNEL"] == "0"


def test_an_option_without_effect_is_told(captured: tuple[Path, CaptureSummary]) -> None:
    folder, summary = captured
    assert identical(folder / "route--launched.vs.cached.comparison.duckdb") == {True}
    assert identical(folder / "route--fp8.vs.cached.comparison.duckdb") == {False}
    assert [name for name in summary.unchanged if "launched" in name]
    assert not [name for name in summary.unchanged if "fp8" in name]


def test_replicas_and_the_forced_reference_are_bit_identical(captured: tuple[Path, CaptureSummary]) -> None:
    for name in LANES:
        with Bundle(captured[0] / f"route--{name}.duckdb") as bundle:
            first, *others = [bundle.steps(run.run_id).row_hash for run in runs(bundle, Mode.FREE)]
            assert len(others) == 2
            assert all(other == first for other in others)
    with Bundle(captured[0] / "route--launched.duckdb") as bundle:
        free = bundle.steps(runs(bundle, Mode.FREE)[0].run_id).row_hash
        assert bundle.steps(runs(bundle, Mode.FORCED)[0].run_id).row_hash == free


def test_every_fork_is_exact_from_the_cached_block(captured: tuple[Path, CaptureSummary]) -> None:
    folder, summary = captured
    assert summary.forks[Exactness.EXACT] == sum(summary.forks.values()) > 0
    with Bundle(folder / "route--fp8.duckdb") as bundle:
        verify_bundle(folder / "route--fp8.duckdb")
        prompt = len(bundle.prompt.token_ids)
        branches = runs(bundle, Mode.BRANCH)
        assert any(run.fork and (prompt + run.fork.position - 1) // BLOCK * BLOCK >= prompt for run in branches)
        for run in branches:
            assert run.fork is not None
            assert run.certificate is not None
            boundary = (prompt + run.fork.position - 1) // BLOCK * BLOCK
            served = boundary >= prompt
            assert run.certificate.forced_steps == run.fork.position - (boundary + 1 - prompt if served else 0)


def test_a_second_capture_finds_everything_there(captured: tuple[Path, CaptureSummary]) -> None:
    folder, _ = captured
    study = read_study(folder.parent.parent / "study.toml")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert Recorder(study, folder.parent, SilentReporter()).capture().sealed == 0
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
