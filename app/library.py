"""The read side: a folder of bundles as cases that pages can show. All SQL of the pages is in `library_*` modules."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.catalog import BrokenFile, BundleEntry, CaseEntry, Catalog, Entry, Stamp, build_catalog
from app.digest import Digest, Digests
from app.lane_choice import Choice, Pick, choose_lanes
from app.lanes import OpenCase
from app.library_cases import CaseOpener, UnusableBundleError
from app.library_charts import ChartReader
from app.library_comparisons import Comparer
from app.library_files import find_files, read_files
from app.library_index import LibraryIndex
from app.library_runs import RunReader
from app.library_summaries import Summaries
from app.links import ForkLink, Link
from app.shelf import Shelf
from capture.compare import Comparison
from capture.errors import NotFoundError
from capture.model import Mode, Steps

LOOK_SECONDS = 1.0
"""How long the catalog is believed before the folder is looked at again."""

_NOTHING, _STREAM, _FLIP = 0, 1, 2


class Library:
    """A folder of bundles, open for reading by many threads."""

    def __init__(self, folder: Path) -> None:
        """Look at nothing yet; the folder may be missing and appear later."""
        self.folder = folder.resolve()
        self._shelf = Shelf()
        self._runs = RunReader(self._shelf)
        self._comparer = Comparer(self._runs)
        self._opener = CaseOpener(self._runs, self._comparer)
        self._digests = Digests()
        self.summaries = Summaries(self._runs, self._comparer)
        self.index = LibraryIndex(self.summaries)
        self.charts = ChartReader(self._shelf, self._runs, self._comparer)
        self._entries: dict[str, tuple[Stamp | None, Entry]] = {}
        self._catalog: Catalog | None = None
        self._looked_at = 0.0
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close every open bundle."""
        self.summaries.close()
        self._shelf.close()

    def settle(self) -> None:
        """Wait for comparisons and summaries that are being computed."""
        self._comparer.settle()
        self.summaries.settle()
        self.charts.settle()

    def look(self) -> None:
        """Look at the folder now: something was added to it."""
        with self._lock:
            self._look()

    def catalog(self) -> Catalog:
        """Return what the folder holds, looked at again when a second has passed.

        While one thread looks, the others get what was known before.
        """
        known = self._catalog
        if known is not None and time.monotonic() - self._looked_at < LOOK_SECONDS:
            return known
        if not self._lock.acquire(blocking=known is None):
            return known or Catalog()
        try:
            if self._catalog is None or time.monotonic() - self._looked_at >= LOOK_SECONDS:
                self._look()
            return self._catalog or Catalog()
        finally:
            self._lock.release()

    def entries(self) -> tuple[BundleEntry, ...]:
        """Return every bundle that can be read, by name."""
        return self.catalog().bundles

    def broken(self) -> tuple[BrokenFile, ...]:
        """Return every file that cannot be used, with the reason."""
        return self.catalog().broken

    def cases(self) -> tuple[CaseEntry, ...]:
        """Return every case, by study and name."""
        return tuple(self.catalog().cases.values())

    def find_case(self, text: str) -> str:
        """Return the key of the case that a link names; raises what `Catalog.find_case` raises."""
        return self.catalog().find_case(text).key

    def open_case(
        self, key: str, mode: Mode | None = None, lanes: Sequence[str] = (), reference: str | None = None
    ) -> OpenCase:
        """Return a case with the lanes that a page shows; what cannot be shown as asked gives a notice.

        Args:
            key: of the case, or what `find_case` accepts.
            mode: free or forced; None for free.
            lanes: ids of runs or their first 12 or more hex digits; empty for up to 5 runtimes of the newest study.
            reference: the id, or its start, of the run that the others are compared with; None for the first lane.

        Raises:
            NotFoundError: there is no such case, or nothing of it can be shown.
        """
        catalog = self.catalog()
        case = catalog.find_case(key)
        without: dict[str, str] = {}
        while True:
            choice = _choose(case, mode, lanes, reference, without)
            try:
                return self._opener.open(catalog, case, choice, tuple(without.values()))
            except UnusableBundleError as error:
                without[error.bundle_name] = str(error)

    def open_link(self, link: Link) -> OpenCase:
        """Return the case that a link shows: where it names no mode, the mode in which its fork exists.

        Raises:
            NotFoundError: as `open_case`.
        """
        options = link.options
        found = self.open_case(link.case, options.mode, options.lanes, options.reference)
        if isinstance(link, ForkLink) and options.mode is None and _interest(found, link) < _FLIP:
            forced = self.open_case(link.case, Mode.FORCED, options.lanes, options.reference)
            return forced if _interest(forced, link) > _interest(found, link) else found
        return found

    def digest(self, case: OpenCase) -> Digest:
        """Return what the pages of an opened case share, worked out once."""
        return self._digests.of(case)

    def comparison(self, reference_run: str, candidate_run: str) -> Comparison | None:
        """Return the comparison of two runs, from its file or computed; None while it is being computed.

        Raises:
            NotFoundError: one of the runs is not in this library.
            ComparisonError, VocabularyError, BundleError: they cannot be compared.
        """
        catalog = self.catalog()
        return self._comparer.compare(catalog, _pick(catalog, reference_run), _pick(catalog, candidate_run))

    def row(self, run_id: str, position: int) -> bytes | None:
        """Return the raw row of logits of a run at a position; None where it was not kept.

        Raises:
            NotFoundError: the run is not in this library.
            BundleError: its bundle is damaged.
        """
        picked = _pick(self.catalog(), run_id)
        return self._runs.row(picked.bundle, picked.run, position)

    def _look(self) -> None:
        found = find_files(self.folder)
        unread = {
            name: stamp
            for name, stamp in found.items()
            if isinstance(stamp, Stamp) and self._entries.get(name, (None,))[0] != stamp
        }
        unusable = {name: entry for name, entry in found.items() if isinstance(entry, BrokenFile)}
        changed = bool(unread) or self._entries.keys() != found.keys() or self._catalog is None
        self._entries = {name: known for name, known in self._entries.items() if name in found}
        self._entries.update({entry.name: (unread[entry.name], entry) for entry in read_files(self.folder, unread)})
        self._entries.update({name: (None, entry) for name, entry in unusable.items()})
        if changed or unusable:
            self._catalog = build_catalog(entry for _, entry in self._entries.values())
        self._looked_at = time.monotonic()


