from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.context_windows import Probe, disagreement_by_window, pooled_windows
from capture.intervals import wilson


def probe(case_id: str, positions: list[int], flips: list[int]) -> Probe:
    return Probe(case_id, np.array(positions, np.int64), np.isin(positions, flips))


def test_every_32nd_position_of_8000_makes_250_probes() -> None:
    positions = list(range(1, 100_000, 32))
    found = disagreement_by_window(positions, [1, 33, 8001, 99_969])
    assert [(start, stop) for start, stop, *_ in found] == [(at, at + 8000) for at in range(0, 100_000, 8000)]
    assert [probes for _, _, probes, *_ in found] == [250] * 12 + [125]
    assert [flips for _, _, _, flips, _ in found] == [2, 1, *[0] * 10, 1]
    assert found[0][4] == wilson(2, 250)


def test_windows_without_a_probe_are_left_out() -> None:
    assert [window[:4] for window in disagreement_by_window([5, 25], [25], 10)] == [(0, 10, 1, 0), (20, 30, 1, 1)]


def test_cases_are_pooled_and_counted() -> None:
    found = pooled_windows([probe("a", [1, 5, 12], [5]), probe("b", [1, 2], [1, 2]), probe("c", [], [])], 10)
    assert [(one.start, one.stop, one.probes, one.flips, one.cases) for one in found] == [
        (0, 10, 4, 3, 2),
        (10, 20, 1, 0, 1),
    ]
    assert found[0].disagreement == 0.75
    assert pooled_windows([]) == ()


def test_probes_that_flip_together_count_as_fewer() -> None:
    positions, flips = list(range(200)), list(range(60, 80))
    (together,) = pooled_windows([probe("a", positions, flips)], 200)
    (spread,) = pooled_windows([probe("a", positions, list(range(0, 200, 10)))], 200)
    assert together.flips == spread.flips == 20
    independent = wilson(20, 200)
    assert together.interval.high - together.interval.low > 1.5 * (independent.high - independent.low)
    assert spread.interval == independent


def test_what_was_not_scored_cannot_flip() -> None:
    with pytest.raises(ValueError, match="not scored"):
        disagreement_by_window([1], [500], 10)
    with pytest.raises(ValueError, match="at least one position"):
        disagreement_by_window([1], [], 0)


@given(st.dictionaries(st.integers(0, 500), st.booleans(), max_size=60), st.integers(1, 90))
def test_every_probe_and_flip_is_in_one_window(scored: dict[int, bool], width: int) -> None:
    flips = [position for position, flipped in scored.items() if flipped]
    found = disagreement_by_window(list(scored), flips, width)
    by_window, flips_by_window = Counter(at // width for at in scored), Counter(at // width for at in flips)
    assert {start // width: probes for start, _, probes, *_ in found} == dict(by_window)
    assert all(hits == flips_by_window[start // width] for start, _, _, hits, _ in found)
    assert all(interval.low <= hits / probes <= interval.high for _, _, probes, hits, interval in found)
