"""Finds the stretches of an output by kind: prose, tool call, code, JSON, thinking. Pure; imports numpy and model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capture.model import Json, RangeKind

TAGS: tuple[tuple[bytes, tuple[bytes, ...], RangeKind], ...] = (
    (b"<think>", (b"</think>",), RangeKind.THINKING),
    (b"[THINK]", (b"[/THINK]",), RangeKind.THINKING),
    (b"<tool_call>", (b"</tool_call>",), RangeKind.TOOL_CALL),
    (b"<function=", (b"</function>",), RangeKind.TOOL_CALL),
    (b"[TOOL_CALLS]", (b"</s>", b"<|im_end|>"), RangeKind.TOOL_CALL),
    (b"<|python_tag|>", (b"<|eom_id|>", b"<|eot_id|>"), RangeKind.TOOL_CALL),
)
"""What opens a range, what closes it (whichever comes first), and its kind. The tags belong to the range."""

END_MARKERS = frozenset({b"</s>", b"<|im_end|>", b"<|eom_id|>", b"<|eot_id|>"})
"""Closers that end the whole output; they stay outside of the range."""

_OPENER = re.compile(
    rb"(?P<tag>" + b"|".join(re.escape(opener) for opener, _, _ in TAGS) + rb")"
    rb"|^ {0,3}(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>[^\n]*)"
    rb"|^[ \t]*(?P<json>\{(?=\s*[\"}])|\[(?=\s*[\[{\"]))",
    re.MULTILINE,
)
_BARE_CALL = re.compile(
    rb'\s*;?\s*\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*"[^"\\]{1,256}"\s*,\s*"(?:parameters|arguments)"\s*:'
)
_CLOSING_FENCE = re.compile(rb"^ {0,3}(`{3,}|~{3,})[ \t\r]*$", re.MULTILINE)
_JSON_PART = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_BRACKETS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
_BY_OPENER = {opener: (re.compile(b"|".join(map(re.escape, closers))), kind) for opener, closers, kind in TAGS}


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of one kind, from token `start` up to, not including, token `stop`."""

    kind: RangeKind
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"a range needs at least one token, not {self.start} to {self.stop}")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one kind in bytes, tags included; `closed` is False where the output ended first."""

    kind: RangeKind
    start: int
    stop: int
    closed: bool = True


def token_offsets(token_bytes: Sequence[bytes]) -> NDArray[np.int64]:
    """Return where each token starts in the joined bytes, then the total length. int64 [n + 1]."""
    offsets = np.zeros(len(token_bytes) + 1, dtype=np.int64)
    np.cumsum([len(data) for data in token_bytes], out=offsets[1:])
    return offsets


def token_at(offsets: NDArray[np.int64], offset: int) -> int:
    """Return the token that holds the byte at `offset`; the last one for an offset at or past the end.

    Args:
        offsets: int64 [n + 1] from `token_offsets`, n at least 1.
        offset: a byte offset, 0 or more.
    """
    return min(int(np.searchsorted(offsets, offset, side="right")) - 1, len(offsets) - 2)


def ends_in_thinking(prompt: str) -> bool:
    """Return whether a prompt's last words open a thinking part, as chat templates of reasoning models do."""
    openers = tuple(opener.decode() for opener, _, kind in TAGS if kind is RangeKind.THINKING)
    return prompt.rstrip().endswith(openers)


def find_ranges(
    token_bytes: Sequence[bytes],
    *,
    in_thinking: bool = False,
    given: Sequence[Json] = (),
    turns: Sequence[tuple[int, int]] = (),
) -> tuple[Range, ...]:
    """Partition an output into ranges: every token is in exactly one, in order.

    A token that holds the first byte of an opening tag belongs to the range that the tag opens, one that holds the last
    byte of a closing tag to the range it closes. Whatever is no other kind is prose. A range that is never closed runs
    to the end.

    Args:
        token_bytes: the bytes of each output token, special tokens as they are written.
        in_thinking: whether the prompt is known to end inside a thinking part.
        given: ranges that a case gives, see `capture.cases`; they win over what is found, the earlier over the later.
        turns: the assistant turns of a recorded conversation, as (first, stop) in order; no range goes beyond one, and
            what stands between them is prose.
    """
    found = _in_turns(token_bytes, turns) if turns else _found(token_bytes, in_thinking)
    if not given:
        return found
    return _overlaid(found, list(_given_ranges(given, b"".join(token_bytes), token_offsets(token_bytes))))


def _in_turns(token_bytes: Sequence[bytes], turns: Sequence[tuple[int, int]]) -> tuple[Range, ...]:
    found: list[Range] = []
    reached = 0
    for first, stop in (*turns, (len(token_bytes), len(token_bytes))):
        first, stop = min(first, len(token_bytes)), min(stop, len(token_bytes))
        if reached < first:
            found.append(Range(RangeKind.PROSE, reached, first))
        parts = _found(token_bytes[first:stop], in_thinking=False)
        found += [Range(part.kind, first + part.start, first + part.stop) for part in parts]
        reached = max(reached, stop)
    return tuple(found)


def _found(token_bytes: Sequence[bytes], in_thinking: bool) -> tuple[Range, ...]:
    offsets = token_offsets(token_bytes)
    starts: list[tuple[int, RangeKind]] = [(0, RangeKind.PROSE)]
    for span in find_spans(b"".join(token_bytes), in_thinking=in_thinking):
        starts.append((token_at(offsets, span.start), span.kind))
        starts.append((token_at(offsets, span.stop - 1) + 1, RangeKind.PROSE))
    return tuple(_partition(starts, len(token_bytes)))


