"""A worker that dies, or is ended from another thread, is told in a sentence and leaves nothing behind."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest

from capture import session
from capture.errors import EngineError, WorkerDiedError
from capture.model import Runtime
from capture.progress import SilentReporter
from capture.switch import KillSwitch
from capture.worker_process import WorkerProcess

WITHIN_SECONDS = 20.0


def runtime(code: str) -> Runtime:
    """A runtime whose worker runs this instead of an engine."""
    return Runtime("odd", "torch", "model", command=(sys.executable, "-c", code))


def test_an_answer_that_is_cut_short_is_a_death(tmp_path: Path) -> None:
    code = 'import sys; sys.stdout.write(\'{"answer": "do\'); sys.exit(3)'
    with pytest.raises(WorkerDiedError, match="'odd': its worker ended with status 3; what it recorded is kept"):
        WorkerProcess(runtime(code), tmp_path / "log")


@pytest.mark.parametrize("words", ["hello", "5", "[]", "{}", '{"answer": "hm"}', "\\xff\\x00", "[" * 2000])
def test_a_command_that_prints_something_else_is_told_what_it_printed(tmp_path: Path, words: str) -> None:
    code = f"import sys; sys.stdout.buffer.write(b'{words}\\n'); sys.stdout.flush(); sys.stdin.read()"
    with pytest.raises(EngineError, match="'odd': what its command starts wrote .* prints nothing itself"):
        WorkerProcess(runtime(code), tmp_path / "log")


def test_how_it_died_is_told_with_its_last_words_and_without_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WorkerDiedError) as caught:
        WorkerProcess(runtime("import sys; sys.exit('no such device')"), tmp_path / "log")
    assert caught.value.how == "runtime 'odd': its worker ended with status 1: no such device"


def test_a_switch_that_was_pulled_ends_a_worker_at_its_start(tmp_path: Path) -> None:
    switch = KillSwitch()
    switch.pull()
    with pytest.raises(WorkerDiedError, match="killed by signal 9"):
        WorkerProcess(runtime("input()"), tmp_path / "log", switch)


def test_pulling_a_switch_ends_the_worker_and_what_it_started(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    child = f"import signal; up = open({str(pipe)!r}, 'w', 1); print('up', file=up); signal.pause()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    switch = KillSwitch()

    def pull() -> None:
        with open(pipe, encoding="utf-8") as up:
            assert up.readline() == "up\n"
            switch.pull()
            assert up.read() == ""  # ends when the worker's child is gone

    puller = threading.Thread(target=pull, daemon=True)
    puller.start()
    with pytest.raises(WorkerDiedError, match="killed by signal 9"):
        WorkerProcess(runtime(code), tmp_path / "log", switch)
    puller.join(WITHIN_SECONDS)
    assert not puller.is_alive()
    assert switch.pulled


def started(tmp_path: Path) -> WorkerProcess:
    """A worker that has started and will not end by itself."""
    facts = {"dtype": "float32", "vocabulary_size": 4, "context_length": 9, "stop_ids": [], "manifest": {}}
    answer = json.dumps({"answer": "done", **facts})
    code = f"import signal; print({answer!r}, flush=True); signal.pause()"
    return WorkerProcess(runtime(code), tmp_path / "log")


def test_an_interrupt_while_it_is_ended_ends_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = started(tmp_path)
    process = worker._process
    waits: list[float | None] = []
    wait = process.wait

    def interrupted(timeout: float | None = None) -> int:
        waits.append(timeout)
        if len(waits) == 1:
            raise KeyboardInterrupt
        return wait(timeout)

    monkeypatch.setattr(process, "wait", interrupted)
    worker.close()
    assert waits[0] is not None
    assert process.returncode == -9


def test_an_engine_that_starts_for_long_is_told_and_so_is_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()
    notes: list[str] = []

    class Reporter(SilentReporter):
        def note(self, text: str) -> None:
            notes.append(text)
            if text.startswith("still"):
                told.set()

    def slow(*_: object) -> WorkerProcess:
        assert told.wait(WITHIN_SECONDS)
        raise EngineError("it does not start")

    monkeypatch.setattr(session, "HINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "WorkerProcess", slow)
    with pytest.raises(EngineError):
        session.RuntimeSession(runtime("pass"), tmp_path, Reporter())
    assert notes == ["starting odd", f"still starting odd; what it prints is in {tmp_path / 'odd.log'}"]
