"""Comparisons of two runs of a library: read from their files, else computed once and kept in memory."""

from __future__ import annotations

import threading

from app.cache import SizedCache
from app.catalog import BundleEntry, Catalog, ComparisonEntry
from app.deadline import Deadline
from app.lane_choice import Pick
from app.library_files import is_known
from app.library_runs import MEGABYTE, RunReader
from app.shelf import SECONDS
from capture import comparison
from capture.bundle import Bundle
from capture.claims import can_be_true
from capture.compare import Comparison, Side, compare_runs, first_difference
from capture.control import control_margin_nats, yardsticks
from capture.database import open_database
from capture.errors import BundleError, ComparisonError, DamagedBundleError, FlipscopeError, VocabularyError
from capture.metrics import PairMetrics
from capture.model import Keep

AT_ONCE = 30_000_000
"""Logits that are compared while a reader waits, about a second; more are compared in the background."""

_TOP_K_COST = 4_000
"""What comparing one position by its top tokens costs, in logits."""

_METRICS = tuple(PairMetrics.__slots__)

Result = Comparison | FlipscopeError

_Key = tuple[object, ...]


class Comparer:
    """Gives the comparison of two picks."""

    def __init__(self, runs: RunReader, megabytes: int = 192) -> None:
        self._runs = runs
        self._kept: SizedCache[_Key, Result] = SizedCache(megabytes * MEGABYTE, _size)
        self._pending: dict[_Key, threading.Thread] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def settle(self) -> None:
        """Wait for what is being compared."""
        with self._lock:
            pending = list(self._pending.values())
        for thread in pending:
            thread.join()

    def compare(self, catalog: Catalog, reference: Pick, candidate: Pick) -> Comparison | None:
        """Return the comparison of two runs; None while it is being computed.

        Raises:
            ComparisonError: the scoring paths differ.
            VocabularyError: a token id stands for different bytes.
            DamagedBundleError: one of the bundles cannot be read.
        """
        stored = catalog.pairs.get((reference.run.run_id, candidate.run.run_id))
        key: _Key = (
            *(reference.bundle.stamp, reference.run.run_id),
            *(candidate.bundle.stamp, candidate.run.run_id),
            stored[0].stamp if stored else None,
        )
        found = self._kept.get(key)
        if found is None:
            found = self._make(key, reference, candidate, stored)
        if isinstance(found, FlipscopeError):
            raise found
        return found

    def _make(
        self, key: _Key, reference: Pick, candidate: Pick, stored: tuple[ComparisonEntry, int] | None
    ) -> Result | None:
        self._check_vocabulary(reference.bundle, candidate.bundle)
        read = self._read(reference, candidate, *stored) if stored else None
        if read is not None:
            self._kept.put(key, read)
            return read
        if cost_of(reference, candidate) <= AT_ONCE:
            return self._compute(key, reference, candidate)
        self._start(key, reference, candidate)
        return None

    def _start(self, key: _Key, reference: Pick, candidate: Pick) -> None:
        """Compare in a thread that does not keep the server from ending; one at a time."""

        def work() -> None:
            with self._turn:
                self._compute(key, reference, candidate)

        with self._lock:
            self._pending = {known: thread for known, thread in self._pending.items() if thread.is_alive()}
            if key not in self._pending:
                self._pending[key] = threading.Thread(target=work, daemon=True)
                self._pending[key].start()

    def _compute(self, key: _Key, reference: Pick, candidate: Pick) -> Result:
        try:
            result: Result = self._compare(reference, candidate)
        except FlipscopeError as error:
            result = error
        self._kept.put(key, result)
        return result

    def _compare(self, reference: Pick, candidate: Pick) -> Comparison:
        for pick in (reference, candidate):
            self._runs.refresh(pick.bundle)
        # Opened for this alone, so that a long comparison keeps no page waiting for a bundle of the shelf.
        with Bundle(reference.bundle.path) as first, Bundle(candidate.bundle.path) as second:
            sides = self._side(reference, first), self._side(candidate, second)
            return compare_runs(*sides, control_margin_nats=self._control(reference.bundle, first))

    def _control(self, reference: BundleEntry, bundle: Bundle) -> float:
        """Return the margin by which flips are told from ties, as `pairs.compare_bundles` does; 0 without a control."""
        try:
            runs = yardsticks(bundle)
        except ComparisonError:  # a run forced along another bundle's may be a page's yardstick too
            return 0.0
        return control_margin_nats([self._side(Pick(reference, run), bundle) for run in runs])

    def _side(self, pick: Pick, bundle: Bundle) -> Side:
        return Side(bundle, pick.run, self._runs.steps(pick.bundle, [pick.run])[pick.run.run_id])

    def _check_vocabulary(self, reference: BundleEntry, candidate: BundleEntry) -> None:
        """Refuse a pair in which a token that both mention has different bytes, whatever the files claim."""
        ours, theirs = self._runs.tokens(reference), self._runs.tokens(candidate)
        differs = first_difference(ours, theirs)
        if differs is not None:
            raise VocabularyError(
                f"{reference.facts.runtime.name} and {candidate.facts.runtime.name} have different tokenizers: "
                f"token {differs} stands for other bytes, so they are not compared"
            )

    def _read(self, reference: Pick, candidate: Pick, entry: ComparisonEntry, number: int) -> Comparison | None:
        """Return what a file says, if it can be true of these runs: the file is derived and may be a stranger's."""
        if reference.run.scoring_path is not candidate.run.scoring_path:
            raise ComparisonError("runs of different scoring paths are not compared")
        try:
            found = read_comparison(entry, number)
        except BundleError:
            return None
        steps = self._runs.steps(reference.bundle, [reference.run])[reference.run.run_id]
        other = self._runs.steps(candidate.bundle, [candidate.run])[candidate.run.run_id]
        turns = self._runs.prompt(reference.bundle).turns if reference.run.follows_text else ()
        return found if can_be_true(found, steps, other, (reference.run, candidate.run), turns) else None


def cost_of(reference: Pick, candidate: Pick) -> int:
    """Return how many logits comparing takes."""
    positions = min(reference.run.positions, candidate.run.positions)
    full = all(pick.run.logits_kept is not Keep.TOP_K for pick in (reference, candidate))
    return positions * (reference.run.vocabulary_size if full else _TOP_K_COST)


def _size(result: Result) -> int:
    if isinstance(result, FlipscopeError):
        return 1000
    arrays = sum(getattr(result.metrics, name).nbytes for name in _METRICS)
    return int(arrays + result.position.nbytes + 81 * len(result.position) + 300 * len(result.flips) + 1000)


def read_comparison(entry: ComparisonEntry, number: int) -> Comparison:
    """Read one comparison of a file.

    Raises:
        BundleError: the file is gone, cannot be read, or holds values that cannot be.
    """
    try:
        known = is_known(entry.path, entry.stamp)
    except OSError as error:
        raise DamagedBundleError(f"{entry.name} is gone") from error
    pair = entry.pairs[number]
    database = open_database(entry.path, comparison.TABLES, known=known)
    try:
        with Deadline(database.interrupt, SECONDS):
            (index,) = database.one("SELECT comparison FROM comparison ORDER BY comparison LIMIT 1 OFFSET ?", [number])
            return comparison.read_comparison(
                database, index, (pair.reference, pair.candidate), identical=pair.identical
            )
    finally:
        database.close()
