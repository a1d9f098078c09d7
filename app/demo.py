"""The demo: a small real study, captured on this machine once and then shown at a decided flip."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from app.library import Library
from app.links import CaseLink, ViewOptions
from capture.model import FlipClass, Mode
from capture.resources import data_folder
from capture.study import Study, read_study


def demo_library() -> Path:
    """Return where the demo's bundles are kept."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "flipscope" / "demo"


def demo_study() -> Study:
    """Return the study that ships with flipscope."""
    return read_study(data_folder() / "studies" / "demo.toml")


def first_fork_path(folder: Path) -> str:
    """Return the path of the page at a decided flip: of free runs if there is one, else of forced runs, else `/`."""
    library = Library(folder)
    try:
        paths = [path for mode in Mode for path in _decided_paths(library, mode)]
    finally:
        library.close()
    return next(iter(paths), "/")


def _decided_paths(library: Library, mode: Mode) -> Iterator[str]:
    if mode is Mode.BRANCH:
        return
    for entry in library.cases():
        case = library.open_case(entry.key, mode)
        link = CaseLink(entry.key, ViewOptions(None if mode is Mode.FREE else mode))
        for comparison in case.comparisons.values():
            for flip in comparison.flips:
                if flip.flip_class is FlipClass.DECIDED:
                    yield link.fork(flip.position, flip.prefix_id).format()
