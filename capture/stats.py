"""The numbers of a library, one line a compared run: flips by class, disagreement, divergences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capture.bundle import Bundle
from capture.compare import Comparison
from capture.errors import BundleError, ComparisonError, NotFoundError, VocabularyError
from capture.model import FlipClass
from capture.pairs import compare_bundles, comparison_path, stored_comparisons, study_pairs


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """One candidate run against its reference, over the positions they share; divergences in nats.

    Attributes:
        positions: positions after the same prefix.
        ties, near_ties, decided: flips by class.
        disagreement: flips per position.
        kl_mean, kl_reverse_mean, jensen_shannon_mean, kl_max: of the positions; None where none is shared.
        rms_delta_probability: root mean square of the change of probability of the reference's token.
        lower_bound: whether some positions had top-k only: divergences are then lower bounds.
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
    kl_mean: float | None
    kl_reverse_mean: float | None
    jensen_shannon_mean: float | None
    kl_max: float | None
    rms_delta_probability: float | None
    lower_bound: bool
    identical: bool


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
            found += _pair_statistics(reference, candidate)
        except (BundleError, ComparisonError, VocabularyError) as error:
            note(f"left out: {error}")
    if not found:
        raise NotFoundError(f"{folder} holds nothing to compare: a study needs its reference and another runtime")
    return sorted(found, key=lambda row: (row.study, row.case, row.runtime, row.scoring_path, row.mode))


def _pair_statistics(reference_path: Path, candidate_path: Path) -> Iterator[RunStatistics]:
    path = comparison_path(reference_path, candidate_path)
    with Bundle(reference_path) as reference, Bundle(candidate_path) as candidate:
        stored = stored_comparisons(path, reference, candidate)
        for comparison in compare_bundles(reference, candidate) if stored is None else stored:
            yield _statistics(comparison, reference, candidate)


def _statistics(comparison: Comparison, reference: Bundle, candidate: Bundle) -> RunStatistics:
    run = candidate.run(comparison.candidate)
    metrics = comparison.metrics
    counts = {kind: sum(flip.flip_class is kind for flip in comparison.flips) for kind in FlipClass}
    some = len(metrics) > 0
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
        kl_mean=float(metrics.kl_forward.mean()) if some else None,
        kl_reverse_mean=float(metrics.kl_reverse.mean()) if some else None,
        jensen_shannon_mean=float(metrics.jensen_shannon.mean()) if some else None,
        kl_max=float(metrics.kl_forward.max()) if some else None,
        rms_delta_probability=float(np.sqrt((metrics.delta_probability**2).mean())) if some else None,
        lower_bound=bool(metrics.lower_bound.any()),
        identical=comparison.identical,
    )
