"""Caches of bounded size for threads. Standard library only."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SizedCache(Generic[Key, Value]):
    """Keeps what was used last, up to a total size."""

    def __init__(self, limit: int, size_of: Callable[[Value], int] = lambda _: 1) -> None:
        self._limit = limit
        self._size_of = size_of
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """Return a value and count it as used; None where it is not kept."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: Key, value: Value) -> None:
        """Keep a value, and drop the least used ones until all fit; one that alone is too large is not kept."""
        size = self._size_of(value)
        with self._lock:
            self._total -= self._values.pop(key, (value, 0))[1]
            if size > self._limit:
                return
            self._values[key] = (value, size)
            self._total += size
            while self._total > self._limit:
                self._total -= self._values.popitem(last=False)[1][1]
