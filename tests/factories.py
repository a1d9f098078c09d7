"""Small runs and bundles for tests, from logits given as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capture.bundle import RecordedRun, write_bundle
from capture.bundle_facts import BundleFacts
from capture.identity import run_id
from capture.model import Case, Ending, Keep, Mode, Origin, Prompt, Run, Runtime, Steps, Token
from capture.prefix import chain, prefix_of
from capture.rows import describe_rows, row_hash

PROMPT = (7, 8, 9)


def make_steps(
    logits: NDArray[np.float32],
    tokens: Sequence[int] | None = None,
    *,
    emitted: Sequence[int] | None = None,
    forced: bool = False,
    before: Sequence[int] = PROMPT,
    first: int = 0,
    top_k: int = 5,
) -> Steps:
    """Return the steps of float32 logits [n, V]; tokens default to the top-1."""
    found = describe_rows(logits, top_k)
    taken = np.array(found.top1 if tokens is None else tokens, np.int32)
    chosen = np.full(len(logits), -1) if forced else (found.top1 if emitted is None else np.array(emitted))
    return Steps(
        position=np.arange(first, first + len(logits), dtype=np.int32),
        prefix_id=tuple(chain(taken.tolist(), prefix_of(before)))[: len(taken)],
        token_id=taken,
        forced=np.full(len(logits), forced),
        top1=found.top1,
        emitted=chosen.astype(np.int32),
        tie_count=found.tie_count,
        log_sum_exp=found.log_sum_exp,
        entropy=found.entropy,
        margin_nats=found.margin_nats,
        top_ids=found.top_ids,
        top_logits=found.top_logits,
        row_hash=tuple(row_hash(row.tobytes()) for row in logits),
    )


def make_run(
    logits: NDArray[np.float32], steps: Steps, origin: Origin | None = None, kept: Sequence[int] | None = None
) -> RecordedRun:
    """Return a recorded float32 run that keeps all rows, or those at the indices `kept`."""
    origin = origin or Origin(Mode.FREE)
    run = Run(
        run_id=run_id(steps, {"engine": "hand-made"}, origin),
        **{name: getattr(origin, name) for name in Origin.__slots__},
        ending=Ending.LENGTH,
        complete=True,
        logits_kept=Keep.ALL if kept is None else Keep.RANGES,
        dtype="float32",
        vocabulary_size=logits.shape[1],
        positions=len(steps),
        seconds=1.0,
    )
    indices = range(len(steps)) if kept is None else kept
    return RecordedRun(run, steps, {"engine": "hand-made"}, indices, lambda index: logits[index].tobytes())


def make_facts(runtime: str = "plain", *, is_reference: bool = True, case_id: str = "case") -> BundleFacts:
    """Return what a hand-made bundle says of itself."""
    return BundleFacts(
        study="study",
        study_title="A study",
        case=Case(case_id, ({"role": "user", "content": "hello"},)),
        runtime=Runtime(runtime, "torch", "tiny"),
        is_reference=is_reference,
        created="2026-01-01T00:00:00+00:00",
        version="0",
        vocabulary_hash="",
        id_spans=(),
    )


def make_bundle(path: Path, runs: Sequence[RecordedRun], facts: BundleFacts | None = None) -> Path:
    """Write a bundle of hand-made runs whose tokens are `t0`, `t1`, ..."""
    tokens = [Token(token_id, f"t{token_id}".encode()) for token_id in range(16)]
    write_bundle(path, facts or make_facts(), Prompt("hello", PROMPT), runs, tokens)
    return path
