"""The continuations that a server grows: one at a time, in the background, each told step by step. No HTTP here."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from app.words import sentence
from capture.errors import CancelledError, FlipscopeError, NotFoundError, UsageError
from capture.growing import Grown, WantedFork
from capture.progress import Reporter
from capture.study import Study
from capture.switch import KillSwitch

MOST_WAITING = 4
"""Continuations that may wait for the one that grows."""

MOST_ENDED = 50
"""Jobs that are remembered after their end."""

_ENDS_WITHIN_SECONDS = 30.0

_LOG = logging.getLogger("flipscope")


class State(StrEnum):
    """How far a job is."""

    QUEUED = "queued"
    STARTING = "starting"
    GROWING = "growing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDS = frozenset({State.DONE, State.FAILED, State.CANCELLED})


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is at one moment.

    Attributes:
        job_id: names it.
        wanted: what it grows.
        runtime: name of the runtime.
        href: the page where the continuation appears.
        state: how far it is.
        steps: positions computed so far.
        most: positions at most, 0 while that is unknown.
        sentence: why it failed, or what to know of the result.
    """

    job_id: str
    wanted: WantedFork
    runtime: str
    href: str
    state: State = State.QUEUED
    steps: int = 0
    most: int = 0
    sentence: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.state in ENDS


class Grow(Protocol):
    """Grows one continuation, as `capture.growing.grow_fork` does."""

    def __call__(
        self, study: Study, wanted: WantedFork, library: Path, reporter: Reporter, switch: KillSwitch
    ) -> Grown:
        """Return the continuation; raises FlipscopeError where it cannot be grown."""
        ...


@dataclass(slots=True)
class _Task:
    """A job with what runs it."""

    job: Job
    study: Study
    switch: KillSwitch = field(default_factory=KillSwitch)


class Jobs:
    """The jobs of one server; used by many threads."""

    def __init__(self, grow: Grow, library: Path, appeared: Callable[[], None]) -> None:
        """Start nothing yet.

        Args:
            grow: grows one continuation.
            library: where.
            appeared: is called when one is there, before its job is done.
        """
        self._grow = grow
        self._library = library
        self._appeared = appeared
        self._lock = threading.Lock()
        self._tasks: dict[str, _Task] = {}
        self._waiting: deque[_Task] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, study: Study, wanted: WantedFork, runtime: str, href: str) -> Job:
        """Return the job that grows this; one that is under way already is that one.

        Raises:
            UsageError: too many wait, or the server is about to stop.
        """
        with self._lock:
            for task in self._tasks.values():
                if task.job.wanted == wanted and not task.job.ended:
                    return task.job
            if self._closed:
                raise UsageError("the server is stopping; start it again to grow this")
            if len(self._waiting) >= MOST_WAITING:
                raise UsageError(f"{MOST_WAITING} continuations wait already; cancel one or wait for it")
            task = _Task(Job(secrets.token_hex(8), wanted, runtime, href), study)
            self._tasks[task.job.job_id] = task
            self._waiting.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="growing", daemon=True)
                self._thread.start()
            return task.job

    def get(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            NotFoundError: there is none of that id, or it ended long ago.
        """
        with self._lock:
            return self._task(job_id).job

    def all(self) -> tuple[Job, ...]:
        """Return every job that is remembered, the newest last."""
        with self._lock:
            return tuple(task.job for task in self._tasks.values())

    def cancel(self, job_id: str) -> Job:
        """Stop a job, whatever it is doing, and return it; one that has ended stays as it is.

        Raises:
            NotFoundError: as `get`.
        """
        with self._lock:
            task = self._task(job_id)
            if task in self._waiting:
                self._waiting.remove(task)
                task.job = replace(task.job, state=State.CANCELLED)
            task.switch.pull()
            return task.job

    def close(self, *, wait: bool = True) -> None:
        """Stop every job and take no more; `wait` until the last is gone."""
        with self._lock:
            self._closed = True
            tasks, thread = list(self._tasks.values()), self._thread
        for task in tasks:
            self.cancel(task.job.job_id)
        if wait and thread is not None:
            thread.join(_ENDS_WITHIN_SECONDS)

    def _task(self, job_id: str) -> _Task:
        if job_id not in self._tasks:
            raise NotFoundError("there is no such job; what has grown is in the library")
        return self._tasks[job_id]

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                task = self._waiting.popleft()
                task.job = replace(task.job, state=State.STARTING)
            self._end(task, *self._outcome(task))

    def _outcome(self, task: _Task) -> tuple[State, str]:
        try:
            reporter = _Telling(self._lock, task)
            grown = self._grow(task.study, task.job.wanted, self._library, reporter, task.switch)
            self._appeared()
        except CancelledError:
            return State.CANCELLED, ""
        except FlipscopeError as error:
            return State.FAILED, sentence(str(error))
        except Exception as error:  # noqa: BLE001 - the next job must go on whatever became of this one
            _LOG.error("unexpected error while growing", exc_info=error)
            return State.FAILED, "Something went wrong inside flipscope; the server's log says what."
        return State.DONE, " ".join(grown.notices)

    def _end(self, task: _Task, state: State, told: str) -> None:
        with self._lock:
            task.job = replace(task.job, state=state, sentence=told)
            ended = [job_id for job_id, known in self._tasks.items() if known.job.ended]
            for job_id in ended[: max(len(ended) - MOST_ENDED, 0)]:
                del self._tasks[job_id]


class _Telling:
    """Writes what a capture reports into its job; implements `capture.progress.Reporter`."""

    def __init__(self, lock: threading.Lock, task: _Task) -> None:
        self._lock = lock
        self._task = task

    def begin(self, what: str, most: int) -> None:  # noqa: ARG002 - part of the contract
        """Start the run."""
        with self._lock:
            self._task.job = replace(self._task.job, state=State.GROWING, steps=0, most=most)

    def advance(self, steps: int) -> None:
        """Count steps; an engine may compute more than were planned."""
        with self._lock:
            job = self._task.job
            self._task.job = replace(job, steps=min(job.steps + steps, job.most))

    def end(self, outcome: str) -> None:
        """End the run; that it is sealed is told by the job's state."""

    def note(self, text: str) -> None:
        """Say nothing: the states tell it."""
