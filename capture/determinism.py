"""Whether a runtime repeats itself: replicas, prefill against decode, forced against free; reads bundles.

Bit-identical rows show repeatability, not precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capture.bundle import Bundle
from capture.compare import Side, equal_rows
from capture.errors import BundleError, NotFoundError
from capture.flips import choices, shared_rows
from capture.floors import replicas_of
from capture.model import Mode, Run, ScoringPath
from capture.pairs import bundle_paths
from capture.rows import widen

_BLOCK = 16


class RepeatKind(StrEnum):
    """What was computed twice."""

    REPLICA = "replica"
    FORCED = "forced against free"
    PATHS = "prefill against decode"


@dataclass(frozen=True, slots=True)
class Repeat:
    """Two runs of one runtime on one case, over the positions after the same prefix.

    Attributes:
        study, runtime, case_id: what ran.
        kind: what was computed twice.
        first_run, second_run: their ids.
        rows: positions after the same prefix.
        equal: rows that are the same, bit for bit, by their hashes.
        first_difference: position of the first that is not; None where all are.
        largest_difference: of a logit, over the rows that differ and are kept in both; None where none is.
        changed: positions where both chose differently.
        first_change: the first of them; None without.
    """

    study: str
    runtime: str
    case_id: str
    kind: RepeatKind
    first_run: str
    second_run: str
    rows: int
    equal: int
    first_difference: int | None
    largest_difference: float | None
    changed: int
    first_change: int | None

    @property
    def identical(self) -> bool:
        """Whether every row is the same, bit for bit."""
        return self.rows > 0 and self.equal == self.rows


@dataclass(frozen=True, slots=True)
class RuntimeRepeats:
    """All that was computed twice of one runtime in one study; `repeats` is empty where nothing was."""

    study: str
    runtime: str
    label: str
    repeats: tuple[Repeat, ...]


def determinism(folder: Path, note: Callable[[str], None]) -> tuple[RuntimeRepeats, ...]:
    """Return for every runtime below a folder what it computed twice, by study and runtime.

    Files that cannot be read are told to `note` and hide nothing else.

    Raises:
        NotFoundError: the folder does not exist or holds no bundle.
    """
    if not folder.is_dir():
        raise NotFoundError(
            f"there is no library {folder}; capture one with: flipscope capture STUDY.toml --library DIR"
        )
    found: dict[tuple[str, str], list[Repeat]] = {}
    labels: dict[tuple[str, str], str] = {}
    for path in bundle_paths(folder):
        try:
            with Bundle(path) as bundle:
                key = (bundle.facts.study, bundle.facts.runtime.name)
                labels.setdefault(key, bundle.facts.runtime.label or key[1])
                found.setdefault(key, []).extend(bundle_repeats(bundle))
        except BundleError as error:
            note(f"left out: {error}")
    if not found:
        raise NotFoundError(f"{folder} holds no bundle; capture one with: flipscope capture STUDY.toml --library DIR")
    return tuple(RuntimeRepeats(*key, labels[key], tuple(found[key])) for key in sorted(found))


def bundle_repeats(bundle: Bundle) -> Iterator[Repeat]:
    """Yield what a bundle holds twice."""
    originals = [run for run in bundle.runs if run.mode is not Mode.BRANCH and run.replica == 0]
    for run in originals:
        for replica in replicas_of(bundle, run):
            yield _repeat(bundle, RepeatKind.REPLICA, run, replica)
    decodes = [run for run in originals if run.scoring_path is ScoringPath.DECODE]
    free = [run for run in decodes if run.mode is Mode.FREE]
    for run in decodes:
        if run.mode is Mode.FORCED and free:
            yield _repeat(bundle, RepeatKind.FORCED, free[0], run)
    for run in originals:
        if run.scoring_path is ScoringPath.PREFILL:
            same = [one for one in decodes if run.forced_along in (one.run_id, one.forced_along)]
            if same:
                yield _repeat(bundle, RepeatKind.PATHS, same[0], run)


def _repeat(bundle: Bundle, kind: RepeatKind, original: Run, other: Run) -> Repeat:
    first, second = Side.of(bundle, original.run_id), Side.of(bundle, other.run_id)
    left, right = shared_rows(first.steps, second.steps)
    different = ~equal_rows(first.steps, second.steps, left, right)
    chosen = choices(first.steps, second.steps, left, right)
    changes = first.steps.position[left[chosen[0] != chosen[1]]]
    differences = first.steps.position[left[different]]
    return Repeat(
        study=bundle.facts.study,
        runtime=bundle.facts.runtime.name,
        case_id=bundle.facts.case.case_id,
        kind=kind,
        first_run=original.run_id,
        second_run=other.run_id,
        rows=len(left),
        equal=len(left) - len(differences),
        first_difference=int(differences.min()) if differences.size else None,
        largest_difference=_largest_difference(first, second, left[different], right[different]),
        changed=len(changes),
        first_change=int(changes.min()) if changes.size else None,
    )


def _largest_difference(first: Side, second: Side, left: NDArray[np.int64], right: NDArray[np.int64]) -> float | None:
    kept = np.isin(first.steps.position[left], first.bundle.kept_positions(first.run.run_id))
    kept &= np.isin(second.steps.position[right], second.bundle.kept_positions(second.run.run_id))
    left, right = left[kept], right[kept]
    if not left.size or first.run.vocabulary_size != second.run.vocabulary_size:
        return None
    parts = [slice(start, start + _BLOCK) for start in range(0, len(left), _BLOCK)]
    return max(float(_difference(_rows(first, left[part]), _rows(second, right[part]))) for part in parts)


def _rows(side: Side, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    return widen(side.bundle.rows(side.run.run_id, side.steps.position[rows].tolist()), side.run.dtype)


def _difference(first: NDArray[np.float32], second: NDArray[np.float32]) -> np.float64:
    with np.errstate(invalid="ignore"):
        apart = np.abs(first.astype(np.float64) - second)
    apart[first == second] = 0.0  # two equal infinities
    largest: np.float64 = apart.max()
    return largest
