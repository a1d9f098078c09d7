"""Summaries of bundles beside their references: read in the background once a file, and kept."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from app.cache import SizedCache
from app.catalog import BundleEntry, Catalog, Stamp, free_run, own_run
from app.lane_choice import Pick
from app.library_comparisons import AT_ONCE, Comparer, cost_of
from app.library_links import PROTOCOLS
from app.library_runs import RunReader
from app.outcome import outcome_of
from app.pair_summary import BundleSummary, Outcome, PairSummary, Share, summarise
from app.run_pairs import prefill_again, reference_of, run_pair
from app.traits import Capture, capture_of
from capture.bundle import Bundle
from capture.compare import Side, compare_runs
from capture.errors import FlipscopeError
from capture.model import Mode, Run, ScoringPath, Token
from capture.range_hints import range_hints
from capture.ranges import Range

MOST_KEPT = 20_000
"""Summaries that are kept, a few kilobytes each."""

_Key = tuple[Stamp, Stamp | None, tuple[Stamp, ...]]


class Summaries:
    """Gives what is known of bundles; what is not is worked out by one thread, in the order in which it was asked."""

    def __init__(self, runs: RunReader, comparer: Comparer) -> None:
        self._runs = runs
        self._comparer = comparer
        self._kept: SizedCache[_Key, BundleSummary] = SizedCache(MOST_KEPT)
        self._ranges: SizedCache[Stamp, tuple[Range, ...]] = SizedCache(500)
        self._waiting: deque[tuple[_Key, Catalog, BundleEntry, BundleEntry | None]] = deque()
        self._asked: set[_Key] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._free = threading.Event()
        self._free.set()
        self._readers = 0
        self.version = 0
        """Rises with every summary that is ready."""

    @property
    def busy(self) -> int:
        """How many summaries are still to come."""
        return len(self._asked)

    def close(self) -> None:
        """Work out nothing more."""
        self._stopped = True
        self.settle()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Start no further summary while a reader waits for something else of the same files."""
        with self._lock:
            self._readers += 1
            self._free.clear()
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
                if not self._readers:
                    self._free.set()

    def settle(self) -> None:
        """Wait for everything that was asked for."""
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join()

    def of(self, catalog: Catalog, bundle: BundleEntry, reference: BundleEntry | None) -> BundleSummary | None:
        """Return the summary of a bundle beside its reference; None while it is being worked out."""
        key = _key(catalog, bundle, reference)
        found = self._kept.get(key)
        if found is None:
            self._ask(key, catalog, bundle, reference)
        return found

    def prepare(self, catalog: Catalog) -> None:
        """Ask for everything that a catalog holds."""
        for case in catalog.cases.values():
            for bundle in case.bundles:
                if not bundle.only_branches:
                    self.of(catalog, bundle, bundle if bundle.facts.is_reference else reference_of(case, bundle))

    def _ask(self, key: _Key, catalog: Catalog, bundle: BundleEntry, reference: BundleEntry | None) -> None:
        with self._lock:
            if self._stopped:
                return
            if key not in self._asked:
                self._asked.add(key)
                self._waiting.append((key, catalog, bundle, reference))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            self._free.wait()
            with self._lock:
                if self._stopped or not self._waiting:
                    self._thread = None
                    self._asked.clear()
                    return
                key, catalog, bundle, reference = self._waiting.popleft()
            self._finish(key, catalog, bundle, reference)

    def _finish(self, key: _Key, catalog: Catalog, bundle: BundleEntry, reference: BundleEntry | None) -> None:
        """Keep a summary, an empty one where there is none to be had, so that nobody waits for it for ever."""
        summary = BundleSummary(Capture())
        try:
            with _left_out_where_impossible():
                summary = self._summary(catalog, bundle, reference)
        finally:
            self._kept.put(key, summary)
            with self._lock:
                self._asked.discard(key)
                self.version += 1

    def _summary(self, catalog: Catalog, bundle: BundleEntry, reference: BundleEntry | None) -> BundleSummary:
        """Return what can be told of a bundle; what cannot be read is left out, the page lists why elsewhere."""
        capture = self._capture(bundle)
        if reference is None:
            return BundleSummary(capture)
        outcome = self._outcome(reference, bundle)
        if reference is bundle:
            return BundleSummary(capture, capture, outcome=outcome, floors=self._floors(bundle))
        pairs = {name: found for name in PROTOCOLS if (found := self._pair(catalog, bundle, reference, name))}
        return BundleSummary(capture, self._capture(reference), pairs, outcome)

    def _outcome(self, reference: BundleEntry, bundle: BundleEntry) -> Outcome | None:
        try:
            return outcome_of(self._output(reference), self._output(bundle), bundle.facts.case, free_run(bundle))
        except FlipscopeError:
            return None

    def _capture(self, bundle: BundleEntry) -> Capture:
        run = own_run(bundle) or (bundle.runs[0] if bundle.runs else None)
        try:
            return Capture() if run is None else capture_of(bundle.facts.runtime, self._runs.manifest(bundle, run))
        except FlipscopeError:
            return Capture()

    def _pair(self, catalog: Catalog, bundle: BundleEntry, reference: BundleEntry, protocol: str) -> PairSummary | None:
        runs = run_pair(reference, bundle, protocol)
        if runs is None:
            return None
        picks = Pick(reference, runs[0]), Pick(bundle, runs[1])
        stored = (runs[0].run_id, runs[1].run_id) in catalog.pairs
        if not stored and cost_of(*picks) > AT_ONCE:  # nobody asked for that much work; opening the case compares
            return None
        with _left_out_where_impossible():
            found = self._comparer.compare(catalog, *picks)
            return None if found is None else summarise(found, self._ranges_of(reference))
        return None

    def _ranges_of(self, reference: BundleEntry) -> tuple[Range, ...]:
        found = self._ranges.get(reference.stamp)
        if found is None:
            hints = range_hints(reference.facts.case.ranges, self._runs.prompt(reference))
            found = hints.find(self._output(reference))
            self._ranges.put(reference.stamp, found)
        return found

    def _output(self, bundle: BundleEntry) -> list[bytes]:
        """Return the bytes of each token of a bundle's own run; none where it has no such run."""
        run = own_run(bundle)
        if run is None:
            return []
        tokens = self._runs.tokens(bundle)
        token_ids = self._runs.steps(bundle, [run])[run.run_id].token_id.tolist()
        return [_bytes(tokens, token_id) for token_id in token_ids]

    def _floors(self, bundle: BundleEntry) -> Mapping[str, Share]:
        """Return how a reference differs from itself: repeated, and scored by prefill instead of decode."""
        own = own_run(bundle)
        others = [] if own is None or not bundle.facts.is_reference else list(_again(bundle, own))
        if own is None or not others:
            return {}
        try:
            with Bundle(bundle.path) as opened:
                first = Side(opened, own, self._runs.steps(bundle, [own])[own.run_id])
                return {name: self._floor(bundle, first, run) for name, run in others}
        except FlipscopeError:
            return {}

    def _floor(self, bundle: BundleEntry, first: Side, run: Run) -> Share:
        second = Side(first.bundle, run, self._runs.steps(bundle, [run])[run.run_id])
        return summarise(compare_runs(first, second, mixed_paths=True)).whole


