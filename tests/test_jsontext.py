from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.jsontext import DEEPEST, LOCATED_DEPTH, LONGEST_NUMBER, NEVER_CLOSED, JsonError, JsonText, read_json

numbers = st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=6),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=4), parts, max_size=4),
    max_leaves=12,
)


def broken(text: str) -> tuple[str, int]:
    with pytest.raises(JsonError) as caught:
        read_json(text)
    return caught.value.reason, caught.value.offset


def parts(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    found = [(path, value)]
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in steps:
        found += parts(part, (*path, step))
    return found


@settings(deadline=None)
@given(values, st.sampled_from([None, 1]), st.booleans())
def test_it_reads_what_the_standard_library_writes(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    found = read_json(f" {text} tail", 1)
    assert found.value == value
    assert json.dumps(found.value) == json.dumps(value)
    assert found.stop == len(text) + 1


@settings(deadline=None)
@given(values)
def test_every_part_starts_where_it_says(value: Any) -> None:
    text = json.dumps(value)
    found = read_json(text)
    for path, part in parts(value):
        if len(path) <= LOCATED_DEPTH:
            assert read_json(text, found.starts[path]).value == part


@settings(deadline=None)
@given(values.filter(lambda value: isinstance(value, (dict, list, str))), st.data())
def test_a_text_that_is_cut_is_never_closed(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    assert broken(cut) == (NEVER_CLOSED, len(cut))


@settings(deadline=None)
@given(st.text(alphabet='{}[]",:\\truefalsn0123-.eE \n\x00\ud800', max_size=20))
def test_it_agrees_with_the_standard_library_on_what_json_is(text: str) -> None:
    found = attempt(text)
    if isinstance(found, JsonText):
        assert json.loads(text[: found.stop]) == found.value
        return
    assert 0 <= found.offset <= len(text)
    if found.reason not in ("key given twice", "number too large"):
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)


def attempt(text: str) -> JsonText | JsonError:
    try:
        return read_json(text)
    except JsonError as error:
        return error


@pytest.mark.parametrize(
    ("text", "reason", "offset"),
    [
        ('{"a": 1 "b": 2}', "expected a comma or the end", 8),
        ('{"a" 1}', "expected a colon", 5),
        ("{a: 1}", "expected a key in quotes", 1),
        ('{"a": 1,}', "expected a key in quotes", 8),
        ("[1,]", "expected a value", 3),
        ("[NaN]", "expected a value", 1),
        ("[Infinity]", "expected a value", 1),
        ("[1e999]", "number too large", 1),
        ("[-]", "not a number", 1),
        ('["\n"]', "control character in a string", 2),
        (r'["\x"]', "bad escape", 2),
        ('{"a": 1, "a": 1}', "key given twice", 9),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "nested too deeply", DEEPEST),
        ("[" + "1" * (LONGEST_NUMBER + 1) + "]", "number too long", 1),
    ],
)
def test_it_says_where_and_why_a_text_breaks(text: str, reason: str, offset: int) -> None:
    assert broken(text) == (reason, offset)


@pytest.mark.parametrize("text", ["", " ", "[1, ", '{"a', '{"a": tr', "[-", "[1.", "[1e+", '["\\', '["\\u12', "[" * 50])
def test_it_knows_a_text_that_just_ends_from_one_that_is_wrong(text: str) -> None:
    assert broken(text) == (NEVER_CLOSED, len(text))


def test_a_part_below_the_known_depth_is_placed_at_what_holds_it() -> None:
    depth = LOCATED_DEPTH + 3
    found = read_json("[" * depth + "1" + "]" * depth)
    assert found.start_of((0,) * depth) == LOCATED_DEPTH
    assert found.start_of(("absent",)) == 0


def test_numbers_stay_whole_or_broken() -> None:
    found = read_json("[1, 1.0, -0, 10e1, 123456789012345678901234567890]").value
    assert [type(number) for number in found] == [int, float, int, float, int]
    assert found[4] == 123456789012345678901234567890
