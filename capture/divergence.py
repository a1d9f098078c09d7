"""The mean of a divergence over positions known equally well, and which of two such groups stands for both. Pure.

Numbers over the whole vocabulary and lower bounds from top-k lists are two groups that are never pooled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from capture.intervals import Interval, case_bootstrap, run_interval
from capture.model import Float64Array


class Group(Protocol):
    """Numbers over positions known equally well."""

    @property
    def positions(self) -> int:
        """How many."""


AnyGroup = TypeVar("AnyGroup", bound=Group)


@dataclass(frozen=True, slots=True)
class Divergence:
    """The mean of a divergence.

    Attributes:
        mean: nats; infinite where one position's is.
        positions: how many it is of, at least 1.
        lower_bound: whether only the highest tokens of these were known.
        interval: of the mean, 95 %; None where none is claimed.
    """

    mean: float
    positions: int
    lower_bound: bool
    interval: Interval | None = None


def main_of(whole: AnyGroup | None, bounded: AnyGroup | None) -> AnyGroup | None:
    """Return the group with the more positions, the whole vocabulary's where both have the same; None without any."""
    groups = [group for group in (whole, bounded) if group is not None]
    return max(groups, key=lambda group: group.positions, default=None)


def divergence_of(values: Float64Array, *, lower_bound: bool) -> Divergence | None:
    """Return the mean over positions of one run, with its interval; None without a position or with no number.

    Args:
        values: float64 [n], nats, in the order of their positions, all known equally well.
        lower_bound: whether only the highest tokens were known.
    """
    if not len(values) or np.isnan(values).any():
        return None
    return Divergence(float(values.mean()), len(values), lower_bound, run_interval(values))


def pool(parts: Iterable[Divergence | None]) -> Divergence | None:
    """Return several cases together, each by its positions, with an interval from ten cases on; None without any.

    Raises:
        ValueError: some are lower bounds and some are not.
    """
    known = [part for part in parts if part is not None]
    if not known:
        return None
    if len({part.lower_bound for part in known}) > 1:
        raise ValueError("whole vocabularies and lower bounds are never pooled; pool each by itself")
    positions = sum(part.positions for part in known)
    return Divergence(
        mean=sum(part.mean * part.positions for part in known) / positions,
        positions=positions,
        lower_bound=known[0].lower_bound,
        interval=case_bootstrap([np.full(part.positions, part.mean, np.float64) for part in known]),
    )


def nearness(mean: float | None, rate: float | None, label: str) -> tuple[bool, float, float, str]:
    """Return what orders runtimes, the nearest to the reference first: mean KL, then disagreement, then label.

    Args:
        mean: mean KL of the main group, nats; None where it is not known, which comes last.
        rate: flips per position, 0..1; None where nothing was compared.
        label: what people call the runtime.
    """
    return mean is None, 0.0 if mean is None else mean, 2.0 if rate is None else rate, label
