from __future__ import annotations

import numpy as np
import pytest

from capture.flips import find_flips, shared_rows
from capture.model import FlipClass
from tests.factories import make_steps

BFLOAT = ("bfloat16", "bfloat16")


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


def test_runs_that_choose_the_same_have_no_flip() -> None:
    steps = make_steps(rows([1, 2, 3], [3, 2, 1]))
    assert find_flips(steps, steps, BFLOAT) == ()


def test_a_flip_names_both_choices_and_margins() -> None:
    reference = make_steps(rows([20, 18, 0]))
    candidate = make_steps(rows([18, 21, 0]))
    (flip,) = find_flips(reference, candidate, BFLOAT)
    assert (flip.position, flip.reference_choice, flip.candidate_choice) == (0, 0, 1)
    assert (flip.reference_margin_nats, flip.candidate_margin_nats) == (2.0, 3.0)
    assert flip.flip_class is FlipClass.DECIDED


def test_nothing_is_compared_after_the_prefixes_part() -> None:
    reference = make_steps(rows([2, 1, 0], [9, 0, 0], [9, 0, 0]))
    candidate = make_steps(rows([1, 2, 0], [0, 9, 0], [0, 9, 0]))
    left, right = shared_rows(reference, candidate)
    assert left.tolist() == right.tolist() == [0]
    assert len(find_flips(reference, candidate, BFLOAT)) == 1


def test_a_forced_run_flips_by_top_1_all_along_the_path() -> None:
    reference = make_steps(rows([2, 0, 0], [2, 0, 0], [2, 0, 0]))
    forced = make_steps(rows([0, 2, 0], [2, 0, 0], [0, 0, 9]), reference.token_id.tolist(), forced=True)
    flips = find_flips(reference, forced, BFLOAT)
    assert [(flip.position, flip.candidate_choice) for flip in flips] == [(0, 1), (2, 2)]


@pytest.mark.parametrize(
    ("reference", "candidate", "expected"),
    [
        ([20.0, 20.0, 0.0], [10.0, 20.0, 0.0], FlipClass.TIE),  # the reference's tie holds the candidate's choice
        ([20.0, 10.0, 0.0], [10.0, 10.0, 20.0], FlipClass.DECIDED),  # a tie below the maximum means nothing
        ([20.0, 19.875, 0.0], [10.0, 20.0, 0.0], FlipClass.NEAR_TIE),  # one step of bfloat16 between 16 and 32
        ([20.0, 19.75, 0.0], [10.0, 20.0, 0.0], FlipClass.DECIDED),  # two steps
        ([8.0, 7.9375, 0.0], [1.0, 8.0, 0.0], FlipClass.NEAR_TIE),  # one step between 8 and 16
    ],
)
def test_classes(reference: list[float], candidate: list[float], expected: FlipClass) -> None:
    (flip,) = find_flips(make_steps(rows(reference)), make_steps(rows(candidate)), BFLOAT)
    assert flip.flip_class is expected


def test_free_runs_that_part_with_the_same_top_1_are_a_tie() -> None:
    logits = rows([5, 5, 0])
    first = make_steps(logits, [0], emitted=[0])
    second = make_steps(logits, [1], emitted=[1])
    (flip,) = find_flips(first, second, BFLOAT)
    assert flip.flip_class is FlipClass.TIE


def test_the_benign_control_widens_near_ties() -> None:
    reference, candidate = make_steps(rows([20, 19.5, 0])), make_steps(rows([10, 20, 0]))
    (flip,) = find_flips(reference, candidate, BFLOAT, control_margin_nats=0.6)
    assert flip.flip_class is FlipClass.NEAR_TIE


def test_a_finer_dtype_does_not_narrow_the_coarser_one() -> None:
    reference, candidate = make_steps(rows([20, 19.9, 0])), make_steps(rows([10, 20, 0]))
    assert find_flips(reference, candidate, ("float32", "float32"))[0].flip_class is FlipClass.DECIDED
    assert find_flips(reference, candidate, ("float32", "bfloat16"))[0].flip_class is FlipClass.NEAR_TIE
