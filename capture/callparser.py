"""Reads the tool calls that a model wrote, in the formats of several chat templates. Pure; imports its siblings.

Strict where engines are lenient: a call is broken when no tool could be called with exactly what is written.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture.callplaces import CallPlaces, Place
from capture.jsontext import NEVER_CLOSED, JsonError, JsonText, Path, read_json
from capture.model import Json, RangeKind
from capture.ranges import find_spans
from capture.toolschema import SchemaBreak, ToolSchemas

END_OF_SEQUENCE = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "</s>")
"""Tokens that end an output in common vocabularies; the last one is no part of a call."""

MOST_CALLS = 1_000
"""Calls of an output that are read; an output in a loop can hold more."""

_BARE = r'\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*"[^"\\]{1,256}"\s*,\s*"(?:parameters|arguments)"\s*:'
_OPENER = re.compile(rf"<tool_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>(?=\s*\{{)|\A\s*(?={_BARE})\{{")
_NEXT_BARE = re.compile(rf"\s*;?\s*(?={_BARE})")
_MISTRAL_NAME = re.compile(r"\s*([A-Za-z0-9_.-]{1,256})(?:\[CALL_ID\][A-Za-z0-9_-]{1,64})?\[ARGS\]")
_FUNCTION = re.compile(r"\s*<function=([^<>\n]{1,256})>")
_PARAMETER = re.compile(r"\s*<parameter=([^<>\n]{1,256})>\n?")
_UNFINISHED_TAG = re.compile(r"\s*<(?:function|parameter)=[^<>\n]{0,256}\Z")
_SPACE = re.compile(r"\s*")


NO_TOOLS = ToolSchemas(())


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that can be read.

    Attributes:
        name: the tool.
        arguments: by name; values of JSON.
        start: byte offset of the call in the output; 0 where it was not read from a text.
        schema_error: how the arguments break the tool's schema, in a few words; None where they do not.
        schema_error_at: byte offset of the offending part; None as above.
        places: where its parts stand in the output; None where it was not read from a text. Equality passes it over.
    """

    name: str
    arguments: Json
    start: int = 0
    schema_error: str | None = None
    schema_error_at: int | None = None
    places: CallPlaces | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """A call that cannot be read: why, and the byte offset where it broke (the output's length where it just ended)."""

    reason: str
    offset: int


def read_calls(text: bytes, schemas: ToolSchemas = NO_TOOLS) -> tuple[ToolCall | BrokenCall, ...]:
    """Return the calls in an output, in order. Never raises, whatever the text.

    Read are `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` (Hermes, Qwen3), the same with
    `<function=name><parameter=key>value</parameter></function>` inside (Qwen3-Coder), `<function=name>{...}</function>`
    and `<|python_tag|>{"name": ..., "parameters": {...}}` (Llama 3), the same object with nothing before it or after
    another and a semicolon (Llama 3 again), `[TOOL_CALLS][{...}]`, `[TOOL_CALLS]name[ARGS]{...}` and the latter with
    `[CALL_ID]id` before `[ARGS]` (Mistral). A call inside a thinking part is none.

    Args:
        text: the bytes of the output.
        schemas: the case's tools; the arguments of known ones are checked against their schema.
    """
    written = text.decode("utf-8", "surrogateescape")
    ending = next((end for end in END_OF_SEQUENCE if written.endswith(end)), "")
    scanner = _Scanner(written.removesuffix(ending), schemas, _byte_offsets(written))
    thinking = [span for span in find_spans(text) if span.kind is RangeKind.THINKING]
    calls = scanner.calls([span.start for span in thinking], [span.stop for span in thinking])
    return tuple(islice(calls, MOST_CALLS))


def end_of_calls(text: bytes) -> int:
    """Return the byte offset where an output ends, before the token that ended it where there is one."""
    ending = next((end for end in map(str.encode, END_OF_SEQUENCE) if text.endswith(end)), b"")
    return len(text) - len(ending)


def calls_of(tool_calls: Sequence[Json], schemas: ToolSchemas = NO_TOOLS) -> tuple[ToolCall | BrokenCall, ...]:
    """Return calls that are given as objects.

    Args:
        tool_calls: each `{"name": ..., "arguments": ...}`, alone or under `function` as in the `tool_calls` of an
            OpenAI message, with arguments as an object or as JSON in a string.
        schemas: as in `read_calls`.
    """
    return tuple(_given(call, schemas) for call in tool_calls)


