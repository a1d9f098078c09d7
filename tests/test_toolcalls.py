from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.callparser import BrokenCall, ToolCall
from capture.cases import read_cases
from capture.errors import CaseError
from capture.toolcalls import CallVerdict, Verdict, canonical, compare_calls, differing_names, verdict
from capture.toolschema import ToolSchemas

CASES = Path(__file__).resolve().parent.parent / "data" / "cases" / "network-automation.json"
TOOLS = read_cases(CASES).cases[0].tools


def call(name: str = "run_command", **arguments: Any) -> bytes:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>".encode()


REFERENCE = b"I will look.\n" + call(device="sw1", command="show arp")


def against_reference(text: bytes) -> CallVerdict:
    return verdict(text, TOOLS, None, REFERENCE)


@pytest.mark.parametrize(
    ("text", "expected", "detail"),
    [
        (REFERENCE, Verdict.SAME, "same call"),
        (b"Other words." + call(device="sw1", command="show arp"), Verdict.SAME, "same call"),
        (call(command="show arp", device="sw1"), Verdict.EQUIVALENT, "equivalent call"),
        (call(device="sw2", command="show arp"), Verdict.DIFFERENT_ARGUMENTS, "different arguments: device"),
        (call(device="sw2", command="show"), Verdict.DIFFERENT_ARGUMENTS, "different arguments: device, command"),
        (call("reload", device="sw1"), Verdict.DIFFERENT_TOOL, "different tool: reload (not offered)"),
        (b"I cannot do that.", Verdict.MISSING, "missing call: run_command"),
        (REFERENCE + call(device="a", command="b"), Verdict.EXTRA, "extra call: run_command"),
        (call(device="sw1"), Verdict.MALFORMED, "malformed: command is missing"),
        (REFERENCE[:-20], Verdict.MALFORMED, "malformed: never closed"),
    ],
)
def test_calls_are_compared_with_those_of_the_reference(text: bytes, expected: Verdict, detail: str) -> None:
    found = against_reference(text)
    assert (found.verdict, found.detail) == (expected, detail)


def test_the_arguments_that_differ_are_named_in_the_order_wanted() -> None:
    found = against_reference(call(command="x", device="y"))
    assert found.differing_arguments == ("device", "command")
    assert differing_names({"a": 1, "new": 2}, {"gone": 1, "a": 1.0}) == ("gone", "new")


def test_a_malformed_call_says_where_it_broke() -> None:
    text = b'\xff<tool_call>{"name": "run_command", "arguments": {"device": sw1}}</tool_call>'
    found = against_reference(text)
    assert found.wrong_at is not None
    assert text[found.wrong_at :].startswith(b"sw1}}")
    assert not found.never_closed


def test_a_call_that_the_output_cuts_off_broke_at_its_end() -> None:
    found = against_reference(REFERENCE[:-20])
    assert found.never_closed
    assert found.wrong_at == len(REFERENCE) - 20


def test_the_label_counts_before_the_reference() -> None:
    label = ({"name": "run_command", "arguments": {"device": "sw9", "command": "show arp"}},)
    found = verdict(REFERENCE, TOOLS, label, REFERENCE)
    assert (found.verdict, found.differing_arguments) == (Verdict.DIFFERENT_ARGUMENTS, ("device",))


def test_a_label_may_be_written_as_in_an_openai_message() -> None:
    function = {"name": "run_command", "arguments": '{"device": "sw1", "command": "show arp"}'}
    assert verdict(REFERENCE, TOOLS, [{"type": "function", "function": function}]).verdict is Verdict.SAME


def test_an_empty_label_says_that_no_call_is_right() -> None:
    assert verdict(b"It is up.", TOOLS, ()).verdict is Verdict.NO_CALL
    assert verdict(REFERENCE, TOOLS, ()).verdict is Verdict.EXTRA


def test_without_calls_on_both_sides_there_is_no_call() -> None:
    assert verdict(b"It is up.", TOOLS, None, b"It is down.").verdict is Verdict.NO_CALL


def test_an_output_alone_is_compared_with_itself() -> None:
    assert verdict(REFERENCE, TOOLS).verdict is Verdict.SAME
    assert verdict(b"<tool_call>{").verdict is Verdict.MALFORMED


def test_the_very_same_call_is_the_same_even_when_it_breaks_the_schema() -> None:
    wrong = call(device="sw1")
    assert verdict(wrong, TOOLS, None, wrong).verdict is Verdict.SAME


