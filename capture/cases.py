"""Reads case files: our shared format and plain OpenAI chat JSON. Imports the standard library, model and errors.

A file holds one of
- `{"name": ..., "format": "openai-chat", "cases": [...]}`, the shared format, whose keys are checked;
- one conversation, `{"messages": [...], "tools": [...]}` or a bare list of messages, as an OpenAI request has it;
- a list of conversations, or one a line (JSON Lines).

A case or conversation may have `id`, `tools`, `expected` (`{"tool_calls": [...]}`, the label; an empty list says that
no call is right), `thinking` and `ranges`. Other keys of a plain conversation, such as a model's name, are passed over.
Messages stay as they are, `tool_calls` of assistant messages included. A conversation may end with a recorded answer:
free runs start from `without_recorded_answer`, forced runs may follow it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from capture.callparser import BrokenCall, calls_of
from capture.errors import CaseError
from capture.given_ranges import read_ranges
from capture.model import Case, Json

LARGEST_FILE = 64 * 1024 * 1024
"""Bytes of a case file that is read."""

FORMAT = "openai-chat"

ROLES = ("system", "developer", "user", "assistant", "tool", "function")

_CASE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", re.ASCII)
_FILE_KEYS = frozenset({"name", "format", "note", "cases"})
_CASE_KEYS = frozenset({"id", "messages", "tools", "expected", "thinking", "ranges", "note"})


@dataclass(frozen=True, slots=True)
class CaseFile:
    """The cases of a file, in its order, and its name: a label, not a path."""

    name: str
    cases: tuple[Case, ...]


def read_cases(path: Path) -> CaseFile:
    """Read a case file.

    Raises:
        CaseError: it cannot be read, is too large, or is wrong; the message names the file and what to do.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise CaseError(f"{path}: {reason}; name a case file that can be read") from None
    if len(data) > LARGEST_FILE:
        raise CaseError(f"{path}: larger than {LARGEST_FILE // 1024**2} MiB; split it into several case files")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CaseError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
    return parse_cases(text, str(path))


def parse_cases(text: str, origin: str) -> CaseFile:
    """Read the text of a case file.

    Args:
        text: JSON or JSON Lines.
        origin: what messages call the file; its stem is the name where the file has none.

    Raises:
        CaseError: the text is wrong.
    """
    return _Reader(origin).read(text)


def without_recorded_answer(case: Case) -> Case:
    """Return a case cut before the assistant turns that it ends with, from where a free run starts."""
    stop = len(case.messages)
    while stop and case.messages[stop - 1].get("role") == "assistant":
        stop -= 1
    return replace(case, messages=case.messages[:stop])


class _NotJson(ValueError):  # noqa: N818 - a signal inside this module
    """Something that Python's parser lets through and JSON does not."""


def _refuse(constant: str) -> NoReturn:
    raise _NotJson(f"holds {constant}, which is no JSON; write a number or null")


