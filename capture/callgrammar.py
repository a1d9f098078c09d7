"""The grammar of a tool call, as Lark text, in the forms that `callparser` reads. Pure; imports model.

It allows at least what a tool's schema allows, so that a token it refuses breaks the call: keys in any order, values by
type, enumeration and required keys. Bounds, lengths, references and conditions are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from capture.model import Json

MOST_ORDERED_KEYS = 6
"""Keys of an object whose repeats and absence are followed; objects with more are only read key by key."""

DEEPEST = 8
"""Levels of a schema that are followed; what lies deeper allows everything."""

MOST_RULES = 4_000
"""Rules of a grammar; a schema that needs more allows everything."""

MOST_VALUES = 200
"""Values of an enumeration that are told apart."""

OPENERS = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|python_tag|>", "{")
"""How a call may start; the last is a call without a tag."""

STRUCTURE = frozenset(
    (*OPENERS, "</tool_call>", "</function>", "</parameter>", "[ARGS]", "[CALL_ID]", "<tool_call>", "<function")
)
"""Texts of special tokens that may stand in a call."""

_TERMINALS = r"""
STRING: /"(\\(["\\\/bfnrt]|u[0-9a-fA-F]{4})|[^"\\\x00-\x1f])*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
INTEGER: /-?(0|[1-9][0-9]*)(\.0+)?([eE][+-]?[0-9]+)?/
ID: /[A-Za-z0-9_-]{1,64}/
TAIL: /(.|\n)*/
parameter_text[lazy]: /(.|\n)*<\/parameter>/
any: STRING | NUMBER | "true" | "false" | "null" | any_object | any_array
any_object: "{" "}" | "{" any_pair ("," any_pair)* "}"
any_pair: STRING ":" any
any_array: "[" "]" | "[" any ("," any)* "]"
%ignore /[ \t\r\n]+/
"""
_PLAIN_TYPES = {"string": "STRING", "number": "NUMBER", "integer": "INTEGER", "null": '"null"'}


def call_grammar(tools: Sequence[Json], opener: str) -> str:
    """Return the grammar of a call and of whatever follows it.

    Args:
        tools: OpenAI tool definitions; without any, every name and every argument is allowed.
        opener: one of `OPENERS`, with which the call starts.
    """
    writer = _Writer()
    try:
        start = _start(writer, list(_named(tools)), opener)
    except _TooLargeError:
        writer = _Writer()
        start = _start(writer, [(name, {}) for name, _ in _named(tools)], opener)
    rules = "\n".join(f"{name}: {body}" for name, body in writer.rules.items())
    return f"start: {start} TAIL\n{rules}\n{_TERMINALS}"


class _TooLargeError(Exception):
    pass


def _named(tools: Sequence[Json]) -> Iterable[tuple[str, Json]]:
    """Yield names and schemas; a text that cannot be written, of a hostile bundle, is no tool of the grammar."""
    for tool in tools:
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(inner.get("name"), str) and _writable(inner["name"]):
            parameters = inner.get("parameters")
            yield inner["name"], parameters if isinstance(parameters, Mapping) else {}


def _writable(text: str) -> bool:
    return text.isprintable() and len(text) <= 256


def _start(writer: _Writer, tools: Sequence[tuple[str, Json]], opener: str) -> str:
    if opener == "<tool_call>":
        return f'"<tool_call>" ({_objects(writer, tools)} | {_functions(writer, tools)}) "</tool_call>"'
    if opener == "<function=":
        return _functions(writer, tools)
    if opener == "<|python_tag|>":
        return f'"<|python_tag|>" {_objects(writer, tools)}'
    if opener == "[TOOL_CALLS]":
        objects = _objects(writer, tools)
        named = " | ".join(
            f'{_literal(name)} ("[CALL_ID]" ID)? "[ARGS]" {writer.value(_object_only(schema), 0)}'
            for name, schema in tools
        )
        return f'"[TOOL_CALLS]" ("[" {objects} ("," {objects})* "]" | {named or "ID any_object"})'
    return _objects(writer, tools)


def _objects(writer: _Writer, tools: Sequence[tuple[str, Json]]) -> str:
    """Return the rule of a call as an object."""
    bodies = []
    named = [(_literal(json.dumps(name)), writer.value(_object_only(schema), 0)) for name, schema in tools]
    for name, arguments in named or [("STRING", "any_object")]:
        first, second = f'"\\"name\\"" ":" {name}', f'("\\"arguments\\"" | "\\"parameters\\"") ":" {arguments}'
        kind = '"\\"type\\"" ":" "\\"function\\"" ","'
        bodies.append(f'"{{" ({kind})? ({first} "," {second} | {second} "," {first}) "}}"')
    return writer.rule(" | ".join(bodies))


def _functions(writer: _Writer, tools: Sequence[tuple[str, Json]]) -> str:
    """Return the rule of a call as a tag with parameters inside, or with an object."""
    bodies = []
    for name, schema in tools:
        arguments, parameters = writer.value(_object_only(schema), 0), _parameters(writer, schema)
        bodies.append(f'{_literal(f"<function={name}>")} ({arguments} | {parameters}) "</function>"')
    every = '"<function=" /[^<>\\n]+>/ (any_object | ("<parameter=" /[^<>\\n]+>/ parameter_text)*) "</function>"'
    return writer.rule(" | ".join(bodies) or every)


def _parameters(writer: _Writer, schema: Json) -> str:
    keys, required, closed = _keys(schema)
    pairs = [f"{_literal(f'<parameter={key}>')} parameter_text" for key in keys]
    other = None if closed else '"<parameter=" /[^<>\\n]+>/ parameter_text'
    return writer.sequence(pairs, {keys.index(key) for key in required}, other, ("", "", ""))


def _object_only(schema: Json) -> Json:
    return {**schema, "type": "object"}


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _keys(schema: Json) -> tuple[list[str], set[str], bool]:
    """Return the keys of an object, those that are required, and whether it takes no others."""
    properties = schema.get("properties")
    keys = list(properties) if isinstance(properties, Mapping) else []
    keys = [key for key in keys if isinstance(key, str) and _writable(key)]
    listed = schema.get("required")
    required = {key for key in (listed if isinstance(listed, list) else []) if key in keys}
    complete = not isinstance(properties, Mapping) or len(keys) == len(properties)
    return (
        keys,
        required,
        schema.get("additionalProperties") is False and complete and "patternProperties" not in schema,
    )


@dataclass(slots=True)
class _Writer:
    rules: dict[str, str] = field(default_factory=dict)

    def rule(self, body: str) -> str:
        if len(self.rules) >= MOST_RULES:
            raise _TooLargeError
        name = f"r{len(self.rules)}"
        self.rules[name] = body
        return name

    def value(self, schema: object, depth: int) -> str:
        """Return the rule of a value."""
        if not isinstance(schema, Mapping) or depth > DEEPEST or "$ref" in schema or "allOf" in schema:
            return "any_object" if isinstance(schema, Mapping) and schema.get("type") == "object" else "any"
        if isinstance(allowed := schema.get("enum", [schema["const"]] if "const" in schema else None), list):
            return self._listed(allowed)
        for name in ("anyOf", "oneOf"):
            if isinstance(parts := schema.get(name), list) and parts and schema.get("type") != "object":
                return self.rule(" | ".join(self.value(part, depth + 1) for part in parts))
        kinds = schema.get("type")
        listed = kinds if isinstance(kinds, list) else [kinds]
        return self.rule(" | ".join(dict.fromkeys(self._typed(kind, schema, depth) for kind in listed)) or "any")

    def _typed(self, kind: object, schema: Json, depth: int) -> str:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            item = self.value(schema.get("items"), depth + 1) if "prefixItems" not in schema else "any"
            return self.rule(f'"[" "]" | "[" {item} ("," {item})* "]"')
        if kind == "boolean":
            return self.rule('"true" | "false"')
        return _PLAIN_TYPES.get(kind, "any") if isinstance(kind, str) else "any"

    def _listed(self, allowed: Sequence[Any]) -> str:
        plain = all(value is None or isinstance(value, (str, int, float, bool)) for value in allowed)
        if not plain or not 0 < len(allowed) <= MOST_VALUES:
            return "any"
        bodies: list[str] = []
        for value in allowed:
            if isinstance(value, str) and not _writable(value):
                return "any"
            written = dict.fromkeys([json.dumps(value), json.dumps(value, ensure_ascii=False)])
            bodies += [_literal(text) for text in written]
            bodies += ["NUMBER"] if isinstance(value, (int, float)) and not isinstance(value, bool) else []
        return self.rule(" | ".join(dict.fromkeys(bodies)))

    def _object(self, schema: Json, depth: int) -> str:
        keys, required, closed = _keys(schema)
        properties = schema.get("properties", {})
        literals = [_literal(json.dumps(key, ensure_ascii=False)) for key in keys]
        pairs = [
            self.rule(f'{literal} ":" {self.value(properties[key], depth + 1)}')
            for key, literal in zip(keys, literals, strict=True)
        ]
        other = None if closed else self._other(literals, schema.get("additionalProperties"), depth)
        return self.sequence(pairs, {keys.index(key) for key in required}, other, ('"{"', '","', '"}"'))

    def _other(self, literals: Sequence[str], schema: object, depth: int) -> str:
        if not literals:
            return self.rule(f'STRING ":" {self.value(schema, depth + 1)}')
        terminal = f"OTHER{len(self.rules)}"
        self.rules[terminal] = f"STRING & ~({' | '.join(literals)})"
        return self.rule(f'{terminal} ":" {self.value(schema, depth + 1)}')

    def sequence(self, pairs: Sequence[str], required: set[int], other: str | None, marks: tuple[str, str, str]) -> str:
        """Return the rule of pairs in any order, each at most once, with all that are required among them.

        Args:
            pairs: their rules.
            required: indexes of those that must be there.
            other: the rule of any other pair; None where there are no others.
            marks: what stands before, between and after the pairs.
        """
        before, between, after = marks
        if len(pairs) > MOST_ORDERED_KEYS:
            every = self.rule(" | ".join([*pairs, *([other] if other else [])]))
            return self.rule(f"{before} ({every} ({between} {every})*)? {after}")
        after_set: dict[frozenset[int], str] = {}
        for size in range(len(pairs), -1, -1):
            for chosen in map(frozenset, combinations(range(len(pairs)), size)):
                after_set[chosen] = self._rest(pairs, chosen, required, after_set, other, between, after)
        first = [f"{pair} {after_set[frozenset([at])]}" for at, pair in enumerate(pairs)]
        first += [f"{other} {after_set[frozenset()]}"] if other else []
        first += [] if required else [after or '""']
        return self.rule(f"{before} ({' | '.join(first)})")

    def _rest(
        self,
        pairs: Sequence[str],
        chosen: frozenset[int],
        required: set[int],
        after_set: Mapping[frozenset[int], str],
        other: str | None,
        between: str,
        after: str,
    ) -> str:
        """Return the rule of what follows once the pairs in `chosen` are written."""
        name = self.rule("")
        bodies = [f"{between} {pairs[at]} {after_set[chosen | {at}]}" for at in range(len(pairs)) if at not in chosen]
        bodies += [f"{between} {other} {name}"] if other else []
        bodies += [after or '""'] if required <= chosen else []
        self.rules[name] = " | ".join(bodies)
        return name