def _given(call: Json, schemas: ToolSchemas) -> ToolCall | BrokenCall:
    try:
        name, arguments = _named(call.get("function", call))
        written = arguments if isinstance(arguments, str) else _written(arguments)
        read = read_json(written)
        if written[read.stop :].strip():
            raise JsonError("text after the arguments", read.stop)
        if not isinstance(read.value, Mapping):
            raise JsonError("arguments are not an object", 0)
    except JsonError as error:
        return BrokenCall(error.reason, error.offset)
    broken = schemas.check(name, read.value)
    return ToolCall(name, read.value, 0, broken.reason if broken else None, 0 if broken else None)


def _written(arguments: object) -> str:
    try:
        return json.dumps(arguments, allow_nan=False)
    except RecursionError:
        raise JsonError("nested too deeply", 0) from None
    except ValueError:
        raise JsonError("number too large", 0) from None


def _named(value: object) -> tuple[str, Any]:
    """Return name and arguments of a call written as an object. Offset 0 stands for the object itself."""
    if not isinstance(value, Mapping):
        raise JsonError("not an object", 0)
    if not isinstance(value.get("name"), str) or not value["name"]:
        raise JsonError("no name", 0)
    for key in ("arguments", "parameters"):
        if key in value:
            return value["name"], value[key]
    raise JsonError("no arguments", 0)


