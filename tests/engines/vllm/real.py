"""The vLLM that tests drive: an interpreter of its own, named by FLIPSCOPE_VLLM_PYTHON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from capture.engines.base import BranchJob, ForcedJob, ForkRequest, FreeJob, Job
from capture.model import LOGIT_BYTES, Runtime, ScoringPath
from capture.spool import RECOMPUTED, Stream, read_stream
from capture.worker_process import WorkerProcess

INTERPRETER = os.environ.get("FLIPSCOPE_VLLM_PYTHON", "")

needs_vllm = pytest.mark.skipif(not INTERPRETER, reason="FLIPSCOPE_VLLM_PYTHON names no interpreter that has vllm")

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


@lru_cache(maxsize=1)
def _package() -> Path | None:
    folders = Path(INTERPRETER).parent.parent.glob("lib/python3*/site-packages/vllm") if INTERPRETER else ()
    return next(iter(sorted(folders)), None)


PACKAGE = _package()
"""The installed vllm package, to be read and never imported here."""

COLUMNS = 361
"""Columns of the small model; vLLM pads its matrix to 384, which three devices can share."""

PROMPT = tuple(range(3, 123))
"""120 tokens, so that the first block of 128 ends after 8 generated ones."""


def start(
    model: Path,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    **options: Any,
) -> WorkerProcess:
    """Start a worker in the interpreter that has vLLM; `before` goes between it and the worker's module."""
    runtime = Runtime(
        "tiny",
        "vllm",
        str(model),
        options=options,
        environment={**ENVIRONMENT, **(environment or {})},
        command=(INTERPRETER, *before),
    )
    return WorkerProcess(runtime, folder / "worker.log")


class Recording:
    """Jobs of one worker, and the streams that it left."""

    def __init__(self, worker: WorkerProcess, folder: Path) -> None:
        self.worker = worker
        self._folder = folder
        self._jobs = 0

    def run(self, job: Job, *names: str) -> dict[str, Stream]:
        """Run a job into new folders and return its streams."""
        self._jobs += 1
        folders = {name: self._folder / str(self._jobs) / name for name in names}
        self.worker.generate(job, folders)
        return {name: self.read(folder) for name, folder in folders.items()}

    def read(self, folder: Path) -> Stream:
        facts = self.worker.facts
        return read_stream(folder, facts.vocabulary_size * LOGIT_BYTES[facts.dtype])

    def free(self, count: int, stop_ids: tuple[int, ...] = ()) -> Stream:
        return self.run(FreeJob(PROMPT, stop_ids, count), "main")["main"]

    def forced(self, path: tuple[int, ...], scoring_path: ScoringPath = ScoringPath.DECODE, stride: int = 1) -> Stream:
        return self.run(ForcedJob(PROMPT, path, scoring_path, stride), "main")["main"]

    def branch(self, path: tuple[int, ...], *forks: ForkRequest, stop_ids: tuple[int, ...] = ()) -> dict[str, Stream]:
        return self.run(BranchJob(PROMPT, path, forks, stop_ids), *(fork.sink for fork in forks), "replay")


def bits(stream: Stream) -> list[bytes]:
    """Return the raw rows of a stream."""
    return [stream.row(index) for index in range(len(stream))]


def by_position(stream: Stream) -> dict[int, bytes]:
    """Return the raw rows by position."""
    return {int(record["position"]): stream.row(index) for index, record in enumerate(stream.records)}


def computed_again(stream: Stream) -> dict[int, bytes]:
    """Return the raw rows that are flagged as recomputed, by position."""
    rows = by_position(stream)
    flagged = stream.records["flags"] & RECOMPUTED > 0
    return {int(position): rows[int(position)] for position in stream.records["position"][flagged]}
