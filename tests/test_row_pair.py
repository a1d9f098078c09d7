from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from capture.metrics import PairMetrics, compare_rows
from capture.row_pair import highest
from tests.plain_metrics import plain_compare_rows

LOGITS = st.one_of(
    st.floats(-60, 60, width=16), st.sampled_from([-math.inf, -30000.0, 0.0, 1.5]), st.integers(-3, 3).map(float)
)
"""Values that tie, that underflow, and that are a probability of 0."""


def rows(count: int, width: int) -> st.SearchStrategy[np.ndarray]:
    finite_first = arrays(np.float32, (count, 1), elements=st.floats(-50, 50, width=16))
    rest = arrays(np.float32, (count, width - 1), elements=LOGITS)
    return st.tuples(finite_first, rest).map(lambda parts: np.concatenate(parts, axis=1))


def masks(width: int) -> st.SearchStrategy[np.ndarray | None]:
    rest = arrays(np.bool_, width - 1)
    return st.one_of(st.none(), rest.map(lambda mask: np.append(True, mask)))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    width = draw(st.integers(2, 40))
    return draw(rows(2, width)), draw(rows(2, width)), draw(masks(width))


def assert_equal(found: PairMetrics, wanted: PairMetrics) -> None:
    for name in PairMetrics.__slots__:
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-9, err_msg=name)


@given(pairs(), st.integers(1, 3))
def test_any_rows_give_what_a_plain_computation_gives(
    given_pair: tuple[np.ndarray, np.ndarray, np.ndarray | None], threads: int
) -> None:
    first, second, mask = given_pair
    tokens = np.array([0, first.shape[1] - 1], np.int32)
    found = compare_rows(first, second, tokens, mask, threads=threads)
    with np.errstate(all="ignore"):
        assert_equal(found, plain_compare_rows(first, second, tokens, mask))


def as_bfloat16(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def wide_rows(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows wider than several blocks, of a shape that could go wrong."""
    random = np.random.default_rng(7)
    flat = random.normal(size=(3, 30_011))
    near = flat + random.normal(size=flat.shape) * 0.05
    if kind == "confident":
        flat[:, 17], near[:, 17] = 30.0, 29.5
    if kind == "flat":
        return np.zeros_like(flat, np.float32), as_bfloat16(near)
    if kind == "zeros":
        flat[:, 100:20_000], near[:, 200:25_000] = -np.inf, -np.inf
    if kind == "far":
        return as_bfloat16(flat * 4 - 900), as_bfloat16(near * 4 + 900)
    if kind == "opposite":
        return as_bfloat16(flat * 6), as_bfloat16(-flat * 6)
    return as_bfloat16(flat * 4), as_bfloat16(near * 4)


@pytest.mark.parametrize("kind", ["near", "confident", "flat", "zeros", "far", "opposite"])
def test_rows_of_many_blocks_give_what_a_plain_computation_gives(kind: str) -> None:
    first, second = wide_rows(kind)
    tokens = np.array([0, 17, 30_010], np.int32)
    for mask in (None, np.arange(30_011) < 29_000, np.arange(30_011) % 7 > 0):
        with np.errstate(all="ignore"):
            wanted = plain_compare_rows(first, second, tokens, mask)
        assert_equal(compare_rows(first, second, tokens, mask, threads=2), wanted)


def test_a_row_and_itself_are_no_distance_apart() -> None:
    first, _ = wide_rows("near")
    found = compare_rows(first, first.copy(), np.zeros(3, np.int32))
    assert not found.kl_forward.any()
    assert not found.jensen_shannon.any()
    assert found.top5_overlap.tolist() == [5, 5, 5]


@given(arrays(np.float32, st.integers(1, 700), elements=st.integers(-4, 4).map(float)))
def test_the_highest_are_those_of_a_stable_sort(row: np.ndarray) -> None:
    assert highest(row, 5).tolist() == np.argsort(-row, kind="stable")[:5].tolist()


def test_the_highest_of_a_row_that_ties_throughout_are_the_lowest_ids() -> None:
    assert highest(np.zeros(50_000, np.float32), 5).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_rows_that_are_no_distribution_give_no_number_and_no_error(value: float) -> None:
    rows = np.full((1, 1000), value, np.float32)
    found = compare_rows(rows, np.zeros((1, 1000), np.float32), np.zeros(1, np.int32))
    assert math.isnan(found.kl_forward[0])


def test_ids_outside_hold_what_the_others_leave() -> None:
    first, second = np.log([[0.2, 0.4, 0.4]]), np.log([[0.9, 0.05, 0.05]])
    found = compare_rows(first, second, np.zeros(1, np.int32), np.array([False, True, True]))
    assert found.reference_outside[0] == pytest.approx(0.2)
    assert found.candidate_outside[0] == pytest.approx(0.9)
    assert found.kl_forward[0] == pytest.approx(0, abs=1e-12)
    assert math.isnan(found.delta_probability[0])  # the token is none of the shared ids
