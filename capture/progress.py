"""How a capture tells what it does: a bar and a line a run for people, JSON lines for programs."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Reporter(Protocol):
    """Receives what a capture has to say."""

    def begin(self, what: str, most: int) -> None:
        """Start a run of at most `most` positions."""
        ...

    def advance(self, steps: int) -> None:
        """Count steps taken in the run that began last."""
        ...

    def end(self, outcome: str) -> None:
        """End the run that began last."""
        ...

    def note(self, text: str) -> None:
        """Tell something in one sentence."""
        ...


class SilentReporter:
    """Says nothing."""

    def begin(self, what: str, most: int) -> None:
        """Start a run."""

    def advance(self, steps: int) -> None:
        """Count steps."""

    def end(self, outcome: str) -> None:
        """End a run."""

    def note(self, text: str) -> None:
        """Tell something."""


class ConsoleReporter:
    """Draws a bar for the run that is going and leaves a line for each that ended; use it in a `with` block."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=self._console, transient=True,
        )  # fmt: skip
        self._task: TaskID | None = None
        self._what = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, what: str, most: int) -> None:
        """Start a run."""
        self._what = what
        self._task = self._progress.add_task(what, total=most)

    def advance(self, steps: int) -> None:
        """Count steps."""
        if self._task is not None:
            self._progress.advance(self._task, steps)

    def end(self, outcome: str) -> None:
        """End a run and leave its line."""
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
        self._console.print(f"  {self._what}: {outcome}", markup=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Tell something."""
        self._console.print(text, markup=False, soft_wrap=True)


class JsonReporter:
    """Writes one JSON object a line to standard output."""

    def begin(self, what: str, most: int) -> None:
        """Start a run."""
        self._say(event="begin", what=what, most=most)

    def advance(self, steps: int) -> None:
        """Count steps."""
        self._say(event="advance", steps=steps)

    def end(self, outcome: str) -> None:
        """End a run."""
        self._say(event="end", outcome=outcome)

    def note(self, text: str) -> None:
        """Tell something."""
        self._say(event="note", text=text)

    def _say(self, **event: str | int) -> None:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()
