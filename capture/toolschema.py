"""Checks a call's arguments against the JSON schema of its tool. Pure; imports jsonschema, referencing and model.

Tools come with bundles of strangers: nothing is fetched, no regular expression of theirs is run, the work is bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jsonschema
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from capture.model import Json

BUDGET = 200_000
"""Steps of work that a check may take; a step costs more the longer the arguments are."""

DEEPEST_SCHEMA = 64
"""Levels of a schema that are read; what lies deeper allows everything."""

LONGEST_NAME = 64
"""Characters of a model's names that are shown."""

_LOCAL_REFERENCE = re.compile(r"#(?:/(?:\$defs|definitions)/[^/]+)?")
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_SCHEMAS_BY_NAME = ("properties", "$defs", "definitions")
_SCHEMA_LISTS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf", "prefixItems": "prefixItems"}
_LENGTHS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


@dataclass(frozen=True, slots=True)
class SchemaBreak:
    """Where arguments break a schema: a few words, and the path of the offending part.

    `at_end` is True where it is the end of that part that is wrong, since something is missing from it.
    """

    reason: str
    path: tuple[str | int, ...]
    at_end: bool = False


class _BudgetSpent(Exception):  # noqa: N818 - a signal inside this module
    pass


_spent: ContextVar[list[int]] = ContextVar("_spent")


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        budget = _spent.get()
        budget[0] += budget[1] * (1 + (len(value) if isinstance(value, (list, dict)) else 0))
        if budget[0] > BUDGET:
            raise _BudgetSpent
        yield from check(validator, value, instance, schema) or ()

    return counted


_Validator: Any = extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    {name: _counted(check) for name, check in jsonschema.Draft202012Validator.VALIDATORS.items()},
)


def printable(name: object) -> str:
    """Return a name that a model wrote as one short line of printable characters."""
    text = "".join(character if character.isprintable() else "\ufffd" for character in str(name)[: LONGEST_NAME + 1])
    return text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…"


class ToolSchemas:
    """The tools of a case, ready to check calls; made once for many calls.

    Checked are types, values, required and unexpected keys, lengths, bounds and their combinations, after local
    references. `oneOf` counts as `anyOf`. `pattern`, `format`, `not`, conditions, `uniqueItems`, `multipleOf` and
    references to elsewhere are passed over, so that a break that is reported is always one.
    """

    def __init__(self, tools: Sequence[Json]) -> None:
        """Take OpenAI tool definitions, with or without the `function` wrapper; others are passed over."""
        self._schemas: dict[str, Json] = dict(map(_named_schema, reversed([*filter(_is_named, tools)])))
        self._validators: dict[str, Any] = {}

    def __bool__(self) -> bool:
        """Whether any tool is known."""
        return bool(self._schemas)

    def __contains__(self, name: str) -> bool:
        """Whether a tool of this name is offered."""
        return name in self._schemas

    def check(self, name: str, arguments: Json) -> SchemaBreak | None:
        """Return where arguments break the schema of a tool; None where they keep it or where that cannot be told.

        Args:
            name: the tool; an unknown one has no schema to break.
            arguments: an object nested no deeper than JSON is read by `capture.jsontext`.
        """
        if name not in self._schemas:
            return None
        if name not in self._validators:
            self._validators[name] = _validator(self._schemas[name])
        return _first_break(self._validators[name], arguments)

    def allows(self, name: str, argument: str, value: object) -> bool:
        """Whether a value is allowed for one argument, looked at alone; True where that cannot be told."""
        schema = self._schemas.get(name, {})
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or argument not in properties:
            return True
        alone = {"properties": {argument: properties[argument]}}
        alone |= {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        return _first_break(_validator(alone), {argument: value}) is None


def _is_named(tool: object) -> bool:
    inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
    return isinstance(inner, Mapping) and isinstance(inner.get("name"), str)


def _named_schema(tool: Json) -> tuple[str, Json]:
    inner = tool.get("function", tool)
    parameters = inner.get("parameters")
    return inner["name"], parameters if isinstance(parameters, Mapping) else {}


def _validator(schema: Json) -> Any:
    return _Validator(_readable(schema, 0), registry=Registry())


def _first_break(validator: Any, arguments: Json) -> SchemaBreak | None:
    _spent.set([0, 1 + len(json.dumps(arguments)) // 1000])
    try:
        error = next(validator.iter_errors(arguments), None)
    except (_BudgetSpent, RecursionError, Unresolvable):
        return None
    return None if error is None else _break(error)


def _break(error: jsonschema.ValidationError) -> SchemaBreak:
    path = tuple(error.absolute_path)
    name = printable(path[-1]) if path else "the object"
    value: Any = error.validator_value
    if error.validator == "required":
        missing = next(key for key in value if key not in error.instance)  # type: ignore[operator]
        return SchemaBreak(f"{printable(missing)} is missing", path, at_end=True)
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})  # type: ignore[union-attr]
        extra = next(key for key in error.instance if key not in known)  # type: ignore[union-attr]
        return SchemaBreak(f"{printable(extra)} is not an argument", (*path, extra))
    if error.validator == "type":
        return SchemaBreak(f"{name} is not of type {' or '.join(value)}", path)
    if error.validator in ("enum", "const"):
        return SchemaBreak(f"{name} is not an allowed value", path)
    return SchemaBreak(f"{name} is not allowed", path)


def _readable(schema: object, depth: int) -> Any:
    """Copy what is checked of a schema, so that the copy allows at least what the schema does."""
    if isinstance(schema, bool) or not isinstance(schema, Mapping) or depth > DEEPEST_SCHEMA:
        return schema if isinstance(schema, bool) else {}
    kept: dict[str, Any] = dict(_plain(schema))
    for name in _SCHEMAS_BY_NAME:
        if isinstance(parts := schema.get(name), Mapping):
            kept[name] = {str(key): _readable(part, depth + 1) for key, part in parts.items()}
    for name, checked_as in _SCHEMA_LISTS.items():
        if isinstance(parts := schema.get(name), list) and parts:
            kept.setdefault(checked_as, [_readable(part, depth + 1) for part in parts])
    for name in ("items", "additionalProperties"):
        if isinstance(part := schema.get(name), (Mapping, bool)):
            kept[name] = _readable(part, depth + 1)
    if "patternProperties" in schema:
        kept.pop("additionalProperties", None)
    return kept


def _plain(schema: Json) -> Iterator[tuple[str, Any]]:
    """Yield the keywords that hold no schemas, where they are well formed."""
    kinds = schema.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    if listed and all(isinstance(kind, str) and kind in _TYPES for kind in listed):
        yield "type", listed
    if isinstance(required := schema.get("required"), list):
        yield "required", [key for key in required if isinstance(key, str)]
    if isinstance(allowed := schema.get("enum"), list):
        yield "enum", allowed
    if "const" in schema:
        yield "const", schema["const"]
    reference = schema.get("$ref")
    if isinstance(reference, str) and _LOCAL_REFERENCE.fullmatch(reference):
        yield "$ref", reference
    for names, kind in ((_LENGTHS, int), (_BOUNDS, (int, float))):
        for name in names:
            if isinstance(number := schema.get(name), kind) and not isinstance(number, bool):
                yield name, number