def _given_ranges(given: Sequence[Json], data: bytes, offsets: NDArray[np.int64]) -> Iterator[Range]:
    """Yield the ranges that a case gives as far as this output holds them."""
    length = len(offsets) - 1
    for one in given:
        kind = RangeKind(one["kind"])
        if "start" in one:
            start, stop = one["start"], min(one["stop"], length)
            if start < stop:
                yield Range(kind, start, stop)
        else:
            for first, end in _between(data, one["from"].encode(), one["to"].encode()):
                yield Range(kind, token_at(offsets, first), token_at(offsets, end - 1) + 1)


def _between(data: bytes, opening: bytes, closing: bytes) -> Iterator[tuple[int, int]]:
    """Yield byte spans from an opening text to a closing one, both included; to the end where it never closes."""
    start = data.find(opening)
    while start >= 0:
        close = data.find(closing, start + len(opening))
        stop = len(data) if close < 0 else close + len(closing)
        yield start, stop
        start = data.find(opening, stop)


def _overlaid(found: Sequence[Range], given: Sequence[Range]) -> tuple[Range, ...]:
    """Return a partition in which given ranges take the place of what was found."""
    pieces = [*found, *given]
    owner = np.zeros(found[-1].stop if found else 0, np.int64)
    for index in [*range(len(found)), *range(len(pieces) - 1, len(found) - 1, -1)]:
        owner[pieces[index].start : pieces[index].stop] = index
    borders = [0, *(np.flatnonzero(owner[1:] != owner[:-1]) + 1).tolist(), len(owner)] if len(owner) else [0]
    return tuple(
        Range(pieces[owner[start]].kind, start, stop) for start, stop in zip(borders, borders[1:], strict=False)
    )


def _partition(starts: list[tuple[int, RangeKind]], length: int) -> Iterator[Range]:
    """Turn starts into ranges. A start that a later one undercuts or meets is dropped."""
    stop = length
    found = []
    for start, kind in reversed(starts):
        if start < stop:
            found.append(Range(kind, start, stop))
            stop = start
    yield from reversed(found)


def find_spans(data: bytes, *, in_thinking: bool = False) -> tuple[Span, ...]:
    """Return the stretches of an output that are not prose, in order, without overlap; linear in its length.

    A chat template may open the thinking part in the prompt. So a `</think>` without an opening tag before it closes a
    span that starts at 0.

    Args:
        data: the bytes of the output.
        in_thinking: whether the prompt is known to end inside a thinking part, closed in the output or not.
    """
    spans = list(_prompted_thinking(data, in_thinking))
    position = spans[0].stop if spans else 0
    while (opener := _OPENER.search(data, position)) is not None:
        spans.append(_span(data, opener) if spans or not _BARE_CALL.match(data) else _bare_calls(data, opener))
        position = max(spans[-1].stop, opener.end())
    return tuple(spans)


def _prompted_thinking(data: bytes, in_thinking: bool) -> Iterator[Span]:
    for opener, (closer, *_), kind in TAGS:
        if kind is RangeKind.THINKING:
            close = data.find(closer)
            if close >= 0 and (in_thinking or data.find(opener, 0, close) < 0):
                yield Span(kind, 0, close + len(closer))
                return
    if in_thinking and data:
        yield Span(RangeKind.THINKING, 0, len(data), closed=False)


def _span(data: bytes, opener: re.Match[bytes]) -> Span:
    if opener["tag"] is not None:
        return _tagged(data, opener)
    if opener["fence"] is not None:
        return _fenced(data, opener)
    return _json(data, opener.start("json"))


def _tagged(data: bytes, opener: re.Match[bytes]) -> Span:
    closers, kind = _BY_OPENER[opener["tag"]]
    closer = closers.search(data, opener.end())
    if closer is None:
        return Span(kind, opener.start(), len(data), closed=False)
    return Span(kind, opener.start(), closer.start() if closer[0] in END_MARKERS else closer.end())


def _fenced(data: bytes, opener: re.Match[bytes]) -> Span:
    fence = opener["fence"]
    kind = RangeKind.JSON if opener["info"].strip().lower().startswith(b"json") else RangeKind.CODE
    for closer in _CLOSING_FENCE.finditer(data, opener.end()):
        if closer[1].startswith(fence):
            return Span(kind, opener.start(), closer.end())
    return Span(kind, opener.start(), len(data), closed=False)


def _bare_calls(data: bytes, opener: re.Match[bytes]) -> Span:
    """Calls that an output starts with, without a tag before them (Llama 3)."""
    first = span = _json(data, opener.start("json"))
    while span.closed and _BARE_CALL.match(data, span.stop):
        span = _json(data, data.index(b"{", span.stop))
    return Span(RangeKind.TOOL_CALL, first.start, span.stop, span.closed)


def _json(data: bytes, start: int) -> Span:
    """The value that opens at `start`, by its brackets outside of strings."""
    depth = 0
    for part in _JSON_PART.finditer(data, start):
        depth += _BRACKETS.get(part[0], 0)
        if depth == 0:
            return Span(RangeKind.JSON, start, part.end())
    return Span(RangeKind.JSON, start, len(data), closed=False)
