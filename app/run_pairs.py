"""Which runs of two bundles are compared, by protocol, and which bundle is another one's reference. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from app.catalog import BundleEntry, CaseEntry, forced_run, free_run, own_run
from app.library_links import PROBE, PROTOCOLS
from capture.model import Mode, Run, ScoringPath


def reference_of(case: CaseEntry, bundle: BundleEntry) -> BundleEntry | None:
    """Return the bundle that another one of a case is measured by: its study's reference, else whose tokens it took."""
    able = [other for other in case.bundles if other.facts.is_reference and _has_yardstick(other)]
    own = [other for other in able if other.facts.study == bundle.facts.study]
    if own:
        return own[-1]
    along = {run.forced_along for run in bundle.runs if run.forced_along}
    taken = (other for other in case.bundles if any(run.run_id in along for run in other.runs))
    return next((other for other in taken if _has_yardstick(other)), next(iter(able), None))


def probe_run(bundle: BundleEntry) -> Run | None:
    """Return the run in which a bundle's prompt was scored at every so many positions; None where it has none."""
    return next((run for run in bundle.runs if run.probe_stride and not run.replica), None)


def _has_yardstick(bundle: BundleEntry) -> bool:
    return own_run(bundle) is not None or probe_run(bundle) is not None


def run_pair(reference: BundleEntry, bundle: BundleEntry, protocol: str) -> tuple[Run, Run] | None:
    """Return the runs that are compared by a protocol, the reference's first; None where one of them is missing."""
    mode, path = PROTOCOLS[protocol]
    if protocol == PROBE:
        probes = probe_run(reference), probe_run(bundle)
        return (probes[0], probes[1]) if probes[0] and probes[1] else None
    own = own_run(reference)
    if own is None or (mode is Mode.FREE and own.mode is not Mode.FREE):
        return None
    ours = own if own.scoring_path is path else forced_run(reference, own.run_id, path)
    theirs = free_run(bundle) if mode is Mode.FREE else forced_run(bundle, own.run_id, path)
    if ours is None or theirs is None or theirs.scoring_path is not path:
        return None
    return ours, theirs


def prefill_again(bundle: BundleEntry, own: Run) -> Run | None:
    """Return the run in which a bundle's own tokens, or the text that it followed, were scored by prefill.

    None where it has none, or where that is its own run.
    """
    along = None if own.follows_text else own.run_id
    able = [run for run in bundle.runs if run.mode is Mode.FORCED and run.scoring_path is ScoringPath.PREFILL]
    found = (run for run in able if run.forced_along == along and not run.probe_stride and not run.replica)
    return next((run for run in found if run.run_id != own.run_id), None)


def page_runs(reference: BundleEntry, bundle: BundleEntry, mode: Mode) -> tuple[str, ...]:
    """Return the ids of the runs that a page of a case shows as lanes for these bundles."""
    own = own_run(reference)
    forced = forced_run(bundle, own.run_id, own.scoring_path) if own and mode is Mode.FORCED else None
    run = forced or own_run(bundle)
    return tuple(found.run_id for found in (own, run) if found is not None)


def newest(bundles: Iterable[BundleEntry]) -> dict[tuple[str, str], BundleEntry]:
    """Return the newest bundle of each runtime, by study and runtime; those of branches alone do not count."""
    found: dict[tuple[str, str], BundleEntry] = {}
    for bundle in sorted(bundles, key=lambda entry: entry.facts.created):
        if not bundle.only_branches:
            found[bundle.facts.study, bundle.facts.runtime.name] = bundle
    return found
