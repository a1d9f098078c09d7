from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.callparser import MOST_CALLS, BrokenCall, ToolCall, calls_of, read_calls
from capture.toolschema import ToolSchemas

ARGUMENTS = {"device": "sw1", "count": 2}
SCHEMAS = ToolSchemas(
    [
        {
            "type": "function",
            "function": {
                "name": "run",
                "parameters": {
                    "type": "object",
                    "properties": {"device": {"type": "string"}, "count": {"type": "integer"}},
                    "required": ["device"],
                    "additionalProperties": False,
                },
            },
        }
    ]
)
HERMES = b'<tool_call>\n{"name": "run", "arguments": {"device": "sw1", "count": 2}}\n</tool_call>'


def call(text: bytes) -> ToolCall:
    (found,) = read_calls(text, SCHEMAS)
    assert isinstance(found, ToolCall), found
    return found


def broken(text: bytes) -> tuple[str, bytes]:
    """Why the only call is broken, and what stands where it broke."""
    (found,) = read_calls(text, SCHEMAS)
    assert isinstance(found, BrokenCall), found
    return found.reason, text[found.offset :]


@pytest.mark.parametrize(
    "text",
    [
        HERMES,
        b"<tool_call>\n<function=run>\n<parameter=device>\nsw1\n</parameter>\n<parameter=count>\n2\n</parameter>\n"
        b"</function>\n</tool_call>",
        b'<function=run>{"device": "sw1", "count": 2}</function>',
        b'<|python_tag|>{"name": "run", "parameters": {"device": "sw1", "count": 2}}<|eom_id|>',
        b'[TOOL_CALLS][{"name": "run", "arguments": {"device": "sw1", "count": 2}}]</s>',
        b'[TOOL_CALLS]run[ARGS]{"device": "sw1", "count": 2}</s>',
    ],
)
def test_a_call_is_read_in_the_format_of_its_template(text: bytes) -> None:
    found = call(b"Sure.\n" + text)
    assert (found.name, found.arguments, found.start) == ("run", ARGUMENTS, len(b"Sure.\n"))
    assert found.schema_error is None


def test_offsets_are_bytes_of_the_output_whatever_stands_before() -> None:
    before = "é€😀".encode() + b"\xff\x80"
    assert call(before + HERMES).start == len(before)
    assert broken(before + b'<tool_call>{"name": "\xc3\xa9", oops') == ("expected a key in quotes", b"oops")


def test_strings_may_hold_tags_and_other_scripts() -> None:
    text = '<tool_call>{"name": "run", "arguments": {"device": "</tool_call><tool_call>é😀"}}</tool_call>'
    assert call(text.encode()).arguments == {"device": "</tool_call><tool_call>é😀"}


@pytest.mark.parametrize(
    ("text", "reason", "rest"),
    [
        (b'<tool_call>{"name": "run", "arguments": {"device": "s', "never closed", b""),
        (b'<tool_call>{"name": "run", "arguments": {"device": "s<|im_end|>', "never closed", b"<|im_end|>"),
        (HERMES.removesuffix(b"</tool_call>"), "never closed", b""),
        (HERMES.removesuffix(b"l>"), "never closed", b""),
        (HERMES.removesuffix(b"</tool_call>") + b"<|im_end|>", "never closed", b"<|im_end|>"),
        (HERMES.removesuffix(b"</tool_call>") + b"and", "text after the call", b"and"),
        (b'<tool_call>{"name": "run", "arguments": {}</tool_call>', "expected a comma or the end", b"</tool_call>"),
        (b'<tool_call>{"name": "run"}</tool_call>', "no arguments", b'{"name": "run"}</tool_call>'),
        (b'<tool_call>{"arguments": {}}</tool_call>', "no name", b'{"arguments": {}}</tool_call>'),
        (b'<tool_call>{"name": "f", "arguments": ""}</tool_call>', "arguments are not an object", b'""}</tool_call>'),
        (b"<tool_call>[1]</tool_call>", "not an object", b"[1]</tool_call>"),
        (b'[TOOL_CALLS][{"name": "run", "arguments": []}]', "arguments are not an object", b"[]}]"),
        (b"<tool_call><function=run><parameter=device>a", "never closed", b""),
        (b"<tool_call><function=run><parameter=dev", "never closed", b""),
        (b"<function=f><parameter=a>1</parameter><parameter=a>", "key given twice", b"a>"),
    ],
)
def test_a_broken_call_says_why_and_where(text: bytes, reason: str, rest: bytes) -> None:
    assert broken(text) == (reason, rest)


