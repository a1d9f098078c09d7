"""Reads what the charts of a study or a case are drawn from, and keeps the charts that were drawn last."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.cache import SizedCache
from app.catalog import BundleEntry, Catalog, free_run, own_run
from app.charts.page import ChartsPage, charts_of, choices
from app.charts.values import Agreement, CaseSample, Chart, ChartLane, ChartSource
from app.lane_choice import Pick
from app.library_comparisons import Comparer
from app.library_links import PROTOCOLS, ChartsView
from app.library_runs import MEGABYTE, RunReader
from app.links import LIBRARY, CaseLink, ViewOptions
from app.matrix_rows import Entry, RuntimeRow, runtime_rows
from app.matrix_values import Choice
from app.run_pairs import page_runs, prefill_again, run_pair
from app.shelf import Shelf
from app.words import count
from capture.bundle import Bundle
from capture.compare import Comparison, Side, compare_runs
from capture.errors import FlipscopeError, NotFoundError
from capture.floors import FloorKind
from capture.model import Mode, Run, ScoringPath
from capture.sampling import range_kinds, sample_of, shared_rows_of
from capture.trie import common_length

READ_SECONDS = 3.0
"""How long one page reads runs; those that come after that are read in the background, for the next load."""

SAMPLE_MEGABYTES = 256

MOST_KEPT = 24
"""Pages whose charts are kept."""

_BYTES_A_POSITION = 140


@dataclass(frozen=True, slots=True)
class _Asked:
    """The runtimes of a page and how they are measured."""

    view: ChartsView
    rows: tuple[RuntimeRow, ...]
    protocols: tuple[str, ...]
    notices: tuple[str, ...] = ()


class ChartReader:
    """Gives the charts pages of a library."""

    def __init__(self, shelf: Shelf, runs: RunReader, comparer: Comparer) -> None:
        self._shelf = shelf
        self._runs = runs
        self._comparer = comparer
        self._samples: SizedCache[Hashable, CaseSample] = SizedCache(
            SAMPLE_MEGABYTES * MEGABYTE, lambda case: _BYTES_A_POSITION * len(case.sample) + 1000
        )
        self._agreements: SizedCache[Hashable, tuple[Agreement | None]] = SizedCache(20_000)
        self._behind: threading.Thread | None = None
        self._lock = threading.Lock()
        self._charts: SizedCache[Hashable, tuple[Chart, ...]] = SizedCache(MOST_KEPT)

    def page(self, catalog: Catalog, view: ChartsView, notices: tuple[str, ...] = ()) -> ChartsPage:
        """Return the charts of a study, or of a case.

        Raises:
            NotFoundError: the library holds no such study or case, or nothing of it was compared.
        """
        asked = _asked(catalog, view)
        source, key, missing = self._source(catalog, asked, READ_SECONDS)
        bounds = _bounds(source)
        depths = tuple(name for name in ("full", "bound") if name in bounds)
        depth = asked.view.depth or max(depths, key=lambda name: bounds[name], default="full")
        shown = replace(asked.view, depth=depth)
        source = replace(source, lower_bound=depth == "bound")
        charts = self._charts.get((key, depth)) if key else None
        if charts is None:
            charts = charts_of(source)
            if key:
                self._charts.put((key, depth), charts)
        protocols, by_depth = choices(shown, asked.protocols, depths)
        return ChartsPage(
            study=source.study,
            title=source.title,
            case=source.case,
            href=view.href(),
            up=CaseLink(view.case).format() if view.case else LIBRARY,
            charts=charts,
            protocols=protocols,
            depths=by_depth,
            cases=_cases(asked),
            notices=(*notices, *asked.notices, *missing),
            view=shown,
        )

    def settle(self) -> None:
        """Wait for what is being read."""
        with self._lock:
            behind = self._behind
        if behind is not None:
            behind.join()

    def _go_on(self, catalog: Catalog, asked: _Asked) -> None:
        """Read the rest of a page in a thread that does not keep the server from ending; one at a time."""
        with self._lock:
            if self._behind is None or not self._behind.is_alive():
                self._behind = threading.Thread(target=self._source, args=(catalog, asked, float("inf")), daemon=True)
                self._behind.start()

    def _source(self, catalog: Catalog, asked: _Asked, seconds: float) -> tuple[ChartSource, Hashable, tuple[str, ...]]:
        """Return what charts are drawn from, a key for it where it is complete, and what is missing."""
        reader = _Reader(self, catalog, asked.view.protocol, time.monotonic() + seconds)
        lanes = tuple(reader.lane(row) for row in asked.rows if not row.is_reference)
        references = [row for row in asked.rows if row.is_reference]
        reference = next((row.label for row in references), "")
        head = asked.rows[0].latest.bundle.facts
        source = ChartSource(
            study=asked.view.study,
            title=head.study_title,
            case=asked.rows[0].latest.case.case_id if asked.view.case else "",
            reference=reference,
            protocol=asked.view.protocol,
            lower_bound=False,
            listed=reader.listed,
            lanes=tuple(lane for lane in lanes if lane.cases or lane.agreements),
            floors=tuple(floor for row in references for floor in reader.floors(row)),
        )
        missing = tuple(dict.fromkeys(reader.notices))
        if reader.left:
            missing += (f"{count(len(reader.left), 'bundle')} not read yet; load the page again for the rest.",)
            self._go_on(catalog, asked)
        key = (
            None
            if missing
            else (asked.view.study, asked.view.case, asked.view.protocol, _files(asked), tuple(reader.stamps))
        )
        return source, key, missing

    def sample(
        self, catalog: Catalog, entry: Entry, runs: tuple[Run, Run], *, kept_only: bool = False
    ) -> CaseSample | None:
        """Return the positions of a pair; None while it is being compared, or was not read and must not be.

        Raises:
            BundleError, ComparisonError, VocabularyError: it cannot be read or compared.
        """
        reference, bundle = entry.reference, entry.bundle
        assert reference is not None
        stored = catalog.pairs.get((runs[0].run_id, runs[1].run_id))
        key = (reference.stamp, bundle.stamp, runs[0].run_id, runs[1].run_id, stored[0].stamp if stored else None)
        found = self._samples.get(key)
        if found is None and not kept_only:
            comparison = self._comparer.compare(catalog, Pick(reference, runs[0]), Pick(bundle, runs[1]))
            if comparison is None:
                return None
            with self._shelf.bundles(reference, bundle) as (first, second):
                sides = self._side(first, reference, runs[0]), self._side(second, bundle, runs[1])
                link = None if runs[1].probe_stride else _link(entry, runs[1].mode)
                found = _case_sample(entry, comparison, sides, link)
            self._samples.put(key, found)
        return found

    def floor(self, entry: Entry, own: Run, again: Run, *, kept_only: bool = False) -> CaseSample | None:
        """Return a reference against itself; None where it was not read and must not be.

        Raises:
            BundleError: it cannot be read.
        """
        key = (entry.bundle.stamp, own.run_id, again.run_id)
        found = self._samples.get(key)
        if found is None and not kept_only:
            with Bundle(entry.bundle.path) as bundle:
                sides = self._side(bundle, entry.bundle, own), self._side(bundle, entry.bundle, again)
                comparison = compare_runs(*sides, mixed_paths=True)
                found = _case_sample(entry, comparison, sides, CaseLink(entry.case.key))
            self._samples.put(key, found)
        return found

    def agreement(self, entry: Entry, *, kept_only: bool = False) -> tuple[Agreement | None] | None:
        """Return how long a free run stayed the reference's, in a tuple; None where it was not read and must not be."""
        key = (entry.bundle.stamp, entry.reference and entry.reference.stamp)
        found = self._agreements.get(key)
        if found is None and not kept_only:
            found = (self._agreement(entry),)
            self._agreements.put(key, found)
        return found

    def _agreement(self, entry: Entry) -> Agreement | None:
        reference, bundle = entry.reference, entry.bundle
        own, other = (free_run(one) if one else None for one in (reference, bundle))
        if reference is None or own is None or other is None or reference is bundle:
            return None
        steps = self._runs.steps(reference, [own])[own.run_id]
        theirs = self._runs.steps(bundle, [other])[other.run_id]
        tokens = common_length(steps.token_id, theirs.token_id)
        parted = tokens < min(len(steps), len(theirs))
        link = _link(entry, Mode.FREE)
        href = link.fork(tokens, steps.prefix_id[tokens]).format() if parted else link.format()
        return Agreement(entry.case.case_id, tokens, parted, href)

    def listed(self, bundle: BundleEntry, run: Run) -> int:
        """Return how many of the highest tokens every position of a run keeps."""
        return int(self._runs.steps(bundle, [run])[run.run_id].top_ids.shape[1])

    def _side(self, opened: Bundle, bundle: BundleEntry, run: Run) -> Side:
        return Side(opened, run, self._runs.steps(bundle, [run])[run.run_id])


