from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture import cases
from capture.cases import CaseFile, parse_cases, read_cases, without_recorded_answer
from capture.errors import CaseError
from capture.model import Case

SHARED = Path(__file__).resolve().parent.parent / "data" / "cases" / "network-automation.json"
USER = {"role": "user", "content": "Show the ARP table."}
ANSWER = {"role": "assistant", "content": "Here it is."}
TOOL = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
CALL = {"id": "1", "type": "function", "function": {"name": "run", "arguments": '{"device": "sw1"}'}}


def parse(value: Any) -> CaseFile:
    return parse_cases(json.dumps(value), "folder/chat.json")


def shared(**case: Any) -> dict[str, Any]:
    return {"name": "n", "format": "openai-chat", "cases": [{"id": "a", "messages": [USER], **case}]}


def message_for(value: Any) -> str:
    return message_for_text(value if isinstance(value, str) else json.dumps(value))


def message_for_text(text: str) -> str:
    with pytest.raises(CaseError) as caught:
        parse_cases(text, "chat.json")
    message = str(caught.value)
    assert message.startswith("chat.json: ")
    assert "\n" not in message
    return message.removeprefix("chat.json: ")


def test_the_shared_file_is_read_whole() -> None:
    found = read_cases(SHARED)
    written = json.loads(SHARED.read_text(encoding="utf-8"))
    assert found.name == "network-automation"
    assert [case.case_id for case in found.cases] == [
        "mac",
        "descr",
        "arp",
        "ospf",
        "iface",
        "vlan",
        "arp-explain",
        "route",
    ]
    for case, source in zip(found.cases, written["cases"], strict=True):
        assert list(case.messages) == source["messages"]
        assert list(case.tools) == source.get("tools", [])
        assert case.expected_calls == (tuple(source["expected"]["tool_calls"]) if "expected" in source else None)


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [USER], "model": "any", "temperature": 0},
        [USER],
        [[USER]],
        [{"messages": [USER]}],
    ],
)
def test_plain_conversations_are_cases_with_a_number(value: Any) -> None:
    assert parse(value) == CaseFile("chat", (Case("case-1", (USER,)),))


def test_a_list_holds_several_conversations() -> None:
    found = parse([{"messages": [USER]}, [USER, ANSWER], {"id": "mine", "messages": [USER], "thinking": True}])
    assert [case.case_id for case in found.cases] == ["case-1", "case-2", "mine"]
    assert [case.thinking for case in found.cases] == [False, False, True]


def test_json_lines_hold_one_conversation_a_line() -> None:
    text = "\n".join([json.dumps({"messages": [USER]}), "", json.dumps([USER, ANSWER]), ""])
    found = parse_cases(text, "chat.jsonl")
    assert [len(case.messages) for case in found.cases] == [1, 2]


def test_messages_and_their_calls_are_kept_as_they_are() -> None:
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "You run commands."}]},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": ""},
    ]
    (case,) = parse({"messages": messages, "tools": [TOOL]}).cases
    assert list(case.messages) == messages
    assert case.tools == (TOOL,)


def test_expected_calls_are_brought_into_one_form() -> None:
    plain = {"name": "run", "arguments": {"device": "sw1"}}
    (case,) = parse(shared(expected={"tool_calls": [CALL, plain]})).cases
    assert case.expected_calls == (plain, plain)


def test_an_empty_label_differs_from_none() -> None:
    assert parse(shared(expected={"tool_calls": []})).cases[0].expected_calls == ()
    assert parse(shared()).cases[0].expected_calls is None


