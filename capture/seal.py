"""From a spooled stream to a recorded run: prefix ids, statistics, hashes, and which rows to keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from capture.bundle import RecordedRun
from capture.engines.base import ModelFacts
from capture.identity import run_id
from capture.model import Json, Keep, Mode, Origin, RangeKind, Run, ScoringPath, Steps, Token
from capture.prefix import chain, prefix_of
from capture.range_hints import NO_HINTS, RangeHints
from capture.rows import RowStatistics, describe_rows, row_hash, widen
from capture.spool import FORCED, Stream
from capture.study import KeepRule

_BLOCK = 32


def record_run(
    stream: Stream,
    facts: ModelFacts,
    manifest: Json,
    keep: KeepRule,
    vocabulary: Mapping[int, Token],
    before: Sequence[int],
    origin: Origin,
    hints: RangeHints = NO_HINTS,
) -> RecordedRun:
    """Return the run that a stream holds.

    Args:
        stream: the spooled positions.
        facts: dtype and vocabulary size of its rows.
        manifest: what decided its bits.
        keep: which rows go into the bundle.
        vocabulary: tokens by id, to find ranges.
        before: every token before the stream's first position, prompt included.
        origin: how the run came about.
        hints: what the case and its prompt tell of ranges.
    """
    steps = stream_steps(stream, facts, keep.top_k, before)
    kept = keep.kept(origin)
    run = _run(stream, steps, facts, manifest, origin, kept)
    return RecordedRun(run, steps, manifest, kept_rows(steps, kept, keep.ranges, vocabulary, before, hints), stream.row)


def record_probe(
    stream: Stream, facts: ModelFacts, manifest: Json, keep: KeepRule, prompt_ids: Sequence[int], stride: int
) -> RecordedRun:
    """Return the run that a probe of a prompt left: its positions are those of the prompt, so they are negative.

    Args:
        stream: the spooled positions; 0 is the one after the first token of the prompt.
        facts: dtype and vocabulary size of its rows.
        manifest: what decided its bits.
        keep: which rows go into the bundle.
        prompt_ids: the whole prompt.
        stride: every how many-th position was recorded.
    """
    prefixes = list(chain(prompt_ids))
    places = stream.records["position"].astype(np.int64) + 1
    steps = replace(
        stream_steps(stream, facts, keep.top_k, ()),
        position=(places - len(prompt_ids)).astype(np.int32),
        prefix_id=tuple(prefixes[place] for place in places.tolist()),
    )
    origin = Origin(Mode.FORCED, ScoringPath.PREFILL)
    kept = Keep.ALL if keep.kept(origin) is Keep.ALL else Keep.TOP_K  # a prompt has no ranges
    rows = tuple(range(len(steps))) if kept is Keep.ALL else ()
    run = replace(_run(stream, steps, facts, manifest, origin, kept), probe_stride=stride)
    return RecordedRun(run, steps, manifest, rows, stream.row)


def _run(stream: Stream, steps: Steps, facts: ModelFacts, manifest: Json, origin: Origin, kept: Keep) -> Run:
    return Run(
        run_id=run_id(steps, manifest, origin),
        **{name: getattr(origin, name) for name in Origin.__slots__},
        ending=stream.ending,
        complete=stream.complete,
        logits_kept=kept,
        dtype=facts.dtype,
        vocabulary_size=facts.vocabulary_size,
        positions=len(steps),
        seconds=stream.seconds,
    )


def stream_steps(stream: Stream, facts: ModelFacts, top_k: int, before: Sequence[int]) -> Steps:
    """Return the step records of a stream; `before` holds every token before its first position."""
    statistics = _statistics(stream, facts.dtype, top_k)
    prefixes = tuple(chain(stream.token_ids, prefix_of(before)))[: len(stream)]
    records = stream.records
    return Steps(
        position=records["position"].astype(np.int32),
        prefix_id=prefixes,
        token_id=records["token_id"].astype(np.int32),
        forced=(records["flags"] & FORCED) > 0,
        top1=statistics.top1,
        emitted=records["emitted"].astype(np.int32),
        tie_count=statistics.tie_count,
        log_sum_exp=statistics.log_sum_exp,
        entropy=statistics.entropy,
        margin_nats=statistics.margin_nats,
        top_ids=statistics.top_ids,
        top_logits=statistics.top_logits,
        row_hash=tuple(row_hash(stream.row(index)) for index in range(len(stream))),
    )


def kept_rows(
    steps: Steps,
    keep: Keep,
    kinds: Sequence[RangeKind],
    vocabulary: Mapping[int, Token],
    before: Sequence[int],
    hints: RangeHints = NO_HINTS,
) -> tuple[int, ...]:
    """Return the indices of steps whose raw rows are kept.

    Ranges are found in the whole output: a branch may start inside of one. Its tokens before the steps are the last of
    `before`, which holds every token up to there.
    """
    if keep is Keep.TOP_K:
        return ()
    if keep is Keep.ALL:
        return tuple(range(len(steps)))
    first = int(steps.position[0]) if len(steps) else 0
    output = [*before[len(before) - first :], *steps.token_id.tolist()]
    texts = [vocabulary[token].data if token in vocabulary else b"" for token in output]
    wanted = [found for found in hints.find(texts) if found.kind in kinds]
    return tuple(index - first for found in wanted for index in range(max(found.start, first), found.stop))


def mentioned_tokens(
    runs: Sequence[RecordedRun], prompt_ids: Sequence[int], vocabulary: Mapping[int, Token]
) -> tuple[Token, ...]:
    """Return every token that the runs or the prompt mention, by rising id, without padding ids."""
    ids = set(prompt_ids)
    for recorded in runs:
        steps = recorded.steps
        for column in (steps.token_id, steps.top1, steps.top_ids, steps.emitted):
            ids.update(np.unique(column).tolist())
    return tuple(vocabulary[token_id] for token_id in sorted(ids) if token_id in vocabulary)


def _statistics(stream: Stream, dtype: str, top_k: int) -> RowStatistics:
    parts = [
        describe_rows(
            widen([stream.row(index) for index in range(start, min(start + _BLOCK, len(stream)))], dtype),
            top_k,
            int(stream.records["position"][start]),
        )
        for start in range(0, len(stream), _BLOCK)
    ]
    if not parts:
        return describe_rows(np.zeros((0, 2), np.float32), top_k)
    return RowStatistics(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in parts[0].__slots__}
    )
