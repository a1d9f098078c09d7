from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from capture.errors import EngineError
from capture.rows import describe_rows, logit_step, row_hash, widen


def test_widens_bfloat16_by_its_definition() -> None:
    # 0x3F80 is 1.0, 0xC228 is -42.0 and 0x7F80 infinity in bfloat16
    row = np.array([0x3F80, 0xC228, 0x7F80], "<u2").tobytes()
    assert widen([row], "bfloat16").tolist() == [[1.0, -42.0, math.inf]]


@given(arrays(np.float32, 7, elements=st.floats(-(2.0**99), 2.0**99, width=32)))
def test_widening_float32_changes_nothing(values: np.ndarray) -> None:
    assert widen([values.astype("<f4").tobytes()], "float32").tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("logit", "dtype", "step"),
    [(16.0, "bfloat16", 0.125), (31.9, "bfloat16", 0.125), (-20.0, "bfloat16", 0.125), (15.9, "bfloat16", 0.0625)]
    + [(16.0, "float16", 2.0**-6), (1.0, "float32", 2.0**-23), (0.0, "float16", 2.0**-24)],
)
def test_step_of_a_logit(logit: float, dtype: str, step: float) -> None:
    assert logit_step(logit, dtype) == step


def test_statistics_of_a_row_worked_out_by_hand() -> None:
    # softmax of (ln 4, ln 4, ln 2) is 0.4, 0.4, 0.2
    logits = np.log(np.array([[4.0, 4.0, 2.0]])).astype(np.float32)
    found = describe_rows(logits, 3)
    assert found.top1[0] == 0
    assert found.tie_count[0] == 2
    assert found.margin_nats[0] == 0.0
    assert found.top_ids.tolist() == [[0, 1, 2]]
    assert found.log_sum_exp[0] == pytest.approx(math.log(10), abs=1e-6)
    assert found.entropy[0] == pytest.approx(-(0.8 * math.log(0.4) + 0.2 * math.log(0.2)), abs=1e-6)


@given(arrays(np.float32, (3, 9), elements=st.sampled_from([0.0, 1.0, 2.0, -3.5])))
def test_top_tokens_are_sorted_and_ties_go_to_the_lowest_id(logits: np.ndarray) -> None:
    found = describe_rows(logits, 5)
    for row, ids in zip(logits, found.top_ids, strict=True):
        expected = sorted(range(9), key=lambda token_id: (-row[token_id], token_id))[:5]
        assert ids.tolist() == expected


def test_masked_logits_count_as_probability_zero() -> None:
    found = describe_rows(np.array([[0.0, -np.inf, 0.0]], np.float32), 2)
    assert found.entropy[0] == pytest.approx(math.log(2))


@pytest.mark.parametrize("row", [[0.0, np.nan], [-np.inf, -np.inf], [0.0, np.inf]])
def test_undefined_rows_name_their_position(row: list[float]) -> None:
    with pytest.raises(EngineError, match="position 41"):
        describe_rows(np.array([[0.0, 1.0], row], np.float32), 2, first_position=40)


def test_the_hash_sees_a_single_bit() -> None:
    row = bytes(range(64))
    changed = bytes([row[0] ^ 1, *row[1:]])
    assert row_hash(row) != row_hash(changed)
    assert len(row_hash(row)) == 16
