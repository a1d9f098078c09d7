"""Engines by name; each is imported only when it is asked for. Standard library only."""

from __future__ import annotations

import importlib

from capture.engines.base import Engine
from capture.errors import UsageError

_CLASSES = {
    "torch": ("capture.engines.torch_engine", "TorchEngine"),
}

ENGINE_NAMES = tuple(_CLASSES)


def create_engine(name: str) -> Engine:
    """Return a new engine of that name, not yet started.

    Raises:
        UsageError: there is no such engine.
    """
    if name not in _CLASSES:
        raise UsageError(f"unknown engine '{name}'; known are {', '.join(ENGINE_NAMES)}")
    module_name, class_name = _CLASSES[name]
    engine: Engine = getattr(importlib.import_module(module_name), class_name)()
    return engine
