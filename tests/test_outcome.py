"""What a free run came to, in the words of a cell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.outcome import outcome_of
from capture.model import Case, Ending, Keep, Mode, Run, RunId, ScoringPath
from tests.synthetic_text import TOOL

CALL = (
    b'<tool_call>\n{"name": "run_command", "arguments": {"device": "core", "command": "show interface"}}\n</tool_call>'
)
LABEL = ({"name": "run_command", "arguments": {"device": "core", "command": "show interface"}},)

RUN = Run(
    RunId("0" * 32), Mode.FREE, ScoringPath.DECODE, 0, None, None, None, Ending.END_OF_SEQUENCE, True, Keep.ALL,
    "bfloat16", 16, 9, 1.0,
)  # fmt: skip


def words(
    output: bytes, case: Case, reference: bytes = CALL, ending: Ending = Ending.END_OF_SEQUENCE
) -> tuple[object, ...]:
    found = outcome_of([reference], [output], case, replace(RUN, ending=ending))
    assert found is not None
    return found.text, found.tone, found.wanted, found.labelled


def case(*, labelled: bool) -> Case:
    return Case("one", ({"role": "user", "content": "x"},), (TOOL,), LABEL if labelled else None)


@pytest.mark.parametrize("labelled", [True, False])
def test_the_same_call_is_the_same(labelled: bool) -> None:
    assert words(CALL, case(labelled=labelled)) == ("same call", "same", True, labelled)


def test_the_label_counts_more_than_the_reference() -> None:
    other = CALL.replace(b"show interface", b"reload")
    text, tone, wanted, labelled = words(other, case(labelled=True), reference=other)
    assert text == "different arguments: command"
    assert (tone, wanted, labelled) == ("different", False, True)
    assert words(other, case(labelled=False), reference=other)[2] is True


def test_a_call_is_held_against_the_reference_and_against_the_label() -> None:
    other = CALL.replace(b"show interface", b"reload")
    found = outcome_of([other], [other], case(labelled=True), RUN)
    assert found is not None
    assert (found.as_reference, found.as_labelled) == (True, False)
    alone = outcome_of([other], [other], case(labelled=False), RUN)
    assert alone is not None
    assert (alone.as_reference, alone.as_labelled) == (True, None)
    without = outcome_of([], [CALL], case(labelled=True), RUN)
    assert without is not None
    assert (without.as_reference, without.as_labelled) == (None, True)


def test_a_missing_call_is_told() -> None:
    text, tone, wanted, _ = words(b"It is up.", case(labelled=True))
    assert str(text).startswith("missing call")
    assert (tone, wanted) == ("different", False)


def test_where_none_was_wanted_or_made_nothing_is_counted() -> None:
    assert words(b"It is up.", case(labelled=False), reference=b"Up.") == ("no call", "neutral", None, False)


def test_a_call_that_the_length_cut_is_not_broken() -> None:
    text, tone, _, _ = words(CALL[:60], case(labelled=True), ending=Ending.LENGTH)
    assert (text, tone) == ("ended by length inside a call", "neutral")


def test_no_run_has_no_outcome() -> None:
    assert outcome_of([CALL], [CALL], case(labelled=True), None) is None
