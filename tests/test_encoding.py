from __future__ import annotations

import math

import numpy as np
import pytest

from capture.encoding import Encoding, encoding_of, encoding_to_json, kl_above_cut

LLAMA = Encoding(16, 16 / 65535, 16.0, -16.0)


def test_what_is_written_to_a_manifest_is_read_back() -> None:
    assert encoding_of({"encoding": encoding_to_json(LLAMA)}) == LLAMA


@pytest.mark.parametrize(
    "value", [None, 3, [], {"bits": 16}, {**encoding_to_json(LLAMA), "step_nats": math.nan},
              {**encoding_to_json(LLAMA), "window_nats": "16"}, {**encoding_to_json(LLAMA), "step_nats": -1.0},
              {**encoding_to_json(LLAMA), "more": 1}]
)  # fmt: skip
def test_a_manifest_that_tells_none_or_nonsense_gives_none(value: object) -> None:
    assert encoding_of({"encoding": value}) is None


def test_kl_is_the_sum_over_ids_above_the_cut() -> None:
    reference = np.array([[math.log(0.7), math.log(0.3), -17.0]], np.float32)
    candidate = np.array([[math.log(0.5), math.log(0.5), -1.0]], np.float32)
    wanted = 0.7 * math.log(0.7 / 0.5) + 0.3 * math.log(0.3 / 0.5)
    assert kl_above_cut(reference, candidate, (LLAMA, LLAMA))[0] == pytest.approx(wanted, abs=1e-6)


def test_an_id_below_the_candidates_window_counts_with_its_lower_end() -> None:
    reference = np.array([[math.log(0.5), math.log(0.5)]], np.float32)
    candidate = np.array([[0.0, -30.0]], np.float32)
    wanted = 0.5 * math.log(0.5) + 0.5 * (math.log(0.5) + 16)
    assert kl_above_cut(reference, candidate, (LLAMA, LLAMA))[0] == pytest.approx(wanted, abs=1e-6)


def test_margins_of_neighbouring_codes_are_within_the_resolution() -> None:
    assert LLAMA.step_nats < LLAMA.resolution_nats < 2 * LLAMA.step_nats
