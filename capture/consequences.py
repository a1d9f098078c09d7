"""What a line came to, in one phrase: its calls, its ending, whether it met the reference again. Pure; siblings, numpy.

The parts of a phrase stand in the order of the reader's questions and are joined by ` · `; its severity is the worst of
its parts. Text that is only worded differently is neutral: the reference is a yardstick, not the right answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from capture.align import Rejoin
from capture.model import Ending, Int32Array
from capture.toolcalls import CallVerdict, Verdict
from capture.trie import common_length

LONGEST_BLOCK = 256
"""Tokens of the longest block whose repeats are seen as a loop."""

LOOP_REPEATS = 3
"""How often a block stands at the end, at least, to be a loop."""

LOOP_TOKENS = 16
"""Tokens that the repeats have in all, at least."""


class Severity(StrEnum):
    """How a consequence is drawn, mildest first."""

    NEUTRAL = "neutral"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


_RANK = {severity: rank for rank, severity in enumerate(Severity)}
_CALL_SEVERITY = {
    Verdict.NO_CALL: Severity.NEUTRAL,
    Verdict.SAME: Severity.GOOD,
    Verdict.EQUIVALENT: Severity.GOOD,
    Verdict.DIFFERENT_ARGUMENTS: Severity.WARN,
    Verdict.EXTRA: Severity.WARN,
    Verdict.MISSING: Severity.BAD,
    Verdict.DIFFERENT_TOOL: Severity.BAD,
    Verdict.MALFORMED: Severity.BAD,
}
_AGREES = (Verdict.NO_CALL, Verdict.SAME, Verdict.EQUIVALENT)


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
class Consequence:
    """What stands at the end of a line: a phrase, one line of printable characters, and how serious it is."""

    phrase: str
    severity: Severity


def find_loop(token_ids: Sequence[int] | Int32Array) -> Loop | None:
    """Return the loop that an output ends in; None where it ends in none.

    The last tokens are a loop when they are a block of at most `LONGEST_BLOCK` tokens, at least `LOOP_REPEATS` times in
    full, with at least `LOOP_TOKENS` tokens in all. Of several blocks the shortest counts. An output that ended by
    itself may hold repeats and is not stuck in them; `consequence` looks at how it ended.

    Args:
        token_ids: the output, int32 [n].
    """
    backwards = np.asarray(token_ids, dtype=np.int32)[::-1]
    for block in range(1, min(LONGEST_BLOCK, len(backwards) // LOOP_REPEATS) + 1):
        repeats = 1 + common_length(backwards, backwards[block:]) // block
        if repeats >= LOOP_REPEATS and repeats * block >= LOOP_TOKENS:
            return Loop(block, repeats, len(backwards) - repeats * block)
    return None


def consequence(
    verdict: CallVerdict,
    ending: Ending,
    loop: Loop | None = None,
    rejoin: Rejoin | None = None,
    *,
    is_reference: bool = False,
) -> Consequence:
    """Put the consequence of a line into words.

    Args:
        verdict: of its calls.
        ending: why it has no further position.
        loop: from `find_loop`, None where it ends in none; it counts only where the output was cut.
        rejoin: where it meets the reference again; named when it lasts to the end and the calls do not differ.
        is_reference: whether this is the reference's own line. It is good or bad only by the label.
    """
    parts = [*_call_part(verdict, ending, is_reference), *_rejoin_part(verdict, rejoin), *_ending_part(ending, loop)]
    if not parts:
        parts = [("reference" if is_reference else "different text", Severity.NEUTRAL)]
    severity = max((severity for _, severity in parts), key=lambda severity: _RANK[severity])
    only_cut = is_reference and verdict.verdict in _AGREES
    return Consequence(" · ".join(phrase for phrase, _ in parts), Severity.NEUTRAL if only_cut else severity)


def _call_part(verdict: CallVerdict, ending: Ending, is_reference: bool) -> Iterator[tuple[str, Severity]]:
    if verdict.verdict is Verdict.NO_CALL or (ending is Ending.INTERRUPTED and verdict.never_closed):
        return
    severity = _CALL_SEVERITY[verdict.verdict]
    if not is_reference:
        yield verdict.detail, severity
    elif verdict.verdict in _AGREES:
        yield "reference call", Severity.NEUTRAL
    else:
        yield f"reference · {verdict.detail}", severity


def _rejoin_part(verdict: CallVerdict, rejoin: Rejoin | None) -> Iterator[tuple[str, Severity]]:
    if rejoin is not None and rejoin.to_end and verdict.verdict in _AGREES:
        yield "re-joined", Severity.GOOD


def _ending_part(ending: Ending, loop: Loop | None) -> Iterator[tuple[str, Severity]]:
    if ending is Ending.INTERRUPTED:
        yield "interrupted", Severity.WARN
    elif ending is Ending.LENGTH and loop is not None:
        yield "in a loop", Severity.BAD
    elif ending is Ending.LENGTH:
        yield "ended by length", Severity.WARN