@pytest.mark.parametrize(
    ("arguments", "reason", "rest"),
    [
        (b'{"device": 7}', "device is not of type string", b"7}}</tool_call>"),
        (b'{"count": 7}', "device is missing", b"}}</tool_call>"),
        (b'{"device": "a", "vlan": 7}', "vlan is not an argument", b"7}}</tool_call>"),
    ],
)
def test_a_call_that_breaks_the_schema_can_be_read_and_says_where(arguments: bytes, reason: str, rest: bytes) -> None:
    text = b'<tool_call>{"name": "run", "arguments": ' + arguments + b"}</tool_call>"
    found = call(text)
    assert found.schema_error == reason
    assert found.schema_error_at is not None
    assert text[found.schema_error_at :] == rest


def test_a_call_that_is_only_thought_of_is_none() -> None:
    text = b"<think>" + HERMES + b"</think>"
    assert read_calls(text) == ()
    assert call(text + HERMES).start == len(text)


def test_a_bare_call_that_is_only_thought_of_is_none() -> None:
    bare = b'{"name": "run", "parameters": {"device": "sw1", "count": 2}}'
    assert read_calls(bare + b"</think>") == ()
    assert call(b"\n" + bare).start == 1


def test_reading_goes_on_after_a_broken_call() -> None:
    first, second = read_calls(b"<tool_call>{bad}</tool_call>" + HERMES)
    assert isinstance(first, BrokenCall)
    assert isinstance(second, ToolCall)


def test_a_loop_of_calls_is_read_to_some_number() -> None:
    assert len(read_calls(HERMES * (MOST_CALLS + 5))) == MOST_CALLS


PIECES = (
    *(
        b"<tool_call>",
        b"</tool_call>",
        b"<function=f>",
        b"<function=",
        b"</function>",
        b"<parameter=a>",
        b"</parameter>",
    ),
    *(b"[TOOL_CALLS]", b"f[ARGS]", b"<|python_tag|>", b"<think>", b"</think>", b"</s>", b"<|im_end|>", b"[" * 500),
    *(
        b'{"name": "run", "arguments": ',
        b'{"name": "run", "parameters": {}}',
        b'{"device": ',
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\ud800",
        b"1e999",
        b"9" * 5000,
        b"NaN",
    ),
    *(b" ", b"\n", b"\xff\xf0", b"\x00", b"true", b",", b":", HERMES),
)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join))
def test_no_text_makes_it_raise_and_offsets_stay_inside(text: bytes) -> None:
    for found in read_calls(text, SCHEMAS):
        if isinstance(found, BrokenCall):
            assert 0 <= found.offset <= len(text)
        else:
            assert 0 <= found.start < len(text)
            assert (found.schema_error is None) == (found.schema_error_at is None)


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_no_bytes_after_a_tag_make_it_raise(text: bytes) -> None:
    assert all(isinstance(found, (ToolCall, BrokenCall)) for found in read_calls(b"<tool_call>" + text, SCHEMAS))


def test_calls_may_be_given_as_in_an_openai_message() -> None:
    message: list[dict[str, Any]] = [
        {"id": "1", "type": "function", "function": {"name": "run", "arguments": '{"device": "sw1", "count": 2}'}},
        {"name": "run", "arguments": {"device": "sw1", "count": 2}},
        {"function": {"name": "run", "arguments": '{"device": '}},
        {"name": "run", "arguments": {"device": 1}},
        {"arguments": {}},
    ]
    first, second, cut, invalid, nameless = calls_of(message, SCHEMAS)
    assert first == second == ToolCall("run", ARGUMENTS)
    assert cut == BrokenCall("never closed", 11)
    assert isinstance(invalid, ToolCall)
    assert invalid.schema_error == "device is not of type string"
    assert nameless == BrokenCall("no name", 0)


def test_given_arguments_are_as_strict_as_written_ones() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert calls_of([{"name": "f", "arguments": {"a": deep}}]) == (BrokenCall("nested too deeply", 0),)
    assert calls_of([{"name": "f", "arguments": {"a": float("nan")}}]) == (BrokenCall("number too large", 0),)
    assert calls_of([{"name": "f", "arguments": "{} {}"}]) == (BrokenCall("text after the arguments", 2),)


@pytest.mark.parametrize("text", [b"<function=\n{}", b"<function=>", b"<function=a\n>", b"<tool_call>x"])
def test_what_cannot_be_read_is_broken_once(text: bytes) -> None:
    assert len(read_calls(text)) == 1
