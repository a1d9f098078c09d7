"""Sinks in memory, for tests of engines."""

from __future__ import annotations

from dataclasses import dataclass

from capture.engines.base import Engine, Job
from capture.model import Ending


@dataclass(frozen=True, slots=True)
class Recorded:
    position: int
    token_id: int
    row: bytes
    forced: bool
    emitted: int | None
    recomputed: bool


class MemorySink:
    def __init__(self) -> None:
        self.rows: list[Recorded] = []

    def append(
        self, position: int, token_id: int, row: memoryview, *, forced: bool, emitted: int | None, recomputed: bool
    ) -> None:
        assert row.contiguous
        assert not self.rows or position > self.rows[-1].position
        self.rows.append(Recorded(position, token_id, bytes(row), forced, emitted, recomputed))

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(row.token_id for row in self.rows)

    @property
    def bits(self) -> list[bytes]:
        return [row.row for row in self.rows]


class MemorySinks:
    def __init__(self) -> None:
        self.sinks: dict[str, MemorySink] = {}
        self.endings: dict[str, Ending] = {}
        self.steps = 0

    def open(self, name: str) -> MemorySink:
        assert name not in self.sinks
        self.sinks[name] = MemorySink()
        return self.sinks[name]

    def finish(self, name: str, ending: Ending) -> None:
        assert name in self.sinks
        assert name not in self.endings
        self.endings[name] = ending

    def folder(self, name: str) -> str:
        raise AssertionError(f"no folder is needed for {name}")

    def count(self, steps: int) -> None:
        self.steps += steps

    def __getitem__(self, name: str) -> MemorySink:
        return self.sinks[name]


def record(engine: Engine, job: Job) -> MemorySinks:
    """Run a job and return what it wrote; every sink must have been finished."""
    sinks = MemorySinks()
    engine.generate(job, sinks, sinks.count)
    assert set(sinks.endings) == set(sinks.sinks)
    assert sinks.steps == sum(len(sink.rows) for sink in sinks.sinks.values())
    return sinks
