"""A report as JSON values. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from app.report_pages import YARDSTICK
from capture.model import Json
from capture.report import StudyReport
from capture.summary import QUANTILES, Rate, Spread, Summary


def report_json(reports: Sequence[StudyReport]) -> Json:
    """Return reports as JSON values: every number of every scope, shares from 0 to 1, divergences in nats."""
    return {
        "note": YARDSTICK,
        "direction": "kl_forward is KL(reference || runtime), kl_reverse is KL(runtime || reference), in nats",
        "studies": plain(reports),
    }


def plain(value: Any) -> Any:
    """Return a value of dataclasses, sequences and numbers as JSON values; what is not finite is null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)} | _derived(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _derived(value: object) -> dict[str, Any]:
    """Return what a value says beside its fields."""
    if isinstance(value, Spread):
        return {"quantiles": {f"{at:g}": plain(found) for at, found in zip(QUANTILES, value.quantiles, strict=True)}}
    if isinstance(value, Rate):
        return {"standard_error": value.standard_error}
    if isinstance(value, Summary):
        main = value.main
        return {"flips": value.flips, "main": None if main is None else "bounded" if main.lower_bound else "whole"}
    return {}
