"""The use case of `flipscope diff`: what two runs' manifests tell apart, and whether their logits differ at all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.labels import without_effect
from app.library_runs import read_manifest
from app.run_names import NamedRun, RunFinder
from capture.bundle import Bundle
from capture.compare import equal_rows
from capture.flips import choices, shared_rows
from capture.manifests import Difference, differences, differences_json
from capture.model import Json, Steps

SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class RunDiff:
    """What differs between two runs.

    Attributes:
        left, right: the runs.
        differences: entries in which their manifests differ.
        shared: positions after the same prefix.
        equal: those of them where every logit is the same, bit for bit.
        flips: those of them where the two chose differently.
    """

    left: NamedRun
    right: NamedRun
    differences: tuple[Difference, ...]
    shared: int
    equal: int
    flips: int

    @property
    def identical(self) -> bool:
        """Whether nothing differs at any position that can be compared."""
        return 0 < self.shared == self.equal and not self.flips

    @property
    def effect(self) -> str:
        """What to say of the options that differ where nothing else does; empty otherwise."""
        return without_effect(self.left.facts.runtime, self.right.facts.runtime) if self.identical else ""


def diff_runs(left: str, right: str, library: Path) -> RunDiff:
    """Return what differs between two runs, each named as `RunFinder.find` takes it.

    Raises:
        NotFoundError: a name fits no run, or several.
        BundleError: a bundle cannot be read.
    """
    finder = RunFinder(library)
    found = (finder.find(left), finder.find(right))
    (first, first_steps), (second, second_steps) = (_read(one) for one in found)
    rows = shared_rows(first_steps, second_steps)
    chosen = choices(first_steps, second_steps, *rows)
    return RunDiff(
        left=found[0],
        right=found[1],
        differences=differences([first, second]),
        shared=len(rows[0]),
        equal=int(equal_rows(first_steps, second_steps, *rows).sum()),
        flips=int((chosen[0] != chosen[1]).sum()),
    )


def diff_json(diff: RunDiff) -> dict[str, Any]:
    """Return what differs as JSON values; an entry that a side lacks has no value of that side."""
    return {
        **{name: _run_json(one) for name, one in zip(SIDES, (diff.left, diff.right), strict=True)},
        "differences": differences_json(diff.differences, SIDES),
        "shared_positions": diff.shared,
        "equal_positions": diff.equal,
        "flips": diff.flips,
        "identical": diff.identical,
        "effect": diff.effect or None,
    }


def _read(found: NamedRun) -> tuple[Json, Steps]:
    with Bundle(found.path) as bundle:
        return read_manifest(bundle, bundle.run(found.run.run_id)), bundle.steps(found.run.run_id)


def _run_json(found: NamedRun) -> dict[str, Any]:
    return {
        "study": found.facts.study,
        "case": found.facts.case.case_id,
        "runtime": found.facts.runtime.name,
        "run_id": found.run.run_id,
        "mode": found.run.mode.value,
        "scoring_path": found.run.scoring_path.value,
        "bundle": str(found.path),
    }
