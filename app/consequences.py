"""What became of each continuation: its tool calls, how it ended, where it re-joined, as a few words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from app.lanes import OpenCase
from app.strands import Source
from capture.callparser import ToolCall, read_calls
from capture.errors import CaseError
from capture.model import Ending, Json, Token
from capture.toolcalls import CallVerdict, Verdict, verdict
from capture.toolschema import printable

LONGEST_PERIOD = 64
LEAST_LOOP_TOKENS = 24
LEAST_REPEATS = 3

MOST_VALUES = 3
"""Arguments whose values are put into words."""


class Tone(StrEnum):
    """How a consequence is drawn: from nothing to tell, to broken."""

    NEUTRAL = "neutral"
    SAME = "same"
    DIFFERENT = "different"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Pill:
    """A consequence in a few words."""

    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Consequence:
    """What became of one source.

    Attributes:
        verdict: on its calls, against the reference's.
        pills: what is written at its end.
        text: the bytes of its whole output.
    """

    verdict: CallVerdict
    pills: tuple[Pill, ...]
    text: bytes

    @property
    def same(self) -> bool:
        """Whether the calls are what the reference called."""
        return self.verdict.verdict in (Verdict.SAME, Verdict.EQUIVALENT)


def output_tokens(case: OpenCase, source: Source) -> list[int]:
    """Return the whole output of a source: for a branch, the trunk up to its fork and then its own tokens."""
    own: list[int] = source.steps.token_id.tolist()
    first = int(source.steps.position[0]) if len(own) else 0
    head: list[int] = case.lanes[0].steps.token_id[:first].tolist()
    return head + own


def output_bytes(token_ids: Sequence[int], tokens: Mapping[int, Token]) -> bytes:
    """Return the bytes of an output; a token without bytes adds none."""
    return b"".join(tokens[token_id].data for token_id in token_ids if token_id in tokens)


def consequences(case: OpenCase, sources: Iterable[Source]) -> dict[str, Consequence]:
    """Return what became of sources, by key."""
    reference = output_bytes(case.lanes[0].steps.token_id.tolist(), case.tokens)
    return {source.key: _consequence(case, source, reference) for source in sources}


def _consequence(case: OpenCase, source: Source, reference: bytes) -> Consequence:
    facts = case.lanes[0].facts.case
    token_ids = output_tokens(case, source)
    text = output_bytes(token_ids, case.tokens)
    found = verdict(text, facts.tools, None, reference)
    own = source.key == case.lanes[0].letter
    labels = _label_pills(text, facts.tools, facts.expected_calls)
    endings = _ending_pills(source, token_ids)
    if source.ending is Ending.LENGTH and not loop_period(token_ids) and found.broken_at == len(text):
        return Consequence(found, (Pill("ended by length inside a call", Tone.NEUTRAL),), text)
    pills = [*_call_pills(found, own), *labels, *endings]
    return Consequence(found, tuple(pills), text)


def _call_pills(found: CallVerdict, own: bool) -> list[Pill]:
    if found.verdict is Verdict.NO_CALL:
        return []
    if own and found.verdict is not Verdict.MALFORMED:
        return [Pill("reference call", Tone.NEUTRAL)]
    if found.verdict in (Verdict.SAME, Verdict.EQUIVALENT):
        return [Pill(found.detail, Tone.SAME)]
    return [Pill(found.detail, Tone.BROKEN if found.verdict is Verdict.MALFORMED else Tone.DIFFERENT)]


def _label_pills(text: bytes, tools: Sequence[Json], expected: Sequence[Json] | None) -> list[Pill]:
    if expected is None:
        return []
    try:
        found = verdict(text, tools, expected)
    except CaseError:  # a label that cannot be read says nothing
        return []
    if found.verdict in (Verdict.SAME, Verdict.EQUIVALENT):
        return [Pill("as labelled", Tone.SAME)]
    return [Pill("not as labelled", Tone.NEUTRAL)]


def _ending_pills(source: Source, token_ids: Sequence[int]) -> list[Pill]:
    if source.ending is Ending.INTERRUPTED:
        return [Pill("interrupted", Tone.BROKEN)]
    if source.ending is not Ending.LENGTH:
        return []
    period = loop_period(token_ids)
    if period:
        return [Pill(f"in a loop of {period} token{'s' if period > 1 else ''}", Tone.BROKEN)]
    return [Pill("ended by length", Tone.NEUTRAL)]


def loop_period(token_ids: Sequence[int]) -> int:
    """Return how many tokens repeat at the end of an output; 0 where it is in no loop."""
    ids = np.array(token_ids, np.int64)
    for period in range(1, min(LONGEST_PERIOD, len(ids) // LEAST_REPEATS) + 1):
        needed = max(LEAST_LOOP_TOKENS, period * LEAST_REPEATS)
        if needed <= len(ids) and bool((ids[-needed:-period] == ids[-needed + period :]).all()):
            return period
    return 0


def different_words(first: bytes, second: bytes) -> tuple[str, str] | None:
    """Return the values of the arguments that two outputs' first calls differ in, as words.

    None where there is nothing to tell: no readable call in one of them, or the same in both.
    """
    calls = [next((call for call in read_calls(text) if isinstance(call, ToolCall)), None) for text in (first, second)]
    left, right = calls
    if left is None or right is None:
        return None
    if left.name != right.name:
        return printable(left.name), printable(right.name)
    names = [
        name for name in {**left.arguments, **right.arguments} if left.arguments.get(name) != right.arguments.get(name)
    ]
    if not names:
        return None
    return _words(left.arguments, names), _words(right.arguments, names)


def _words(arguments: Json, names: Sequence[str]) -> str:
    values = [printable(str(arguments[name])) if name in arguments else "\u2013" for name in names[:MOST_VALUES]]
    return ", ".join(values)
