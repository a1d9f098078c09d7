"""Reads from bundles what a comparison does not hold: kinds of range, confidence, probabilities of tokens, rounding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture.bundle import Bundle
from capture.compare import Comparison, Side
from capture.encoding import Encoding, encoding_of
from capture.errors import ComparisonError
from capture.flips import Flip
from capture.model import Float64Array, Int32Array, Steps
from capture.range_hints import range_hints
from capture.rounding import rounding_kl
from capture.rows import widen
from capture.samples import FLIP_CLASSES, KINDS, Sample, prefix_column

_BLOCK = 16
"""Rows read at once, as few as bound memory at any vocabulary."""

_SHORTEST_CUT = 15.99
"""Nats; codes that reach less far below the highest were not cut off: the lowest of them is a value like any other."""

Kinds = NDArray[np.int8]


def range_kinds(bundle: Bundle, steps: Steps) -> Kinds:
    """Return the kind of range that each token of a run lies in, as index into `KINDS`; int8 [n]."""
    tokens = bundle.tokens()
    known = [tokens.get(token_id) for token_id in steps.token_id.tolist()]
    kinds = np.zeros(len(steps), np.int8)
    if not known or steps.position[0] < 0:  # a probe of a prompt, which has no ranges
        return kinds
    data = [token.data if token else b"" for token in known]
    for found in range_hints(bundle.facts.case.ranges, bundle.prompt).find(data):
        kinds[found.start : found.stop] = KINDS.index(found.kind)
    return kinds


def sample_of(comparison: Comparison, reference: Side, candidate: Side, kinds: Kinds) -> Sample:
    """Return the positions of a comparison with all that summaries need.

    Args:
        comparison: of the two sides.
        reference: the yardstick.
        candidate: the other run.
        kinds: of the reference's run, from `range_kinds`.

    Raises:
        ComparisonError: the comparison is not of these runs, or a number of it is none.
    """
    left, right = shared_rows_of(comparison, reference.steps, candidate.steps)
    tokens = reference.steps.token_id[left]
    metrics = comparison.metrics
    codes = encoding_of_run(reference), encoding_of_run(candidate)
    if any(np.isnan(one).any() for one in (metrics.kl_forward, metrics.kl_reverse, metrics.jensen_shannon)):
        name = candidate.bundle.path.name
        raise ComparisonError(f"{name} or its reference holds logits that are no numbers; capture them again")
    first = token_log_probabilities(reference, left, tokens, codes[0])
    second = token_log_probabilities(candidate, right, tokens, codes[1])
    top_logits, log_sum_exp = reference.steps.top_logits[left], reference.steps.log_sum_exp[left]
    return Sample(
        case_id=reference.bundle.facts.case.case_id,
        position=comparison.position,
        prefix_id=prefix_column(comparison.prefix_id),
        kind=kinds[left],
        flip=_flip_codes(comparison.position, comparison.flips),
        same_top=metrics.reference_rank == 0,
        lower_bound=metrics.lower_bound,
        confidence=np.exp(top_logits.max(axis=1, initial=-np.inf).astype(np.float64) - log_sum_exp),
        kl_forward=metrics.kl_forward,
        kl_reverse=metrics.kl_reverse,
        jensen_shannon=metrics.jensen_shannon,
        delta_probability=np.where(metrics.lower_bound, np.exp(second) - np.exp(first), metrics.delta_probability),
        reference_log_probability=first,
        candidate_log_probability=second,
        rounding_kl=rounding_kl(top_logits, log_sum_exp, (_grid(reference, codes[0]), _grid(candidate, codes[1]))),
    )


def encoding_of_run(side: Side) -> Encoding | None:
    """Return how coarse the rows of a run are where it was imported as codes; None for rows that are exact."""
    return encoding_of(side.bundle.manifest(side.run.run_id)) if side.run.follows_text else None


def _grid(side: Side, code: Encoding | None) -> str | float:
    return side.run.dtype if code is None else code.step_nats


def shared_rows_of(
    comparison: Comparison, reference: Steps, candidate: Steps
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row numbers in both runs of a comparison's positions, int64 [n] each.

    Raises:
        ComparisonError: the comparison is not of these runs.
    """
    both = []
    for steps in (reference, candidate):
        where = {prefix_id: row for row, prefix_id in enumerate(steps.prefix_id)}
        rows = [where.get(prefix_id, -1) for prefix_id in comparison.prefix_id]
        both.append(np.array(rows, np.int64))
    if any((rows < 0).any() for rows in both):
        raise ComparisonError(
            "a comparison names prefixes that its runs do not hold; delete its file and compare again"
        )
    return both[0], both[1]


def _flip_codes(position: Int32Array, flips: tuple[Flip, ...]) -> NDArray[np.int8]:
    codes = {flip.position: 1 + FLIP_CLASSES.index(flip.flip_class) for flip in flips}
    return np.array([codes.get(at, 0) for at in position.tolist()], np.int8)


def token_log_probabilities(
    side: Side, rows: NDArray[np.int64], tokens: Int32Array, code: Encoding | None = None
) -> Float64Array:
    """Return the log-probability of a token at each row, nats; NaN where it is neither listed nor its row kept.

    Args:
        side: the run.
        rows: numbers of its rows, int64 [n].
        tokens: int32 [n].
        code: what its rows were written in; a token below the code's window is unknown too.
    """
    found = _looked_up(side, rows, tokens)
    if code is not None and code.window_nats > _SHORTEST_CUT and len(found):
        steps = side.steps
        floor = steps.top_logits[rows, 0].astype(np.float64) - steps.log_sum_exp[rows] - code.window_nats
        found[found < floor + code.step_nats / 2] = np.nan
    return found


def _looked_up(side: Side, rows: NDArray[np.int64], tokens: Int32Array) -> Float64Array:
    steps = side.steps
    found = np.full(len(rows), np.nan)
    listed = steps.top_ids[rows] == tokens[:, None]
    at = np.flatnonzero(listed.any(axis=1))
    if at.size:
        logits = steps.top_logits[rows[at], listed[at].argmax(axis=1)].astype(np.float64)
        found[at] = logits - steps.log_sum_exp[rows[at]]
    missing = np.flatnonzero(np.isnan(found) & (tokens < side.run.vocabulary_size))
    if missing.size:
        kept = np.array(side.bundle.kept_positions(side.run.run_id), np.int32)
        missing = missing[np.isin(steps.position[rows[missing]], kept)]
    for start in range(0, len(missing), _BLOCK):
        part = missing[start : start + _BLOCK]
        found[part] = _from_rows(side, rows[part], tokens[part])
    return found


def _from_rows(side: Side, rows: NDArray[np.int64], tokens: Int32Array) -> Float64Array:
    raw = side.bundle.rows(side.run.run_id, side.steps.position[rows].tolist())
    logits = widen(raw, side.run.dtype)[np.arange(len(rows)), tokens]
    values: Float64Array = logits.astype(np.float64) - side.steps.log_sum_exp[rows]
    return values
