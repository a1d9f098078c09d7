"""The process that runs one engine. Needs numpy and its engine; nothing else of ours that is heavy.

Started as `python -m capture.worker`, it reads one JSON object a line from standard input and answers in the same
way. Whatever an engine prints goes to standard error, so that it cannot disturb the conversation.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from capture.engines import create_engine
from capture.engines.base import Engine, RowSink
from capture.errors import FlipscopeError, StorageFullError
from capture.messages import case_from_json, job_from_json, runtime_from_json
from capture.model import LOGIT_BYTES, Ending
from capture.spool import StreamWriter

Send = Callable[[Mapping[str, Any]], None]


class FolderSinks:
    """Opens a stream folder for each sink name; implements `engines.base.Sinks`."""

    def __init__(self, folders: Mapping[str, str], row_bytes: int) -> None:
        self._folders = {name: Path(folder) for name, folder in folders.items()}
        self._row_bytes = row_bytes
        self._writers: dict[str, StreamWriter] = {}
        self._started: dict[str, float] = {}

    def open(self, name: str) -> RowSink:
        """Return the writer of that sink, opened at its first use."""
        if name not in self._writers:
            self._writers[name] = StreamWriter(self._folders[name], self._row_bytes)
            self._started[name] = time.monotonic()
        return self._writers[name]

    def finish(self, name: str, ending: Ending) -> None:
        """Seal the stream."""
        self.open(name)
        self._writers.pop(name).finish(ending, time.monotonic() - self._started[name])

    def folder(self, name: str) -> str:
        """Return the folder of that sink, which is then not opened here."""
        return str(self._folders[name])

    def close(self) -> None:
        """Close what was left open; those streams stay unfinished."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


class Worker:
    """Answers the recorder's requests, one at a time, with one engine."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._engine: Engine | None = None
        self._row_bytes = 0

    def handle(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry out one request and return the answer's fields.

        Raises:
            FlipscopeError: what went wrong, in one sentence.
        """
        actions: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
            "start": self._start,
            "tokenize": self._tokenize,
            "vocabulary": self._vocabulary,
            "generate": self._generate,
        }
        return actions[request["request"]](request)

    def close(self) -> None:
        """Free the engine."""
        if self._engine is not None:
            self._engine.close()

    def _start(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        runtime = runtime_from_json(request["runtime"])
        self._engine = create_engine(runtime.engine)
        facts = self._engine.start(runtime)
        self._row_bytes = facts.vocabulary_size * LOGIT_BYTES[facts.dtype]
        return {
            "dtype": facts.dtype,
            "vocabulary_size": facts.vocabulary_size,
            "context_length": facts.context_length,
            "stop_ids": list(facts.stop_ids),
            "manifest": dict(self._engine.manifest()),
        }

    def _tokenize(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        case, date = case_from_json(request["case"]), request["date"]
        if request.get("recorded"):
            found = self._running().tokenize_turns(case, date)
            prompt, more = found.prompt, {"turns": found.prompt.turns, "path": found.path}
        else:
            prompt, more = self._running().tokenize(case, date), {}
        return {"text": prompt.text, "token_ids": list(prompt.token_ids), **more}

    def _vocabulary(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        tokens = self._running().vocabulary()
        return {"tokens": [[token.token_id, token.data.hex(), int(token.special)] for token in tokens]}

    def _generate(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        sinks = FolderSinks(request["folders"], self._row_bytes)
        try:
            self._running().generate(
                job_from_json(request["job"]), sinks, lambda steps: self._send({"answer": "progress", "steps": steps})
            )
        finally:
            sinks.close()
        return {"manifest": dict(self._running().manifest())}

    def _running(self) -> Engine:
        if self._engine is None:
            raise FlipscopeError("the worker was asked to run before it was started")
        return self._engine


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests until the input ends; when it ends in the middle of a job, the recorder died and so do we."""

    def send(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    worker = Worker(send)
    inbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    busy = threading.Event()
    threading.Thread(target=_listen, args=(requests, inbox, busy), daemon=True).start()
    while (line := inbox.get()) is not None:
        busy.set()
        send(_answer(worker, json.loads(line)))
        busy.clear()
    worker.close()


def _listen(requests: TextIO, inbox: queue.SimpleQueue[str | None], busy: threading.Event) -> None:
    for line in requests:
        inbox.put(line)
    if busy.is_set():
        os._exit(1)
    inbox.put(None)


def _answer(worker: Worker, request: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return {"answer": "done", **worker.handle(request)}
    except FlipscopeError as error:
        kind = "storage" if isinstance(error, StorageFullError) else "engine"
        return {"answer": "error", "kind": kind, "message": str(error)}
    except Exception as error:  # noqa: BLE001  an engine may raise anything; its words must reach the user
        traceback.print_exc()
        return {"answer": "error", "kind": "engine", "message": f"{type(error).__name__}: {error}".splitlines()[0]}


def main() -> None:
    """Keep the conversation on a descriptor of its own and send everything else that is printed to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
