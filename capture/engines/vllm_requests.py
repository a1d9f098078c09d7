"""What the jobs ask of a running vLLM and what they get back. Imports the streams only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from capture.engines.vllm_streams import Failure, StreamPlan
from capture.model import Ending

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the engine and what to record of it.

    Attributes:
        token_ids: what is submitted as its prompt.
        max_tokens: tokens to generate at most.
        plan: what is imposed and recorded.
        salt: keeps the blocks that it fills and reads apart from those of other salts.
        exhausted: why it ends after `max_tokens`.
        reads_cache: whether blocks filled earlier may serve.
        sampling: further sampling parameters, for the self-test.
    """

    token_ids: tuple[int, ...]
    max_tokens: int
    plan: StreamPlan
    salt: str
    exhausted: Ending
    reads_cache: bool = False
    sampling: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended.

    Attributes:
        token_ids: what was generated, imposed tokens included.
        ending: why it ended.
        rows: how many were recorded.
        shape: dtype and number of the logits of a row; None where none was recorded.
        failure: why recording gave up; None where it did not.
        outputs: what vLLM said of the request, step by step; only where `sampling` asked for more than tokens.
    """

    token_ids: tuple[int, ...]
    ending: Ending
    rows: int
    shape: tuple[str, int] | None
    failure: Failure | None
    outputs: tuple[Any, ...]


class Driver(Protocol):
    """Runs requests on one engine."""

    def run(self, requests: Sequence[Request], progress: Progress) -> list[Outcome]:
        """Run requests together, in one batch where there is more than one; `progress` counts their tokens.

        Raises:
            StorageFullError: the disk is full.
            EngineError: recording gave up for any reason but a cache that did not serve; that is in the outcome.
        """
        ...
