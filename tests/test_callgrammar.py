"""The grammar of a call allows whatever can still become a readable call, on the outputs written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from capture.callgrammar import MOST_ORDERED_KEYS, OPENERS, call_grammar
from capture.callparser import BrokenCall, ToolCall, read_calls
from capture.grammar import KnownTokens, walk_calls
from capture.model import Json, Token
from capture.toolschema import ToolSchemas
from tests.test_written_calls import TOOLS, WRITTEN, name, written

llguidance = pytest.importorskip("llguidance")

BYTES = KnownTokens({byte: Token(byte, bytes([byte])) for byte in range(256)})

NOT_FOLLOWED = {
    "hermes-number-out-of-bounds",  # bounds are passed over
    "qwen3-coder-number-as-text",  # and so are types of what stands between tags
}
NOT_TEXT = {"hermes-bytes-that-are-no-text"}


def breaks(text: bytes, tools: list[Json] = TOOLS) -> list[int]:
    """The byte offsets that break the grammar of their call, one a call at most."""
    return [position for _, position, _, broken in walk_calls(tools, list(text), BYTES) if broken]


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("tools", [TOOLS, [], [{"name": "f"}]], ids=["tools", "none", "bare"])
def test_every_grammar_is_one_that_llguidance_takes(opener: str, tools: list[Json]) -> None:
    grammar = llguidance.LLMatcher.grammar_from_lark(call_grammar(tools, opener))
    assert llguidance.LLMatcher.validate_grammar(grammar) == ""


@pytest.mark.parametrize("output", WRITTEN, ids=name)
def test_a_call_that_can_be_read_breaks_no_grammar(output: dict[str, Any]) -> None:
    text, _ = written(output)
    calls = read_calls(text, ToolSchemas(TOOLS))
    fine = all(
        isinstance(call, ToolCall) and call.schema_error is None and call.name in ToolSchemas(TOOLS) for call in calls
    )
    if fine and name(output) not in NOT_TEXT:
        assert breaks(text) == []


@pytest.mark.parametrize("output", WRITTEN, ids=name)
def test_a_call_that_is_broken_in_the_middle_breaks_its_grammar(output: dict[str, Any]) -> None:
    text, _ = written(output)
    found = [call for call in read_calls(text, ToolSchemas(TOOLS)) if isinstance(call, BrokenCall) or call.schema_error]
    ended = any(isinstance(call, BrokenCall) and call.reason == "never closed" for call in found)
    if found and not ended and name(output) not in NOT_FOLLOWED:
        assert len(breaks(text)) == 1


def tool(schema: Json) -> list[Json]:
    return [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", **schema}}}]


def call(arguments: str) -> bytes:
    return f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'.encode()


ENUM: Json = {"properties": {"a": {"enum": ["x", 2, None]}}, "additionalProperties": False}
NESTED: Json = {
    "properties": {"a": {"type": "object", "properties": {"b": {"type": "boolean"}, "c": {}}, "required": ["b"]}}
}
MANY: Json = {"properties": {f"k{at}": {"type": "integer"} for at in range(MOST_ORDERED_KEYS + 2)}}
EITHER: Json = {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]}}}


@pytest.mark.parametrize(
    ("schema", "arguments", "broken_at"),
    [
        (ENUM, '{"a": "x"}', None),
        (ENUM, '{"a": 2.0}', None),
        (ENUM, '{"a": null}', None),
        (ENUM, '{"a": "y"}', 'y"}'),
        (ENUM, '{"b": 1}', 'b": 1}'),
        (NESTED, '{"a": {"c": [1, {"x": "\\u00e9"}], "b": true}, "other": {}}', None),
        (NESTED, '{"a": {"c": 1}}', "}}}"),
        (NESTED, '{"a": {"b": 1}}', "1}}"),
        (MANY, '{"k7": 1, "k0": 2, "z": "s"}', None),
        (MANY, '{"k7": "s"}', '"s"}'),
        (EITHER, '{"a": [1, 2.5e3]}', None),
        (EITHER, '{"a": ["s"]}', '"s"]'),
        ({"$ref": "#/$defs/x"}, '{"anything": [true]}', None),
        ({"properties": {"a": {"type": "integer"}}}, '{"a": 1, "a": 2}', '": 2}'),
        ({"required": ["a", 3]}, "{}", None),
        ({"properties": {"a": {"type": "elephant"}}}, '{"a": 1}', None),
    ],
)
def test_a_schema_is_followed_where_it_is_clear(schema: Json, arguments: str, broken_at: str | None) -> None:
    text = call(arguments)
    place = next(iter(breaks(text, tool(schema))), None)
    if broken_at is None:
        assert place is None
    else:
        assert place is not None
        assert text[place:].startswith(broken_at.encode())


def test_a_schema_that_is_too_large_allows_everything() -> None:
    schema: Json = {"type": "object", "properties": {f"k{at}": {} for at in range(6)}}
    for _ in range(5):
        schema = {"type": "object", "properties": {f"k{at}": schema for at in range(6)}}
    grammar = call_grammar([{"name": "f", "parameters": schema}], "<tool_call>")
    assert len(grammar) < 10_000
    assert breaks(call('{"q": 1}'), [{"name": "f", "parameters": schema}]) == []


def test_names_that_cannot_be_written_into_a_grammar_are_passed_over() -> None:
    tools: list[Json] = [
        {"name": 'f"\\ /x', "parameters": {"properties": {"a\n": {}, "b\ud800": {}, "c": {}}}},
        {"name": "g\ud800"},
    ]
    assert breaks(b'<tool_call>{"name": "f\\"\\\\ /x", "arguments": {"c": 1}}</tool_call>', tools) == []


def test_in_recorded_turns_no_call_goes_beyond_its_turn() -> None:
    turns = [
        b'<tool_call>\n{"name": "f", "arguments": {"a": ',
        b'<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
    ]
    between = b"</s>\n<user>more<assistant>"
    text, second = between.join(turns), len(turns[0]) + len(between)
    places = [(0, len(turns[0])), (second, len(text))]
    found = [(call, at, broken) for call, at, _, broken in walk_calls([{"name": "f"}], list(text), BYTES, places)]
    assert {call for call, _, _ in found} == {0, 1}
    assert all(places[call][0] <= at < places[call][1] for call, at, _ in found)
    assert not any(broken for _, _, broken in found)
    whole = list(walk_calls([{"name": "f"}], list(text), BYTES))
    assert any(broken for *_, broken in whole)  # as one output, the first call runs on into what a user said