class _Reader:
    """Reads the lanes of one page, as long as there is time."""

    def __init__(self, reader: ChartReader, catalog: Catalog, protocol: str, until: float) -> None:
        self._reader = reader
        self._catalog = catalog
        self._protocol = protocol
        self._until = until
        self.notices: list[str] = []
        self.left: set[str] = set()
        self.listed = 0
        self.stamps: list[Hashable] = []

    def lane(self, row: RuntimeRow) -> ChartLane:
        """Return a runtime with its positions and its agreements."""
        cases, agreements = [], []
        for entry in row.entries.values():
            sample = self._sample(entry)
            cases += [sample] if sample is not None and len(sample.sample) else []
            agreement = self._agreement(entry)
            agreements += [agreement] if agreement is not None else []
        return ChartLane(row.name, row.label, tuple(cases), tuple(agreements))

    def _agreement(self, entry: Entry) -> Agreement | None:
        try:
            found = self._reader.agreement(entry, kept_only=self._over)
        except FlipscopeError as error:
            self.notices.append(f"{entry.bundle.name} is left out: {error}")
            return None
        self.left |= {entry.bundle.name} if found is None else set()
        return None if found is None else found[0]

    @property
    def _over(self) -> bool:
        return time.monotonic() > self._until

    def floors(self, row: RuntimeRow) -> list[ChartLane]:
        """Return a reference's floors by the page's protocol."""
        found: dict[FloorKind, list[CaseSample]] = {}
        for entry in row.entries.values():
            for kind, own, again in _again(entry.bundle, self._protocol):
                try:
                    sample = self._reader.floor(entry, own, again, kept_only=self._over)
                    self.left |= {entry.bundle.name} if sample is None else set()
                    found.setdefault(kind, []).extend([] if sample is None else [sample])
                except FlipscopeError as error:
                    self.notices.append(f"A floor of {row.label} is left out: {error}")
        filled = {kind: tuple(cases) for kind, cases in found.items() if cases}
        return [ChartLane(kind.value, f"{kind.value}: {row.label}", cases) for kind, cases in filled.items()]

    def _sample(self, entry: Entry) -> CaseSample | None:
        runs = run_pair(entry.reference, entry.bundle, self._protocol) if entry.reference else None
        if runs is None:
            return None
        try:
            found = self._reader.sample(self._catalog, entry, runs, kept_only=self._over)
        except (FlipscopeError, ValueError) as error:
            self.notices.append(f"{entry.bundle.name} is left out: {error}")
            return None
        self.left |= {entry.bundle.name} if found is None else set()
        if found is not None:
            stored = self._catalog.pairs.get((runs[0].run_id, runs[1].run_id))
            self.stamps.append(stored and stored[0].stamp)
            self.listed = min(self.listed or 1 << 30, self._reader.listed(entry.bundle, runs[1]))
        return found


