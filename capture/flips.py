"""Flips between two runs after the same prefix, and how clear each is (DESIGN section 3). Pure; numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capture.model import FlipClass, Steps
from capture.rows import logit_step


@dataclass(frozen=True, slots=True)
class Flip:
    """One position where two runs differ after the same prefix.

    Attributes:
        position: output position in the reference run.
        prefix_id: the shared prefix.
        reference_choice: the token that the reference chose there.
        candidate_choice: the token that the candidate chose there.
        flip_class: tie, near-tie or decided.
        reference_margin_nats: the reference's margin.
        candidate_margin_nats: the candidate's margin.
    """

    position: int
    prefix_id: bytes
    reference_choice: int
    candidate_choice: int
    flip_class: FlipClass
    reference_margin_nats: float
    candidate_margin_nats: float


def shared_rows(reference: Steps, candidate: Steps) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row numbers of both runs, int64 [m] each, whose prefix ids are equal: the join of DESIGN section 2."""
    where = {prefix_id: row for row, prefix_id in enumerate(reference.prefix_id)}
    pairs = [(where[prefix_id], row) for row, prefix_id in enumerate(candidate.prefix_id) if prefix_id in where]
    left = np.array([pair[0] for pair in pairs], np.int64)
    return left, np.array([pair[1] for pair in pairs], np.int64)


def choices(
    reference: Steps, candidate: Steps, left: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return what each side chose at the shared rows: emitted where both emitted, else top-1 of both."""
    both = (reference.emitted[left] >= 0) & (candidate.emitted[right] >= 0)
    first = np.where(both, reference.emitted[left], reference.top1[left]).astype(np.int32)
    second = np.where(both, candidate.emitted[right], candidate.top1[right]).astype(np.int32)
    return first, second


def find_flips(
    reference: Steps, candidate: Steps, dtypes: tuple[str, str], control_margin_nats: float = 0.0
) -> tuple[Flip, ...]:
    """Return every flip on shared prefixes, in order of position.

    Args:
        reference: the yardstick run's steps.
        candidate: the other run's steps.
        dtypes: native logit dtypes of both.
        control_margin_nats: 99th percentile of the change of margin in the benign control, 0 where there is none.
    """
    return flips_in_rows(reference, candidate, shared_rows(reference, candidate), dtypes, control_margin_nats)


def flips_in_rows(
    reference: Steps,
    candidate: Steps,
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    dtypes: tuple[str, str],
    control_margin_nats: float = 0.0,
) -> tuple[Flip, ...]:
    """Return the flips among rows that share their prefixes, such as `shared_rows` gives; else as `find_flips`."""
    left, right = rows
    first, second = choices(reference, candidate, left, right)
    return tuple(
        _flip(
            _Choice(reference, int(left[at]), int(first[at]), dtypes[0]),
            _Choice(candidate, int(right[at]), int(second[at]), dtypes[1]),
            control_margin_nats,
        )
        for at in np.flatnonzero(first != second)
    )


@dataclass(frozen=True, slots=True)
class _Choice:
    """What one run chose in one of its rows."""

    steps: Steps
    row: int
    token_id: int
    dtype: str

    @property
    def top1(self) -> int:
        return int(self.steps.top1[self.row])

    @property
    def margin_nats(self) -> float:
        return float(self.steps.margin_nats[self.row])

    @property
    def step_nats(self) -> float:
        """The distance to the next logit that the dtype can write, at the highest of the row."""
        return logit_step(float(self.steps.top_logits[self.row, 0]), self.dtype)

    def ties_with(self, token_id: int) -> bool:
        """Return whether a token is among the exact maxima of the row, as far as its top-k list tells."""
        logits = self.steps.top_logits[self.row]
        return bool((self.steps.top_ids[self.row][logits == logits[0]] == token_id).any())


def _flip(reference: _Choice, candidate: _Choice, control_margin_nats: float) -> Flip:
    return Flip(
        position=int(reference.steps.position[reference.row]),
        prefix_id=reference.steps.prefix_id[reference.row],
        reference_choice=reference.token_id,
        candidate_choice=candidate.token_id,
        flip_class=_classify(reference, candidate, control_margin_nats),
        reference_margin_nats=reference.margin_nats,
        candidate_margin_nats=candidate.margin_nats,
    )


def _classify(reference: _Choice, candidate: _Choice, control_margin_nats: float) -> FlipClass:
    same = reference.top1 == candidate.top1
    if same or reference.ties_with(candidate.token_id) or candidate.ties_with(reference.token_id):
        return FlipClass.TIE
    closest = max(reference.step_nats, candidate.step_nats, control_margin_nats)
    smaller = min(reference.margin_nats, candidate.margin_nats)
    return FlipClass.NEAR_TIE if smaller <= closest else FlipClass.DECIDED
