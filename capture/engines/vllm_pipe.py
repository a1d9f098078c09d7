"""How rows get from the device into their streams without stalling a step. Imports torch."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from capture.engines.vllm_streams import Recorder
from capture.errors import EngineError

DEPTH = 64
"""Copies that may be under way; the step waits for the oldest when all are taken, and no row is ever dropped."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One row on the device on its way into a stream.

    Attributes:
        recorder: of the stream.
        position: of the row.
        row: raw logits [vocabulary]; nothing may write to them any more.
        chosen: the token that the engine took [1]; None where the plan imposes one.
    """

    recorder: Recorder
    position: int
    row: torch.Tensor
    chosen: torch.Tensor | None


class RowPipe(Protocol):
    """Takes rows in order and hands them to their recorders."""

    def put(self, piece: Piece) -> None:
        """Take a row; returns once it is safe to let go of the device's copy."""
        ...

    def drain(self) -> None:
        """Wait until every row that was put is with its recorder."""
        ...


class DirectPipe:
    """For processors: the row lies in memory already, and a second thread was measured to gain nothing."""

    def put(self, piece: Piece) -> None:
        """Hand the row on."""
        deliver(piece.recorder, piece.position, piece.row, piece.chosen)

    def drain(self) -> None:
        """Nothing is under way."""


class CopyingPipe:
    """For GPUs: rows are copied on a stream of their own into pinned memory; a thread waits for them and writes."""

    def __init__(self, device: torch.device, depth: int = DEPTH) -> None:
        self._copies = _Copies(device)
        self._inbox: queue.Queue[tuple[Piece, _Reached]] = queue.Queue(depth)
        self._thread = threading.Thread(target=self._write, daemon=True, name="flipscope rows")
        self._thread.start()

    def put(self, piece: Piece) -> None:
        """Start the copies of a row; waits while too many are under way."""
        with self._copies.behind_the_step():
            row = self._copies.to_host(piece.row)
            chosen = None if piece.chosen is None else self._copies.to_host(piece.chosen)
            done = self._copies.mark()
        self._inbox.put((Piece(piece.recorder, piece.position, row, chosen), done))

    def drain(self) -> None:
        """Wait until every row is with its recorder."""
        self._inbox.join()

    def _write(self) -> None:
        while True:
            piece, done = self._inbox.get()
            try:
                done.synchronize()
                deliver(piece.recorder, piece.position, piece.row, piece.chosen)
            except (RuntimeError, ValueError, TypeError, OSError, MemoryError) as error:
                piece.recorder.fail("engine", f"a row could not be copied off the device: {error}")
            finally:
                self._inbox.task_done()


def deliver(recorder: Recorder, position: int, row: torch.Tensor, chosen: torch.Tensor | None) -> None:
    """Hand a row in memory to its recorder as raw bytes."""
    data = memoryview(row.contiguous().view(torch.uint8).numpy())
    shape = (str(row.dtype).removeprefix("torch."), row.shape[0])
    recorder.append(position, data, shape, None if chosen is None else int(chosen.item()))


def make_pipe(device: torch.device) -> RowPipe:
    """Return the pipe for a device.

    Raises:
        EngineError: nobody knows how to copy off such a device.
    """
    if device.type == "cpu":
        return DirectPipe()
    if device.type == "cuda":
        return CopyingPipe(device)
    raise EngineError(f"rows cannot be copied off a device of type '{device.type}'; run on a GPU or a processor")


class _Copies:
    """Copies off a device beside the running step. On a processor, where tests run it, they are plain copies."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = None if device.type == "cpu" else torch.cuda.Stream(device)

    @contextlib.contextmanager
    def behind_the_step(self) -> Iterator[None]:
        """Run copies after what was computed so far, without what comes next waiting for them."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Start copying a tensor into host memory."""
        if self._stream is None:
            return tensor.clone()
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        tensor.record_stream(self._stream)
        return host

    def mark(self) -> _Reached:
        """Return an event that is reached when the copies are done."""
        return _AtOnce() if self._stream is None else self._stream.record_event()


class _Reached(Protocol):
    def synchronize(self) -> None: ...


class _AtOnce:
    def synchronize(self) -> None:
        """The copy was made at once."""
