"""Bounds how long a block of queries may run. Standard library only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

_AGAIN = 0.2


class Deadline:
    """Interrupts what runs inside the `with` block once `seconds` are over, again and again until the block ends."""

    def __init__(self, interrupt: Callable[[], None], seconds: float) -> None:
        self._interrupt = interrupt
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._over_at = 0.0

    def __enter__(self) -> Self:
        self._over_at = time.monotonic() + self._seconds
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def over(self) -> bool:
        """Whether the time was used up."""
        return time.monotonic() >= self._over_at

    def _watch(self) -> None:
        wait = self._seconds
        while not self._ended.wait(wait):
            self._interrupt()
            wait = _AGAIN
