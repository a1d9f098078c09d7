"""The runtimes of a library with all that is known of each, and which studies belong into one matrix. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.catalog import BundleEntry, CaseEntry, Catalog, own_run
from app.labels import lane_labels
from app.library_links import PROTOCOLS
from app.pair_summary import BundleSummary, Share, share_of_pair
from app.run_pairs import newest, reference_of, run_pair
from app.traits import Capture, group_of, traits_of
from capture.model import Runtime

SummaryOf = Callable[[BundleEntry, BundleEntry | None], BundleSummary | None]

REFERENCE, FLOOR, ALONE = "reference", "floor", "not compared"
"""Groups of rows beside those of what differs."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One runtime on one case.

    Attributes:
        case: the case.
        bundle: the runtime's newest on it.
        reference: what it is compared with; None without one, itself where it is the reference.
        summary: what reading it told; None while that is not known.
        shares: the numbers by protocol, those of the catalog where there is no summary yet.
    """

    case: CaseEntry
    bundle: BundleEntry
    reference: BundleEntry | None
    summary: BundleSummary | None
    shares: Mapping[str, Share]

    @property
    def is_reference(self) -> bool:
        """Whether it is its own reference."""
        return self.reference is self.bundle

    @property
    def positions(self) -> int:
        """Positions of its own run, 0 where it has none."""
        run = own_run(self.bundle)
        return run.positions if run else 0


@dataclass(frozen=True, slots=True)
class RuntimeRow:
    """One runtime of a study; `entries` by key of the case, `traits` by name."""

    study: str
    name: str
    label: str
    entries: Mapping[str, Entry]
    traits: Mapping[str, str]

    @property
    def latest(self) -> Entry:
        """Its newest entry."""
        return max(self.entries.values(), key=lambda entry: entry.bundle.facts.created)

    @property
    def is_reference(self) -> bool:
        """Whether it is a reference."""
        return self.latest.bundle.facts.is_reference

    @property
    def reference(self) -> BundleEntry | None:
        """What it is compared with."""
        return next((entry.reference for entry in self.entries.values() if entry.reference is not None), None)

    @property
    def group(self) -> str:
        """What differs from its reference."""
        if self.is_reference:
            return REFERENCE
        entry = next((one for one in self.entries.values() if one.reference is not None), None)
        if entry is None or entry.reference is None:
            return ALONE
        own = entry.summary.capture if entry.summary else None
        return group_of(entry.reference.facts.runtime, entry.bundle.facts.runtime, (_seen(entry), own))


def _seen(entry: Entry) -> Capture | None:
    return entry.summary.reference if entry.summary else None


def runtime_rows(catalog: Catalog, summary_of: SummaryOf) -> list[RuntimeRow]:
    """Return every runtime of every study, the references of a study first."""
    found: dict[tuple[str, str], dict[str, Entry]] = {}
    for case in catalog.cases.values():
        for place, bundle in newest(case.bundles).items():
            reference = bundle if bundle.facts.is_reference else reference_of(case, bundle)
            summary = summary_of(bundle, reference)
            entry = Entry(case, bundle, reference, summary, _shares(catalog, bundle, reference, summary))
            found.setdefault(place, {})[case.key] = entry
    labels = _labels(found)
    rows = [
        RuntimeRow(study, name, labels[study, name], entries, _traits(entries))
        for (study, name), entries in found.items()
    ]
    return sorted(rows, key=lambda row: (not row.is_reference, row.latest.bundle.facts.created, row.label))


def _labels(found: Mapping[tuple[str, str], Mapping[str, Entry]]) -> dict[tuple[str, str], str]:
    """Return the label of each runtime among those of its study."""
    labels: dict[tuple[str, str], str] = {}
    for study in dict.fromkeys(study for study, _ in found):
        places = [place for place in found if place[0] == study]
        runtimes: list[Runtime] = [next(iter(found[place].values())).bundle.facts.runtime for place in places]
        labels.update(zip(places, lane_labels(runtimes), strict=True))
    return labels


def _traits(entries: Mapping[str, Entry]) -> dict[str, str]:
    captures = (entry.summary.capture for entry in entries.values() if entry.summary)
    return traits_of(next(iter(entries.values())).bundle.facts.runtime, next(captures, None))


def _shares(
    catalog: Catalog, bundle: BundleEntry, reference: BundleEntry | None, summary: BundleSummary | None
) -> dict[str, Share]:
    if reference is None or reference is bundle:
        return {}
    found = {}
    for protocol in PROTOCOLS:
        known = summary.pairs.get(protocol) if summary else None
        runs = run_pair(reference, bundle, protocol)
        stored = catalog.pairs.get((runs[0].run_id, runs[1].run_id)) if runs else None
        if known is not None:
            found[protocol] = known.whole
        elif stored is not None:
            found[protocol] = share_of_pair(stored[0].pairs[stored[1]])
    return found


def together(rows: Sequence[RuntimeRow]) -> list[list[RuntimeRow]]:
    """Return the rows of studies that share cases together, the newest studies first."""
    groups: dict[str, set[str]] = {}
    for case in dict.fromkeys(key for row in rows for key in row.entries):
        studies = {row.study for row in rows if case in row.entries}
        merged = set().union(studies, *(groups.get(study, set()) for study in studies))
        groups.update(dict.fromkeys(merged, merged))
    parts = {id(group): group for group in groups.values()}
    found = [[row for row in rows if row.study in part] for part in parts.values()]
    return sorted(found, key=_created, reverse=True)


def _created(rows: Iterable[RuntimeRow]) -> str:
    return max((row.latest.bundle.facts.created for row in rows), default="")
