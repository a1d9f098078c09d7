"""The benign control: the reference's own weights, scored by prefill instead of decode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture.bundle import Bundle
from capture.compare import Side, reference_run
from capture.flips import shared_rows
from capture.model import Run, ScoringPath


def yardsticks(reference: Bundle) -> list[Run]:
    """Return the reference's free run and, where it was scored by prefill, that run.

    Where it followed a text instead, its first run along that of each scoring path, decode first.
    """
    free = reference_run(reference)
    if free.follows_text:
        along = {run.scoring_path: run for run in reversed(reference.runs) if run.follows_text}
        return [along[path] for path in ScoringPath if path in along]
    prefill = [
        run for run in reference.runs if run.scoring_path is ScoringPath.PREFILL and run.forced_along == free.run_id
    ]
    return [free, *prefill[:1]]


def control_margin_nats(sides: Sequence[Side]) -> float:
    """Return the 99th percentile of how the reference's margin differs from decode to prefill, 0 without both."""
    if len(sides) < 2:
        return 0.0
    left, right = shared_rows(sides[0].steps, sides[1].steps)
    change = np.abs(sides[0].steps.margin_nats[left] - sides[1].steps.margin_nats[right])
    return float(np.quantile(change, 0.99)) if len(change) else 0.0
