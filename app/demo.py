"""The demo: a small real study, captured on this machine once and then shown."""

from __future__ import annotations

import os
from pathlib import Path

from capture.resources import data_folder
from capture.study import Study, read_study


def demo_library() -> Path:
    """Return where the demo's bundles are kept."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "flipscope" / "demo"


def demo_study() -> Study:
    """Return the study that ships with flipscope."""
    return read_study(data_folder() / "studies" / "demo.toml")
