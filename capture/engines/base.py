"""The contract between flipscope and an engine (DESIGN section 5). Runs in the worker: standard library and numpy only.

An engine lives in a worker process of its own. It is started once, then runs jobs one after the other; what it
computes goes into sinks, row by row, before the next step is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from capture.model import Case, Ending, Prompt, RecordedTurns, Runtime, ScoringPath, Token


@dataclass(frozen=True, slots=True)
class FreeJob:
    """Generate greedily from the prompt until a stop id or `max_tokens` positions; sink name `main`."""

    prompt_ids: tuple[int, ...]
    stop_ids: tuple[int, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class ForcedJob:
    """Record the row at every position of `path`, imposing its tokens; stops are ignored; sink name `main`.

    With a `stride` above 1 (prefill only) every so many positions are recorded, from 0 on.
    """

    prompt_ids: tuple[int, ...]
    path: tuple[int, ...]
    scoring_path: ScoringPath
    stride: int = 1


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """Leave the path at `position` with `token_id` (None: the runtime's own choice) and go free.

    The branch's positions continue the path's: its rows start at `position` (computed again after the state was
    restored) and go on for at most `max_tokens` positions after it.
    """

    position: int
    token_id: int | None
    max_tokens: int
    sink: str


@dataclass(frozen=True, slots=True)
class BranchJob:
    """Force along `path` by decode and grow every fork from there, each exactly as the runtime would have gone on.

    Rows that are computed again go to the sink `replay` (shared by the forks) or to the fork's own sink, flagged
    `recomputed`; the caller compares them with the recorded ones. A fork's row at its own position is always
    written to its own sink as `recomputed`, then the free rows follow.
    """

    prompt_ids: tuple[int, ...]
    path: tuple[int, ...]
    forks: tuple[ForkRequest, ...]
    stop_ids: tuple[int, ...]


Job = FreeJob | ForcedJob | BranchJob


class RowSink(Protocol):
    """Where an engine puts what it computed; returns only when the bytes are with the operating system."""

    def append(
        self, position: int, token_id: int, row: memoryview, *, forced: bool, emitted: int | None, recomputed: bool
    ) -> None:
        """Append one position.

        Args:
            position: output position, 0-based after the prompt; rises by 1 in a sink.
            token_id: the token taken there (imposed, or the runtime's own).
            row: the raw logits, native dtype, little-endian, contiguous.
            forced: whether `token_id` was imposed.
            emitted: the runtime's own choice; None where the wanted token was imposed.
            recomputed: whether the row repeats one that is already recorded.
        """
        ...


class Sinks(Protocol):
    """Opens the sinks of a job by name and reports how they ended."""

    def open(self, name: str) -> RowSink:
        """Return the sink of that name, `main`, `replay` or a fork's `sink`."""
        ...

    def finish(self, name: str, ending: Ending) -> None:
        """Mark a sink as complete, with the reason for its end."""
        ...

    def folder(self, name: str) -> str:
        """Return the folder of a sink, for an engine that writes (`spool.StreamWriter`) and finishes it elsewhere."""
        ...


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What an engine knows of its model once started.

    Attributes:
        dtype: native dtype of the logits, a key of `model.LOGIT_BYTES`.
        vocabulary_size: columns of a row, padding ids included.
        context_length: the most positions a prompt and its output may take together.
        stop_ids: the ids at which the model's own configuration ends a sequence.
    """

    dtype: str
    vocabulary_size: int
    context_length: int
    stop_ids: tuple[int, ...]


class Engine(Protocol):
    """One small contract for every engine."""

    def start(self, runtime: Runtime) -> ModelFacts:
        """Load the model.

        Raises:
            EngineError: the model, an option or a library is missing or wrong; the message names it.
        """
        ...

    def tokenize(self, case: Case, date: str) -> Prompt:
        """Render the case with the model's own chat template, with `date` (YYYY-MM-DD) as today."""
        ...

    def tokenize_turns(self, case: Case, date: str) -> RecordedTurns:
        """Render a case with the assistant turns that it records; the prompt is what stands before the first.

        Raises:
            EngineError: the template writes an earlier part differently once more follows.
        """
        ...

    def vocabulary(self) -> Sequence[Token]:
        """Return every token that has bytes, by rising id."""
        ...

    def generate(self, job: Job, sinks: Sinks, progress: Callable[[int], None]) -> None:
        """Run one job; `progress` is called with 1 for each step taken."""
        ...

    def manifest(self) -> Mapping[str, Any]:
        """Return what decides the bits and what really ran, as JSON values, without secrets and without times."""
        ...

    def close(self) -> None:
        """Free the model."""
        ...
