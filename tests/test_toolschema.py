from __future__ import annotations

import socket
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.toolschema import LONGEST_NAME, SchemaBreak, ToolSchemas, printable

PARAMETERS = {
    "type": "object",
    "properties": {
        "device": {"type": "string", "minLength": 1},
        "count": {"type": ["integer", "null"], "maximum": 3},
        "mode": {"enum": ["brief", "full"]},
        "ports": {"type": "array", "items": {"$ref": "#/$defs/port"}},
    },
    "required": ["device"],
    "additionalProperties": False,
    "$defs": {"port": {"type": "object", "required": ["name"]}},
}


def schemas(parameters: Any) -> ToolSchemas:
    return ToolSchemas([{"type": "function", "function": {"name": "f", "parameters": parameters}}])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"device": "a", "count": None, "mode": "full", "ports": [{"name": 1}]}, None),
        ({}, SchemaBreak("device is missing", (), at_end=True)),
        ({"device": 1}, SchemaBreak("device is not of type string", ("device",))),
        ({"device": ""}, SchemaBreak("device is not allowed", ("device",))),
        ({"device": "a", "count": True}, SchemaBreak("count is not of type integer or null", ("count",))),
        ({"device": "a", "count": 4}, SchemaBreak("count is not allowed", ("count",))),
        ({"device": "a", "mode": "x"}, SchemaBreak("mode is not an allowed value", ("mode",))),
        ({"device": "a", "more": 1}, SchemaBreak("more is not an argument", ("more",))),
        ({"device": "a", "ports": [{"name": 1}, {}]}, SchemaBreak("name is missing", ("ports", 1), at_end=True)),
    ],
)
def test_a_break_is_named_with_its_place(arguments: dict[str, Any], expected: SchemaBreak | None) -> None:
    assert schemas(PARAMETERS).check("f", arguments) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"^a": {}}, "additionalProperties": False},
        {"oneOf": [{"required": ["a"]}, {"required": ["a"], "properties": {"a": {"pattern": "^x"}}}]},
        {"properties": {"a": {"type": "whatever"}}},
        {"properties": {"a": {"minimum": 2, "exclusiveMinimum": True}}},
    ],
)
def test_what_is_not_checked_is_allowed(schema: Any) -> None:
    assert schemas(schema).check("f", {"a": 2}) is None


def test_an_unknown_tool_and_a_tool_without_schema_break_nothing() -> None:
    tools = ToolSchemas([{"name": "bare"}, {"type": "web_search"}, {"function": 5}])
    assert "bare" in tools
    assert "other" not in tools
    assert tools.check("bare", {"x": 1}) is None
    assert tools.check("other", {"x": 1}) is None
    assert not ToolSchemas([{"type": "web_search"}])


simple = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer", "minimum": 2},
        {"enum": ["a", 3]},
        {"const": None},
        {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
        {"pattern": "^a$"},
        {"oneOf": [{"type": "string"}, {"minLength": 1}]},
        {"not": {"type": "string"}},
        {"patternProperties": {"^a": {}}, "additionalProperties": False},
        {"if": {"type": "string"}, "then": False},
    ]
)
objects = st.dictionaries(
    st.sampled_from("abc"), st.sampled_from(["", "a", 1, 3, 2.0, None, True, [1], [1, "a"], {"a": 1}, {"b": 1}])
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), simple), st.lists(st.sampled_from("abc")), st.booleans(), objects)
def test_a_break_that_is_reported_is_always_one(
    properties: dict[str, Any], required: list[str], more: bool, arguments: dict[str, Any]
) -> None:
    schema = {"properties": properties, "required": required, "additionalProperties": more}
    if schemas(schema).check("f", arguments) is not None:
        assert not jsonschema.Draft202012Validator(schema).is_valid(arguments)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$ref": "http://example.invalid/schema.json"},
        {"$ref": "#/$defs/absent"},
        {"$defs": {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(60)}, "$ref": "#/$defs/a0"},
        {"additionalProperties": {"anyOf": [{"type": "integer"}] * 5000}},
        {"properties": {"k0": {"pattern": "(a+)+$"}}},
        {"type": "strng", "properties": 5, "required": "k0", "enum": 1, "items": 3, "anyOf": [], "minimum": "x"},
        "no schema",
    ],
)
def test_a_hostile_schema_costs_little_and_reports_nothing(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a schema must not reach the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    arguments = {f"k{index}": "a" * 40 + "b" for index in range(500)}
    assert schemas(schema).check("f", arguments) is None


def test_a_schema_nested_without_end_is_read_to_some_depth() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(5000):
        schema = {"properties": {"a": schema}}
    assert schemas(schema).check("f", {"a": 1}) is None


def test_an_argument_can_be_looked_at_alone() -> None:
    found = schemas(PARAMETERS)
    assert found.allows("f", "device", "a")
    assert not found.allows("f", "count", "2")
    assert not found.allows("f", "ports", [{}])
    assert found.allows("f", "unknown", "x")
    assert found.allows("g", "device", 1)


def test_names_are_shown_on_one_short_line() -> None:
    assert printable("a\n\x1b[31m\u202eb\ud800") == "a\ufffd\ufffd[31m\ufffdb\ufffd"
    assert printable("x" * LONGEST_NAME) == "x" * LONGEST_NAME
    assert len(printable("x" * 1000)) == LONGEST_NAME + 1
