"""Checks that a value from a stranger's file is what its annotations say. Pure; standard library only."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

_DEEPEST = 100
"""Levels; the schema of a real tool can have dozens."""

_HINTS: dict[type, dict[str, Any]] = {}


def require_types(value: object) -> None:
    """Check every field of a dataclass, and of those inside it, against its annotation.

    Raises:
        ValueError: one differs; the message names the field.
    """
    for name, kind in _hints(type(value)).items():
        if not _fits(getattr(value, name), kind):
            raise ValueError(f"{name} is not what it should be")


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind)
    return _HINTS[kind]


def _fits(value: object, kind: Any) -> bool:
    kind = getattr(kind, "__supertype__", kind)
    origin = typing.get_origin(kind)
    if kind is Any:
        return is_plain(value)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(kind))
    if origin is tuple:
        return isinstance(value, (tuple, list)) and _fits_tuple(value, typing.get_args(kind))
    if origin is not None and issubclass(origin, Mapping):
        key_kind, item_kind = typing.get_args(kind)
        return isinstance(value, dict) and all(_fits(k, key_kind) and _fits(v, item_kind) for k, v in value.items())
    return _fits_class(value, kind)


def _fits_tuple(values: tuple[object, ...] | list[object], kinds: tuple[Any, ...]) -> bool:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return all(_fits(value, kinds[0]) for value in values)
    return len(values) == len(kinds) and all(map(_fits, values, kinds))


def _fits_class(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, str) and not _encodable(value):
        return False
    if isinstance(value, kind) and is_dataclass(kind):
        require_types(value)
    return isinstance(value, kind) and (not isinstance(value, Enum) or issubclass(kind, Enum))


def is_plain(value: object, depth: int = 0) -> bool:
    """Return whether a value is plain JSON without NaN, nested a few levels at most."""
    if depth > _DEEPEST:
        return False
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(key) and is_plain(item, depth + 1) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_plain(item, depth + 1) for item in value)
    if isinstance(value, str):
        return _encodable(value)
    return value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _encodable(text: str) -> bool:
    """Return whether a text is whole: JSON can hold halves of surrogate pairs, which no page can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
