"""Reads the probes of a study's prompts: where runtimes disagree over the length of the context. Reads files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from capture.bundle import Bundle
from capture.compare import Comparison
from capture.context_windows import WINDOW, Probe, Window, pooled_windows
from capture.errors import BundleError, ComparisonError, VocabularyError
from capture.pairs import compare_bundles, comparison_path, stored_comparisons, study_pairs


def probed_windows(
    folder: Path, note: Callable[[str], None], width: int = WINDOW
) -> dict[tuple[str, str], tuple[Window, ...]]:
    """Return the windows of every probed runtime below a folder, by study and runtime, cases pooled.

    Files that cannot be read, and pairs that cannot be compared, are told to `note` and hide nothing else. Of several
    captures of a runtime on a case the first counts, as in a report.

    Args:
        folder: bundles, of one study or several.
        note: is told what is left out.
        width: positions of a window.
    """
    found: dict[tuple[str, str], list[Probe]] = {}
    counted: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for reference_path, candidate_path in study_pairs(folder, note):
        try:
            with Bundle(reference_path) as reference, Bundle(candidate_path) as candidate:
                probes = pair_probes(reference, candidate)
                key = candidate.facts.study, candidate.facts.runtime.name
                case_id, run_ids = candidate.facts.case.case_id, tuple(run.run_id for run in candidate.runs)
        except (BundleError, ComparisonError, VocabularyError) as error:
            note(f"left out: {error}")
            continue
        if not probes:
            continue
        known = (*key, case_id) in counted
        if counted.setdefault((*key, case_id), run_ids) != run_ids:
            note(
                f"left out: {candidate_path.name} is another capture of {key[1]} on {case_id} in study {key[0]}; "
                "give one of them a study name of its own"
            )
        if not known:
            found.setdefault(key, []).extend(probes)
    return {key: pooled_windows(probes, width) for key, probes in found.items()}


def pair_probes(reference: Bundle, candidate: Bundle) -> list[Probe]:
    """Return the probes of one pair of bundles; none where no prompt was probed."""
    if not any(run.probe_stride for run in candidate.runs):
        return []
    stored = stored_comparisons(comparison_path(reference.path, candidate.path), reference, candidate)
    comparisons = compare_bundles(reference, candidate) if stored is None else stored
    length = len(reference.prompt.token_ids)
    return [
        probe_of(comparison, candidate.facts.case.case_id, length)
        for comparison in comparisons
        if candidate.run(comparison.candidate).probe_stride
    ]


def probe_of(comparison: Comparison, case_id: str, prompt_length: int) -> Probe:
    """Return a comparison of two probes as absolute positions and where they flipped."""
    flipped = np.isin(comparison.position, [flip.position for flip in comparison.flips])
    return Probe(case_id, comparison.position.astype(np.int64) + prompt_length, flipped)
