"""The recorder's end of a worker: starts the process that a runtime names, talks to it, and ends it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import capture
from capture.engines import engine_environment
from capture.engines.base import Job, ModelFacts
from capture.errors import EngineError, StorageFullError, WorkerDiedError
from capture.messages import case_to_json, job_to_json, runtime_to_json
from capture.model import Case, Json, Prompt, RecordedTurns, Runtime, Token
from capture.switch import KillSwitch

Progress = Callable[[int], None]

_LAST_WORDS = 5
_ANSWERS = ("done", "progress", "error")
_PATIENCE_SECONDS = 20.0


class WorkerProcess:
    """One running worker; use it in a `with` block.

    Attributes:
        facts: what the engine knows of its model.
        manifest: what really ran, as the engine told at its start and after its latest job.
    """

    facts: ModelFacts
    manifest: Json

    def __init__(self, runtime: Runtime, log: Path, switch: KillSwitch | None = None) -> None:
        """Start the process and its engine; `log` receives everything the engine prints, `switch` can end it.

        Raises:
            EngineError: the process or its engine does not start; the message names the runtime.
        """
        self._runtime = runtime
        self._log = log
        self._sources = tempfile.TemporaryDirectory(prefix="flipscope-worker-")
        # Only our own package is on the worker's path: another interpreter keeps its own libraries.
        Path(self._sources.name, "capture").symlink_to(Path(capture.__file__).parent)
        self._process = self._spawn()
        try:
            if switch is not None:
                switch.hold(self._process)
            self._start_engine()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def tokenize(self, case: Case, date: str) -> Prompt:
        """Return the case as this runtime's own chat template and tokenizer render it."""
        answer = self._ask({"request": "tokenize", "case": case_to_json(case), "date": date})
        return Prompt(answer["text"], tuple(answer["token_ids"]))

    def tokenize_turns(self, case: Case, date: str) -> RecordedTurns:
        """Return the case with its recorded assistant turns, as this runtime's own template and tokenizer render it."""
        answer = self._ask({"request": "tokenize", "case": case_to_json(case), "date": date, "recorded": True})
        turns = tuple((first, stop) for first, stop in answer["turns"])
        return RecordedTurns(Prompt(answer["text"], tuple(answer["token_ids"]), turns), tuple(answer["path"]))

    def vocabulary(self) -> tuple[Token, ...]:
        """Return every token that has bytes, by rising id."""
        answer = self._ask({"request": "vocabulary"})
        return tuple(
            Token(token_id, bytes.fromhex(data), bool(special)) for token_id, data, special in answer["tokens"]
        )

    def generate(self, job: Job, folders: Mapping[str, Path], progress: Progress = lambda _: None) -> None:
        """Run one job into stream folders, by sink name.

        Raises:
            EngineError: the engine gave up; what it appended before stays.
            StorageFullError: the disk is full; what was appended before stays.
        """
        request = {
            "request": "generate",
            "job": job_to_json(job),
            "folders": {name: str(folder.resolve()) for name, folder in folders.items()},
        }
        self.manifest = self._ask(request, progress)["manifest"]

    def close(self) -> None:
        """End the process, whatever it is doing; interrupted meanwhile, at once."""
        if self._process.stdin and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.wait(_PATIENCE_SECONDS)
        with contextlib.suppress(ProcessLookupError):  # what it started may outlive it and hold a device
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._sources.cleanup()

    def _spawn(self) -> subprocess.Popen[str]:
        command = [*(self._runtime.command or (sys.executable,)), "-m", "capture.worker"]
        defaults = engine_environment(self._runtime.engine)
        environment = {**defaults, **os.environ, **self._runtime.environment, "PYTHONPATH": self._sources.name}
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with open(self._log, "ab") as log:
            try:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=environment,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    process_group=0,
                )
            except (OSError, ValueError) as error:  # ValueError: a NUL, or '=' in a variable's name
                self._sources.cleanup()
                reason = getattr(error, "strerror", None) or error
                raise EngineError(
                    f"runtime '{self._runtime.name}': cannot start '{command[0]}': {reason}; mend its command"
                ) from error

    def _start_engine(self) -> None:
        answer = self._ask({"request": "start", "runtime": runtime_to_json(self._runtime)})
        self.facts = ModelFacts(
            answer["dtype"], answer["vocabulary_size"], answer["context_length"], tuple(answer["stop_ids"])
        )
        self.manifest = answer["manifest"]

    def _ask(self, request: Mapping[str, Any], progress: Progress = lambda _: None) -> Json:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the answer is then missing too, which is told below
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        for line in stdout:
            if not line.endswith("\n"):  # it was killed in the middle of an answer
                break
            answer = self._answer(line)
            if answer["answer"] == "progress":
                progress(answer["steps"])
            elif answer["answer"] == "error":
                raise self._error(answer)
            else:
                return answer
        raise self._death()

    def _answer(self, line: str) -> dict[str, Any]:
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict) and answer.get("answer") in _ANSWERS:
            return answer
        raise EngineError(
            f"runtime '{self._runtime.name}': what its command starts wrote {line.strip()[:60]!r} where an answer of a "
            "worker was due; see that the command ends in a Python interpreter and prints nothing itself"
        )

    def _error(self, answer: Json) -> EngineError | StorageFullError:
        if answer["kind"] == "storage":
            return StorageFullError(answer["message"])
        return EngineError(f"runtime '{self._runtime.name}': {answer['message']}")

    def _death(self) -> WorkerDiedError:
        code = self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        how = f"runtime '{self._runtime.name}': its worker {how}"
        words = self._last_words()
        return WorkerDiedError(
            f"{how}; what it recorded is kept, start again to go on (its words are in {self._log}){words}",
            f"{how}{words}",
        )

    def _last_words(self) -> str:
        lines = [line for line in _tail(self._log) if line.strip()]
        return ": " + lines[-1].strip()[:300] if lines else ""


def _tail(path: Path) -> Sequence[str]:
    if not path.is_file():
        return ()
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        return file.read().decode("utf-8", "replace").splitlines()[-_LAST_WORDS:]
