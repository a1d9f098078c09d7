"""Reads the step records of many runs at once, quickly and without trusting them. Knows table `step` of a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture.database import Database
from capture.errors import DamagedBundleError
from capture.model import Steps
from capture.prefix import PREFIX_ID_BYTES

_NUMBERS = ("position", "token_id", "forced", "top1", "emitted", "tie_count", "log_sum_exp", "entropy", "margin_nats")
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("position", "token_id", "top1", "emitted", "tie_count"), np.int32),
    "forced": np.bool_,
    **dict.fromkeys(("log_sum_exp", "entropy", "margin_nats"), np.float64),
}

_LEAST = {"token_id": 0, "top1": 0, "emitted": -1, "tie_count": 1, "margin_nats": 0, "entropy": 0}
"""What a column cannot be below."""

_SLACK = 1e-3
"""How far the probabilities of a row's top tokens may exceed 1: both sums were rounded."""

_WHERE = "FROM step WHERE list_contains(?::INTEGER[], run)"


def read_steps(database: Database, runs: Sequence[int]) -> list[Steps]:
    """Return the steps of runs, given by their numbers in the bundle, each by rising position.

    Raises:
        DamagedBundleError: a column holds what it cannot hold.
    """
    values: list[Any] = [list(runs)]
    numbers = database.columns(f"SELECT run, {', '.join(_NUMBERS)} {_WHERE} ORDER BY run, position", values)
    widths = database.columns(
        f"SELECT len(top_ids) AS ids, len(top_logits) AS logits {_WHERE} ORDER BY run, position", values
    )
    tops = database.columns(
        "SELECT unnest(top_ids) AS ids, unnest(top_logits) AS logits "
        f"FROM (SELECT top_ids, top_logits {_WHERE} ORDER BY run, position)",
        values,
    )
    blobs = database.columns(f"SELECT prefix_id, row_hash {_WHERE} ORDER BY run, position", values)
    whole = _Columns(database.name, numbers, widths, tops, blobs)
    return [whole.steps(number) for number in runs]


def _is_row_of_positions(position: NDArray[Any]) -> bool:
    """Return whether positions follow each other in an output, or rise within a prompt, where they are negative."""
    steps = np.diff(position)
    return bool((steps == 1).all() if position[0] >= 0 else (steps > 0).all() and position[-1] < 0)


class _Columns:
    """The columns of several runs, cut apart on demand."""

    def __init__(
        self,
        name: str,
        numbers: dict[str, NDArray[Any]],
        widths: dict[str, NDArray[Any]],
        tops: dict[str, NDArray[Any]],
        blobs: dict[str, NDArray[Any]],
    ) -> None:
        self._name = name
        self._run = self._filled(numbers["run"], np.int32)
        self._numbers = {key: self._number(key, numbers[key]) for key in _NUMBERS}
        self._widths = self._filled(widths["ids"], np.int64)
        if not np.array_equal(self._widths, self._filled(widths["logits"], np.int64)):
            raise self._damaged("top_logits")
        self._starts = np.concatenate([[0], np.cumsum(self._widths)])
        self._ids = self._filled(tops["ids"], np.int32)
        self._logits = self._filled(tops["logits"], np.float32)
        self._prefix_id = self._blobs("prefix_id", blobs["prefix_id"])
        self._row_hash = self._blobs("row_hash", blobs["row_hash"])

    def steps(self, run: int) -> Steps:
        """Return the steps of one run."""
        first, stop = np.searchsorted(self._run, [run, run + 1]).tolist()
        numbers = {key: values[first:stop] for key, values in self._numbers.items()}
        if stop > first and not _is_row_of_positions(numbers["position"]):
            raise self._damaged("position")
        shape = (stop - first, self._width(first, stop))
        top = slice(int(self._starts[first]), int(self._starts[stop]))
        ids, logits = self._ids[top].reshape(shape), self._logits[top].reshape(shape)
        self._check_tops(ids, logits, numbers["log_sum_exp"])
        return Steps(
            **numbers,
            prefix_id=self._prefix_id[first:stop],
            top_ids=ids,
            top_logits=logits,
            row_hash=self._row_hash[first:stop],
        )

    def _check_tops(self, ids: NDArray[Any], logits: NDArray[Any], log_sum_exp: NDArray[Any]) -> None:
        """Refuse ids that no token has, and logits whose probabilities are nothing or more than there is."""
        if ids.size and ids.min() < 0:
            raise self._damaged("top_ids")
        with np.errstate(over="ignore"):
            total = np.exp(logits.astype(np.float64) - log_sum_exp[:, None]).sum(axis=1)
        if total.size and not (total.min() > 0 and total.max() <= 1 + _SLACK):
            raise self._damaged("top_logits")

    def _width(self, first: int, stop: int) -> int:
        widths = self._widths[first:stop]
        if len(widths) and (widths.min() != widths.max() or widths[0] < 1):
            raise self._damaged("top_ids")
        return int(widths[0]) if len(widths) else 0

    def _number(self, key: str, column: NDArray[Any]) -> NDArray[Any]:
        values = np.ma.filled(column, -1) if key == "emitted" else column
        found = self._filled(values, _KINDS[key])
        if found.dtype == np.float64 and not np.isfinite(found).all():
            raise self._damaged(key)
        least = _LEAST.get(key)
        if least is not None and len(found) and found.min() < least:
            raise self._damaged(key)
        return found

    def _filled(self, column: NDArray[Any], kind: Any) -> NDArray[Any]:
        if np.ma.is_masked(column):
            raise self._damaged("a column")
        found = np.ma.getdata(column).astype(kind)
        if found.dtype == np.float32 and np.isnan(found).any():
            raise self._damaged("top_logits")
        return found

    def _blobs(self, key: str, column: NDArray[Any]) -> tuple[bytes, ...]:
        if np.ma.is_masked(column):
            raise self._damaged(key)
        values = tuple(map(bytes, np.ma.getdata(column)))
        if set(map(len, values)) - {PREFIX_ID_BYTES}:
            raise self._damaged(key)
        return values

    def _damaged(self, key: str) -> DamagedBundleError:
        return DamagedBundleError(f"{self._name}: table step holds wrong values in {key}; capture it again")
