"""What a line came to, in a few words: its calls, the label, its ending, a re-join. Pure; imports siblings and numpy.

Each word is a pill with a tone; the pills stand in the order of the reader's questions. Text that is only worded
differently says nothing: the reference is a yardstick, not the right answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from capture.model import Ending, Int32Array
from capture.toolcalls import CallVerdict, Verdict
from capture.trie import common_length

LONGEST_BLOCK = 256
"""Tokens of the longest block whose repeats are seen as a loop."""

LOOP_REPEATS = 3
"""How often a block stands at the end, at least, to be a loop."""

LOOP_TOKENS = 16
"""Tokens that the repeats have in all, at least."""


class Tone(StrEnum):
    """How a pill is drawn: from nothing to tell, to broken."""

    NEUTRAL = "neutral"
    SAME = "same"
    DIFFERENT = "different"
    BROKEN = "broken"


AGREES = (Verdict.SAME, Verdict.EQUIVALENT)
"""Verdicts on calls that are what was wanted."""

_CALL_TONES = {
    Verdict.SAME: Tone.SAME,
    Verdict.EQUIVALENT: Tone.SAME,
    Verdict.DIFFERENT_ARGUMENTS: Tone.DIFFERENT,
    Verdict.EXTRA: Tone.DIFFERENT,
    Verdict.MISSING: Tone.DIFFERENT,
    Verdict.DIFFERENT_TOOL: Tone.DIFFERENT,
    Verdict.MALFORMED: Tone.BROKEN,
}
_CUT = {Ending.LENGTH: "ended by length", Ending.INTERRUPTED: "interrupted"}
_CUT_TONES = {Ending.LENGTH: Tone.NEUTRAL, Ending.INTERRUPTED: Tone.BROKEN}

_REJOINED = "re-joined"


@dataclass(frozen=True, slots=True)
class Loop:
    """A block of tokens that an output ends in.

    Attributes:
        block: tokens of the block.
        repeats: how many whole blocks stand at the end.
        start: index of the first token of the first whole block.
    """

    block: int
    repeats: int
    start: int


@dataclass(frozen=True, slots=True)
class Pill:
    """A consequence in a few words: one line of printable characters, and how it is drawn."""

    text: str
    tone: Tone


def find_loop(token_ids: Sequence[int] | Int32Array) -> Loop | None:
    """Return the loop that an output ends in; None where it ends in none.

    The last tokens are a loop when they are a block of at most `LONGEST_BLOCK` tokens, at least `LOOP_REPEATS` times in
    full, with at least `LOOP_TOKENS` tokens in all. Of several blocks the shortest counts. An output that ended by
    itself may hold repeats and is not stuck in them; `consequence_pills` looks at how it ended.

    Args:
        token_ids: the output, int32 [n].
    """
    backwards = np.asarray(token_ids, dtype=np.int32)[::-1]
    for block in range(1, min(LONGEST_BLOCK, len(backwards) // LOOP_REPEATS) + 1):
        repeats = 1 + common_length(backwards, backwards[block:]) // block
        if repeats >= LOOP_REPEATS and repeats * block >= LOOP_TOKENS:
            return Loop(block, repeats, len(backwards) - repeats * block)
    return None


def consequence_pills(
    verdict: CallVerdict,
    ending: Ending,
    loop: Loop | None = None,
    label: CallVerdict | None = None,
    *,
    is_reference: bool = False,
) -> tuple[Pill, ...]:
    """Put what a line came to into words; nothing where there is nothing to tell.

    Args:
        verdict: on its calls, against the reference's.
        ending: why it has no further position.
        loop: from `find_loop`, None where it ends in none; it counts only where the length cut it.
        label: on its calls, against the label's; None where the case has none.
        is_reference: whether this is the reference's own line, which is compared with its label only.
    """
    stuck = loop if ending is Ending.LENGTH else None
    if verdict.never_closed and ending in _CUT and stuck is None:
        return (Pill(f"{_CUT[ending]} inside a call", _CUT_TONES[ending]),)
    pills = (_call_pill(verdict, is_reference), _label_pill(label), _ending_pill(ending, stuck))
    return tuple(pill for pill in pills if pill is not None)


def with_rejoin(pills: Sequence[Pill]) -> tuple[Pill, ...]:
    """Return pills with the re-join said in the first where that is no trouble, else in one of its own."""
    if pills and pills[0].tone is Tone.SAME:
        return (Pill(f"{pills[0].text} \u00b7 {_REJOINED}", Tone.SAME), *pills[1:])
    return (*pills, Pill(_REJOINED, Tone.NEUTRAL))


def worst_tone(pills: Sequence[Pill]) -> Tone:
    """Return the worst tone of pills, neutral where there is none."""
    return max((pill.tone for pill in pills), key=list(Tone).index, default=Tone.NEUTRAL)


def _call_pill(verdict: CallVerdict, is_reference: bool) -> Pill | None:
    if verdict.verdict is Verdict.NO_CALL:
        return None
    if is_reference and verdict.verdict is not Verdict.MALFORMED:
        return Pill("reference call", Tone.NEUTRAL)
    return Pill(verdict.detail, _CALL_TONES[verdict.verdict])


def _label_pill(label: CallVerdict | None) -> Pill | None:
    if label is None:
        return None
    if label.verdict in (*AGREES, Verdict.NO_CALL):
        return Pill("as labelled", Tone.SAME)
    return Pill("not as labelled", Tone.NEUTRAL)


def _ending_pill(ending: Ending, loop: Loop | None) -> Pill | None:
    if loop is not None:
        return Pill(f"in a loop of {loop.block} token{'s' if loop.block > 1 else ''}", Tone.BROKEN)
    return Pill(_CUT[ending], _CUT_TONES[ending]) if ending in _CUT else None
