"""Comparing two runs after the same prefixes: flips and numbers, in float64 (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capture.accelerator import row_comparer
from capture.bundle import Bundle
from capture.encoding import Encoding, encoding_of, kl_above_cut
from capture.errors import ComparisonError, VocabularyError
from capture.flips import Flip, find_flips, shared_rows
from capture.metrics import PairMetrics, compare_top_k, concatenate
from capture.model import Int32Array, Mode, Run, RunId, Steps, Token
from capture.rows import widen

_Rows = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Row numbers of both sides, such as `flips.shared_rows` gives."""

_BLOCK = 16
"""Rows compared at once: bounds memory whatever the length of a run."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs on the positions where both had the same prefix; n positions.

    Attributes:
        reference: id of the run that serves as the yardstick.
        candidate: id of the other run.
        position: int32 [n], output positions in the reference run.
        prefix_id: n ids, those both runs share.
        metrics: one value a position.
        flips: where the two chose differently, by position.
        identical: whether every shared row is the same, bit for bit: the candidate's option may have had no effect.
    """

    reference: RunId
    candidate: RunId
    position: NDArray[np.int32]
    prefix_id: tuple[bytes, ...]
    metrics: PairMetrics
    flips: tuple[Flip, ...]
    identical: bool = False

    @property
    def disagreement(self) -> float:
        """Top-1 disagreement: flips per shared position, 0 where none is shared."""
        return len(self.flips) / len(self.position) if len(self.position) else 0.0


@dataclass(frozen=True, slots=True)
class Side:
    """A run with all that comparing needs: its steps and a way to its raw rows."""

    bundle: Bundle
    run: Run
    steps: Steps

    @classmethod
    def of(cls, bundle: Bundle, run_id: str) -> Side:
        """Read the side's steps."""
        return cls(bundle, bundle.run(run_id), bundle.steps(run_id))


def compare_runs(
    reference: Side, candidate: Side, *, mixed_paths: bool = False, control_margin_nats: float = 0.0
) -> Comparison:
    """Compare two runs where their prefixes are the same.

    Args:
        reference: the yardstick.
        candidate: the other run.
        mixed_paths: allow `decode` against `prefill`, which measures the scoring path, not the runtime.
        control_margin_nats: see `flips.find_flips`.

    Raises:
        ComparisonError: the scoring paths differ and that was not asked for.
        VocabularyError: a token id stands for different bytes.
    """
    _refuse_mixture(reference.run, candidate.run, mixed_paths)
    check_vocabulary(reference.bundle, candidate.bundle)
    left, right = shared_rows(reference.steps, candidate.steps)
    scored = scored_positions(reference)[left]
    left, right = left[scored], right[scored]
    where = frozenset(reference.steps.position[left].tolist())
    dtypes = (reference.run.dtype, candidate.run.dtype)
    encodings = _encodings(reference, candidate)
    closest = max([control_margin_nats, *(code.resolution_nats for code in encodings or ())])
    return Comparison(
        reference=reference.run.run_id,
        candidate=candidate.run.run_id,
        position=reference.steps.position[left],
        prefix_id=tuple(reference.steps.prefix_id[row] for row in left),
        metrics=_metrics(reference, candidate, (left, right), encodings),
        flips=tuple(
            flip for flip in find_flips(reference.steps, candidate.steps, dtypes, closest) if flip.position in where
        ),
        identical=len(left) > 0 and bool(equal_rows(reference.steps, candidate.steps, left, right).all()),
    )


def scored_positions(side: Side) -> NDArray[np.bool_]:
    """Return bool [n], which positions of a run are scored: all, or those in the turns that its case records."""
    return inside_turns(side.steps.position, side.bundle.prompt.turns if side.run.follows_text else ())


