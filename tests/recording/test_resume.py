"""Killed at any moment, a capture goes on and ends with the library that one uninterrupted capture gives."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from capture.bundle import Bundle
from capture.pairs import bundle_paths
from capture.progress import SilentReporter
from capture.record import Recorder
from capture.study import read_study
from tests.recording.conftest import FORKS, SETTINGS, WriteStudy

pytestmark = [pytest.mark.engine, pytest.mark.slow]

KILLS = 10


def contents(library: Path) -> dict[str, list[object]]:
    """Everything that must be the same: ids, tokens, prefix ids, hashes, certificates, by bundle and run."""
    found: dict[str, list[object]] = {}
    for path in bundle_paths(library):
        with Bundle(path) as bundle:
            for run in bundle.runs:
                steps = bundle.steps(run.run_id)
                facts = (run.run_id, run.mode, run.certificate, run.ending, run.complete, run.fork)
                found.setdefault(path.name, []).append(
                    (facts, steps.token_id.tolist(), steps.prefix_id, steps.row_hash, bundle.kept_positions(run.run_id))
                )
    return found


def start(study: Path, library: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "app.cli", "capture", str(study), "--library", str(library)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def test_killed_ten_times_the_library_is_that_of_one_go(library: Path, write_study: WriteStudy, tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", SETTINGS, FORKS)
    target, chance = tmp_path / "library", random.Random(5)
    for _ in range(KILLS):
        process = start(study, target)
        try:
            process.wait(chance.uniform(0.5, 9.0))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        for path in bundle_paths(target) if target.is_dir() else ():
            with Bundle(path):  # what is sealed is whole at any moment
                pass
    Recorder(read_study(study), target, SilentReporter()).capture()
    assert contents(target) == contents(library)
    assert not list(target.rglob("*.partial"))


def test_two_captures_into_one_library_at_once_are_refused(write_study: WriteStudy, tmp_path: Path) -> None:
    study, target = write_study(tmp_path / "study"), tmp_path / "library"
    first = start(study, target)
    try:
        deadline = time.monotonic() + 60
        while not list(target.rglob("*.log")) and time.monotonic() < deadline:
            os.sched_yield()
        second = start(study, target)
        assert second.wait(60) == 2
    finally:
        first.kill()
        first.wait()