def _byte_offsets(text: str) -> NDArray[np.int64]:
    """Return the byte offset of each character, then the length, of text decoded with surrogate escapes."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    lengths = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    lengths[(codes >= 0xDC80) & (codes <= 0xDCFF)] = 1
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])


@dataclass(slots=True)
class _Scanner:
    """Reads calls from left to right; every method starts at `at`, in characters, and moves it."""

    text: str
    schemas: ToolSchemas
    offsets: NDArray[np.int64]
    at: int = 0
    start: int = 0
    found: list[ToolCall | BrokenCall] = field(default_factory=list)

    def calls(self, thinking_starts: list[int], thinking_stops: list[int]) -> Iterator[ToolCall | BrokenCall]:
        while (opener := _OPENER.search(self.text, self.at)) is not None:
            self.start, self.at = opener.start(), opener.end()
            around = bisect_right(thinking_starts, self._byte(self.start)) - 1
            if around >= 0 and self._byte(self.start) < thinking_stops[around]:
                continue
            try:
                self._read(opener[0])
            except JsonError as error:
                self.found.append(BrokenCall(error.reason, self._byte(error.offset)))
                self.at = max(self.at, error.offset, opener.end())
            yield from self.found
            self.found.clear()

    def _byte(self, offset: int) -> int:
        return int(self.offsets[offset])

    def _read(self, tag: str) -> None:
        if tag == "<function=":
            self.at = self.start
            self._function()
        elif tag == "[TOOL_CALLS]":
            self._mistral()
        elif tag == "<tool_call>" and self._next_is("<function="):
            self._function()
            self._close("</tool_call>")
        elif tag == "<tool_call>":
            self._written_object()
            self._close("</tool_call>")
        else:
            if tag.endswith("{"):
                self.start = self.at = self.at - 1
            self._bare()

    def _bare(self) -> None:
        """Read an object without a closing tag, and those that follow it."""
        self._written_object()
        while (opener := _NEXT_BARE.match(self.text, self.at)) is not None:
            self.start = self.at = opener.end()
            self._written_object()

    def _written_object(self) -> None:
        read = self._json()
        self._object(read, read.value)

    def _after_space(self) -> int:
        space = _SPACE.match(self.text, self.at)
        return space.end() if space else self.at

    def _next_is(self, literal: str) -> bool:
        return self.text.startswith(literal, self._after_space())

    def _close(self, tag: str) -> None:
        """Step over a closing tag; what was read before it is withdrawn where it is missing."""
        self.at = self._after_space()
        if self.text.startswith(tag, self.at):
            self.at += len(tag)
            return
        self.found.clear()
        rest = self.text[self.at : self.at + len(tag)]
        if tag.startswith(rest) or any(self.text.startswith(end, self.at) for end in END_OF_SEQUENCE):
            raise JsonError(NEVER_CLOSED, len(self.text) if tag.startswith(rest) else self.at)
        raise JsonError("text after the call", self.at)

    def _json(self) -> JsonText:
        read = read_json(self.text, self.at)
        self.at = read.stop
        return read

    def _object(self, read: JsonText, value: object, path: Path = ()) -> None:
        try:
            name, arguments = _named(value)
        except JsonError as error:
            raise JsonError(error.reason, read.start_of(path)) from None
        key = "arguments" if (*path, "arguments") in read.starts else "parameters"
        if not isinstance(arguments, Mapping):
            raise JsonError("arguments are not an object", read.start_of((*path, key)))
        self._found_in(read, name, arguments, read.start_of((*path, "name")) + 1, (*path, key))

    def _found_in(self, read: JsonText, name: str, arguments: Json, name_at: int, path: Path) -> None:
        """Take in a call whose arguments are the object at `path` of a JSON text."""
        whole = read.start_of(path)
        places = CallPlaces(
            self._byte(name_at),
            self._byte(read.stops.get(path, whole)),
            {
                argument: Place(
                    self._byte(read.keys.get((*path, argument), whole) + 1),
                    self._byte(read.start_of((*path, argument))),
                )
                for argument in arguments
            },
        )
        broken = self.schemas.check(name, arguments)
        self._found(name, arguments, places, broken, _broken_at(read, path, broken) if broken else 0)

    def _found(
        self, name: str, arguments: Json, places: CallPlaces, broken: SchemaBreak | None, broken_at: int
    ) -> None:
        start, reason = self._byte(self.start), broken.reason if broken else None
        self.found.append(ToolCall(name, arguments, start, reason, self._byte(broken_at) if broken else None, places))

    def _mistral(self) -> None:
        """Read a list of calls, or calls by name, one after the other."""
        named = _MISTRAL_NAME.match(self.text, self.at)
        if named is not None:
            self.at = named.end()
            self._arguments(named[1], named.start(1))
            return
        read = self._json()
        if not isinstance(read.value, list):
            self._object(read, read.value)
            return
        for index, value in enumerate(read.value):
            self.start = read.start_of((index,)) if index else self.start
            self._object(read, value, (index,))

    def _arguments(self, name: str, name_at: int) -> None:
        read = self._json()
        if not isinstance(read.value, Mapping):
            raise JsonError("arguments are not an object", read.start_of(()))
        self._found_in(read, name, read.value, name_at, ())

    def _function(self) -> None:
        opener = _FUNCTION.match(self.text, self.at)
        if opener is None:
            ended = _UNFINISHED_TAG.match(self.text, self.at)
            raise JsonError(NEVER_CLOSED, len(self.text)) if ended else JsonError("no name", self._after_space())
        self.at = opener.end()
        if self._next_is("{"):
            self._arguments(opener[1], opener.start(1))
        else:
            self._tagged(opener[1], opener.start(1))
        self._close("</function>")

    def _tagged(self, name: str, name_at: int) -> None:
        """Take in a call whose arguments are tags."""
        starts: dict[str, tuple[int, int]] = {}
        arguments = self._parameters(name, starts)
        places = CallPlaces(
            self._byte(name_at),
            self._byte(self._after_space()),
            {argument: Place(self._byte(key), self._byte(value)) for argument, (key, value) in starts.items()},
        )
        broken = self.schemas.check(name, arguments)
        offending = str(broken.path[0]) if broken and broken.path else ""
        self._found(name, arguments, places, broken, starts.get(offending, (0, self._after_space()))[1])

    def _parameters(self, name: str, starts: dict[str, tuple[int, int]]) -> dict[str, Any]:
        """Read parameters; `starts` receives where the key and the value of each start."""
        arguments: dict[str, Any] = {}
        while (opener := _PARAMETER.match(self.text, self.at)) is not None:
            if opener[1] in arguments:
                raise JsonError("key given twice", opener.start(1))
            stop = self.text.find("</parameter>", opener.end())
            if stop < 0:
                raise JsonError(NEVER_CLOSED, len(self.text))
            written = self.text[opener.end() : stop].removesuffix("\n")
            arguments[opener[1]] = _parameter(written, name, opener[1], self.schemas)
            starts[opener[1]] = opener.start(1), opener.end()
            self.at = stop + len("</parameter>")
        if _UNFINISHED_TAG.match(self.text, self.at):
            raise JsonError(NEVER_CLOSED, len(self.text))
        return arguments


def _broken_at(read: JsonText, path: Path, broken: SchemaBreak) -> int:
    """Return where the object at `path` breaks its schema, in characters."""
    place = (*path, *broken.path)
    return read.stops[place] if broken.at_end and place in read.stops else read.start_of(place)


def _parameter(written: str, name: str, argument: str, schemas: ToolSchemas) -> Any:
    """Return a parameter's value: the text where the schema allows it, else what it reads as in JSON if anything."""
    if schemas.allows(name, argument, written):
        return written
    try:
        read = read_json(written)
    except JsonError:
        return written
    return written if written[read.stop :].strip() else read.value
