"""Finds the run that somebody means: by the start of its id, by its names, or by the path of its bundle. No SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from app.catalog import BundleEntry
from app.library import Library
from capture.bundle import Bundle
from capture.bundle_facts import BundleFacts
from capture.errors import NotFoundError
from capture.model import Mode, Run

DIGITS = 12
"""Digits of a run's id that are shown."""

MOST_NAMED = 5
"""Runs that a message lists."""

_ID = re.compile(r"[0-9a-f]{1,32}")


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A run, and the bundle that holds it."""

    path: Path
    facts: BundleFacts
    run: Run

    @property
    def name(self) -> str:
        """Study, case and runtime."""
        return f"{self.facts.study}/{self.facts.case.case_id}/{self.facts.runtime.name}"


class RunFinder:
    """Looks runs up in one library, which is read once and only where it is needed."""

    def __init__(self, library: Path) -> None:
        self._folder = library

    def find(self, text: str) -> NamedRun:
        """Return the run that `text` names.

        Args:
            text: the path of a bundle, in the library or anywhere else, for its free run; the start of a run's id; or
                `case/runtime` or `study/case/runtime`, for the free run of that bundle.

        Raises:
            NotFoundError: no run is called so, or several are.
            BundleError: the bundle cannot be read.
        """
        if text.endswith(".duckdb"):
            return self._at_path(text)
        found = self._by_id(text.lower()) or self._by_name(text)
        if not found:
            raise NotFoundError(
                f"no run of {self._folder} is called {text!r}{self._unread()}; give the start of its id, "
                "case/runtime, or the path of its bundle"
            )
        if len(found) > 1:
            raise NotFoundError(f"{text!r} may be any of {len(found)} runs: {_listed(found)}; name one by its id")
        return found[0]

    @cached_property
    def _entries(self) -> tuple[BundleEntry, ...]:
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[tuple[BundleEntry, ...], int]:
        """Return the bundles, and how many files cannot be read."""
        if not self._folder.is_dir():
            raise NotFoundError(f"there is no library {self._folder}; name the folder of bundles with --library DIR")
        library = Library(self._folder)
        try:
            return library.entries(), len(library.broken())
        finally:
            library.close()

    def _unread(self) -> str:
        count = self._read[1]
        return f" ({count} of its files cannot be read)" if count else ""

    def _at_path(self, text: str) -> NamedRun:
        path = next((place for place in (Path(text), self._folder / text) if place.exists()), None)
        if path is None:
            raise NotFoundError(f"there is no bundle {text}, neither here nor in {self._folder}")
        with Bundle(path) as bundle:
            run = _main_run(bundle.runs)
            if run is None:
                raise NotFoundError(f"{text} holds no run; capture it again")
            return NamedRun(path, bundle.facts, run)

    def _by_id(self, text: str) -> list[NamedRun]:
        if not _ID.fullmatch(text):
            return []
        return _each_once(
            NamedRun(entry.path, entry.facts, run)
            for entry in self._entries
            for run in entry.runs
            if run.run_id.startswith(text)
        )

    def _by_name(self, text: str) -> list[NamedRun]:
        runs = ((entry, run) for entry in self._entries if (run := _main_run(entry.runs)) is not None)
        named = _each_once(NamedRun(entry.path, entry.facts, run) for entry, run in runs)
        found = [one for one in named if f"/{one.name}".endswith(f"/{text}")]
        return [one for one in found if one.run.mode is Mode.FREE] or found


def _main_run(runs: Sequence[Run]) -> Run | None:
    """Return a bundle's own run: free, no replica; else its first."""
    free = (run for run in runs if run.mode is Mode.FREE and run.replica == 0)
    return next(free, runs[0] if runs else None)


def _each_once(found: Iterable[NamedRun]) -> list[NamedRun]:
    """Return runs but for copies in other bundles."""
    return list({one.run.run_id: one for one in reversed(list(found))}.values())[::-1]


def _listed(found: Sequence[NamedRun]) -> str:
    names = [f"{one.run.run_id[:DIGITS]} ({one.name}, {one.run.mode.value})" for one in found[:MOST_NAMED]]
    return ", ".join([*names, "\N{HORIZONTAL ELLIPSIS}"] if len(found) > MOST_NAMED else names)
