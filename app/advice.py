"""Which runtime of a study to use: what it costs beside what it changes, as far as it was captured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from app.catalog import BundleEntry
from app.library_links import PROTOCOL_WORDS
from app.matrix_cells import bounded, kl_text, range_text, rate_text
from app.matrix_values import Advice, AdviceTable
from app.pair_summary import BundleSummary, Share
from app.report_cells import of_all
from app.report_choices import COLUMNS, MIXED, ORDER
from app.report_tables import KL_N
from app.words import count
from capture.divergence import Divergence, nearness
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


_FIELDS = {
    "calls as reference": "calls_as_reference",
    "calls as labelled": "calls_as_labelled",
    "on disk": "disk",
    "weights": "memory",
    "speed": "speed",
}
"""Columns that may be left out, with the field of `Advice` that holds them."""


def advice_table(study: str, candidates: Sequence[Candidate], protocol: str) -> AdviceTable:
    """Return the table of a study: the reference first, then by `divergence.nearness`, as a report orders them.

    A column that tells nothing of any runtime is left out once all that there is is known.

    Args:
        study: its name.
        candidates: its runtimes.
        protocol: by which they were measured, a key of `library_links.PROTOCOLS`.
    """
    ordered = sorted(candidates, key=lambda one: (not one.is_reference, _nearness(one)))
    rows = tuple(_advice(one) for one in ordered)
    apart = any(main is not None and main.positions != share.positions for share, main in _mains(candidates))
    left_out: tuple[str, ...] = () if apart else ("KL n",)
    if all(len(one.summaries) == len(one.bundles) for one in candidates):
        left_out += tuple(name for name, field in _FIELDS.items() if not any(getattr(row, field) for row in rows))
    return AdviceTable(
        study=study,
        columns=tuple(name for name in COLUMNS if name not in left_out),
        rows=rows,
        note=" ".join(f"{note[:1].upper()}{note[1:]}." for note in _notes(candidates, protocol, apart)),
    )


def _mains(candidates: Sequence[Candidate]) -> list[tuple[Share, Divergence | None]]:
    return [(one.share, one.share.main) for one in candidates if one.share is not None]


def _notes(candidates: Sequence[Candidate], protocol: str, apart: bool) -> Iterator[str]:
    cases = max((len(one.bundles) for one in candidates), default=0)
    if cases < FEWEST_CASES:
        yield f"{count(cases, 'case')}, under {FEWEST_CASES}: no interval is claimed for the study"
    yield f"top-1 changed and KL, in nats: {PROTOCOL_WORDS.get(protocol, protocol)}"
    yield ORDER
    if len({main.lower_bound for _, main in _mains(candidates) if main is not None}) > 1:
        yield MIXED
    if apart:
        yield KL_N
    yield "speed is what the capture took, one token a step and every logit kept"


def _nearness(one: Candidate) -> tuple[bool, float, float, str]:
    share = one.share
    main = None if share is None else share.main
    return nearness(None if main is None else main.mean, None if share is None else share.rate, one.label)


def _advice(one: Candidate) -> Advice:
    share = one.share
    main = None if share is None else share.main
    outcomes = [found.outcome for found in one.summaries if found.outcome]
    captures = [found.capture for found in one.summaries]
    return Advice(
        runtime=one.label,
        name=one.name,
        disagreement=rate_text(share.rate) if share else "",
        disagreement_range=range_text(share.disagreement, rate_text) if share else "",
        kl=bounded(main.mean, main.lower_bound) if main else "",
        kl_range=range_text(main.interval, kl_text) if main else "",
        kl_positions=of_all(main.positions, share.positions) if main and share else "",
        calls_as_reference="" if one.is_reference else _of(outcome.as_reference for outcome in outcomes),
        calls_as_labelled=_of(outcome.as_labelled for outcome in outcomes),
        calls_title="; ".join(dict.fromkeys(outcome.text for outcome in outcomes if outcome.wanted is not None)),
        disk=_size(next((found.disk_bytes for found in captures if found.disk_bytes), None)),
        memory=_size(next((found.weight_bytes for found in captures if found.weight_bytes), None)),
        speed=_speed(one.bundles),
        is_reference=one.is_reference,
    )


def _of(wanted: Iterable[bool | None]) -> str:
    """Return how many calls are the wanted ones, of those that were made or wanted; empty where none was."""
    asked = [one for one in wanted if one is not None]
    return f"{sum(asked)} of {len(asked)}" if asked else ""


def _size(value: int | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def _speed(bundles: Sequence[BundleEntry]) -> str:
    """Return the median over the runs that took one token a step."""
    runs = [run for bundle in bundles for run in bundle.runs if run.fork is None]
    decoded = [run for run in runs if run.scoring_path is ScoringPath.DECODE and run.positions and run.seconds > 0]
    return f"{median(run.positions / run.seconds for run in decoded):.1f} tok/s" if decoded else ""
