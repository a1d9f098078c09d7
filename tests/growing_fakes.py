"""A grower that does what a test tells it, and a study of the synthetic library's runtimes."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from capture.errors import CancelledError, FlipscopeError
from capture.growing import Grown, WantedFork
from capture.model import Keep, RunId, Runtime, ScoringPath
from capture.progress import Reporter
from capture.study import ForkBudget, KeepRule, Study
from capture.switch import KillSwitch
from tests.factories import make_run, make_steps
from tests.synthetic import RUNTIMES

WITHIN_SECONDS = 20.0

LOGITS = np.eye(4, 16, dtype=np.float32)

STUDY = Study(
    name="synthetic",
    title="",
    cases=(),
    runtimes=tuple(Runtime(name, "synthetic", "words", options) for name, options in RUNTIMES),
    reference=RUNTIMES[0][0],
    reference_bundles=(),
    date="2026-01-01",
    max_tokens=64,
    replicas=0,
    scoring_paths=(ScoringPath.DECODE,),
    stop_ids=(),
    keep=KeepRule(Keep.TOP_K, (), 5, Keep.TOP_K),
    forks=ForkBudget(0, 10, ()),
)


def fork(position: int = 3, token_id: int = 5, run_id: str = "a" * 32) -> WantedFork:
    return WantedFork(Path("one.duckdb"), RunId(run_id), position, token_id)


@dataclass
class FakeGrower:
    """Takes 4 of 10 positions, waits until it may go on or is cancelled, and ends as told."""

    error: Exception | None = None
    notices: tuple[str, ...] = ()
    halfway: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    grown: list[WantedFork] = field(default_factory=list)

    def __call__(
        self, study: Study, wanted: WantedFork, library: Path, reporter: Reporter, switch: KillSwitch
    ) -> Grown:
        assert study is STUDY
        assert library
        reporter.note("starting")
        reporter.begin("fork", 10)
        reporter.advance(4)
        self.halfway.set()
        while not self.go_on.wait(0.01):
            if switch.pulled:
                raise CancelledError("cancelled")
        if isinstance(self.error, FlipscopeError | RuntimeError):
            raise self.error
        reporter.advance(99)
        self.grown.append(wanted)
        return Grown(Path("grown.duckdb"), make_run(LOGITS, make_steps(LOGITS)).run, self.notices)
