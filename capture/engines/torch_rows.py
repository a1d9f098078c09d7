"""Comparing rows with torch in float64, on a graphics processor; what `capture.metrics` does with numpy."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch

from capture.accelerator import RowComparer
from capture.metrics import BoolArray, PairMetrics, compare_rows, concatenate
from capture.model import Int32Array
from capture.row_pair import Logits

_BLOCK = 16
"""Rows on the device at once; bounds its memory whatever the length of a run."""


def on_graphics_processor() -> RowComparer | None:
    """Return what compares rows on the first graphics processor; None where torch sees none."""
    return partial(_compare_where_there_is_room, torch.device("cuda")) if torch.cuda.is_available() else None


def _compare_where_there_is_room(
    device: torch.device, reference: Logits, candidate: Logits, tokens: Int32Array, shared_ids: BoolArray | None = None
) -> PairMetrics:
    """Compare on `device`, or without it where its memory is taken, as beside a server of models."""
    try:
        return compare_rows_on(device, reference, candidate, tokens, shared_ids)
    except torch.OutOfMemoryError:
        return compare_rows(reference, candidate, tokens, shared_ids)


def compare_rows_on(
    device: torch.device, reference: Logits, candidate: Logits, tokens: Int32Array, shared_ids: BoolArray | None = None
) -> PairMetrics:
    """Compare rows [n, V] on `device`; arguments and values as in `metrics.compare_rows`, n at least 1."""
    shared = np.ones(reference.shape[1], np.bool_) if shared_ids is None else shared_ids
    mask = torch.from_numpy(shared.copy()).to(device)
    places = torch.from_numpy(np.where(shared, np.cumsum(shared) - 1, -1)[tokens]).to(device)[:, None]
    parts = []
    for start in range(0, len(reference), _BLOCK):
        block = slice(start, start + _BLOCK)
        first, second = (_Side(torch.tensor(rows[block], device=device), mask) for rows in (reference, candidate))
        parts.append(_compare(first, second, places[block]))
    return concatenate(parts)


class _Side:
    """Rows of one side on the device: over the shared ids, and the probability outside of them."""

    def __init__(self, logits: torch.Tensor, mask: torch.Tensor) -> None:
        every = logits.double().log_softmax(dim=1)
        self.outside = every[:, ~mask].exp().sum(dim=1)
        self.logits = logits[:, mask]
        self.logs = self.logits.double().log_softmax(dim=1)
        self.probability = self.logs.exp()
        self.top = self.logits.sort(dim=1, descending=True, stable=True).indices[:, :5]
        self.winner = self.top[:, :1]
        self.entropy = _mean(self.probability, -self.logs)


def _compare(first: _Side, second: _Side, places: torch.Tensor) -> PairMetrics:
    """Compare two sides; `places` [n, 1] says where the reference's tokens are among the shared ids, -1 for nowhere."""
    forward = _mean(first.probability, first.logs - second.logs)
    reverse = _mean(second.probability, second.logs - first.logs)
    middle = torch.logaddexp(first.logs, second.logs) - math.log(2.0)
    shannon = (_mean(first.probability, first.logs - middle) + _mean(second.probability, second.logs - middle)) / 2
    overlap = (first.top[:, :, None] == second.top[:, None, :]).any(dim=2).sum(dim=1)
    tokens = places.clamp(min=0)
    delta = second.probability.gather(1, tokens) - first.probability.gather(1, tokens)
    values = {
        "kl_forward": forward,
        "kl_reverse": reverse,
        "jensen_shannon": shannon.clamp(max=math.log(2.0)),
        "reference_entropy": first.entropy,
        "candidate_entropy": second.entropy,
        "reference_rank": _rank(second, first.winner),
        "candidate_rank": _rank(first, second.winner),
        "reference_winner_probability": second.probability.gather(1, first.winner)[:, 0],
        "candidate_winner_probability": first.probability.gather(1, second.winner)[:, 0],
        "delta_probability": delta.masked_fill(places < 0, math.nan)[:, 0],
        "top5_overlap": overlap.int(),
        "reference_outside": first.outside,
        "candidate_outside": second.outside,
        "lower_bound": torch.zeros(len(tokens), dtype=torch.bool),
    }
    return PairMetrics(**{name: value.cpu().numpy() for name, value in values.items()})


def _mean(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return the mean of `values` under `weights`, at least 0; a weight of 0 counts as 0."""
    return torch.where(weights > 0, weights * values, 0.0).sum(dim=1).clamp(min=0.0)


def _rank(side: _Side, ids: torch.Tensor) -> torch.Tensor:
    value = side.logits.gather(1, ids)
    lower = torch.arange(side.logits.shape[1], device=ids.device) < ids
    return ((side.logits > value) | ((side.logits == value) & lower)).sum(dim=1).int()
