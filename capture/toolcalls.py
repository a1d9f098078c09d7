"""What became of the tool calls of an output: the verdict against the label or the reference. Pure; imports siblings.

A verdict is about calls alone. Whether the reference is right is not asked: without a label it is the yardstick.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Any

from capture.callparser import BrokenCall, ToolCall, calls_of, end_of_calls, read_calls
from capture.callplaces import arguments_departure, name_departure
from capture.errors import CaseError
from capture.jsontext import NEVER_CLOSED
from capture.model import Json
from capture.toolschema import ToolSchemas, printable

MOST_NAMES = 5
"""How many differing arguments a phrase names."""


class Verdict(StrEnum):
    """How calls compare (DESIGN section 3). Of several the worst counts; here the worst comes last."""

    NO_CALL = "no call"
    SAME = "same"
    EQUIVALENT = "equivalent"
    DIFFERENT_ARGUMENTS = "different arguments"
    EXTRA = "extra"
    MISSING = "missing"
    DIFFERENT_TOOL = "different tool"
    MALFORMED = "malformed"


_RANK = {verdict: rank for rank, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """The verdict on the calls of one output.

    Attributes:
        verdict: the worst of all its calls.
        detail: the same as a short phrase, one line of printable characters.
        differing_arguments: names of the arguments that differ, printable, for `DIFFERENT_ARGUMENTS`.
        wrong_at: the byte offset in the output where the call that `detail` is about goes wrong, from where
            `capture.ranges.token_at` gives the token. `MALFORMED`: where it broke, the output's length where it just
            ended; a different tool or arguments: where the name or a value stops being the wanted one, see
            `capture.callplaces`; `EXTRA`: the start of that call; `MISSING`: the start of what stands in its place,
            which is a later call or the end of the output. None where nothing is wrong, and for calls that were not
            read from a text.
    """

    verdict: Verdict
    detail: str
    differing_arguments: tuple[str, ...] = ()
    wrong_at: int | None = None

    @property
    def never_closed(self) -> bool:
        """Whether a call was well formed as far as it went."""
        return self.verdict is Verdict.MALFORMED and self.detail.endswith(NEVER_CLOSED)


def verdict(
    text: bytes,
    tools: Sequence[Json] = (),
    expected_calls: Sequence[Json] | None = None,
    reference_text: bytes | None = None,
) -> CallVerdict:
    """Compare the calls in an output with the label, or else with those that the reference made.

    A call that breaks its tool's schema is malformed, unless the label or the reference has the very same. Without
    label and reference an output is compared with itself.

    Args:
        text: the bytes of the output, whole; what ran before a fork belongs to it.
        tools: OpenAI tool definitions of the case.
        expected_calls: the label: each `{"name": ..., "arguments": {...}}`, or as in an OpenAI message; empty where no
            call is right, None where the case has no label.
        reference_text: the bytes of the reference's output.

    Raises:
        CaseError: a labelled call cannot be read. Never for what a model wrote.
    """
    schemas = ToolSchemas(tools)
    if expected_calls is not None:
        wanted = labelled_calls(expected_calls)
    else:
        wanted = _readable(read_calls(text if reference_text is None else reference_text))
    return compare_calls(read_calls(text, schemas), wanted, schemas, text)


def labelled_calls(expected_calls: Sequence[Json]) -> tuple[ToolCall, ...]:
    """Return the calls of a label.

    Raises:
        CaseError: one of them cannot be read.
    """
    calls = calls_of(expected_calls)
    for number, call in enumerate(calls, start=1):
        if isinstance(call, BrokenCall):
            raise CaseError(f'expected call {number}: {call.reason}; write {{"name": ..., "arguments": {{...}}}}')
    return _readable(calls)


def compare_calls(
    calls: Sequence[ToolCall | BrokenCall], wanted: Sequence[ToolCall], schemas: ToolSchemas, text: bytes | None = None
) -> CallVerdict:
    """Compare calls with those that are wanted, in order.

    Equal calls at the beginning and at the end are paired first, then what lies between, one by one; what is left over
    is missing or extra.

    Args:
        calls: those that were made.
        wanted: those that are right.
        schemas: the case's tools.
        text: the bytes that the calls were read from; None where they were given as objects.
    """
    broken = [call for call in calls if isinstance(call, BrokenCall)]
    if broken:
        return _malformed(broken[0].reason, broken[0].offset)
    made = _readable(calls)
    if not made and not wanted:
        return CallVerdict(Verdict.NO_CALL, "no call")
    found = list(_Compared(schemas, text).differences(made, wanted)) or [_equal(made, wanted)]
    return max(found, key=lambda one: _RANK[one.verdict])


def canonical(value: object) -> str:
    """Return a JSON value in the one form that equivalent values share: sorted keys, numbers by value, no white space.

    Strings stay as they are, so `1` and `"1"` differ, and so do `1` and `true`.
    """
    return json.dumps(_plain_numbers(value), sort_keys=True, separators=(",", ":"))


def _plain_numbers(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain_numbers(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_numbers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _readable(calls: Iterable[ToolCall | BrokenCall]) -> tuple[ToolCall, ...]:
    return tuple(call for call in calls if isinstance(call, ToolCall))


def _same_name_and_value(call: ToolCall, other: ToolCall) -> bool:
    return call.name == other.name and canonical(call.arguments) == canonical(other.arguments)


def _equal(made: Sequence[ToolCall], wanted: Sequence[ToolCall]) -> CallVerdict:
    plural = "s" if len(made) > 1 else ""
    written = [json.dumps(call.arguments) for call in made]
    if written == [json.dumps(call.arguments) for call in wanted]:
        return CallVerdict(Verdict.SAME, f"same call{plural}")
    return CallVerdict(Verdict.EQUIVALENT, f"equivalent call{plural}")


@dataclass(frozen=True, slots=True)
class _Compared:
    """Compares calls of one output, whose bytes are `text` where the calls were read from bytes."""

    schemas: ToolSchemas
    text: bytes | None

    def differences(self, made: Sequence[ToolCall], wanted: Sequence[ToolCall]) -> Iterable[CallVerdict]:
        """Yield a verdict for each call that is not as wanted."""
        first = _equal_at_start(made, wanted)
        last = _equal_at_start(made[first:][::-1], wanted[first:][::-1])
        end = self._end() if not last else self._at(made[-last].start)
        made, wanted = made[first : len(made) - last], wanted[first : len(wanted) - last]
        for call, other in zip(made, wanted, strict=False):
            if not _same_name_and_value(call, other):
                yield _invalid(call) or self._different(call, other)
        for call in made[len(wanted) :]:
            extra = CallVerdict(Verdict.EXTRA, f"extra call: {printable(call.name)}", (), self._at(call.start))
            yield _invalid(call) or extra
        for call in wanted[len(made) :]:
            yield CallVerdict(Verdict.MISSING, f"missing call: {printable(call.name)}", (), end)

    def _at(self, offset: int) -> int | None:
        return None if self.text is None else offset

    def _end(self) -> int | None:
        return None if self.text is None else end_of_calls(self.text)

    def _different(self, call: ToolCall, other: ToolCall) -> CallVerdict:
        if call.name != other.name:
            offered = "" if call.name in self.schemas or not self.schemas else " (not offered)"
            detail = f"different tool: {printable(call.name)}{offered}"
            return CallVerdict(Verdict.DIFFERENT_TOOL, detail, (), self._name_departure(call, other))
        names = differing_names(call.arguments, other.arguments)
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        shown = tuple(map(printable, names))
        detail = f"different arguments: {', '.join(shown[:MOST_NAMES])}{more}"
        return CallVerdict(Verdict.DIFFERENT_ARGUMENTS, detail, shown, self._departure(call, other, names))

    def _name_departure(self, call: ToolCall, other: ToolCall) -> int | None:
        if self.text is None or call.places is None:
            return None
        return name_departure(self.text, call.places, other.name)

    def _departure(self, call: ToolCall, other: ToolCall, names: tuple[str, ...]) -> int | None:
        if self.text is None or call.places is None:
            return None
        return arguments_departure(self.text, call.places, names, other.arguments)


def _equal_at_start(made: Sequence[ToolCall], wanted: Sequence[ToolCall]) -> int:
    pairs = zip(made, wanted, strict=False)
    return sum(1 for _ in takewhile(lambda pair: _same_name_and_value(*pair), pairs))


def _invalid(call: ToolCall) -> CallVerdict | None:
    if call.schema_error is None or call.schema_error_at is None:
        return None
    return _malformed(call.schema_error, call.schema_error_at)


def _malformed(reason: str, offset: int) -> CallVerdict:
    return CallVerdict(Verdict.MALFORMED, f"malformed: {reason}", wrong_at=offset)


def differing_names(arguments: Json, wanted: Json) -> tuple[str, ...]:
    """Return the names of arguments that differ, are missing or are too many; the wanted ones first."""
    names = [*wanted, *(name for name in arguments if name not in wanted)]
    absent = object()

    def value(given: Json, name: str) -> str | object:
        return canonical(given[name]) if name in given else absent

    return tuple(name for name in names if value(arguments, name) != value(wanted, name))
