"""The values of the domain (DESIGN section 1). Frozen, checked at birth. Imports errors only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

import numpy as np
from numpy.typing import NDArray

from capture.errors import UsageError

Position = NewType("Position", int)
"""0-based index of an output token after the prompt."""

TokenId = NewType("TokenId", int)

RunId = NewType("RunId", str)
"""32 hexadecimal digits, derived from what the run holds."""

PrefixId = NewType("PrefixId", bytes)
"""16 bytes; names every token before a position, prompt included."""

Json = Mapping[str, Any]

UInt8Array = NDArray[np.uint8]
Int32Array = NDArray[np.int32]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]


class Mode(StrEnum):
    """How a run's tokens were chosen."""

    FREE = "free"
    FORCED = "forced"
    BRANCH = "branch"


class ScoringPath(StrEnum):
    """Which kernels computed the logits; runs of different paths are not compared silently."""

    DECODE = "decode"
    PREFILL = "prefill"


class FlipClass(StrEnum):
    """How clear a flip is (DESIGN section 3), weakest first."""

    TIE = "tie"
    NEAR_TIE = "near-tie"
    DECIDED = "decided"


class Keep(StrEnum):
    """Which logits of a run are kept in the bundle."""

    ALL = "all"
    RANGES = "ranges"
    TOP_K = "top-k"


class Ending(StrEnum):
    """Why a run has no further position."""

    END_OF_SEQUENCE = "end of sequence"
    LENGTH = "length"
    PATH = "end of path"
    INTERRUPTED = "interrupted"


class Exactness(StrEnum):
    """What the certificate of a fork says."""

    EXACT = "exact"
    UNVERIFIED = "unverified"
    APPROXIMATE = "approximate"


class RangeKind(StrEnum):
    """The kind of a stretch of output."""

    PROSE = "prose"
    TOOL_CALL = "tool call"
    CODE = "code"
    JSON = "json"
    THINKING = "thinking"


LOGIT_BYTES: Mapping[str, int] = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Size of one logit in each dtype that a row may be stored in."""


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt to run.

    Attributes:
        case_id: letters, digits, `.`, `_`, `-`.
        messages: OpenAI chat messages, oldest first.
        tools: OpenAI tool definitions, for the template and for checking calls.
        expected_calls: the labelled calls, each `{"name": ..., "arguments": {...}}`; None when not labelled.
        thinking: whether the template is asked for a thinking part.
        ranges: ranges of the output that the user gives, see `docs/study.md`; they win over those that are found.
    """

    case_id: str
    messages: tuple[Json, ...]
    tools: tuple[Json, ...] = ()
    expected_calls: tuple[Json, ...] | None = None
    thinking: bool = False
    ranges: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """A case as a tokenizer rendered it.

    Attributes:
        text: the prompt.
        token_ids: of the prompt.
        turns: output positions of the assistant turns that a case records, as (first, stop), in order; only they are
            scored where runs are forced along them. Empty where nothing recorded is followed.
    """

    text: str
    token_ids: tuple[int, ...]
    turns: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if not self.token_ids:
            raise UsageError("the chat template rendered an empty prompt; give the case at least one message")


@dataclass(frozen=True, slots=True)
class RecordedTurns:
    """A case that is followed as it was recorded: the prompt with its turns, and every token after the prompt."""

    prompt: Prompt
    path: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """A vocabulary entry: its id, its exact bytes, and whether it is a special token."""

    token_id: int
    data: bytes
    special: bool = False


