"""The floors that are drawn beside the figures: the reference's repeats, and its decode against its prefill."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from capture.bundle import Bundle
from capture.compare import Side, compare_runs
from capture.control import yardsticks
from capture.model import Mode, Run, ScoringPath
from capture.samples import Sample
from capture.sampling import range_kinds, sample_of


class FloorKind(StrEnum):
    """What a floor is made of; the rounding floor is a column of every sample."""

    REPLICA = "replica"
    CONTROL = "benign control"


@dataclass(frozen=True, slots=True)
class FloorSample:
    """The reference against itself on one case.

    Attributes:
        kind: what was repeated.
        scoring_path: of the run that is repeated.
        sample: the positions, as for a candidate.
        identical: whether every shared row is the same, bit for bit.
    """

    kind: FloorKind
    scoring_path: ScoringPath
    sample: Sample
    identical: bool


def replicas_of(bundle: Bundle, run: Run) -> tuple[Run, ...]:
    """Return the repeats of a run that its bundle holds."""
    return tuple(
        other
        for other in bundle.runs
        if other.replica > run.replica
        and (other.mode, other.scoring_path, other.forced_along) == (run.mode, run.scoring_path, run.forced_along)
        and other.mode is not Mode.BRANCH
    )


def reference_floors(reference: Bundle) -> tuple[FloorSample, ...]:
    """Compare the reference with its own repeats, and its decode with its prefill.

    Raises:
        ComparisonError: the bundle has no run to compare with.
    """
    sides = [Side.of(reference, run.run_id) for run in yardsticks(reference)]
    found = [
        _floor(FloorKind.REPLICA, side, Side.of(reference, replica.run_id))
        for side in sides
        for replica in replicas_of(reference, side.run)
    ]
    if len(sides) > 1 and sides[0].run.scoring_path is not sides[1].run.scoring_path:
        found.append(_floor(FloorKind.CONTROL, sides[0], sides[1]))
    return tuple(found)


def _floor(kind: FloorKind, original: Side, repeat: Side) -> FloorSample:
    comparison = compare_runs(original, repeat, mixed_paths=True)
    sample = sample_of(comparison, original, repeat, range_kinds(original.bundle, original.steps))
    return FloorSample(kind, original.run.scoring_path, sample, comparison.identical)