def _left_out_where_impossible() -> suppress:
    """Return a guard against what one bundle's or comparison's values can raise; the files may be a stranger's."""
    return suppress(FlipscopeError, ValueError, ArithmeticError)


def _again(bundle: BundleEntry, own: Run) -> Iterable[tuple[str, Run]]:
    """Yield the runs of a reference that are its own again, by name of the floor: at most one of each."""
    replicas = [run for run in bundle.runs if run.mode is Mode.FREE and run.replica > 0]
    yield from (("replica", run) for run in replicas[:1])
    prefill = prefill_again(bundle, own)
    if prefill is not None and own.scoring_path is ScoringPath.DECODE:
        yield "prefill against decode", prefill


def _key(catalog: Catalog, bundle: BundleEntry, reference: BundleEntry | None) -> _Key:
    stored: list[Stamp] = []
    for protocol in PROTOCOLS if reference is not None and reference is not bundle else ():
        runs = run_pair(reference, bundle, protocol) if reference else None
        entry = catalog.pairs.get((runs[0].run_id, runs[1].run_id)) if runs else None
        stored += [entry[0].stamp] if entry else []
    return bundle.stamp, None if reference is None else reference.stamp, tuple(dict.fromkeys(stored))


def _bytes(tokens: Mapping[int, Token], token_id: int) -> bytes:
    return tokens[token_id].data if token_id in tokens else b""
