"""Invented positions for charts, whose numbers are easy to count again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.charts.values import Agreement, CaseSample, ChartLane, ChartSource
from app.links import CaseLink, ViewOptions
from capture.model import Mode
from capture.samples import FLIP_CLASSES, Sample, prefix_column

HOSTILE = '<a href="javascript:alert(1)">x</a> & <b>\u202ebold\x00'

DECIDED = 1 + [one.value for one in FLIP_CLASSES].index("decided")


def sample(case_id: str, n: int = 64, seed: int = 0, flips: Sequence[int] = (), *, bound: bool = False) -> Sample:
    """Return n positions of a case, with decided flips where they are asked for."""
    generator = np.random.default_rng(seed)
    flip = np.zeros(n, np.int8)
    flip[list(flips)] = DECIDED
    kl = generator.exponential(0.01, n)
    logs = -generator.exponential(1.0, (2, n))
    columns: Mapping[str, Any] = {
        "position": np.arange(n, dtype=np.int32),
        "prefix_id": prefix_column(bytes([seed, at // 256, at % 256]) * 5 + b"p" for at in range(n)),
        "kind": np.zeros(n, np.int8),
        "flip": flip,
        "same_top": flip == 0,
        "lower_bound": np.full(n, bound),
        "confidence": generator.random(n),
        "kl_forward": kl,
        "kl_reverse": kl,
        "jensen_shannon": kl / 4,
        "delta_probability": generator.normal(0, 0.05, n),
        "reference_log_probability": logs[0],
        "candidate_log_probability": logs[1],
        "rounding_kl": np.full(n, 1e-4),
    }
    return Sample(case_id, **columns)


def case(
    case_id: str, n: int = 64, seed: int = 0, flips: Sequence[int] = (), *, bound: bool = False, prompt: int = 100
) -> CaseSample:
    """Return a case of a lane."""
    own = sample(case_id, n, seed, flips, bound=bound)
    top1 = np.where(own.flip > 0, 7, 3).astype(np.int32)
    link = CaseLink(f"{case_id}-01020304", ViewOptions(Mode.FORCED, ("a" * 12, "b" * 12)))
    margin = np.linspace(0.0, 4.0, n)
    return CaseSample(f"{case_id}-01020304", case_id, prompt, own, margin, top1, link)


def lane(name: str, *cases: CaseSample, label: str = "", agreements: Sequence[Agreement] = ()) -> ChartLane:
    """Return a lane."""
    return ChartLane(name, label or name, cases, tuple(agreements))


def source(
    *lanes: ChartLane, floors: Sequence[ChartLane] = (), bound: bool = False, reference: str = "bf16"
) -> ChartSource:
    """Return a source of a study."""
    return ChartSource("study", "A study", "", reference, "forced", bound, 20, lanes, tuple(floors))


def usual(label: str = "") -> ChartSource:
    """Return two lanes on two cases, with flips, a floor and agreements."""
    agreements = (Agreement("one", 5, True, "/c/one/f/5-aa"), Agreement("two", 64, False, "/c/two"))
    first = lane("int8", case("one", flips=(3, 40), seed=1), case("two", seed=2), label=label, agreements=agreements)
    second = lane("int4", case("one", flips=(3, 4, 50, 60), seed=1), case("two", flips=(8,), seed=2))
    floor = lane("replica", case("one", seed=5), label="replica: bf16")
    return source(first, second, floors=[floor], reference=label or "bf16")
