from __future__ import annotations

import json
from typing import Any

import pytest

from capture.cases import parse_cases
from capture.errors import CaseError
from capture.given_ranges import are_ranges
from capture.messages import case_from_json, case_to_json
from capture.model import Case

BY_POSITION = {"kind": "code", "start": 10, "stop": 40}
BY_TEXT = {"kind": "tool call", "from": "<answer>", "to": "</answer>"}


def read(ranges: Any) -> Case:
    text = json.dumps({"messages": [{"role": "user", "content": "x"}], "ranges": ranges})
    (case,) = parse_cases(text, "cases.json").cases
    return case


def test_a_case_gives_ranges_by_position_and_by_text() -> None:
    assert read([BY_POSITION, BY_TEXT]).ranges == (BY_POSITION, BY_TEXT)
    assert read(None).ranges == ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "'ranges' must be a list"),
        ([[]], "range 1 has no 'kind'"),
        ([BY_POSITION, {"kind": "poem", "start": 1, "stop": 2}], "range 2 has no 'kind'"),
        ([{**BY_POSITION, "stop": 10}], "'start' before 'stop'"),
        ([{**BY_POSITION, "start": True}], "'start' before 'stop'"),
        ([{**BY_POSITION, "start": -1}], "'start' before 'stop'"),
        ([{**BY_TEXT, "from": ""}], "needs texts"),
        ([{**BY_TEXT, "to": "x" * 1001}], "needs texts"),
        ([{**BY_TEXT, **BY_POSITION}], "'start' and 'stop', or 'from' and 'to'"),
        ([{"kind": "code"}], "'start' and 'stop', or 'from' and 'to'"),
        ([BY_POSITION] * 1001, "at most 1,000"),
    ],
)
def test_a_range_that_is_wrong_is_told_with_its_place(wrong: Any, message: str) -> None:
    with pytest.raises(CaseError, match=f"^cases.json: case 1: .*{message}"):
        read(wrong)


def test_a_bundle_keeps_them_and_one_without_is_as_before() -> None:
    case = read([BY_POSITION, BY_TEXT])
    assert case_from_json(json.loads(json.dumps(case_to_json(case)))) == case
    assert "ranges" not in case_to_json(read(None))


@pytest.mark.parametrize(
    "wrong", ["ab", {"a": 1}, [1], [{**BY_TEXT, "from": "\ud800"}], [{**BY_POSITION, "x": 1}], None]
)
def test_those_of_a_stranger_are_checked(wrong: Any) -> None:
    assert not are_ranges(wrong)
    with pytest.raises(ValueError, match="none"):
        case_from_json({**case_to_json(read(None)), "ranges": wrong})
