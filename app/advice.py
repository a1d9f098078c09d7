"""Which runtime of a study to use: what it costs beside what it changes, as far as it was captured. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from app.catalog import BundleEntry
from app.matrix_cells import bounded, kl_text, range_text, rate_text
from app.matrix_values import Advice, AdviceTable
from app.pair_summary import BundleSummary, Share
from capture.intervals import FEWEST_CASES
from capture.model import ScoringPath


@dataclass(frozen=True, slots=True)
class Candidate:
    """One runtime of a study.

    Attributes:
        name, label: of the runtime.
        is_reference: whether it is the yardstick.
        share: all of its cases together; None where nothing was compared.
        bundles: one a case.
        summaries: of those that are known.
    """

    name: str
    label: str
    is_reference: bool
    share: Share | None
    bundles: tuple[BundleEntry, ...]
    summaries: tuple[BundleSummary, ...]


def advice_table(study: str, candidates: Sequence[Candidate]) -> AdviceTable:
    """Return the table of a study: the reference first, then by mean KL, then by disagreement."""
    ordered = sorted(candidates, key=lambda one: (not one.is_reference, _distance(one), one.label))
    cases = max((len(one.bundles) for one in candidates), default=0)
    few = f"{cases} case{'' if cases == 1 else 's'}, under {FEWEST_CASES}: no interval is claimed for the study. "
    note = (few if cases < FEWEST_CASES else "") + (
        "Speed is what the capture took, one token a step and every logit kept; memory is that of the weights."
    )
    return AdviceTable(study, tuple(_advice(one) for one in ordered), note)


def _distance(one: Candidate) -> tuple[bool, float, float]:
    """Return how far a candidate is from the reference, as a report orders them; what is not known comes last."""
    known = one.share is not None and one.share.kl_mean is not None
    return (not known, (one.share.kl_mean or 0.0) if one.share else 0.0, one.share.rate if one.share else 2.0)


def _advice(one: Candidate) -> Advice:
    share = one.share
    calls = [found.outcome for found in one.summaries if found.outcome and found.outcome.wanted is not None]
    right = sum(bool(outcome.wanted) for outcome in calls)
    captures = [found.capture for found in one.summaries]
    return Advice(
        runtime=one.label,
        name=one.name,
        disagreement=rate_text(share.rate) if share else "",
        disagreement_range=range_text(share.disagreement, rate_text) if share else "",
        kl=bounded(share.kl_mean, share.lower_bound) if share and share.kl_mean is not None else "",
        kl_range=range_text(share.kl, kl_text) if share else "",
        calls=f"{right} of {len(calls)}" if calls else "",
        calls_title="; ".join(dict.fromkeys(outcome.text for outcome in calls)),
        disk=_size(next((found.disk_bytes for found in captures if found.disk_bytes), None)),
        memory=_size(next((found.weight_bytes for found in captures if found.weight_bytes), None)),
        speed=_speed(one.bundles),
        is_reference=one.is_reference,
    )


def _size(value: int | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def _speed(bundles: Sequence[BundleEntry]) -> str:
    """Return the median over the runs that took one token a step."""
    runs = [run for bundle in bundles for run in bundle.runs if run.fork is None]
    decoded = [run for run in runs if run.scoring_path is ScoringPath.DECODE and run.positions and run.seconds > 0]
    return f"{median(run.positions / run.seconds for run in decoded):.1f} tok/s" if decoded else ""
