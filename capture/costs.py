"""What a runtime cost where it was captured: files on disk, weights in memory, speed. Reads bundles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from capture.bundle import Bundle
from capture.model import Json, ScoringPath

LONGEST_MANIFEST = 4_000_000
"""Characters of a manifest that is read for its sizes; a longer one is none of ours."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One runtime's costs; None where nothing was recorded.

    Attributes:
        disk_bytes: size of the model's files.
        weight_bytes: what the weights take in memory.
        positions_per_second: median over the runs that took one token a step, prompt and recording included.
    """

    disk_bytes: int | None
    weight_bytes: int | None
    positions_per_second: float | None


@dataclass(frozen=True, slots=True)
class Expense:
    """What one bundle tells of a runtime's costs.

    Attributes:
        disk_bytes, weight_bytes: as in `Cost`.
        speeds: positions per second of each run that took one token a step.
        not_told: for a bundle that was imported, what its source does not tell, in the importer's words.
    """

    disk_bytes: int | None
    weight_bytes: int | None
    speeds: tuple[float, ...]
    not_told: str = ""


def expense_of(bundle: Bundle) -> Expense:
    """Return what a bundle tells of its runtime's costs."""
    manifests = [
        bundle.manifest(run.run_id) for run in bundle.runs[:1] if bundle.manifest_length(run.run_id) <= LONGEST_MANIFEST
    ]
    manifest = manifests[0] if manifests else {}
    return Expense(
        disk_bytes=_whole(manifest, "model", "bytes"),
        weight_bytes=_whole(manifest, "ran", "weight_bytes"),
        speeds=tuple(_speeds(bundle)),
        not_told=str(manifest.get("unknown", "")),
    )


def _speeds(bundle: Bundle) -> Iterator[float]:
    for run in bundle.runs:
        if run.scoring_path is ScoringPath.DECODE and run.fork is None and run.positions and run.seconds > 0:
            yield run.positions / run.seconds


def _whole(manifest: Json, *keys: str) -> int | None:
    value: Any = manifest
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def cost_of(expenses: list[Expense]) -> Cost:
    """Return the costs of a runtime over its bundles."""
    speeds = [speed for expense in expenses for speed in expense.speeds]
    return Cost(
        disk_bytes=max((one.disk_bytes for one in expenses if one.disk_bytes), default=None),
        weight_bytes=max((one.weight_bytes for one in expenses if one.weight_bytes), default=None),
        positions_per_second=float(np.median(speeds)) if speeds else None,
    )
