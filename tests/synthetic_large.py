"""A library with runs of many positions, made without computing logits: for measuring pages.

`python -m tests.synthetic_large FOLDER [LANES] [POSITIONS] [FLIPS]` writes one. The numbers are valid and mean nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capture.bundle import RecordedRun, write_bundle
from capture.compare import Comparison
from capture.comparison import SUFFIX, write_comparisons
from capture.flips import find_flips, shared_rows
from capture.identity import run_id
from capture.metrics import PairMetrics
from capture.model import Ending, Keep, Mode, Origin, Prompt, Run, Steps
from capture.prefix import output_prefixes
from tests.synthetic import RUNTIMES, _facts
from tests.synthetic_text import PROMPT, VOCABULARY, encode, filler

TOP_K = 10


def make_large_library(folder: Path, lanes: int = 5, positions: int = 100_000, flips: int = 1000) -> Path:
    """Write one case with a long free run and `lanes - 1` runs forced along it, each with a share of the flips."""
    generator = np.random.default_rng(7)
    words = np.array(filler(60), np.int32)
    path = words[generator.integers(0, len(words), positions)]
    prompt = Prompt(PROMPT, encode(PROMPT))
    prefixes = output_prefixes(prompt.token_ids, path.tolist())
    reference: RecordedRun | None = None
    for lane in range(lanes):
        name = RUNTIMES[lane][0]
        wanted = path.copy()
        if reference is not None:
            where = generator.choice(positions, max(flips // max(lanes - 1, 1), 1), replace=False)
            wanted[where] = words[generator.integers(0, len(words), len(where))]
        along = reference.run if reference else None
        origin = Origin(Mode.FORCED, forced_along=along.run_id) if along else Origin(Mode.FREE)
        whole = _recorded(generator, lane, path, wanted, prefixes, origin)
        runs = [whole] if along is None else [_free(whole, wanted, path, prompt), whole]
        bundle = folder / "large" / f"long--{name}.duckdb"
        write_bundle(bundle, _facts("large", "long", lane), prompt, runs, VOCABULARY)
        if reference is not None:
            found = [_compared(generator, reference, run) for run in runs]
            write_comparisons(bundle.with_name(f"long--{name}.vs.{RUNTIMES[0][0]}{SUFFIX}"), found)
        reference = reference or whole
    return folder


def _recorded(
    generator: np.random.Generator,
    lane: int,
    path: NDArray[np.int32],
    wanted: NDArray[np.int32],
    prefixes: Sequence[bytes],
    origin: Origin,
) -> RecordedRun:
    count = len(path)
    forced = origin.mode is Mode.FORCED
    logits = -np.sort(-generator.normal(6.0, 2.0, (count, TOP_K)), axis=1).astype(np.float32)
    logits[:, 0] += np.float32(0.125)
    ids = (wanted[:, None] + 7 * np.arange(TOP_K)) % len(VOCABULARY)
    hashes = generator.bytes(16 * count)
    steps = Steps(
        position=np.arange(count, dtype=np.int32),
        prefix_id=tuple(prefixes),
        token_id=path,
        forced=np.full(count, forced),
        top1=wanted,
        emitted=np.full(count, -1, np.int32) if forced else wanted,
        tie_count=np.ones(count, np.int32),
        log_sum_exp=logits[:, 0] + np.log1p(np.exp(logits[:, 1:] - logits[:, :1]).sum(axis=1)).astype(np.float64),
        entropy=generator.random(count) * 3,
        margin_nats=(logits[:, 0].astype(np.float64) - logits[:, 1]),
        top_ids=ids.astype(np.int32),
        top_logits=logits,
        row_hash=tuple(hashes[start : start + 16] for start in range(0, 16 * count, 16)),
    )
    return _run(lane, steps, origin)


def _run(lane: int, steps: Steps, origin: Origin) -> RecordedRun:
    manifest = {"engine": "synthetic", "runtime": RUNTIMES[lane][0]}
    run = Run(
        run_id=run_id(steps, manifest, origin),
        mode=origin.mode,
        scoring_path=origin.scoring_path,
        replica=0,
        forced_along=origin.forced_along,
        fork=None,
        certificate=None,
        ending=Ending.PATH if origin.mode is Mode.FORCED else Ending.LENGTH,
        complete=True,
        logits_kept=Keep.TOP_K,
        dtype="bfloat16",
        vocabulary_size=len(VOCABULARY),
        positions=len(steps),
        seconds=1.0,
    )
    return RecordedRun(run, steps, manifest, range(0), lambda _: b"")


def _free(forced: RecordedRun, wanted: NDArray[np.int32], path: NDArray[np.int32], prompt: Prompt) -> RecordedRun:
    """Return the free run that fits a forced one: the same up to the first flip, and a little of its own after it."""
    differs = np.flatnonzero(wanted != path)
    first = int(differs[0]) if len(differs) else len(path) - 1
    stop = min(first + 200, len(path))
    tokens = path[:stop].copy()
    tokens[first] = wanted[first]
    steps = forced.steps
    own = output_prefixes([*prompt.token_ids, *tokens[:first].tolist()], tokens[first:].tolist())
    cut = {name: getattr(steps, name)[:stop] for name in Steps.__slots__}
    cut.update(
        token_id=tokens,
        top1=tokens,
        emitted=tokens,
        forced=np.zeros(stop, np.bool_),
        prefix_id=(*steps.prefix_id[:first], *own),
    )
    lane = next(index for index, (name, _) in enumerate(RUNTIMES) if name == forced.manifest["runtime"])
    return _run(lane, Steps(**cut), Origin(Mode.FREE))


def _compared(generator: np.random.Generator, reference: RecordedRun, candidate: RecordedRun) -> Comparison:
    left, _ = shared_rows(reference.steps, candidate.steps)
    count = len(left)
    share = generator.exponential(0.01, (8, count))
    return Comparison(
        reference=reference.run.run_id,
        candidate=candidate.run.run_id,
        position=reference.steps.position[left],
        prefix_id=tuple(reference.steps.prefix_id[row] for row in left.tolist()),
        metrics=PairMetrics(
            kl_forward=share[0],
            kl_reverse=share[1],
            jensen_shannon=(share[0] + share[1]) / 8,  # no more than any two distributions allow
            reference_entropy=share[3] * 100,
            candidate_entropy=share[4] * 100,
            reference_rank=np.zeros(count, np.int32),
            candidate_rank=np.zeros(count, np.int32),
            reference_winner_probability=np.minimum(share[5] * 40, 1.0),
            candidate_winner_probability=np.minimum(share[6] * 40, 1.0),
            delta_probability=share[7] - 0.01,
            top5_overlap=np.full(count, 5, np.int32),
            reference_outside=np.zeros(count),
            candidate_outside=np.zeros(count),
            lower_bound=np.ones(count, np.bool_),
        ),
        flips=find_flips(reference.steps, candidate.steps, ("bfloat16", "bfloat16")),
    )


if __name__ == "__main__":
    make_large_library(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:5]))