def _choose(
    case: CaseEntry, mode: Mode | None, lanes: Sequence[str], reference: str | None, without: Mapping[str, str]
) -> Choice:
    try:
        return choose_lanes(case, mode, lanes, reference, without)
    except NotFoundError as error:
        if without:
            raise NotFoundError(
                f"nothing of case {case.case_id} can be shown: {next(iter(without.values()))}"
            ) from error
        raise


def _pick(catalog: Catalog, run_id: str) -> Pick:
    for bundle in catalog.bundles:
        for run in bundle.runs:
            if run.run_id == run_id:
                return Pick(bundle, run)
    raise NotFoundError(f"the run {run_id[:12]} is not in this library")


def _interest(case: OpenCase, link: ForkLink) -> int:
    """Return what a page has at a link's place: nothing, a stream, or a flip."""
    if any(_at(flip.position, flip.prefix_id, link) for found in case.comparisons.values() for flip in found.flips):
        return _FLIP
    streams = (*(lane.steps for lane in case.lanes), *(branch.steps for branch in case.branches))
    return _STREAM if any(_passes(steps, link) for steps in streams) else _NOTHING


def _passes(steps: Steps, link: ForkLink) -> bool:
    row = link.position - int(steps.position[0]) if len(steps) else -1
    return 0 <= row < len(steps) and _at(link.position, steps.prefix_id[row], link)


def _at(position: int, prefix_id: bytes, link: ForkLink) -> bool:
    return position == link.position and prefix_id.hex().startswith(link.prefix)
