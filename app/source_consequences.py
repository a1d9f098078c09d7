"""What became of each source of a page: its whole output, the verdict on its calls, and the words for both. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.lanes import OpenCase
from app.strands import Source
from capture.callparser import ToolCall, read_calls
from capture.consequences import AGREES, Pill, consequence_pills, find_loop
from capture.errors import CaseError
from capture.model import Case, Ending, Json, Token
from capture.ranges import token_at, token_offsets
from capture.toolcalls import CallVerdict, verdict
from capture.toolschema import printable
from capture.turns import Turn, is_labelled, turn_of

MOST_VALUES = 3
"""Arguments whose values are put into words."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """What became of one source.

    Attributes:
        verdict: on its calls, against the reference's.
        pills: what is written at its end.
        text: the bytes of its whole output; of a continuation of a recorded conversation, those from the turn on that
            it left.
        wrong_position: the position of the token where its calls go wrong, see `CallVerdict.wrong_at`; None where they
            do not.
    """

    verdict: CallVerdict
    pills: tuple[Pill, ...]
    text: bytes
    wrong_position: int | None = None

    @property
    def same(self) -> bool:
        """Whether the calls are what the reference called."""
        return self.verdict.verdict in AGREES


def output_tokens(case: OpenCase, source: Source) -> list[int]:
    """Return the whole output of a source: for a branch, the trunk up to its fork and then its own tokens."""
    own: list[int] = source.steps.token_id.tolist()
    first = int(source.steps.position[0]) if len(own) else 0
    head: list[int] = case.lanes[0].steps.token_id[:first].tolist()
    return head + own


def output_bytes(token_ids: Sequence[int], tokens: Mapping[int, Token]) -> bytes:
    """Return the bytes of an output; a token without bytes adds none."""
    data = {token_id: tokens[token_id].data for token_id in set(token_ids) if token_id in tokens}
    return b"".join([data.get(token_id, b"") for token_id in token_ids])


def wrong_position(found: CallVerdict, token_ids: Sequence[int], tokens: Mapping[int, Token]) -> int | None:
    """Return the position of the token of an output where its calls go wrong; None where they do not."""
    if found.wrong_at is None or not token_ids:
        return None
    pieces = [tokens[token_id].data if token_id in tokens else b"" for token_id in token_ids]
    return token_at(token_offsets(pieces), found.wrong_at)


def consequences(case: OpenCase, sources: Iterable[Source]) -> dict[str, Consequence]:
    """Return what became of sources, by key."""
    verdicts: dict[tuple[Turn | None, bytes], _Verdicts] = {}  # lanes along the reference have its very text
    return {source.key: _consequence(case, source, verdicts) for source in sources}


_Verdicts = tuple[bytes, CallVerdict, CallVerdict | None]
"""A text, the verdict on its calls against the reference's, and against the label's."""


def reference_text(case: OpenCase, turn: Turn | None = None) -> bytes:
    """Return the bytes of the reference's output; with a recorded turn, of that."""
    return output_bytes(case.lanes[0].steps.token_id[slice(*turn or (None,))].tolist(), case.tokens)


def _consequence(case: OpenCase, source: Source, verdicts: dict[tuple[Turn | None, bytes], _Verdicts]) -> Consequence:
    facts, turns = case.lanes[0].facts.case, case.prompt.turns
    turn = turn_of(turns, int(source.steps.position[0])) if source.branch is not None else None
    first = 0 if turn is None else turn[0]
    token_ids = output_tokens(case, source)[first:]
    text = output_bytes(token_ids, case.tokens)
    if (turn, text) not in verdicts:
        label = _label_verdict(text, facts) if is_labelled(facts, turns, turn) else None
        verdicts[turn, text] = text, verdict(text, facts.tools, None, reference_text(case, turn)), label
    text, found, label = verdicts[turn, text]
    is_reference = source.key == case.lanes[0].letter
    loop = find_loop(token_ids) if source.ending is Ending.LENGTH else None
    pills = consequence_pills(found, source.ending, loop, label, is_reference=is_reference)
    wrong = wrong_position(found, token_ids, case.tokens)
    return Consequence(found, pills, text, None if wrong is None else first + wrong)


def _label_verdict(text: bytes, case: Case) -> CallVerdict | None:
    if case.expected_calls is None:
        return None
    try:
        return verdict(text, case.tools, case.expected_calls)
    except CaseError:  # a label that cannot be read says nothing
        return None


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
