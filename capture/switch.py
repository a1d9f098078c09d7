"""A way to end a worker from another thread. Standard library only."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading


class KillSwitch:
    """Ends the worker that it holds, with all that the worker started; once pulled it stays pulled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pulled = False
        self._process: subprocess.Popen[str] | None = None

    @property
    def pulled(self) -> bool:
        """Whether it was pulled."""
        return self._pulled

    def hold(self, process: subprocess.Popen[str]) -> None:
        """Take a process that leads its own group; it is ended at once where the switch was pulled before."""
        with self._lock:
            self._process = process
            if self._pulled:
                self._kill()

    def pull(self) -> None:
        """End the process that is held, and any that will be."""
        with self._lock:
            self._pulled = True
            self._kill()

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:  # a number that was given back may be another's
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
