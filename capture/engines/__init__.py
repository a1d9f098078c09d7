"""Engines by name; each is imported only when it is asked for. Standard library only."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capture.engines.base import Engine
from capture.errors import UsageError


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where an engine is, and the environment its process gets unless the runtime says otherwise."""

    module: str
    class_name: str
    options: str
    environment: Mapping[str, str] = field(default_factory=dict)


_ENGINES = {
    # Threads that spin on end make steps ten times slower once another process wants a core; a short spin is quick.
    "torch": _Entry(
        "capture.engines.torch_engine",
        "TorchEngine",
        "capture.engines.torch_options",
        {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "20000"},
    ),
    "vllm": _Entry("capture.engines.vllm_engine", "VllmEngine", "capture.engines.vllm_options"),
}

ENGINE_NAMES = tuple(_ENGINES)


def create_engine(name: str) -> Engine:
    """Return a new engine of that name, not yet started; raises UsageError where there is none."""
    entry = _entry(name)
    engine: Engine = getattr(importlib.import_module(entry.module), entry.class_name)()
    return engine


def engine_environment(name: str) -> Mapping[str, str]:
    """Return the environment variables an engine's process gets by default."""
    return _entry(name).environment


def validate_options(name: str, options: Mapping[str, Any]) -> None:
    """Check an engine's options without importing the engine.

    Raises:
        UsageError: the engine, an option or a value is unknown; the message names it.
    """
    importlib.import_module(_entry(name).options).validate_options(options)


def _entry(name: str) -> _Entry:
    if name not in _ENGINES:
        raise UsageError(f"unknown engine '{name}'; known are {', '.join(ENGINE_NAMES)}")
    return _ENGINES[name]
