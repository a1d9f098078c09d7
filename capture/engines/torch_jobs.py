"""The jobs of the `torch` engine: free, forced and branch runs over a decoder. Imports the decoder and the contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import torch

from capture.engines.base import BranchJob, ForcedJob, ForkRequest, FreeJob, RowSink, Sinks
from capture.engines.torch_decoder import Decoder, Row, read_row
from capture.errors import EngineError
from capture.model import Ending, ScoringPath

Progress = Callable[[int], None]


def run_free(decoder: Decoder, job: FreeJob, sinks: Sinks, progress: Progress) -> None:
    """Generate greedily; the stop token is a recorded position."""
    sink = sinks.open("main")
    ending = Ending.LENGTH
    if job.max_tokens > 0:
        row = read_row(decoder.prefill(job.prompt_ids), 0)
        sink.append(0, row.top1, row.data, forced=False, emitted=row.top1, recomputed=False)
        progress(1)
        ending = _Free(decoder, sink, job.stop_ids, progress).run(0, row.top1, job.max_tokens - 1)
    sinks.finish("main", ending)


def run_forced(decoder: Decoder, job: ForcedJob, sinks: Sinks, progress: Progress) -> None:
    """Record the logits along a path, whatever the model would have chosen.

    Raises:
        EngineError: the job leaves positions out but is to be scored by decode.
    """
    if job.stride != 1 and job.scoring_path is not ScoringPath.PREFILL:
        raise EngineError("only scoring by prefill can leave positions out; set the scoring path to 'prefill'")
    sink = sinks.open("main")
    for position, (token_id, logits) in enumerate(zip(job.path, _along(decoder, job), strict=True)):
        if position % job.stride:
            continue
        row = read_row(logits, position)
        sink.append(position, token_id, row.data, forced=True, emitted=None, recomputed=False)
        progress(1)
    sinks.finish("main", Ending.PATH)


def run_branch(decoder: Decoder, job: BranchJob, sinks: Sinks, progress: Progress) -> None:
    """Replay the path and grow each fork where the replay reaches it.

    The replay holds the positions before the last fork; a fork's own position is computed from a copy of the state
    and is in the fork's sink.
    """
    replay = sinks.open("replay")
    decoder.reset()
    reached = 0
    for fork in sorted(job.forks, key=lambda request: request.position):
        for position in range(reached, fork.position):
            row = _row_at(decoder, job, position)
            replay.append(position, job.path[position], row.data, forced=True, emitted=None, recomputed=True)
            progress(1)
        reached = fork.position
        state = decoder.state()
        decoder.resume(state.copy())
        _grow(decoder, job, fork, sinks, progress)
        decoder.resume(state)
    sinks.finish("replay", Ending.PATH)


def _grow(decoder: Decoder, job: BranchJob, fork: ForkRequest, sinks: Sinks, progress: Progress) -> None:
    sink = sinks.open(fork.sink)
    row = _row_at(decoder, job, fork.position)
    imposed = fork.token_id is not None
    token_id = row.top1 if fork.token_id is None else fork.token_id
    emitted = None if imposed else token_id
    sink.append(fork.position, token_id, row.data, forced=imposed, emitted=emitted, recomputed=True)
    progress(1)
    ending = _Free(decoder, sink, job.stop_ids, progress).run(fork.position, token_id, fork.max_tokens)
    sinks.finish(fork.sink, ending)


@dataclass(frozen=True, slots=True)
class _Free:
    """Greedy generation into a sink, from where the decoder stands."""

    decoder: Decoder
    sink: RowSink
    stop_ids: Collection[int]
    progress: Progress

    def run(self, position: int, token_id: int, count: int) -> Ending:
        """Go on after `token_id` at `position` for at most `count` positions."""
        for later in range(position + 1, position + 1 + count):
            if token_id in self.stop_ids:
                break
            row = read_row(self.decoder.step(token_id), later)
            token_id = row.top1
            self.sink.append(later, token_id, row.data, forced=False, emitted=token_id, recomputed=False)
            self.progress(1)
        return Ending.END_OF_SEQUENCE if token_id in self.stop_ids else Ending.LENGTH


def _along(decoder: Decoder, job: ForcedJob) -> Iterator[torch.Tensor]:
    """Yield the logits [vocabulary] at every position of the path."""
    if not job.path:
        return
    yield decoder.prefill(job.prompt_ids)
    if job.scoring_path is ScoringPath.PREFILL:
        yield from decoder.score(job.path[:-1])
    else:
        yield from (decoder.step(token_id) for token_id in job.path[:-1])


def _row_at(decoder: Decoder, job: BranchJob, position: int) -> Row:
    """Compute the row of a position, where the decoder's state is the one before it."""
    logits = decoder.prefill(job.prompt_ids) if position == 0 else decoder.step(job.path[position - 1])
    return read_row(logits, position)
