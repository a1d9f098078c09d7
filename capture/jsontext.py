"""Reads JSON that a model wrote: strict, with the place where it breaks. Never recurses. Pure, standard library."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEEPEST = 100
"""Levels of nesting that are read."""

LOCATED_DEPTH = 8
"""Levels whose parts are remembered with the place where they start."""

LONGEST_NUMBER = 300
"""Characters of a number that are read: every such integer still fits a float64."""

Path = tuple[str | int, ...]
"""Keys and indexes that lead from the value to a part of it."""

NEVER_CLOSED = "never closed"

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+')
_UNFINISHED_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_UNFINISHED_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*+)(?:\.|(?:\.[0-9]++)?[eE][+-]?))?\Z")
_LITERALS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}


class JsonError(ValueError):
    """The text stops being JSON.

    Attributes:
        reason: a few words.
        offset: index of the character where it broke; the length of the text where it ended too early.
    """

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value read from a text.

    Attributes:
        value: of dict, list, str, int, float, bool, None; no NaN and no infinity.
        stop: index after its last character.
        starts: where each part of the value starts, by its path down to `LOCATED_DEPTH`; the value itself under `()`.
        keys: where the key of each part of an object starts, its quote included, by the same paths.
        stops: where each object or array ends, at its closing bracket, by the same paths.
    """

    value: Any
    stop: int
    starts: Mapping[Path, int]
    keys: Mapping[Path, int] = field(default_factory=dict)
    stops: Mapping[Path, int] = field(default_factory=dict)

    def start_of(self, path: Path) -> int:
        """Return where a part of the value starts, or the innermost part around it whose place is known."""
        known = (path[:depth] for depth in range(min(len(path), LOCATED_DEPTH), 0, -1) if path[:depth] in self.starts)
        return self.starts[next(known, ())]


@dataclass(slots=True)
class _Open:
    """An object or array that is not closed yet; `key` is the next key of an object."""

    value: dict[str, Any] | list[Any]
    key: str = ""

    def step(self) -> str | int:
        return self.key if isinstance(self.value, dict) else len(self.value)

    def put(self, part: object) -> None:
        if isinstance(self.value, dict):
            self.value[self.key] = part
        else:
            self.value.append(part)


def read_json(text: str, start: int = 0) -> JsonText:
    """Read the JSON value that starts at `start`, after white space; what follows it is left alone.

    Raises:
        JsonError: the text is not JSON, ends too early (reason `NEVER_CLOSED`), gives a key twice, nests deeper than
            `DEEPEST`, or holds a number that is too long or no finite float64.
    """
    return _Reader(text, _after(_SPACE, text, start)).read()


def _after(pattern: re.Pattern[str], text: str, offset: int) -> int:
    found = pattern.match(text, offset)
    return found.end() if found else offset


@dataclass(slots=True)
class _Reader:
    text: str
    offset: int
    opened: list[_Open] = field(default_factory=list)
    starts: dict[Path, int] = field(default_factory=dict)
    keys: dict[Path, int] = field(default_factory=dict)
    stops: dict[Path, int] = field(default_factory=dict)

    def read(self) -> JsonText:
        while True:
            self._place(self.starts, self.offset)
            value = self._value()
            if isinstance(value, _Open):
                self._open(value)
                if not self._closes(first=True):
                    continue
                value = self.opened.pop().value
            while self.opened:
                self.opened[-1].put(value)
                if not self._closes(first=False):
                    break
                value = self.opened.pop().value
            else:
                return JsonText(value, self.offset, self.starts, self.keys, self.stops)

    def _place(self, places: dict[Path, int], offset: int, opened: int | None = None) -> None:
        """Remember an offset under the path that the open containers lead to, or all but the last of them."""
        containers = self.opened[:opened]
        if len(containers) <= LOCATED_DEPTH:
            places[tuple(container.step() for container in containers)] = offset

    def _value(self) -> Any:
        character = self._peek()
        if character in "{[":
            self.offset += 1
            return _Open({} if character == "{" else [])
        if character == '"':
            return self._string()
        if character in "-0123456789":
            return self._number()
        return self._literal()

    def _open(self, container: _Open) -> None:
        if len(self.opened) == DEEPEST:
            raise JsonError("nested too deeply", self.offset - 1)
        self.opened.append(container)

    def _closes(self, *, first: bool) -> bool:
        """Step over what separates the parts of the innermost container; True where it closes instead."""
        container = self.opened[-1]
        is_object = isinstance(container.value, dict)
        self._skip()
        if self._peek() == ("}" if is_object else "]"):
            self._place(self.stops, self.offset, -1)
            self.offset += 1
            return True
        if not first:
            self._expect(",", "expected a comma or the end")
        if is_object:
            self._key(container)
        return False

    def _key(self, container: _Open) -> None:
        start = self.offset
        if self._peek() != '"':
            raise JsonError("expected a key in quotes", start)
        container.key = self._string()
        if container.key in container.value:
            raise JsonError("key given twice", start)
        self._place(self.keys, start)
        self._skip()
        self._expect(":", "expected a colon")

    def _expect(self, character: str, reason: str) -> None:
        if self._peek() != character:
            raise JsonError(reason, self.offset)
        self.offset += 1
        self._skip()

    def _skip(self) -> None:
        self.offset = _after(_SPACE, self.text, self.offset)

    def _peek(self) -> str:
        if self.offset >= len(self.text):
            raise JsonError(NEVER_CLOSED, len(self.text))
        return self.text[self.offset]

    def _string(self) -> str:
        stop = _after(_STRING, self.text, self.offset)
        if stop == len(self.text) or _UNFINISHED_ESCAPE.match(self.text, stop):
            raise JsonError(NEVER_CLOSED, len(self.text))
        if self.text[stop] != '"':
            raise JsonError("bad escape" if self.text[stop] == "\\" else "control character in a string", stop)
        raw, self.offset = self.text[self.offset : stop + 1], stop + 1
        return str(json.loads(raw))

    def _number(self) -> int | float:
        if _UNFINISHED_NUMBER.match(self.text, self.offset):
            raise JsonError(NEVER_CLOSED, len(self.text))
        found = _NUMBER.match(self.text, self.offset)
        if found is None:
            raise JsonError("not a number", self.offset)
        if len(found[0]) > LONGEST_NUMBER:
            raise JsonError("number too long", self.offset)
        number = float(found[0]) if found[1] or found[2] else int(found[0])
        if not math.isfinite(number):
            raise JsonError("number too large", self.offset)
        self.offset = found.end()
        return number

    def _literal(self) -> bool | None:
        rest = self.text[self.offset : self.offset + 5]
        for word, value in _LITERALS.items():
            if rest.startswith(word):
                self.offset += len(word)
                return value
            if word.startswith(rest) and self.offset + len(rest) == len(self.text):
                raise JsonError(NEVER_CLOSED, len(self.text))
        raise JsonError("expected a value", self.offset)