def test_a_label_that_cannot_be_read_is_an_error_of_the_case() -> None:
    with pytest.raises(CaseError, match="expected call 2: no name"):
        verdict(REFERENCE, TOOLS, [{"name": "f", "arguments": {}}, {"arguments": {}}])


def made(*names: str) -> list[ToolCall]:
    return [ToolCall(name[0], {"a": name[1:]}) for name in names]


@pytest.mark.parametrize(
    ("calls", "wanted", "expected"),
    [
        (["f1", "f2"], ["f1", "f2"], "same calls"),
        (["f1", "f2", "f3"], ["f1", "f3"], "extra call: f"),
        (["f1", "f3"], ["f1", "g2", "f3"], "missing call: g"),
        (["f1", "f9", "f3"], ["f1", "f2", "f3"], "different arguments: a"),
        (["f1", "g2"], ["f9", "f2"], "different tool: g"),
        (["f2", "f1"], ["f1", "f2"], "different arguments: a"),
        (["f9", "f8", "f7"], ["f1"], "extra call: f"),
    ],
)
def test_of_several_calls_the_worst_counts(calls: list[str], wanted: list[str], expected: str) -> None:
    assert compare_calls(made(*calls), made(*wanted), ToolSchemas(())).detail == expected


def test_a_broken_call_counts_before_all_others() -> None:
    found = compare_calls([*made("g1"), BrokenCall("no name", 7)], made("f1"), ToolSchemas(()))
    assert found == CallVerdict(Verdict.MALFORMED, "malformed: no name", wrong_at=7)


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 0}, {"a": -0.0}, True),
        ({"a": None}, {}, False),
        ({"a": 1e100}, {"a": 10**100}, False),
    ],
)
def test_values_are_equivalent_when_they_mean_the_same(first: Any, second: Any, equal: bool) -> None:
    assert (canonical(first) == canonical(second)) is equal


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "1", "é", "\u202e", "\ud800"])
arguments = st.dictionaries(st.sampled_from(["a", "b", "c"]), scalars | st.lists(scalars, max_size=2), max_size=3)


@settings(deadline=None)
@given(arguments, arguments, st.randoms())
def test_a_verdict_follows_from_the_values(mine: dict[str, Any], theirs: dict[str, Any], random: Any) -> None:
    shuffled = list(mine.items())
    random.shuffle(shuffled)
    found = verdict(call("f", **dict(shuffled)), (), None, call("f", **theirs))
    if canonical(mine) == canonical(theirs):
        assert found.verdict in (Verdict.SAME, Verdict.EQUIVALENT)
    else:
        assert found.verdict is Verdict.DIFFERENT_ARGUMENTS
        one_sided = set(mine) ^ set(theirs)
        changed = {key for key in set(mine) & set(theirs) if canonical(mine[key]) != canonical(theirs[key])}
        assert set(found.differing_arguments) == one_sided | changed


@settings(deadline=None)
@given(st.text(max_size=20), st.text(min_size=1, max_size=80))
def test_phrases_are_one_line_of_printable_text(name: str, argument: str) -> None:
    text = json.dumps({"name": name or "f", "arguments": {argument: 1}})
    found = verdict(f"<tool_call>{text}</tool_call>".encode(), TOOLS, None, call(name or "f", **{argument: 2}))
    assert found.detail.isprintable()
    assert len(found.detail) < 400


def test_many_differing_arguments_are_counted() -> None:
    found = verdict(call("f", **{f"a{at}": 1 for at in range(9)}), (), None, call("f"))
    assert found.detail == "different arguments: a0, a1, a2, a3, a4 and 4 more"
    assert len(found.differing_arguments) == 9


def test_real_free_runs_of_a_small_model_get_their_verdicts() -> None:
    vlan = read_cases(CASES).cases[5]
    loop = (
        b'I will look.\n<tool_call>\n{"name": "run_command", "arguments": {"device": "vlan-1", "type": "vlan-1", "type'
    )
    assert vlan.expected_calls is not None
    right = vlan.expected_calls[0]
    assert verdict(call(right["name"], **right["arguments"]), vlan.tools, vlan.expected_calls).verdict is Verdict.SAME
    found = verdict(loop, vlan.tools, vlan.expected_calls)
    assert (found.verdict, found.detail, found.wrong_at) == (Verdict.MALFORMED, "malformed: never closed", len(loop))
