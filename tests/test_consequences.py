from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.align import Rejoin
from capture.consequences import (
    LONGEST_BLOCK,
    LOOP_REPEATS,
    LOOP_TOKENS,
    Consequence,
    Loop,
    Severity,
    consequence,
    find_loop,
)
from capture.model import Ending
from capture.toolcalls import CallVerdict, Verdict

NO_CALL = CallVerdict(Verdict.NO_CALL, "no call")
SAME = CallVerdict(Verdict.SAME, "same call")
DIFFERENT = CallVerdict(Verdict.DIFFERENT_ARGUMENTS, "different arguments: device, command", ("device", "command"))
CUT = CallVerdict(Verdict.MALFORMED, "malformed: never closed", broken_at=80)
TO_END = Rejoin(11, 27, 145, to_end=True)
PASSING = Rejoin(11, 27, 145, to_end=False)
LOOP = Loop(5, 10, 30)


@pytest.mark.parametrize(
    ("verdict", "ending", "loop", "rejoin", "expected"),
    [
        (SAME, Ending.END_OF_SEQUENCE, None, TO_END, Consequence("same call · re-joined", Severity.GOOD)),
        (SAME, Ending.END_OF_SEQUENCE, None, None, Consequence("same call", Severity.GOOD)),
        (DIFFERENT, Ending.END_OF_SEQUENCE, None, TO_END, Consequence(DIFFERENT.detail, Severity.WARN)),
        (CUT, Ending.LENGTH, None, None, Consequence("malformed: never closed · ended by length", Severity.BAD)),
        (CUT, Ending.LENGTH, LOOP, PASSING, Consequence("malformed: never closed · in a loop", Severity.BAD)),
        (CUT, Ending.INTERRUPTED, None, None, Consequence("interrupted", Severity.WARN)),
        (NO_CALL, Ending.END_OF_SEQUENCE, None, TO_END, Consequence("re-joined", Severity.GOOD)),
        (NO_CALL, Ending.END_OF_SEQUENCE, None, PASSING, Consequence("different text", Severity.NEUTRAL)),
        (NO_CALL, Ending.LENGTH, None, PASSING, Consequence("ended by length", Severity.WARN)),
        (NO_CALL, Ending.LENGTH, LOOP, None, Consequence("in a loop", Severity.BAD)),
        (NO_CALL, Ending.END_OF_SEQUENCE, LOOP, None, Consequence("different text", Severity.NEUTRAL)),
        (NO_CALL, Ending.PATH, None, None, Consequence("different text", Severity.NEUTRAL)),
    ],
)
def test_a_line_ends_with_its_consequence(
    verdict: CallVerdict, ending: Ending, loop: Loop | None, rejoin: Rejoin | None, expected: Consequence
) -> None:
    assert consequence(verdict, ending, loop, rejoin) == expected


@pytest.mark.parametrize(
    ("verdict", "ending", "loop", "expected"),
    [
        (SAME, Ending.END_OF_SEQUENCE, None, Consequence("reference call", Severity.NEUTRAL)),
        (NO_CALL, Ending.END_OF_SEQUENCE, None, Consequence("reference", Severity.NEUTRAL)),
        (NO_CALL, Ending.LENGTH, None, Consequence("ended by length", Severity.NEUTRAL)),
        (DIFFERENT, Ending.END_OF_SEQUENCE, None, Consequence(f"reference · {DIFFERENT.detail}", Severity.WARN)),
        (CUT, Ending.LENGTH, LOOP, Consequence("reference · malformed: never closed · in a loop", Severity.BAD)),
    ],
)
def test_the_reference_is_judged_by_the_label_only(
    verdict: CallVerdict, ending: Ending, loop: Loop | None, expected: Consequence
) -> None:
    assert consequence(verdict, ending, loop, is_reference=True) == expected


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("ending", list(Ending))
@pytest.mark.parametrize("is_reference", [False, True])
def test_every_line_has_a_phrase(verdict: Verdict, ending: Ending, is_reference: bool) -> None:
    found = consequence(CallVerdict(verdict, verdict.value), ending, LOOP, TO_END, is_reference=is_reference)
    assert found.phrase
    assert isinstance(found.severity, Severity)


blocks = st.lists(st.integers(0, 3), min_size=1, max_size=9)


def is_loop(tokens: list[int], block: int) -> bool:
    """The documented rule, word for word."""
    repeats = 1
    while tokens[len(tokens) - (repeats + 1) * block : len(tokens) - repeats * block] == tokens[len(tokens) - block :]:
        if (repeats + 1) * block > len(tokens):
            break
        repeats += 1
    return repeats >= LOOP_REPEATS and repeats * block >= LOOP_TOKENS


@settings(deadline=None)
@given(blocks, blocks, st.integers(1, 20))
def test_a_loop_is_a_block_that_the_output_ends_with_again_and_again(
    before: list[int], block: list[int], repeats: int
) -> None:
    tokens = before + block * repeats
    found = find_loop(tokens)
    lengths = [length for length in range(1, len(tokens) // LOOP_REPEATS + 1) if is_loop(tokens, length)]
    assert (found.block if found else None) == (lengths[0] if lengths else None)
    if found is not None:
        looped = tokens[found.start :]
        assert len(looped) == found.block * found.repeats
        assert looped == looped[: found.block] * found.repeats


def test_a_loop_that_is_cut_inside_a_block_is_one() -> None:
    assert find_loop([9, 8, *[1, 2, 3, 4, 5, 6] * 4, 1, 2]) == Loop(6, 4, 4)


def test_a_few_repeats_are_no_loop_and_neither_is_nothing() -> None:
    assert find_loop([1] * (LOOP_TOKENS - 1)) is None
    assert find_loop([1] * LOOP_TOKENS) == Loop(1, LOOP_TOKENS, 0)
    assert find_loop(list(range(20)) * 2) is None
    assert find_loop([]) is None


def test_a_block_may_not_be_too_long() -> None:
    block = np.arange(LONGEST_BLOCK, dtype=np.int32)
    assert find_loop(np.tile(block, 3)) == Loop(LONGEST_BLOCK, 3, 0)
    assert find_loop(np.tile(np.arange(LONGEST_BLOCK + 1, dtype=np.int32), 3)) is None
