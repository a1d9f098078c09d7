"""Samples for tests of summaries: from numbers, and those of the study that ships, read once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from capture.evidence import StudyEvidence, Wanted, gather
from capture.model import Float64Array, Mode, ScoringPath
from capture.prefix import PREFIX_ID_BYTES
from capture.report import StudyReport, study_report
from capture.resources import bundled_library
from capture.samples import Sample, prefix_column
from capture.stats import RunStatistics, library_statistics

FOLDER = bundled_library() / "network-automation"


@cache
def bundled_evidence() -> StudyEvidence:
    """Return what is read of the study that ships."""
    (found,) = gather(FOLDER, Wanted(), _never)
    return found


@cache
def bundled_report() -> StudyReport:
    """Return its report."""
    return study_report(bundled_evidence())


@cache
def bundled_statistics() -> list[RunStatistics]:
    """Return what `stats` tells of every library that ships."""
    return library_statistics(bundled_library(), _never)


def _never(text: str) -> None:
    raise AssertionError(text)


def bundled(case: str, runtime: str) -> Path:
    """Return the path of one of its bundles."""
    return FOLDER / f"{case}--{runtime}.duckdb"


def lane(case: str, runtime: str, mode: Mode = Mode.FORCED, path: ScoringPath = ScoringPath.DECODE) -> Sample:
    """Return the positions of one of its candidate runs."""
    (found,) = [
        lane.sample
        for lane in bundled_evidence().lanes
        if (lane.sample.case_id, lane.runtime, lane.mode, lane.scoring_path) == (case, runtime, mode, path)
    ]
    return found


def make_sample(
    kl: Float64Array,
    case_id: str = "case",
    *,
    flips: list[int] | None = None,
    lower_bound: bool = False,
    delta: Float64Array | None = None,
    logs: tuple[Float64Array, Float64Array] | None = None,
) -> Sample:
    """Return a sample with the given KL; other columns follow from it or are plain."""
    size = len(kl)
    codes = np.zeros(size, np.int8) if flips is None else np.array(flips, np.int8)
    unknown = np.full(size, np.nan)
    return Sample(
        case_id=case_id,
        position=np.arange(size, dtype=np.int32),
        prefix_id=prefix_column(at.to_bytes(PREFIX_ID_BYTES, "big") for at in range(size)),
        kind=(np.arange(size) % 2).astype(np.int8),
        flip=codes,
        same_top=codes == 0,
        lower_bound=np.full(size, lower_bound),
        confidence=np.linspace(0, 1, size),
        kl_forward=kl,
        kl_reverse=2 * kl,
        jensen_shannon=kl / 4,
        delta_probability=-kl if delta is None else delta,
        reference_log_probability=unknown if logs is None else logs[0],
        candidate_log_probability=unknown if logs is None else logs[1],
        rounding_kl=np.full(size, 1e-4),
    )
