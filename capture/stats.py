"""The numbers of a library, one line a compared run: flips by class, disagreement, divergences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from capture.bundle import Bundle
from capture.compare import Comparison, Side
from capture.divergence import main_of
from capture.errors import BundleError, ComparisonError, NotFoundError, VocabularyError
from capture.metrics import PairMetrics
from capture.model import FlipClass, Float64Array
from capture.pairs import compare_bundles, comparison_path, stored_comparisons, study_pairs
from capture.sampling import encoding_of_run, shared_rows_of, token_log_probabilities


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Means over the positions that are known equally well; divergences in nats.

    Attributes:
        positions: how many, at least 1.
        lower_bound: whether only the highest tokens were known: the divergences are then lower bounds.
        kl_mean, kl_reverse_mean, jensen_shannon_mean, kl_max: of these positions.
        delta_positions: how many of them the change of probability of the reference's token is known at.
        rms_delta_probability: its root mean square; None where it is known at none.
    """

    positions: int
    lower_bound: bool
    kl_mean: float
    kl_reverse_mean: float
    jensen_shannon_mean: float
    kl_max: float
    delta_positions: int
    rms_delta_probability: float | None


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """One candidate run against its reference, over the positions they share.

    Attributes:
        positions: positions after the same prefix.
        ties, near_ties, decided: flips by class.
        disagreement: flips per position.
        whole: over the positions whose whole vocabulary is known; None where there are none.
        bounded: over those of which only the highest tokens are known; None where there are none.
        identical: whether nothing differed at all.
    """

    study: str
    case: str
    runtime: str
    reference: str
    mode: str
    scoring_path: str
    run_id: str
    positions: int
    ties: int
    near_ties: int
    decided: int
    disagreement: float
    whole: GroupStatistics | None
    bounded: GroupStatistics | None
    identical: bool

    @property
    def main(self) -> GroupStatistics | None:
        """The group with the more positions, the whole vocabulary's where both have the same."""
        return main_of(self.whole, self.bounded)


def library_statistics(folder: Path, note: Callable[[str], None]) -> list[RunStatistics]:
    """Return the statistics of every compared run below a folder, in the order of study, case and runtime.

    Files that cannot be read, and pairs that cannot be compared, are told to `note` and hide nothing else.

    Raises:
        NotFoundError: the folder does not exist or holds no pair of a reference and a candidate.
    """
    if not folder.is_dir():
        raise NotFoundError(
            f"there is no library {folder}; capture one with: flipscope capture STUDY.toml --library DIR"
        )
    found: list[RunStatistics] = []
    for reference, candidate in study_pairs(folder, note):
        try:
            found += _pair_statistics(reference, candidate, note)
        except (BundleError, ComparisonError, VocabularyError) as error:
            note(f"left out: {error}")
    if not found:
        raise NotFoundError(f"{folder} holds nothing to compare: a study needs its reference and another runtime")
    return sorted(found, key=lambda row: (row.study, row.case, row.runtime, row.scoring_path, row.mode))


def _pair_statistics(
    reference_path: Path, candidate_path: Path, note: Callable[[str], None]
) -> Iterator[RunStatistics]:
    path = comparison_path(reference_path, candidate_path)
    # Whoever found the pair has checked both.
    with Bundle(reference_path, known=True) as reference, Bundle(candidate_path, known=True) as candidate:
        stored = stored_comparisons(path, reference, candidate, note)
        for comparison in compare_bundles(reference, candidate) if stored is None else stored:
            yield _statistics(comparison, reference, candidate)


def _statistics(comparison: Comparison, reference: Bundle, candidate: Bundle) -> RunStatistics:
    run = candidate.run(comparison.candidate)
    counts = {kind: sum(flip.flip_class is kind for flip in comparison.flips) for kind in FlipClass}
    sides = Side.of(reference, comparison.reference), Side.of(candidate, comparison.candidate)
    metrics = replace(comparison.metrics, delta_probability=_delta_probability(comparison, *sides))
    return RunStatistics(
        study=candidate.facts.study,
        case=candidate.facts.case.case_id,
        runtime=candidate.facts.runtime.name,
        reference=reference.facts.runtime.name,
        mode=run.mode.value,
        scoring_path=run.scoring_path.value,
        run_id=run.run_id,
        positions=len(metrics),
        ties=counts[FlipClass.TIE],
        near_ties=counts[FlipClass.NEAR_TIE],
        decided=counts[FlipClass.DECIDED],
        disagreement=comparison.disagreement,
        whole=_group(metrics, lower_bound=False),
        bounded=_group(metrics, lower_bound=True),
        identical=comparison.identical,
    )


def _delta_probability(comparison: Comparison, reference: Side, candidate: Side) -> Float64Array:
    """Return the change of probability of the reference's token as summaries count it; NaN where it is unknown.

    Where only the highest tokens were compared, a comparison holds a bound for a token that is not among them.
    """
    left, right = shared_rows_of(comparison, reference.steps, candidate.steps)
    tokens = reference.steps.token_id[left]
    bound = comparison.metrics.lower_bound
    asked = bound & (tokens < min(reference.run.vocabulary_size, candidate.run.vocabulary_size))
    first, second = (
        np.exp(token_log_probabilities(side, rows[asked], tokens[asked], encoding_of_run(side)))
        for side, rows in ((reference, left), (candidate, right))
    )
    delta: Float64Array = np.where(bound, np.nan, comparison.metrics.delta_probability)
    delta[asked] = second - first
    return delta


def _group(metrics: PairMetrics, *, lower_bound: bool) -> GroupStatistics | None:
    where = metrics.lower_bound == lower_bound
    if not where.any():
        return None
    delta = metrics.delta_probability[where & ~np.isnan(metrics.delta_probability)]
    kl = metrics.kl_forward[where]
    return GroupStatistics(
        positions=len(kl),
        lower_bound=lower_bound,
        kl_mean=float(kl.mean()),
        kl_reverse_mean=float(metrics.kl_reverse[where].mean()),
        jensen_shannon_mean=float(metrics.jensen_shannon[where].mean()),
        kl_max=float(kl.max()),
        delta_positions=len(delta),
        rms_delta_probability=float(np.sqrt((delta**2).mean())) if len(delta) else None,
    )