def test_a_recorded_answer_is_kept_and_can_be_cut() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    (case,) = parse([USER, ANSWER, USER, called, ANSWER]).cases
    assert without_recorded_answer(case).messages == (USER, ANSWER, USER)
    (open_case,) = parse([USER, called, {"role": "tool", "content": "x"}]).cases
    assert without_recorded_answer(open_case) == open_case


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("{", "is not JSON at line 1, column 2"),
        ('{"messages": [\n{"role": "user",}\n]}', "is not JSON at line 2, column 17"),
        ('[]\n{"messages": ', "line 2 is not JSON at column 14"),
        ([], "holds no conversation"),
        (5, "holds no conversation"),
        ({}, "case 1: has no messages"),
        ([5], "case 1: must be an object with messages"),
        ({"messages": []}, "case 1: has no messages"),
        ({"messages": "hello"}, "case 1: has no messages"),
        ([USER, {"content": "x"}], "case 1: message 2 has no role"),
        ([USER, "x"], "case 1: message 2 must be an object"),
        ([{"role": "robot", "content": "x"}], 'case 1: message 1 has the role "robot"'),
        ([{"role": ["user"], "content": "x"}], "case 1: message 1 has the role"),
        ([{"role": "user"}], "case 1: message 1 has no text"),
        ([{"role": "user", "content": None}], "case 1: message 1 has no text"),
        ([{"role": "user", "content": []}], "case 1: message 1 has no text"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "case 1: message 1 has no text"),
        ([USER, {"role": "assistant", "content": None, "tool_calls": ["x"]}], "case 1: message 2 has 'tool_calls'"),
        ([ANSWER], "case 1: nothing but assistant messages"),
        (shared(tools={}), "case \"a\": 'tools' must be a list"),
        (shared(tools=["x"]), "case \"a\": 'tools' must be a list"),
        (shared(tools=[{"function": {}}]), 'case "a": tool 1 has no name'),
        (shared(expected=[]), "case \"a\": 'expected' must be"),
        (shared(expected={"tool_calls": [], "text": ""}), "case \"a\": 'expected' must be"),
        (shared(expected={"tool_calls": [{"name": "run"}]}), 'case "a": expected call 1 cannot be read (no arguments)'),
        (shared(thinking="yes"), "case \"a\": 'thinking' must be true or false"),
        (shared(expeced={}), 'case "a": key "expeced" is not known'),
        ({**shared(), "Name": "x"}, 'key "Name" is not known'),
        ({**shared(), "format": "other"}, 'format "other" is not known'),
        ({**shared(), "name": "a\nb"}, "'name' must be"),
        ({"cases": []}, "'cases' must be a list of at least one case"),
        ([{"id": "a", "messages": [USER]}, {"id": "a", "messages": [USER]}], "two cases have the id 'a'"),
        ([{"messages": [USER]}, {"id": "case-1", "messages": [USER]}], "two cases have the id 'case-1'"),
        ('[{"role": "user", "content": "x", "weight": NaN}]', "holds NaN"),
        ('[{"role": "user", "content": "x", "weight": -Infinity}]', "holds -Infinity"),
        ('[{"role": "user", "content": "x", "weight": 1e999}]', "holds a number that is too large"),
        ('[{"role": "user", "content": "x", "weight": ' + "9" * 5000 + "}]", "holds a number that is too long"),
        ('[{"role": "user", "role": "user", "content": "x"}]', 'gives the key "role" twice'),
        ('[{"role": "user", "content": "\\ud800"}]', "holds half of a surrogate pair"),
        ("[" * 200_000 + "]" * 200_000, "is nested too deeply"),
        ('[]\n{"a": NaN}', "line 2 holds NaN"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(value: Any, expected: str) -> None:
    assert message_for(value).startswith(expected)


@pytest.mark.parametrize(
    "case_id", ["", ".hidden", "-flag", "a/b", "../a", "a b", "é", "a\n", "x" * 65, 5, None, "a\x00", "C:"]
)
def test_an_id_that_could_be_mistaken_for_a_path_or_an_option_is_refused(case_id: Any) -> None:
    assert "this id cannot be used" in message_for(shared(id=case_id))


@pytest.mark.parametrize("case_id", ["a", "A.b_c-9", "_", "x" * 64])
def test_a_plain_id_is_kept(case_id: str) -> None:
    assert parse(shared(id=case_id)).cases[0].case_id == case_id


keys = st.sampled_from(["messages", "role", "content", "tools", "id", "cases", "expected", "tool_calls", "name"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("user"),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(keys, parts, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(anything)
def test_no_json_makes_it_fail_in_another_way(value: Any) -> None:
    try:
        found = parse(value)
    except CaseError:
        return
    assert all(case.messages for case in found.cases)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_no_text_makes_it_fail_in_another_way(text: str) -> None:
    assert message_for_text(text)


def test_a_file_is_read_with_a_byte_order_mark_or_without(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / "my chat.json").write_text(json.dumps([USER]), encoding=encoding)
        assert read_cases(tmp_path / "my chat.json") == CaseFile("my chat", (Case("case-1", (USER,)),))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = tmp_path / "absent.json"
    with pytest.raises(CaseError, match=r"absent\.json: No such file"):
        read_cases(absent)
    with pytest.raises(CaseError, match="directory"):
        read_cases(tmp_path)
    absent.write_bytes("[é]".encode("utf-16"))
    with pytest.raises(CaseError, match="not UTF-8 at byte 0"):
        read_cases(absent)
    monkeypatch.setattr(cases, "LARGEST_FILE", 10)
    absent.write_text(json.dumps([USER]), encoding="utf-8")
    with pytest.raises(CaseError, match="larger than"):
        read_cases(absent)
