"""Exact forks (DESIGN section 4): which flips to grow, the job that grows them, and the certificate of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from capture.engines.base import BranchJob, ForkRequest
from capture.flips import Flip
from capture.model import Certificate, Exactness, Fork, RangeKind, Run, Runtime, Steps
from capture.ranges import Range
from capture.rows import row_hash, widen
from capture.spool import RECOMPUTED, Stream
from capture.study import ForkBudget

REPLAY = "replay"
"""Name of the sink that receives rows computed again for several forks at once."""


@dataclass(frozen=True, slots=True)
class PlannedFork:
    """A fork to grow from a forced run: where, and with which token."""

    position: int
    token_id: int

    @property
    def sink(self) -> str:
        """Name of the fork's sink and stream folder."""
        return f"branch-{self.position}-{self.token_id}"


def choose_forks(flips: Sequence[Flip], ranges: Sequence[Range], budget: ForkBudget) -> tuple[PlannedFork, ...]:
    """Return the flips to grow within the budget, by rising position.

    Wanted first: classes in the budget's order, and within a class those inside tool calls, then the earlier ones.
    """
    wanted = [flip for flip in flips if flip.flip_class in budget.classes]
    calls = [(found.start, found.stop) for found in ranges if found.kind is RangeKind.TOOL_CALL]

    def rank(flip: Flip) -> tuple[int, bool, int]:
        inside = any(start <= flip.position < stop for start, stop in calls)
        return budget.classes.index(flip.flip_class), not inside, flip.position

    chosen = sorted(wanted, key=rank)[: budget.most]
    return tuple(PlannedFork(flip.position, flip.candidate_choice) for flip in sorted(chosen, key=lambda f: f.position))


def branch_job(
    prompt_ids: tuple[int, ...],
    path: tuple[int, ...],
    forks: Sequence[PlannedFork],
    stop_ids: tuple[int, ...],
    max_tokens: int,
    context_length: int,
) -> BranchJob:
    """Return the job that grows `forks` from a run forced along `path`, each as far as the context lets it."""
    room = context_length - len(prompt_ids) - 1
    requests = tuple(
        ForkRequest(fork.position, fork.token_id, max(min(max_tokens, room - fork.position), 0), fork.sink)
        for fork in forks
    )
    last = max((fork.position for fork in forks), default=-1)
    return BranchJob(prompt_ids, path[: last + 1], requests, stop_ids)


def fork_of(parent: Run, parent_steps: Steps, planned: PlannedFork) -> Fork:
    """Return the fork as a bundle records it; the parent's steps start at position 0."""
    return Fork(parent.run_id, planned.position, parent_steps.prefix_id[planned.position], planned.token_id)


def certify(
    position: int,
    streams: Sequence[Stream],
    parent_steps: Steps,
    parent_row: Callable[[int], bytes | None],
    dtype: str,
) -> Certificate:
    """Compare the rows that were computed again, up to and including the fork's position, with the recorded ones.

    Args:
        position: the fork's position.
        streams: the fork's own stream and, where the engine shares rows between forks, the replay.
        parent_steps: steps of the run that the fork leaves, from position 0.
        parent_row: gives that run's raw row at a position; None where it was not kept.
        dtype: of the rows.
    """
    again = [pair for stream in streams for pair in _recomputed(stream, position)]
    compared = {at for at, _ in again}
    forced_steps = sum(at < position for at in compared)
    if not again:
        return Certificate(Exactness.UNVERIFIED, 0, forced_steps)
    differing = [(at, row) for at, row in again if row_hash(row) != parent_steps.row_hash[at]]
    if not differing:
        return Certificate(Exactness.EXACT, len(compared), forced_steps)
    kept = [(row, recorded) for at, row in differing if (recorded := parent_row(at)) is not None]
    largest = max((_difference(row, recorded, dtype) for row, recorded in kept), default=None)
    return Certificate(Exactness.APPROXIMATE, len(compared), forced_steps, min(at for at, _ in differing), largest)


def held_against(certificate: Certificate | None, departure: int | None) -> Certificate | None:
    """Return a certificate as it is after its branch was held against the runtime's own free run.

    After the same prefix every bit must be equal: where the branch departs from that run, it is approximate from there.
    """
    if departure is None or certificate is None or certificate.exactness is not Exactness.EXACT:
        return certificate
    return replace(certificate, exactness=Exactness.APPROXIMATE, first_difference=departure)


def vouched(certificate: Certificate, runtime: Runtime) -> Certificate:
    """Return what a fork's certificate is worth, given how its runtime restores forks.

    After a prefill of the prefix a single row is compared, and rows of prefill and decode are equal by chance now and
    then. In a batch the rows behind the fork are computed beside others than the compared ones. Equal rows do not
    vouch for what follows then.
    """
    loose = any(runtime.options.get(name) for name in ("reprefill_forks", "batched_forks"))
    if not loose or certificate.exactness is not Exactness.EXACT:
        return certificate
    return Certificate(Exactness.UNVERIFIED, 0, certificate.forced_steps)


def first_departure(branch: Steps, free: Steps) -> int | None:
    """Return the first position where a branch differs from the runtime's own free run on the prefixes both have.

    A branch at the first fork, with the runtime's own choice, must be the free run: None then.
    """
    where = dict(zip(free.prefix_id, free.row_hash, strict=True))
    for row, prefix_id in enumerate(branch.prefix_id):
        if where.get(prefix_id, branch.row_hash[row]) != branch.row_hash[row]:
            return int(branch.position[row])
    return None


def _recomputed(stream: Stream, position: int) -> list[tuple[int, bytes]]:
    return [
        (int(record["position"]), stream.row(index))
        for index, record in enumerate(stream.records)
        if record["flags"] & RECOMPUTED and record["position"] <= position
    ]


def _difference(first: bytes, second: bytes, dtype: str) -> float:
    """Return the largest absolute difference of a logit between two rows."""
    left, right = widen([first], dtype).astype(np.float64), widen([second], dtype).astype(np.float64)
    return float(np.abs(left - right)[left != right].max(initial=0.0))
