"""Which runs of a case a page shows: what the link asks for, or the nearest thing with a notice. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from app.catalog import BundleEntry, CaseEntry, forced_run, own_run
from app.lanes import MOST_LANES
from capture.errors import NotFoundError
from capture.model import Mode, Run, ScoringPath


@dataclass(frozen=True, slots=True)
class Pick:
    """One run to show, and the bundle that holds it."""

    bundle: BundleEntry
    run: Run


@dataclass(frozen=True, slots=True)
class Choice:
    """The lanes of a page.

    Attributes:
        mode: `free` or `forced`, which may not be the one asked for.
        picks: the reference first.
        others: every other run that could be a lane here.
        notices: what was asked for and cannot be shown.
    """

    mode: Mode
    picks: tuple[Pick, ...]
    others: tuple[Pick, ...]
    notices: tuple[str, ...] = ()

    @property
    def reference(self) -> Pick:
        """The lane that the others are compared with."""
        return self.picks[0]


def choose_lanes(
    case: CaseEntry,
    mode: Mode | None,
    lanes: Sequence[str] = (),
    reference: str | None = None,
    without: Collection[str] = (),
) -> Choice:
    """Return the lanes of a page.

    Args:
        case: what there is.
        mode: None for free.
        lanes: starts of run ids, in the order of the lanes; empty for those of the case's newest study.
        reference: the start of the id of the reference's run; None for the first lane.
        without: names of bundles that turned out to be unreadable.

    Raises:
        NotFoundError: the case has no run that can be a lane.
    """
    return _Chooser(case, without).choose(mode or Mode.FREE, lanes, reference)


class _Chooser:
    """Collects notices while it chooses."""

    def __init__(self, case: CaseEntry, without: Collection[str]) -> None:
        self._bundles = [bundle for bundle in case.bundles if bundle.name not in without]
        self._own = {bundle.name: run for bundle in self._bundles if (run := own_run(bundle)) is not None}
        self._notices: list[str] = []
        if not self._own:
            raise NotFoundError(f"case {case.case_id} has no free run to show; capture it with: flipscope capture")

    def choose(self, mode: Mode, lanes: Sequence[str], reference: str | None) -> Choice:
        """Return the lanes in that mode, or in free where there is nothing to show in it."""
        asked = [pick for lane in lanes if (pick := self._find(lane, "lane")) is not None]
        asked = asked or self._default()
        first = self._reference(asked, reference)
        along_text = self._own[first.bundle.name].follows_text
        if mode is Mode.FORCED or along_text:
            picks = self._in_mode(first, asked, Mode.FORCED)
            if len(picks) > 1 or along_text:
                return self._choice(Mode.FORCED, picks)
            self._notices.append(
                f"Nothing here was forced along {first.bundle.facts.runtime.name}, so the free runs are shown."
            )
        elif mode is not Mode.FREE:
            self._notices.append("Branches are shown where they grew, so the free runs are shown.")
        return self._choice(Mode.FREE, self._in_mode(first, asked, Mode.FREE))

    def _choice(self, mode: Mode, picks: tuple[Pick, ...]) -> Choice:
        shown = {pick.run.run_id for pick in picks}
        others = tuple(
            pick
            for bundle in self._bundles
            for pick in _runs_of(bundle, mode, picks[0].run)
            if not {pick.run.run_id} & shown
        )
        return Choice(mode, picks, others, tuple(dict.fromkeys(self._notices)))

    def _find(self, start: str, word: str) -> Pick | None:
        """Return the run whose id starts so."""
        found = [Pick(bundle, run) for bundle in self._bundles for run in bundle.runs if run.run_id.startswith(start)]
        ids = {pick.run.run_id for pick in found}
        if not ids:
            self._notices.append(f"The {word} {start[:12]} is not in this library, so it is left out.")
        elif len(ids) > 1:
            self._notices.append(f"Several runs have an id that starts with {start[:12]}; the first is shown.")
        return found[0] if found else None

    def _default(self) -> list[Pick]:
        """Return the newest runs of up to five runtimes of the newest study, its reference among them."""
        able = [bundle for bundle in self._bundles if bundle.name in self._own]
        study = max(able, key=lambda bundle: bundle.facts.created).facts.study
        newest = {bundle.facts.runtime.name: bundle for bundle in able if bundle.facts.study == study}
        ordered = sorted(newest.values(), key=lambda bundle: not bundle.facts.is_reference)
        return [Pick(bundle, self._own[bundle.name]) for bundle in ordered[:MOST_LANES]]

    def _reference(self, asked: Sequence[Pick], reference: str | None) -> Pick:
        wanted = self._find(reference, "reference") if reference else None
        able = [pick for pick in asked if pick.bundle.name in self._own]
        if wanted is not None and wanted.bundle.name in self._own:
            able = [wanted, *able]
        elif wanted is not None:
            self._notices.append("The reference that the link names has no free run, so another one serves.")
        return able[0] if able else self._default()[0]

    def _in_mode(self, first: Pick, asked: Sequence[Pick], mode: Mode) -> tuple[Pick, ...]:
        """Return the reference, then the runs of that mode which belong to what was asked for."""
        same_bundle = [pick for pick in (first, *asked) if pick.bundle is first.bundle and _is_free(pick.run)]
        own = same_bundle[0].run if same_bundle and mode is Mode.FREE else self._own[first.bundle.name]
        picks = {own.run_id: Pick(first.bundle, own)}
        for pick in asked:
            run = self._sibling(pick, mode, own)
            if run is not None and (run.run_id == pick.run.run_id or pick.bundle is not first.bundle):
                picks.setdefault(run.run_id, Pick(pick.bundle, run))
        if len(picks) > MOST_LANES:
            self._notices.append(f"At most {MOST_LANES} lanes fit a page; the last ones are left out.")
        return tuple(picks.values())[:MOST_LANES]

    def _sibling(self, pick: Pick, mode: Mode, reference: Run) -> Run | None:
        """Return the run itself where it is of that mode, else the run of its bundle that is."""
        runs = [found.run for found in _runs_of(pick.bundle, mode, reference)]
        if pick.run in runs:
            return pick.run
        if runs:
            return runs[0]
        if pick.bundle.name not in self._own or self._own[pick.bundle.name].run_id != reference.run_id:
            along = "free run" if mode is Mode.FREE else "run forced along the reference"
            self._notices.append(f"{pick.bundle.facts.runtime.name} has no {along}, so it is left out.")
        return None


def _is_free(run: Run) -> bool:
    return run.mode is Mode.FREE and run.scoring_path is ScoringPath.DECODE


def _runs_of(bundle: BundleEntry, mode: Mode, reference: Run) -> Iterator[Pick]:
    """Yield the runs of a bundle that can be lanes beside the reference, the likeliest first."""
    if mode is Mode.FORCED:
        run = forced_run(bundle, reference.run_id, reference.scoring_path)
        yield from (Pick(bundle, run),) if run else ()
    else:
        yield from (Pick(bundle, run) for run in sorted(bundle.runs, key=lambda run: run.replica) if _is_free(run))
