"""The page of a library, made again only when something in the library or in what is known of it has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import replace

from app.cache import SizedCache
from app.catalog import Catalog
from app.library_links import LibraryView
from app.library_summaries import Summaries
from app.matrix import library_page
from app.matrix_values import LibraryPage

MOST_KEPT = 32
"""Pages that are kept, by how they are shown; one of a thousand runs has about two megabytes."""


STALE_SECONDS = 2.0
"""How long a page is shown while summaries are still coming in; each of them would make it anew."""


class LibraryIndex:
    """Gives the pages of a library."""

    def __init__(self, summaries: Summaries) -> None:
        self._summaries = summaries
        self._kept: SizedCache[Hashable, tuple[float, int, LibraryPage]] = SizedCache(MOST_KEPT)
        self._catalog: Catalog | None = None
        self._lock = threading.Lock()

    def page(
        self, catalog: Catalog, view: LibraryView, folder: str, *, exists: bool, notices: tuple[str, ...] = ()
    ) -> LibraryPage:
        """Return the library shown that way; what is not known yet is worked out meanwhile."""
        with self._lock:
            if catalog is not self._catalog:
                self._catalog = catalog
                self._kept = SizedCache(MOST_KEPT)
        key = (tuple(view.items().items()), folder, exists, notices)
        kept = self._kept.get(key)
        if kept is not None and self._is_good(*kept[:2]):
            return kept[2]
        of, version = self._summaries.of, self._summaries.version
        page = library_page(
            catalog,
            view,
            lambda bundle, reference: of(catalog, bundle, reference),
            folder,
            exists=exists,
            notices=notices,
        )
        page = replace(page, pending=self._summaries.busy)
        self._kept.put(key, (time.monotonic(), version, page))
        return page

    def _is_good(self, made_at: float, version: int) -> bool:
        """Return whether a page says all that is known, or soon will where more is coming."""
        stale = self._summaries.version != version
        return not stale or (self._summaries.busy > 0 and time.monotonic() - made_at < STALE_SECONDS)