def _case_sample(entry: Entry, comparison: Comparison, sides: tuple[Side, Side], link: CaseLink | None) -> CaseSample:
    """Return the positions of two compared runs; both bundles are open."""
    left, right = shared_rows_of(comparison, sides[0].steps, sides[1].steps)
    return CaseSample(
        key=entry.case.key,
        case_id=entry.case.case_id,
        prompt_length=entry.bundle.prompt_length,
        sample=sample_of(comparison, *sides, range_kinds(sides[0].bundle, sides[0].steps)),
        margin=sides[0].steps.margin_nats[left],
        top1=sides[1].steps.top1[right],
        link=link,
        identical=comparison.identical,
    )


def _files(asked: _Asked) -> Hashable:
    """Return every file that a page is about, by runtime, whether or not it has positions to draw, and its label."""
    return tuple(
        (row.name, row.label, tuple((entry.bundle.stamp, entry.reference and entry.reference.stamp) for entry in found))
        for row, found in ((row, row.entries.values()) for row in asked.rows)
    )


def _again(bundle: BundleEntry, protocol: str) -> list[tuple[FloorKind, Run, Run]]:
    """Return the runs of a reference that are its own again, with what they repeat."""
    own = own_run(bundle)
    if own is None:
        return []
    path = PROTOCOLS[protocol][1]
    prefill = prefill_again(bundle, own)
    repeated = own if own.scoring_path is path else prefill or own
    found = [(FloorKind.REPLICA, repeated, run) for run in _replicas(bundle, repeated)]
    if own.scoring_path is ScoringPath.DECODE:
        found += [(FloorKind.CONTROL, own, run) for run in (prefill,) if run is not None]
    return found


