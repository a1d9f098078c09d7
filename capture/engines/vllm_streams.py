"""What one vLLM request records, and the stream it records into. Imports the spool only, neither torch nor vLLM."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from capture.errors import FlipscopeError, StorageFullError
from capture.model import Ending
from capture.spool import StreamWriter

EXTRA_ARGUMENT = "flipscope"
"""Key in a request's `extra_args` that holds the id of its stream; vLLM's own request ids get random endings."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What a request imposes and records. Positions count from the first token after the prompt of the case.

    Attributes:
        folder: where the stream is written; None imposes without recording.
        prompt_length: tokens of the case's prompt, the absolute position of position 0.
        first: the first position that the request computes by decode.
        path: tokens by position; imposed as far as they go.
        repeated: positions below this one are recorded already, and are flagged as recomputed.
        stop_ids: tokens that end the stream, from position `stop_from` on.
        cached_tokens: how many tokens the prefix cache has to serve, neither more nor less.
        scored_every: record every so many positions of the path from the prompt's hidden states, and none by decode;
            0 records by decode.
        scoring_chunk: rows computed at once when scoring.
    """

    folder: str | None
    prompt_length: int
    first: int = 0
    path: tuple[int, ...] = ()
    repeated: int = 0
    stop_ids: tuple[int, ...] = ()
    stop_from: int = 0
    cached_tokens: int = 0
    scored_every: int = 0
    scoring_chunk: int = 64

    def imposed(self, position: int) -> int | None:
        """Return the token that is imposed at a position, or None where the runtime chooses."""
        return self.path[position] if 0 <= position < len(self.path) else None

    def ends_with(self, position: int, token_id: int) -> bool:
        """Return whether the stream ends with this token."""
        return position >= self.stop_from and token_id in self.stop_ids

    def scored_positions(self) -> range:
        """Return the positions that are scored from hidden states."""
        return range(0, len(self.path), self.scored_every) if self.scored_every else range(0)


def plan_to_json(plan: StreamPlan) -> dict[str, Any]:
    """Return the plan as plain values; `plan_from_json` gives it back."""
    return asdict(plan)


def plan_from_json(value: Mapping[str, Any]) -> StreamPlan:
    """Return the plan that `plan_to_json` wrote."""
    return StreamPlan(**{**value, "path": tuple(value["path"]), "stop_ids": tuple(value["stop_ids"])})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a stream cannot go on.

    Attributes:
        kind: `storage`, `cache` (the prefix cache did not serve what was asked) or `engine`.
        message: one sentence for the user.
    """

    kind: str
    message: str


class Recorder:
    """Writes the rows of one request in the order of their positions, once each.

    After a failure it keeps still: nothing further is written, and the engine is told when it asks.
    """

    def __init__(self, plan: StreamPlan, *, writes: bool) -> None:
        self.plan = plan
        self.failure: Failure | None = None
        self.token_ids: list[int] = []
        self.row_shape: tuple[str, int] | None = None
        self._writes = writes and plan.folder is not None
        self._writer: StreamWriter | None = None
        self._expected = 0 if plan.scored_every else plan.first
        self._ended = False

    @property
    def wants_rows(self) -> bool:
        """Whether rows of this request are written in this process and still awaited."""
        return self._writes and self.failure is None and not self._ended

    def append(self, position: int, row: memoryview, shape: tuple[str, int], chosen: int | None) -> None:
        """Write one row.

        Args:
            position: of the row, counted from the case's prompt.
            row: raw logits.
            shape: their dtype and number.
            chosen: the token that the engine took there; None where the plan imposes one.
        """
        if not self.wants_rows:
            return
        if position != self._expected:
            self.fail("engine", f"vLLM computed position {position} where {self._expected} was next; run it again")
            return
        imposed = self.plan.imposed(position)
        token_id = chosen if imposed is None else imposed
        if token_id is None:
            self.fail("engine", f"vLLM gave no token at position {position}; run it again")
            return
        self._write(position, token_id, row, shape, forced=imposed is not None)
        self._expected += self.plan.scored_every or 1
        self._ended = self.plan.ends_with(position, token_id)

    def fail(self, kind: str, message: str) -> None:
        """Give up; the first reason stays."""
        self.failure = self.failure or Failure(kind, message)

    def finish(self, ending: Ending | None, seconds: float, token_ids: Sequence[int] | None = None) -> None:
        """Close the stream, as ended where an ending is given and nothing failed.

        Args:
            ending: why it ended; None where it did not.
            seconds: how long it took.
            token_ids: what the engine says that it generated, to be held against what was recorded; None skips that.
        """
        if not self._writes:
            return
        if token_ids is not None and list(token_ids) != self.token_ids:
            self.fail("engine", _disagreement(token_ids, self.token_ids))
        try:
            if ending is not None and self.failure is None:
                self._open(row_bytes=1).finish(ending, seconds)  # opened by now, but for a stream without rows
            elif self._writer is not None:
                self._writer.close()
        except (FlipscopeError, OSError) as error:
            self.fail(_kind(error), str(error))
        self._writer = None

    def _write(self, position: int, token_id: int, row: memoryview, shape: tuple[str, int], *, forced: bool) -> None:
        emitted = None if forced else token_id
        repeated = position < self.plan.repeated
        try:
            writer = self._open(row.nbytes)
            writer.append(position, token_id, row, forced=forced, emitted=emitted, recomputed=repeated)
        except (FlipscopeError, OSError) as error:
            self.fail(_kind(error), str(error))
            return
        self.row_shape = shape
        self.token_ids.append(token_id)

    def _open(self, row_bytes: int) -> StreamWriter:
        if self._writer is None:
            assert self.plan.folder is not None
            self._writer = StreamWriter(Path(self.plan.folder), row_bytes)
        return self._writer


def _disagreement(told: Sequence[int], recorded: Sequence[int]) -> str:
    pairs = enumerate(zip(told, recorded, strict=False))
    first = next((index for index, (own, other) in pairs if own != other), min(len(told), len(recorded)))
    return (
        f"vLLM reports {len(told)} tokens and {len(recorded)} were recorded, different from number {first} on; "
        "do not trust this version of vLLM, and report it"
    )


def _kind(error: Exception) -> str:
    full = isinstance(error, StorageFullError) or (isinstance(error, OSError) and error.errno == errno.ENOSPC)
    return "storage" if full else "engine"
