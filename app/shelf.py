"""Keeps the bundles that were read last open, for many threads. No SQL."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.catalog import BundleEntry, Stamp
from app.deadline import Deadline
from app.library_files import is_known
from capture.bundle import Bundle
from capture.errors import DamagedBundleError

MOST_OPEN = 24

SECONDS = 20.0
"""How long one read of a bundle may take."""


class _Place:
    """One bundle on the shelf; whoever holds the lock may use it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.bundle: Bundle | None = None
        self.stamp: Stamp | None = None

    def open(self, entry: BundleEntry) -> Bundle:
        """Return the bundle, opened where it is not, or where another file has taken its place.

        DuckDB gives a path that is open the instance that has it, so the old file must be closed first.
        """
        if self.stamp != entry.stamp:
            self.close()
        if self.bundle is None:
            self.bundle = _open(entry)
            self.stamp = entry.stamp
        return self.bundle

    def close(self) -> None:
        """Close the bundle; the caller holds the lock."""
        if self.bundle is not None:
            self.bundle.close()
            self.bundle = None


class Shelf:
    """Open bundles by file; the least used ones are closed."""

    def __init__(self, most_open: int = MOST_OPEN, seconds: float = SECONDS) -> None:
        self._most_open = most_open
        self._seconds = seconds
        self._places: OrderedDict[Path, _Place] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def bundle(self, entry: BundleEntry) -> Iterator[Bundle]:
        """Lend an open bundle to the `with` block, to one thread at a time.

        Raises:
            DamagedBundleError: it cannot be read, it was replaced, or reading took too long.
        """
        place = self._place(entry)
        with place.lock:
            bundle = place.open(entry)
            with Deadline(bundle.database.interrupt, self._seconds) as deadline:
                try:
                    yield bundle
                except DamagedBundleError as error:
                    if deadline.over:
                        message = f"{entry.name} took longer than {self._seconds:.0f} s to read"
                        raise DamagedBundleError(message) from error
                    raise
        self._tidy()

    @contextmanager
    def bundles(self, first: BundleEntry, second: BundleEntry) -> Iterator[tuple[Bundle, Bundle]]:
        """Lend two bundles at once, in an order that cannot lock up."""
        with ExitStack() as stack:
            low, high = sorted((first, second), key=lambda entry: str(entry.path))
            opened = {id(entry): stack.enter_context(self.bundle(entry)) for entry in (low, high)}
            yield opened[id(first)], opened[id(second)]

    def close(self) -> None:
        """Close every bundle that no thread uses."""
        with self._lock:
            places, self._places = list(self._places.values()), OrderedDict()
        for place in places:
            with place.lock:
                place.close()

    def _place(self, entry: BundleEntry) -> _Place:
        with self._lock:
            place = self._places.setdefault(entry.path, _Place())
            self._places.move_to_end(entry.path)
            return place

    def _tidy(self) -> None:
        with self._lock:
            for path in list(self._places)[: max(len(self._places) - self._most_open, 0)]:
                place = self._places[path]
                if place.lock.acquire(blocking=False):
                    place.close()
                    del self._places[path]
                    place.lock.release()


def _open(entry: BundleEntry) -> Bundle:
    try:
        known = is_known(entry.path, entry.stamp)
    except OSError as error:
        raise DamagedBundleError(f"{entry.name} is gone; reload the page") from error
    if not known:
        raise DamagedBundleError(f"{entry.name} was replaced just now; reload the page")
    return Bundle(entry.path, known=True)