def _replicas(bundle: BundleEntry, run: Run) -> list[Run]:
    """Return the first repeat of a run, if there is one."""
    kind = (run.mode, run.scoring_path, run.forced_along)
    again = [other for other in bundle.runs if (other.mode, other.scoring_path, other.forced_along) == kind]
    return [other for other in again if other.replica > run.replica][:1]


def _asked(catalog: Catalog, view: ChartsView) -> _Asked:
    """Return what a page is about, with what its link leaves open filled in."""
    rows = runtime_rows(catalog, lambda _, __: None)
    case = catalog.find_case(view.case).key if view.case else ""
    study = view.study or _study(rows, case)
    kept = [row for row in rows if row.study == study and (not case or case in row.entries)]
    if case:
        kept = [replace(row, entries={case: row.entries[case]}) for row in kept]
    if not kept:
        raise NotFoundError("this library holds no such study; choose one of those it has")
    pairs = [(entry, name) for row in kept for entry in row.entries.values() for name in PROTOCOLS]
    able = [name for entry, name in pairs if entry.reference and not entry.is_reference
            and run_pair(entry.reference, entry.bundle, name)]  # fmt: skip
    protocols = tuple(name for name in PROTOCOLS if name in able)
    wanted = view.protocol if view.protocol in protocols else max(protocols, key=able.count, default="forced")
    shown = replace(view, study=study, case=case, protocol=wanted)
    return _Asked(shown, tuple(kept), protocols, _choice_told(rows, view, case))


def _choice_told(rows: Sequence[RuntimeRow], view: ChartsView, case: str) -> tuple[str, ...]:
    """Return that a study was chosen for the reader, where a link names none and several could be meant."""
    able = {row.study for row in rows if not case or case in row.entries}
    if view.study or len(able) < 2:
        return ()
    return (f"{len(able)} studies could be meant; this is the newest. The library names them all.",)


def _study(rows: Sequence[RuntimeRow], case: str) -> str:
    """Return the newest study, of those that ran a case where one is asked for."""
    able = [row for row in rows if not case or case in row.entries]
    return max(able, key=lambda row: row.latest.bundle.facts.created).study if able else ""


def _bounds(source: ChartSource) -> dict[str, int]:
    """Return how many positions are known by whole vocabularies, and by top tokens alone."""
    bounds = [case.sample.lower_bound for lane in source.lanes for case in lane.cases]
    bound = sum(int(np.count_nonzero(one)) for one in bounds)
    full = sum(map(len, bounds)) - bound
    return {name: n for name, n in (("full", full), ("bound", bound)) if n}


def _cases(asked: _Asked) -> tuple[Choice, ...]:
    keys = dict.fromkeys((key, entry.case.case_id) for row in asked.rows for key, entry in row.entries.items())
    view = asked.view
    if view.case:
        return (Choice("all cases", ChartsView(view.study, "", view.protocol, "").href()),)
    several = sorted(keys, key=lambda one: one[1]) if len(keys) > 1 else []
    return tuple(Choice(name, ChartsView("", key, view.protocol, "").href()) for key, name in several)


def _link(entry: Entry, mode: Mode) -> CaseLink:
    """Return the link to a case with the two runs of an entry as lanes."""
    assert entry.reference is not None
    lanes = page_runs(entry.reference, entry.bundle, mode)
    return CaseLink(entry.case.key, ViewOptions(Mode.FORCED if mode is Mode.FORCED else None, lanes))
