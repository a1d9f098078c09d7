"""The static files and templates that ship with flipscope, and versions of them for links. Standard library only."""

from __future__ import annotations

import hashlib
from pathlib import Path

from app.links import static_url
from capture.resources import shipped_folder

_VERSION_DIGITS = 12


def templates_folder() -> Path:
    """Return the folder of the templates."""
    return shipped_folder("templates")


class StaticFolder:
    """The folder of static files, with a version of each that follows from its bytes."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or shipped_folder("static")).resolve()
        self._known: dict[str, tuple[int, str]] = {}

    def url(self, name: str) -> str:
        """Return the address of a file, with its version where it exists."""
        return static_url(name, self.version(name))

    def version(self, name: str) -> str:
        """Return the start of the hash of a file's bytes; empty where there is no such file inside the folder."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder) or not path.is_file():
            return ""
        modified = path.stat().st_mtime_ns
        known = self._known.get(name)
        if known is None or known[0] != modified:
            digest = hashlib.blake2b(path.read_bytes(), digest_size=_VERSION_DIGITS // 2)
            known = self._known[name] = (modified, digest.hexdigest())
        return known[1]
