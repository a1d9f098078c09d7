"""Positions of several cases in a row, as charts need them. Pure; imports siblings and numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.charts.values import CaseSample, ChartLane
from capture.model import Float64Array, Int32Array
from capture.samples import FLIP_CLASSES


@dataclass(frozen=True, slots=True)
class Points:
    """Positions of several cases in a row, of one lane; n positions, and where each comes from.

    Attributes:
        case: index into `cases`, int32 [n].
        row: of its sample, int64 [n].
        cases: where they come from.
    """

    case: Int32Array
    row: NDArray[np.int64]
    cases: tuple[CaseSample, ...]

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of the samples, or `margin`, `prompt_length` or `absolute`."""
        parts = [_column(case, name) for case in self.cases]
        whole: NDArray[Any] = np.concatenate(parts) if parts else np.zeros(0)
        return whole[self._flat()]

    def href(self, index: int) -> str:
        """Return the permalink of one of them."""
        return self.cases[int(self.case[index])].href(int(self.row[index]))

    def where(self, mask: NDArray[np.bool_]) -> Points:
        """Return those that a mask, bool [n], leaves."""
        return Points(self.case[mask], self.row[mask], self.cases)

    def __len__(self) -> int:
        return len(self.row)

    def _flat(self) -> NDArray[np.int64]:
        starts = np.cumsum([0, *(len(case.sample) for case in self.cases)])
        found: NDArray[np.int64] = starts[self.case] + self.row
        return found


def points_of(lane: ChartLane, lower_bound: bool | None = None) -> Points:
    """Return the positions of a lane: all, or those known by whole vocabularies (False) or top tokens alone (True)."""
    cases = [np.full(len(case.sample), index, np.int32) for index, case in enumerate(lane.cases)]
    rows = [np.arange(len(case.sample), dtype=np.int64) for case in lane.cases]
    empty = not lane.cases
    points = Points(
        np.zeros(0, np.int32) if empty else np.concatenate(cases),
        np.zeros(0, np.int64) if empty else np.concatenate(rows),
        lane.cases,
    )
    return points if lower_bound is None or empty else points.where(points.column("lower_bound") == lower_bound)


def _column(case: CaseSample, name: str) -> NDArray[Any]:
    if name == "margin":
        return case.margin
    if name == "absolute":
        return case.sample.position.astype(np.int64) + case.prompt_length
    column: NDArray[Any] = getattr(case.sample, name)
    return column


def changed(points: Points) -> Float64Array:
    """Return 1 where the winner changed, else 0; float64 [n]."""
    hits: Float64Array = points.column("changed")
    return hits


def by_case(points: Points, values: Float64Array) -> list[Float64Array]:
    """Return values of positions, float64 [n], case by case; repeats of a case are one case."""
    firsts: dict[str, int] = {}
    numbers = np.array([firsts.setdefault(case.key, index) for index, case in enumerate(points.cases)], np.int64)
    at = numbers[points.case]
    return [values[at == number] for number in np.unique(at)]


def flip_links(points: Points) -> Iterator[str]:
    """Yield links to flips, those that are decided first."""
    codes = points.column("flip")
    decided = 1 + [one.value for one in FLIP_CLASSES].index("decided")
    ordered = [*np.flatnonzero(codes == decided).tolist(), *np.flatnonzero((codes > 0) & (codes != decided)).tolist()]
    return (points.href(at) for at in ordered)
