"""Finds the folders that ship beside the code: in a checkout next to the packages, in a wheel inside `app`."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def shipped_folder(name: str) -> Path:
    """Return the folder `name` (`data`, `static` or `templates`) of this installation."""
    inside_wheel = _ROOT / "app" / "_assets" / name
    return inside_wheel if inside_wheel.is_dir() else _ROOT / name


def data_folder() -> Path:
    """Return the folder of cases, studies and bundles that ship with flipscope."""
    return shipped_folder("data")


def bundled_library() -> Path:
    """Return the library that ships with flipscope: real captures of the study `network-automation`."""
    return data_folder() / "library"