def _number(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise _NotJson("holds a number that is too large; write it as a string")
    return number


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _NotJson(f"gives the key {_quoted(key)} twice in one object; remove one")
        found[key] = value
    return found


def _load(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse, parse_float=_number, object_pairs_hook=_object)


def _quoted(value: object) -> str:
    """A value of the file for a message: JSON, in short."""
    written = json.dumps(value)
    return written if len(written) <= 60 else written[:59] + "…"


@dataclass(frozen=True, slots=True)
class _Reader:
    origin: str

    def read(self, text: str) -> CaseFile:
        if not text.strip():
            self._fail("is empty; write at least one conversation with messages")
        value = self._json(text)
        shared = isinstance(value, Mapping) and "cases" in value
        conversations = self._shared(value) if shared else self._plain(value)
        cases = tuple(self._case(found, number, strict=shared) for number, found in enumerate(conversations, start=1))
        self._check_ids([case.case_id for case in cases])
        return CaseFile(self._name(value) if shared else Path(self.origin).stem, cases)

    def _fail(self, reason: str) -> NoReturn:
        raise CaseError(f"{self.origin}: {reason}")

    def _json(self, text: str) -> Any:
        try:
            return self._checked(text, "")
        except json.JSONDecodeError as error:
            lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
            if len(lines) > 1 and _is_json(lines[0][1]):
                return [self._line(number, line) for number, line in lines]
            self._fail(f"is not JSON at line {error.lineno}, column {error.colno} ({error.msg}); correct it there")

    def _line(self, number: int, line: str) -> Any:
        try:
            return self._checked(line, f"line {number} ")
        except json.JSONDecodeError as error:
            self._fail(
                f"line {number} is not JSON at column {error.colno} ({error.msg}); write one conversation a line"
            )

    def _checked(self, text: str, where: str) -> Any:
        """Read JSON; a JSONDecodeError is left to the caller."""
        try:
            value = _load(text)
            json.dumps(value, ensure_ascii=False).encode()
        except json.JSONDecodeError:
            raise
        except _NotJson as error:
            self._fail(f"{where}{error}")
        except RecursionError:
            self._fail(f"{where}is nested too deeply; flatten it")
        except UnicodeEncodeError:
            self._fail(f"{where}holds half of a surrogate pair, which is no text; write the whole character")
        except ValueError:
            self._fail(f"{where}holds a number that is too long; write it as a string")
        return value

    def _name(self, value: Json) -> str:
        name = value.get("name", Path(self.origin).stem)
        if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
            self._fail("'name' must be a string of 1 to 200 printable characters; correct it")
        return name

    def _shared(self, value: Json) -> Sequence[Any]:
        self._check_keys(value, _FILE_KEYS, "")
        if value.get("format", FORMAT) != FORMAT:
            self._fail(f"format {_quoted(value['format'])} is not known; use {_quoted(FORMAT)}")
        cases = value["cases"]
        if not isinstance(cases, list) or not cases:
            self._fail("'cases' must be a list of at least one case; add one")
        return cases

    def _plain(self, value: Any) -> Sequence[Any]:
        if isinstance(value, list) and value:
            is_conversation = any(isinstance(one, Mapping) and "role" in one for one in value)
            return [value] if is_conversation else value
        if isinstance(value, Mapping):
            return [value]
        self._fail("holds no conversation; write messages, each with a role and content")

    def _check_keys(self, value: Json, known: frozenset[str], where: str) -> None:
        unknown = next((key for key in value if key not in known), None)
        if unknown is not None:
            self._fail(f"{where}key {_quoted(unknown)} is not known; use {', '.join(sorted(known))}")

    def _check_ids(self, ids: Sequence[str]) -> None:
        seen: set[str] = set()
        for case_id in ids:
            if case_id in seen:
                self._fail(f"two cases have the id '{case_id}'; give each its own")
            seen.add(case_id)

    def _case(self, value: Any, number: int, *, strict: bool) -> Case:
        if isinstance(value, list):
            value = {"messages": value}
        where = f"case {number}: "
        if not isinstance(value, Mapping):
            self._fail(f"{where}must be an object with messages; correct it")
        if "id" in value:
            where = f"case {_quoted(value['id'])}: "
        if strict:
            self._check_keys(value, _CASE_KEYS, where)
        thinking = value.get("thinking", False)
        if not isinstance(thinking, bool):
            self._fail(f"{where}'thinking' must be true or false; correct it")
        case = Case(
            self._case_id(value.get("id", f"case-{number}"), where),
            self._messages(value.get("messages"), where),
            self._tools(value.get("tools"), where),
            self._expected(value.get("expected"), where),
            thinking,
            read_ranges(value.get("ranges"), lambda reason: self._fail(f"{where}{reason}")),
        )
        if not without_recorded_answer(case).messages:
            self._fail(f"{where}nothing but assistant messages; put a user message before them")
        return case

    def _case_id(self, case_id: Any, where: str) -> str:
        if not isinstance(case_id, str) or not _CASE_ID.fullmatch(case_id):
            rule = "1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', the first none of '.' and '-'"
            self._fail(f"{where}this id cannot be used; write {rule}")
        return case_id

    def _messages(self, messages: Any, where: str) -> tuple[Json, ...]:
        if not isinstance(messages, list) or not messages:
            self._fail(f"{where}has no messages; give it a list of at least one")
        for number, message in enumerate(messages, start=1):
            self._check_message(message, f"{where}message {number} ")
        return tuple(messages)

    def _check_message(self, message: Any, where: str) -> None:
        if not isinstance(message, Mapping):
            self._fail(f"{where}must be an object with role and content; correct it")
        if "role" not in message:
            self._fail(f"{where}has no role; use one of {', '.join(ROLES)}")
        if message["role"] not in ROLES:
            self._fail(f"{where}has the role {_quoted(message['role'])}; use one of {', '.join(ROLES)}")
        calls = message.get("tool_calls")
        if calls is not None and not (isinstance(calls, list) and all(isinstance(call, Mapping) for call in calls)):
            self._fail(f"{where}has 'tool_calls' that are no list of objects; correct them")
        if not _is_content(message.get("content"), has_calls=bool(calls or message.get("function_call"))):
            self._fail(f"{where}has no text; give it 'content' as a string or a list of text parts")

    def _tools(self, tools: Any, where: str) -> tuple[Json, ...]:
        if tools is None:
            return ()
        if not isinstance(tools, list) or not all(isinstance(tool, Mapping) for tool in tools):
            self._fail(f"{where}'tools' must be a list of objects; write OpenAI tool definitions")
        for number, tool in enumerate(tools, start=1):
            inner = tool.get("function", tool)
            if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
                self._fail(f"{where}tool {number} has no name; write it under 'function'")
        return tuple(tools)

    def _expected(self, expected: Any, where: str) -> tuple[Json, ...] | None:
        if expected is None:
            return None
        calls = expected.get("tool_calls") if isinstance(expected, Mapping) else None
        if not isinstance(calls, list) or len(expected) != 1 or not all(isinstance(call, Mapping) for call in calls):
            self._fail(f"{where}'expected' must be {{\"tool_calls\": [...]}} and no more; correct it")
        return tuple(self._expected_call(call, f"{where}expected call {at} ") for at, call in enumerate(calls, start=1))

    def _expected_call(self, call: Json, where: str) -> Json:
        (found,) = calls_of([call])
        if isinstance(found, BrokenCall):
            self._fail(f"{where}cannot be read ({found.reason}); write a name and an object of arguments")
        return {"name": found.name, "arguments": dict(found.arguments)}


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _is_content(content: Any, *, has_calls: bool) -> bool:
    """Whether a message has text: a string or parts of type text; none is needed beside tool calls."""
    if content is None:
        return has_calls
    if isinstance(content, list):
        return bool(content) and all(_is_text_part(part) for part in content)
    return isinstance(content, str)


def _is_text_part(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)
