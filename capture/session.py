"""One runtime at work: its worker, its vocabulary, and streams that are run only where they are missing."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from capture.cases import without_recorded_answer
from capture.engines.base import Job, ModelFacts
from capture.errors import PlanError
from capture.model import LOGIT_BYTES, Case, Prompt, RecordedTurns, Runtime, Token
from capture.models import model_folder
from capture.progress import Reporter
from capture.spool import Stream, is_done, read_json, read_stream, write_json
from capture.switch import KillSwitch
from capture.unpack import unpack_model
from capture.worker_process import WorkerProcess

HINT_SECONDS = 60.0
"""How long an engine may start before a word is said."""


class RuntimeSession:
    """A running runtime; use it in a `with` block.

    Attributes:
        runtime: as the study names it.
        facts: of its model.
        manifest: what decides its bits, as told at the start.
        vocabulary: every token that has bytes, by id.
    """

    def __init__(self, runtime: Runtime, folder: Path, reporter: Reporter, switch: KillSwitch | None = None) -> None:
        """Start the worker; `folder` receives its log, `switch` can end it from another thread.

        Raises:
            EngineError: the engine does not start.
        """
        self.runtime = runtime
        self._reporter = reporter
        unpack_model(runtime.model, reporter)
        place = model_folder(runtime.model)
        reporter.note(f"starting {runtime.name}")
        started = runtime if place is None else replace(runtime, model=str(place))
        log = folder / f"{runtime.name}.log"
        with _hint(reporter, f"still starting {runtime.name}; what it prints is in {log}"):
            self._worker = WorkerProcess(started, log, switch)
        self.manifest = self._worker.manifest
        self.facts: ModelFacts = self._worker.facts
        try:
            self.vocabulary: Mapping[int, Token] = {token.token_id: token for token in self._worker.vocabulary()}
        except BaseException:
            self._worker.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is KeyboardInterrupt:
            self._reporter.note(f"ending {self.runtime.name}; interrupt again to end it at once")
        self._worker.close()

    def note(self, text: str) -> None:
        """Tell the user something in one sentence."""
        self._reporter.note(text)

    def tokenize(self, case: Case, date: str) -> Prompt:
        """Return the case as this runtime renders it, up to the answer that it may end with."""
        return self._worker.tokenize(without_recorded_answer(case), date)

    def tokenize_turns(self, case: Case, date: str) -> RecordedTurns:
        """Return the case as this runtime renders it with the assistant turns that it records."""
        return self._worker.tokenize_turns(case, date)

    def check_length(self, case_id: str, prompt: Prompt, max_tokens: int) -> None:
        """Refuse a prompt that leaves no room for the output.

        Raises:
            PlanError: prompt and output exceed the model's context.
        """
        needed = len(prompt.token_ids) + max_tokens
        if needed > self.facts.context_length:
            raise PlanError(
                f"case '{case_id}' needs {len(prompt.token_ids):,} prompt tokens and up to {max_tokens:,} output "
                f"tokens, but {self.runtime.name} has a context of {self.facts.context_length:,}; "
                "shorten the case or lower max_tokens"
            )

    def prepare(self, folder: Path) -> None:
        """Make a spool folder ready: kept if the same runtime left it, emptied if what decides the bits has changed."""
        mark = folder / "runtime.json"
        facts = {"manifest": dict(self.manifest), "dtype": self.facts.dtype, "columns": self.facts.vocabulary_size}
        if mark.is_file() and read_json(mark) != facts:
            self._reporter.note(f"{folder.name}: the runtime changed since it was interrupted; recording it anew")
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(mark, facts)

    def record(self, what: str, job: Job, folders: Mapping[str, Path], most: int) -> dict[str, Stream]:
        """Run a job unless all of its streams have ended already, and return them by sink name."""
        if not all(is_done(folder) for folder in folders.values()):
            self._reporter.begin(what, most)
            self._worker.generate(job, folders, self._reporter.advance)
            streams = self._read(folders)
            self._reporter.end(_outcome(streams))
            return streams
        return self._read(folders)

    def _read(self, folders: Mapping[str, Path]) -> dict[str, Stream]:
        row_bytes = self.facts.vocabulary_size * LOGIT_BYTES[self.facts.dtype]
        return {name: read_stream(folder, row_bytes) for name, folder in folders.items()}


@contextmanager
def _hint(reporter: Reporter, text: str) -> Iterator[None]:
    """Say something where what follows takes longer than a reader waits without a word."""
    timer = threading.Timer(HINT_SECONDS, reporter.note, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _outcome(streams: Mapping[str, Stream]) -> str:
    positions = sum(len(stream) for stream in streams.values())
    seconds = max((stream.seconds for stream in streams.values()), default=0.0)
    pace = f", {1000 * seconds / positions:.0f} ms each" if positions else ""
    return f"{positions:,} positions{pace}, {next(iter(streams.values())).ending.value}"