@dataclass(frozen=True, slots=True)
class Runtime:
    """One way to run a model: engine, model, options, environment.

    `command` starts the worker's Python (an interpreter, or a container command that ends in one);
    empty means the interpreter flipscope itself runs under.
    """

    name: str
    engine: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a branch leaves another run: after `prefix_id`, at `position`, with `token_id`."""

    parent_run: RunId
    position: int
    prefix_id: bytes
    token_id: int


@dataclass(frozen=True, slots=True)
class Certificate:
    """Whether rows computed again after restoring a fork's state equal the recorded ones, bit for bit.

    Attributes:
        rows_compared: how many rows were computed again, up to and including the fork's position.
        forced_steps: how many steps the engine had to be forced through to get to the fork.
        first_difference: the first position whose row differs, for `approximate`.
        largest_difference: the largest absolute difference of a logit over the rows compared.
    """

    exactness: Exactness
    rows_compared: int
    forced_steps: int
    first_difference: int | None = None
    largest_difference: float | None = None

    def __post_init__(self) -> None:
        if (self.rows_compared == 0) != (self.exactness is Exactness.UNVERIFIED):
            raise ValueError("a certificate is unverified exactly when no row was compared")


@dataclass(frozen=True, slots=True)
class Origin:
    """How a run came about: what tells it from the other runs of its bundle; fields as in `Run`."""

    mode: Mode
    scoring_path: ScoringPath = ScoringPath.DECODE
    replica: int = 0
    forced_along: RunId | None = None
    fork: Fork | None = None
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One runtime on one case, recorded.

    Attributes:
        replica: 0 for the run itself, 1.. for its repeats.
        forced_along: the run whose tokens were imposed, for mode `forced`.
        fork: where a branch leaves its parent; None otherwise.
        logits_kept: which raw rows the bundle holds.
        dtype: the native dtype of the rows, a key of `LOGIT_BYTES`.
        vocabulary_size: columns of a row.
        positions: number of recorded positions.
        complete: False when the worker died before the run ended.
        seconds: wall time of the run, outside of its identity.
        probe_stride: 0 where an output was run; where a prompt was probed, every how many-th of its positions was
            recorded. Those positions are negative: the last token of the prompt has -1.
    """

    run_id: RunId
    mode: Mode
    scoring_path: ScoringPath
    replica: int
    forced_along: RunId | None
    fork: Fork | None
    certificate: Certificate | None
    ending: Ending
    complete: bool
    logits_kept: Keep
    dtype: str
    vocabulary_size: int
    positions: int
    seconds: float
    probe_stride: int = 0

    @property
    def follows_text(self) -> bool:
        """Whether it was forced along a text that no recorded run produced, as imported scores are."""
        return self.mode is Mode.FORCED and self.forced_along is None


@dataclass(frozen=True, slots=True)
class Steps:
    """The step records of one run as columns; n positions, k reported tokens.

    Attributes:
        position: int32 [n], rising by 1.
        prefix_id: n values of 16 bytes.
        token_id: int32 [n], the token that was taken (the stream).
        forced: bool [n], True where the token was imposed.
        top1: int32 [n], the lowest id among the exact maxima.
        emitted: int32 [n], the runtime's own choice; -1 where unknown.
        tie_count: int32 [n], logits equal to the maximum, at least 1.
        log_sum_exp: float64 [n], nats.
        entropy: float64 [n], nats.
        margin_nats: float64 [n], log-probability of top-1 minus the runner-up's; 0 at a tie.
        top_ids: int32 [n, k], highest logit first, ties by id.
        top_logits: float32 [n, k], exact upcasts of the raw logits.
        row_hash: n values of 16 bytes, BLAKE2b-128 of the raw row.
    """

    position: Int32Array
    prefix_id: tuple[bytes, ...]
    token_id: Int32Array
    forced: NDArray[np.bool_]
    top1: Int32Array
    emitted: Int32Array
    tie_count: Int32Array
    log_sum_exp: Float64Array
    entropy: Float64Array
    margin_nats: Float64Array
    top_ids: Int32Array
    top_logits: Float32Array
    row_hash: tuple[bytes, ...]

    def __post_init__(self) -> None:
        n = len(self.position)
        if any(len(getattr(self, name)) != n for name in self.__slots__):
            raise ValueError("step columns differ in length")

    def __len__(self) -> int:
        return len(self.position)

    @property
    def choice(self) -> Int32Array:
        """The runtime's own choice: emitted where known, else top-1. int32 [n]."""
        return np.where(self.emitted >= 0, self.emitted, self.top1).astype(np.int32)
