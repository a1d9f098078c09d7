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
    left, right = shared_rows(reference, candidate)
    first, second = choices(reference, candidate, left, right)
    return tuple(
        _flip(
            reference,
            candidate,
            int(left[at]),
            int(right[at]),
            int(first[at]),
            int(second[at]),
            dtypes,
            control_margin_nats,
        )
        for at in np.flatnonzero(first != second)
    )


def _flip(
    reference: Steps,
    candidate: Steps,
    left: int,
    right: int,
    first: int,
    second: int,
    dtypes: tuple[str, str],
    control_margin_nats: float,
) -> Flip:
    return Flip(
        position=int(reference.position[left]),
        prefix_id=reference.prefix_id[left],
        reference_choice=first,
        candidate_choice=second,
        flip_class=_classify(reference, candidate, left, right, first, second, dtypes, control_margin_nats),
        reference_margin_nats=float(reference.margin_nats[left]),
        candidate_margin_nats=float(candidate.margin_nats[right]),
    )


def _classify(
    reference: Steps,
    candidate: Steps,
    left: int,
    right: int,
    first: int,
    second: int,
    dtypes: tuple[str, str],
    control_margin_nats: float,
) -> FlipClass:
    top1_agree = reference.top1[left] == candidate.top1[right]
    if top1_agree or _ties_with(reference, left, second) or _ties_with(candidate, right, first):
        return FlipClass.TIE
    smaller = min(float(reference.margin_nats[left]), float(candidate.margin_nats[right]))
    step = max(
        logit_step(float(reference.top_logits[left, 0]), dtypes[0]),
        logit_step(float(candidate.top_logits[right, 0]), dtypes[1]),
    )
    return FlipClass.NEAR_TIE if smaller <= max(step, control_margin_nats) else FlipClass.DECIDED


def _ties_with(steps: Steps, row: int, token_id: int) -> bool:
    """Return whether `token_id` is among the exact maxima of that row, as far as its top-k list tells."""
    at_maximum = steps.top_logits[row] == steps.top_logits[row, 0]
    return bool((steps.top_ids[row][at_maximum] == token_id).any())
