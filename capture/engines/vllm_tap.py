"""The tap inside a vLLM worker: which rows belong to which stream, and what is imposed. Imports torch, not vLLM.

The two model runners differ in how a batch is laid out; each describes its batches in the terms of this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from capture.engines.vllm_pipe import Piece, RowPipe
from capture.engines.vllm_streams import EXTRA_ARGUMENT, Failure, Recorder, StreamPlan
from capture.model import Ending


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request that a worker sees for the first time.

    Attributes:
        request_id: vLLM's id of it.
        extra_arguments: of its sampling parameters.
        cached_tokens: tokens that the prefix cache serves.
    """

    request_id: str
    extra_arguments: Mapping[str, Any] | None
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class SampledRow:
    """A row of the sampler's batch that yields a token.

    Attributes:
        request_id: vLLM's id of the request.
        index: row in the logits and in the sampled tokens.
        absolute: position of the token that the row predicts, counted from the first prompt token.
    """

    request_id: str
    index: int
    absolute: int


@dataclass(frozen=True, slots=True)
class PromptStretch:
    """Hidden states of prompt positions that a step computed for one request.

    Attributes:
        request_id: vLLM's id of the request.
        offset: the first of them in the step's hidden states.
        absolute: position of the first, counted from the first prompt token.
        count: how many there are.
    """

    request_id: str
    offset: int
    absolute: int
    count: int


Kept = list[tuple[Recorder, int, int, torch.Tensor | None]]
"""Recorder, position, index in the batch, and the raw row where it is recorded."""


class Tap:
    """Follows the requests of one worker that carry a stream of ours.

    Every worker of the last pipeline stage imposes tokens, and takes part in computing logits; one of them writes.
    """

    def __init__(self, pipe: RowPipe, *, writes: bool) -> None:
        self._pipe = pipe
        self._writes = writes
        self._streams: dict[str, Recorder] = {}
        self._started: dict[str, float] = {}
        self._requests: dict[str, Recorder] = {}

    def open(self, stream_id: str, plan: StreamPlan) -> None:
        """Make a stream known before its request is added."""
        self._streams[stream_id] = Recorder(plan, writes=self._writes)
        self._started[stream_id] = time.monotonic()

    def finish(self, stream_id: str, ending: Ending | None, token_ids: Sequence[int] | None = None) -> Recorder:
        """Write what is under way, close the stream and forget it; see `Recorder.finish`."""
        self._pipe.drain()
        recorder = self._streams.pop(stream_id)
        recorder.finish(ending, time.monotonic() - self._started.pop(stream_id), token_ids)
        self._requests = {name: other for name, other in self._requests.items() if other is not recorder}
        return recorder

    def failures(self) -> dict[str, Failure]:
        """Return why streams gave up, by stream id."""
        return {name: stream.failure for name, stream in self._streams.items() if stream.failure is not None}

    def schedule(self, new: Iterable[NewRequest], interrupted: Iterable[str]) -> None:
        """Take note of a step's new requests, and of those whose computed positions were thrown away."""
        for request_id in interrupted:
            if request_id in self._requests:
                self._requests[request_id].fail("engine", _PREEMPTED)
        for request in new:
            self._bind(request)

    def keep(self, rows: Sequence[SampledRow], logits: torch.Tensor) -> Kept:
        """Return the rows of a batch that concern us, safe from whatever is done to the logits [rows, vocabulary]."""
        kept: Kept = []
        for row in rows:
            recorder = self._requests.get(row.request_id)
            if recorder is None or recorder.plan.scored_every:
                continue
            position = row.absolute - recorder.plan.prompt_length
            kept.append((recorder, position, row.index, logits[row.index].clone() if recorder.wants_rows else None))
        return kept

    def settle(self, kept: Kept, sampled: torch.Tensor) -> None:
        """Record the rows that were kept, with the engine's own choices, and impose tokens.

        Args:
            kept: from `keep`.
            sampled: the engine's choices [rows, 1]; changed where a token is imposed.
        """
        for recorder, position, index, row in kept:
            imposed = recorder.plan.imposed(position)
            if row is not None:
                chosen = sampled[index].clone() if imposed is None else None
                self._pipe.put(Piece(recorder, position, row, chosen))
            if imposed is not None:
                sampled[index].fill_(imposed)

    def score(
        self,
        stretches: Iterable[PromptStretch],
        hidden_states: torch.Tensor,
        compute_logits: Callable[[torch.Tensor], torch.Tensor | None],
    ) -> None:
        """Record the rows of prompt positions, a chunk at a time; every worker has to take part in computing them.

        Args:
            stretches: what the step computed.
            hidden_states: of the step [tokens, hidden size].
            compute_logits: of the model.
        """
        for stretch in stretches:
            recorder = self._requests.get(stretch.request_id)
            if recorder is not None and recorder.plan.scored_every:
                for positions, states in _chunks(recorder.plan, stretch, hidden_states):
                    self._put_all(recorder, positions, compute_logits(states))

    def _put_all(self, recorder: Recorder, positions: Sequence[int], logits: torch.Tensor | None) -> None:
        if logits is None:  # this worker only helped to gather them
            return
        for index, position in enumerate(positions):
            if recorder.wants_rows:
                self._pipe.put(Piece(recorder, position, logits[index], None))

    def _bind(self, request: NewRequest) -> None:
        stream_id = (request.extra_arguments or {}).get(EXTRA_ARGUMENT)
        recorder = self._streams.get(stream_id) if isinstance(stream_id, str) else None
        if recorder is None:
            return
        if request.request_id in self._requests:
            recorder.fail("engine", _PREEMPTED)
        self._requests[request.request_id] = recorder
        wanted = recorder.plan.cached_tokens
        if request.cached_tokens != wanted:
            recorder.fail("cache", f"the prefix cache served {request.cached_tokens} tokens where {wanted} were asked")


_PREEMPTED = (
    "vLLM preempted the request and computed its positions again by prefill; "
    "give the KV cache more room ('kv_cache_gib', 'gpu_memory_utilization') and start again"
)


def _chunks(
    plan: StreamPlan, stretch: PromptStretch, hidden_states: torch.Tensor
) -> Iterable[tuple[Sequence[int], torch.Tensor]]:
    """Yield the wanted positions of a stretch and their hidden states, at most `scoring_chunk` at a time.

    The state at absolute position `a` predicts the token at `a + 1`.
    """
    first = stretch.absolute + 1 - plan.prompt_length
    inside = [position for position in plan.scored_positions() if first <= position < first + stretch.count]
    for start in range(0, len(inside), plan.scoring_chunk):
        positions = inside[start : start + plan.scoring_chunk]
        rows = slice(
            stretch.offset + positions[0] - first, stretch.offset + positions[-1] - first + 1, plan.scored_every
        )
        yield positions, hidden_states[rows]
