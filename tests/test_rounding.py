"""The rounding floor: steps of dtypes, and its formula against simulation and real rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.bundle import Bundle
from capture.metrics import compare_rows
from capture.model import Float64Array
from capture.rounding import logit_steps, rounding_kl
from capture.rows import logit_step, widen
from tests.report_samples import bundled


def log_sum_exp(logits: Float64Array) -> Float64Array:
    summed: Float64Array = np.log(np.exp(logits).sum(axis=1))
    return summed


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@given(value=st.floats(-60_000, 60_000, width=16))
def test_the_step_is_the_distance_to_the_neighbour(dtype: str, value: float) -> None:
    rounded = np.array([[value]], np.float32)
    if dtype == "bfloat16":
        rounded = (rounded.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    assert logit_steps(rounded, dtype)[0, 0] == logit_step(float(rounded[0, 0]), dtype)


@pytest.mark.parametrize(
    ("logit", "step"), [(20.0, 0.125), (-20.0, 0.125), (16.0, 0.125), (15.9, 0.0625), (1.0, 2**-7)]
)
def test_bfloat16_has_seven_bits_of_significand(logit: float, step: float) -> None:
    assert logit_steps(np.array([[logit]], np.float32), "bfloat16").item() == step


def test_the_formula_is_what_independent_rounding_costs_on_average() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(18, 2, (20, 200))
    expected = rounding_kl(logits.astype(np.float32), log_sum_exp(logits), ("bfloat16",))
    steps = logit_steps(logits.astype(np.float32), "bfloat16")
    found = np.zeros(20)
    for _ in range(400):
        noisy = logits + random.uniform(-0.5, 0.5, logits.shape) * steps
        found += compare_rows(logits, noisy, np.zeros(20, np.int32)).kl_forward / 400
    assert found == pytest.approx(expected, rel=0.12)
    assert found.mean() == pytest.approx(expected.mean(), rel=0.03)


def test_rounding_itself_costs_as_much() -> None:
    logits = np.random.default_rng(1).normal(10, 3, (400, 300))
    rounded = ((logits.astype(np.float32).view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)
    found = compare_rows(logits, rounded.astype(np.float64), np.zeros(400, np.int32)).kl_forward
    expected = rounding_kl(logits.astype(np.float32), log_sum_exp(logits), ("bfloat16",))
    assert found.mean() == pytest.approx(expected.mean(), rel=0.05)


def test_equal_steps_give_the_short_form() -> None:
    logits = np.random.default_rng(2).uniform(16, 31, (5, 50))
    probability = np.exp(logits - log_sum_exp(logits)[:, None])
    short = 0.125**2 / 24 * (1 - (probability**2).sum(axis=1))
    assert rounding_kl(logits.astype(np.float32), log_sum_exp(logits), ("bfloat16",)) == pytest.approx(short, rel=1e-5)


def test_two_roundings_cost_what_both_cost_and_float32_next_to_nothing() -> None:
    logits = np.random.default_rng(3).normal(12, 2, (4, 30))
    narrow, total = logits.astype(np.float32), log_sum_exp(logits)
    one, other = rounding_kl(narrow, total, ("bfloat16",)), rounding_kl(narrow, total, ("float32",))
    assert rounding_kl(narrow, total, ("bfloat16", "float32")) == pytest.approx(one + other, rel=1e-12)
    assert (other < one * 1e-8).all()


def test_the_highest_tokens_of_real_rows_tell_what_whole_rows_tell() -> None:
    with Bundle(bundled("mac", "bf16")) as bundle:
        run = bundle.runs[0]
        steps = bundle.steps(run.run_id)
        kept = list(bundle.kept_positions(run.run_id))
        rows = widen(bundle.rows(run.run_id, kept), run.dtype)
    whole = rounding_kl(rows, steps.log_sum_exp[kept], (run.dtype,))
    listed = rounding_kl(steps.top_logits[kept], steps.log_sum_exp[kept], (run.dtype,))
    assert listed == pytest.approx(whole, rel=0.15)
    assert listed.mean() == pytest.approx(whole.mean(), rel=0.02)


def test_without_a_listed_token_nothing_is_known() -> None:
    assert np.isnan(rounding_kl(np.zeros((2, 0), np.float32), np.zeros(2), ("bfloat16",))).all()


def test_a_code_has_one_step_everywhere() -> None:
    logits = np.random.default_rng(4).normal(0, 3, (6, 40))
    probability = np.exp(logits - log_sum_exp(logits)[:, None])
    expected = 0.25**2 / 24 * (1 - (probability**2).sum(axis=1))
    assert rounding_kl(logits.astype(np.float32), log_sum_exp(logits), (0.25,)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_token_that_is_ruled_out_costs_nothing(dtype: str) -> None:
    logits = np.array([[5.0, 3.0, 1.0]], np.float32)
    ruled_out = np.array([[5.0, 3.0, 1.0, -np.inf]], np.float32)
    total = log_sum_exp(logits.astype(np.float64))
    assert logit_steps(ruled_out, dtype)[0, 3] == 0
    assert rounding_kl(ruled_out, total, (dtype,)) == pytest.approx(rounding_kl(logits, total, (dtype,)), rel=1e-6)