def inside_turns(position: Int32Array, turns: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return bool [n], which positions lie in one of the turns, each (first, stop); all where there are no turns."""
    inside = np.full(len(position), not turns)
    for first, stop in turns:
        inside |= (position >= first) & (position < stop)
    return inside


def equal_rows(
    reference: Steps, candidate: Steps, left: NDArray[np.int64], right: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return bool [n], True where two rows are the same, bit for bit, by their hashes.

    Args:
        reference: the steps of one run.
        candidate: those of the other.
        left: row numbers of the one, int64 [n]; both such as `flips.shared_rows` gives.
        right: those of the other.
    """
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    return np.array([reference.row_hash[one] == candidate.row_hash[other] for one, other in pairs], np.bool_)


def reference_run(bundle: Bundle) -> Run:
    """Return the run of a bundle that others are compared with: its first free run, else one along a text.

    Raises:
        ComparisonError: the bundle has none.
    """
    free = [run for run in bundle.runs if run.mode is Mode.FREE and run.replica == 0]
    for run in (*free, *(run for run in bundle.runs if run.follows_text)):
        return run
    raise ComparisonError(f"{bundle.path.name} has no free run, so nothing can be compared with it")


def comparable_runs(bundle: Bundle, reference: Run) -> tuple[Run, ...]:
    """Return the runs of a bundle that compare with `reference`: free, and forced along it, of its scoring path.

    With a run along a text those along the same text compare; what they share follows from the prefixes.
    """
    along = None if reference.follows_text else reference.run_id
    return tuple(
        run
        for run in bundle.runs
        if run.scoring_path is reference.scoring_path
        and run.run_id != reference.run_id
        and (run.mode is Mode.FREE or (run.mode is Mode.FORCED and run.forced_along == along))
    )


def check_vocabulary(first: Bundle, second: Bundle) -> None:
    """Refuse a pair whose token ids stand for different bytes; nothing to check where the hashes are equal.

    Raises:
        VocabularyError: names the first id that differs.
    """
    if first.facts.vocabulary_hash and first.facts.vocabulary_hash == second.facts.vocabulary_hash:
        return
    ours, theirs = first.tokens(), second.tokens()
    difference = first_difference(ours, theirs)
    if difference is not None:
        raise VocabularyError(
            f"{first.facts.runtime.name} and {second.facts.runtime.name} have different tokenizers: token "
            f"{difference} is {ours[difference].data!r} in one and {theirs[difference].data!r} in the other"
        )


def first_difference(first: dict[int, Token], second: dict[int, Token]) -> int | None:
    """Return the lowest id that both map, to different bytes; None where they agree."""
    shared = sorted(first.keys() & second.keys())
    return next((token_id for token_id in shared if first[token_id].data != second[token_id].data), None)


def _refuse_mixture(reference: Run, candidate: Run, mixed_paths: bool) -> None:
    if reference.scoring_path is not candidate.scoring_path and not mixed_paths:
        raise ComparisonError(
            f"one run was scored by {reference.scoring_path.value}, the other by {candidate.scoring_path.value}; "
            "these differ numerically, so compare runs of one scoring path"
        )


def _metrics(reference: Side, candidate: Side, rows: _Rows, encodings: tuple[Encoding, Encoding] | None) -> PairMetrics:
    left, right = rows
    full = _kept_rows(reference, left) & _kept_rows(candidate, right)
    whole = _in_blocks(
        np.flatnonzero(full), lambda at: _full_metrics(reference, candidate, (left[at], right[at]), encodings)
    )
    bounds = _in_blocks(np.flatnonzero(~full), lambda at: _top_k_metrics(reference, candidate, left[at], right[at]))
    parts = whole + bounds or [_top_k_metrics(reference, candidate, left, right)]
    return _reorder(concatenate(parts), np.concatenate([np.flatnonzero(full), np.flatnonzero(~full)]))


def _in_blocks(rows: NDArray[np.int64], measure: Callable[[NDArray[np.int64]], PairMetrics]) -> list[PairMetrics]:
    return [measure(rows[start : start + _BLOCK]) for start in range(0, len(rows), _BLOCK)]


def _reorder(metrics: PairMetrics, where: NDArray[np.int64]) -> PairMetrics:
    order = np.argsort(where, kind="stable")
    return PairMetrics(**{name: getattr(metrics, name)[order] for name in PairMetrics.__slots__})


def _kept_rows(side: Side, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    kept = np.array(side.bundle.kept_positions(side.run.run_id), np.int32)
    return np.isin(side.steps.position[rows], kept)


def _full_metrics(
    reference: Side, candidate: Side, rows: _Rows, encodings: tuple[Encoding, Encoding] | None
) -> PairMetrics:
    shared = _shared_ids(reference, candidate)
    first, second = _logits(reference, rows[0], len(shared)), _logits(candidate, rows[1], len(shared))
    found = row_comparer()(first, second, reference.steps.token_id[rows[0]], shared)
    return found if encodings is None else replace(found, kl_forward=kl_above_cut(first, second, encodings))


def _encodings(reference: Side, candidate: Side) -> tuple[Encoding, Encoding] | None:
    """Return how coarse the rows of both are where they reached us as codes; None for rows that are exact."""
    if not (reference.run.follows_text and candidate.run.follows_text):
        return None
    first, second = (encoding_of(side.bundle.manifest(side.run.run_id)) for side in (reference, candidate))
    return (first, second) if first is not None and second is not None else None


def _logits(side: Side, rows: NDArray[np.int64], width: int) -> NDArray[np.float32]:
    """Return rows [n, width]; ids that the lane does not have get no probability."""
    raw = side.bundle.rows(side.run.run_id, side.steps.position[rows].tolist())
    own = widen(raw, side.run.dtype).reshape(len(rows), side.run.vocabulary_size)
    return np.pad(own, ((0, 0), (0, width - own.shape[1])), constant_values=-np.inf)


def _shared_ids(reference: Side, candidate: Side) -> NDArray[np.bool_]:
    """Return bool [V], the ids that have bytes in both; V is the wider of the two vocabularies.

    Raises:
        VocabularyError: there is none.
    """
    sizes = (reference.run.vocabulary_size, candidate.run.vocabulary_size)
    mask = np.arange(max(sizes)) < min(sizes)
    for spans in (reference.bundle.facts.id_spans, candidate.bundle.facts.id_spans):
        mask &= spans_mask(spans, len(mask))
    if not mask.any():
        names = f"{reference.bundle.facts.runtime.name} and {candidate.bundle.facts.runtime.name}"
        raise VocabularyError(f"{names} have no token id in common; compare runtimes of one vocabulary")
    return mask


def spans_mask(spans: Sequence[tuple[int, int]], size: int) -> NDArray[np.bool_]:
    """Return bool [size], True for the ids inside the spans; all True where no span is known."""
    mask = np.full(size, not spans)
    for first, stop in spans:
        mask[first:stop] = True
    return mask


def _top_k_metrics(reference: Side, candidate: Side, left: NDArray[np.int64], right: NDArray[np.int64]) -> PairMetrics:
    pairs = ((reference.steps, left), (candidate.steps, right))
    ids = tuple(steps.top_ids[rows] for steps, rows in pairs)
    logs = tuple(steps.top_logits[rows].astype(np.float64) - steps.log_sum_exp[rows][:, None] for steps, rows in pairs)
    return compare_top_k((ids[0], ids[1]), (logs[0], logs[1]), reference.steps.token_id[left])
