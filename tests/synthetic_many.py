"""A library of a thousand runs, made without computing logits: for measuring the library page.

`python -m tests.synthetic_many FOLDER [CASES] [POSITIONS]` writes one. The numbers are valid and mean nothing.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from capture.bundle import RecordedRun, write_bundle
from capture.bundle_facts import BundleFacts
from capture.comparison import SUFFIX, write_comparisons
from capture.identity import run_id
from capture.model import Ending, Int32Array, Mode, Origin, Prompt, RunId, Runtime, ScoringPath
from capture.prefix import output_prefixes
from tests.synthetic import _facts
from tests.synthetic_large import _compared, _free, _recorded
from tests.synthetic_text import PROMPT, VOCABULARY, encode, filler

LANES: tuple[tuple[str, dict[str, object], float], ...] = (
    ("bf16", {"dtype": "bfloat16"}, 0.0),
    ("fp16", {"dtype": "float16"}, 0.002),
    ("fp32", {"dtype": "float32"}, 0.001),
    ("int8", {"dtype": "bfloat16", "weights": "int8"}, 0.01),
    ("int4", {"dtype": "bfloat16", "weights": "int4"}, 0.06),
    ("kv-int8", {"dtype": "bfloat16", "kv_cache": "int8"}, 0.012),
    ("kv-int4", {"dtype": "bfloat16", "kv_cache": "int4"}, 0.05),
    ("int4-kv-int8", {"dtype": "bfloat16", "weights": "int4", "kv_cache": "int8"}, 0.08),
    ("eager", {"dtype": "bfloat16", "attention": "eager"}, 0.003),
    ("tp2", {"dtype": "bfloat16", "tensor_parallel_size": 2}, 0.006),
)
"""Runtimes: name, options, and the share of positions at which their winner is another one."""

CASES = 21
"""With ten runtimes, of which the reference has three runs and the others five: 1,008 runs in 210 bundles."""


def make_many(folder: Path, cases: int = CASES, positions: int = 64) -> Path:
    """Write one study of that many cases by ten runtimes and return the folder."""
    generator = np.random.default_rng(11)
    words = np.array(filler(60), np.int32)
    for number in range(cases):
        _make_case(
            folder / "many", f"case-{number:03d}", generator, words[generator.integers(0, len(words), positions)]
        )
    return folder


def _make_case(folder: Path, case_id: str, generator: np.random.Generator, path: Int32Array) -> None:
    prompt = Prompt(f"{case_id}: {PROMPT}", encode(PROMPT) + encode(" show" * (int(case_id[-3:]) + 1)))
    prefixes = output_prefixes(prompt.token_ids, path.tolist())
    reference: RecordedRun | None = None
    for lane, (name, _, share) in enumerate(LANES):
        wanted = path.copy()
        where = np.flatnonzero(generator.random(len(path)) < share)
        wanted[where] = path[where - 1]
        raw = _recorded(generator, 0, path, wanted, prefixes, Origin(Mode.FREE))
        if reference is None:
            runs = [_run(raw, name), _run(raw, name, ScoringPath.PREFILL, along=True), _run(raw, name, replica=1)]
        else:
            own, again = (_run(_free(raw, wanted, path, prompt), name, replica=replica) for replica in (0, 1))
            given = reference.run.run_id
            forced = [_run(raw, name, replica=replica, along=given) for replica in (0, 1)]
            runs = [own, again, *forced, _run(raw, name, ScoringPath.PREFILL, along=given)]
        bundle = folder / f"{case_id}--{name}.duckdb"
        write_bundle(bundle, _own_facts(case_id, lane), prompt, runs, VOCABULARY)
        if reference:
            found = [_compared(generator, reference, run) for run in (runs[0], runs[2])]
            write_comparisons(bundle.with_name(f"{case_id}--{name}.vs.{LANES[0][0]}{SUFFIX}"), found)
        reference = reference or runs[0]


def _run(
    raw: RecordedRun,
    name: str,
    path: ScoringPath = ScoringPath.DECODE,
    *,
    replica: int = 0,
    along: str | bool = False,
) -> RecordedRun:
    """Return rows as a run of a runtime; `along` is the run that it was forced along, True for its own free run."""
    manifest = {"engine": "synthetic", "runtime": name, "versions": {"synthetic": "1.0"}, "hardware": {"cpu": "none"}}
    own = run_id(raw.steps, manifest, Origin(Mode.FREE))
    forced = RunId(along) if isinstance(along, str) else own if along else None
    origin = Origin(Mode.FORCED if forced else Mode.FREE, path, replica, forced)
    steps = raw.steps
    if forced:
        count = len(steps)
        steps = replace(steps, forced=np.ones(count, np.bool_), emitted=np.full(count, -1, np.int32))
    run = replace(
        raw.run,
        run_id=run_id(steps, manifest, origin),
        mode=origin.mode,
        scoring_path=path,
        replica=replica,
        forced_along=forced,
        ending=Ending.PATH if forced else Ending.LENGTH,
    )
    return RecordedRun(run, steps, manifest, range(0), raw.rows)


def _own_facts(case_id: str, lane: int) -> BundleFacts:
    name, options, _ = LANES[lane]
    facts = _facts("many", case_id, 0)
    runtime = Runtime(name, "synthetic", "words", options)
    return replace(facts, study_title="Ten runtimes on many cases", runtime=runtime, is_reference=lane == 0)


if __name__ == "__main__":
    make_many(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:4]))
