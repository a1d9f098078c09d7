"""The probability that a runtime gave to tokens that break a tool call's grammar. Imports llguidance, on first use.

Every token is tried byte by byte, so that how a vocabulary cuts text does not matter. Which tokens a bundle knows by
their bytes bounds what can be said: the rest of the probability is reported as unknown, never guessed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture.bundle import Bundle
from capture.callgrammar import OPENERS, STRUCTURE, call_grammar
from capture.compare import spans_mask
from capture.errors import UsageError
from capture.model import Float64Array, Int32Array, Json, Mode, RangeKind, Run, Steps, Token
from capture.outcomes import left_turn
from capture.ranges import find_spans, token_at, token_offsets
from capture.rows import widen
from capture.turns import Turn

_END = 256


@dataclass(frozen=True, slots=True)
class GrammarMass:
    """What became of the probability at the positions inside tool calls; n positions, values 0..1.

    The first position of a call is the one after the token that holds the first byte of its opening tag; the last is
    that whose token closes the call, or breaks it.

    Attributes:
        position: output positions, int32 [n], rising.
        call: which of the output's calls, int32 [n], from 0.
        breaking: probability on tokens that break the call's grammar, float64 [n]: what it is at least.
        unknown: probability on tokens of which it is not known, float64 [n]: `breaking` plus this is the most. Not
            known are tokens whose bytes the bundle does not hold, and where the row was not kept all but the top-k.
        broken: whether the token taken is one of those that break the call, bool [n].
    """

    position: Int32Array
    call: Int32Array
    breaking: Float64Array
    unknown: Float64Array
    broken: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.position)


def call_grammar_mass(bundle: Bundle, run_id: str, vocabulary: Mapping[int, Token] | None = None) -> GrammarMass:
    """Return the probability that a run gave to tokens that break the calls it wrote.

    Args:
        bundle: an open bundle.
        run_id: one of its runs; of a branch, the positions before its fork are read from the run it left.
        vocabulary: every token by id, where known; without it, the tokens that the bundle mentions.

    Raises:
        UsageError: llguidance is not installed.
        NotFoundError: the bundle holds no such run.
    """
    run, steps = bundle.run(run_id), bundle.steps(run_id)
    known = KnownTokens(vocabulary or bundle.tokens())
    first = int(steps.position[0]) if len(steps) else 0
    output = [*_before(bundle, run, steps), *steps.token_id.tolist()]
    rows = _Rows(bundle, run, steps, known)
    found = [
        (place, number, *rows.masses(place - first, allowed), broken)
        for number, place, allowed, broken in walk_calls(
            bundle.facts.case.tools, output, known, _turns(bundle, run, len(output))
        )
        if place >= first
    ]
    return _columns(found)


def _columns(found: Sequence[tuple[int, int, float, float, bool]]) -> GrammarMass:
    columns = list(zip(*found, strict=True)) or [()] * 5
    return GrammarMass(
        position=np.array(columns[0], np.int32),
        call=np.array(columns[1], np.int32),
        breaking=np.array(columns[2], np.float64),
        unknown=np.array(columns[3], np.float64),
        broken=np.array(columns[4], np.bool_),
    )


def _before(bundle: Bundle, run: Run, steps: Steps) -> list[int]:
    """Return the output before a branch's first position, as far as the bundle holds the run that it left."""
    if run.mode is not Mode.BRANCH or run.fork is None or not len(steps):
        return []
    count = int(steps.position[0])
    parent = next((one for one in bundle.runs if one.run_id == run.fork.parent_run), None)
    if parent is None:
        return [-1] * count
    earlier = bundle.steps(parent.run_id)
    own = earlier.token_id[earlier.position < count].tolist()
    return [*_before(bundle, parent, earlier), *own]


class KnownTokens:
    """Tokens whose bytes are known, arranged to be tried one after the other."""

    def __init__(self, tokens: Mapping[int, Token]) -> None:
        """Take tokens by id; those without bytes are passed over."""
        listed = [token for token in tokens.values() if token.data]
        self.ids: NDArray[np.int64] = np.array([token.token_id for token in listed], np.int64)
        self._bytes = [list(token.data) for token in listed]
        self._first = np.array([token.data[0] for token in listed], np.int64)
        structure = {text.encode() for text in STRUCTURE}
        self._foreign = np.array([token.special and token.data not in structure for token in listed], np.bool_)
        self._places = {token.token_id: at for at, token in enumerate(listed)}

    def place(self, token_id: int) -> int | None:
        """Return where a token stands in `ids`; None where its bytes are not known."""
        return self._places.get(token_id)

    def data(self, token_id: int) -> bytes:
        """Return the bytes of a token, none where they are not known."""
        place = self._places.get(token_id)
        return b"" if place is None else bytes(self._bytes[place])

    def allowed(self, matcher: Any) -> NDArray[np.bool_]:
        """Return bool [len(ids)], True for tokens that the grammar allows next; special ones only as parts of it."""
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
        found: NDArray[np.bool_] = bits[self._first].astype(np.bool_) & ~self._foreign
        for at in np.flatnonzero(found):
            data = self._bytes[at]
            if len(data) > 1 and matcher.validate_tokens(data) != len(data):
                found[at] = False
        return found


def _turns(bundle: Bundle, run: Run, length: int) -> tuple[Turn, ...]:
    """Return the recorded turns of an output; that which a continuation left goes to its end."""
    turn = left_turn(bundle, run)
    if turn is None:
        return bundle.prompt.turns
    return (*(one for one in bundle.prompt.turns if one < turn), (turn[0], length))


def _calls(text: bytes, offsets: NDArray[np.int64], turns: Sequence[Turn]) -> Iterator[tuple[int, int]]:
    """Yield for each call the byte offset of its start, and the position before which it must end."""
    length = len(offsets) - 1
    for first, stop in turns or ((0, length),):
        stop = min(stop, length)
        base, end = (int(offsets[min(at, length)]) for at in (first, stop))
        spans = find_spans(text[base:end])
        yield from ((base + span.start, stop) for span in spans if span.kind is RangeKind.TOOL_CALL)


def walk_calls(
    tools: Sequence[Json], output: Sequence[int], known: KnownTokens, turns: Sequence[Turn] = ()
) -> Iterator[tuple[int, int, NDArray[np.bool_], bool]]:
    """Yield (call, position, which of `known` are allowed there, whether the token taken is not) inside the calls.

    Args:
        tools: OpenAI tool definitions of the case.
        output: token ids from the first output position on.
        known: the vocabulary, as far as it is known.
        turns: the recorded turns outside of which nothing is a call, and beyond which none goes.

    Raises:
        UsageError: llguidance is not installed.
    """
    pieces = [known.data(token_id) for token_id in output]
    text, offsets = b"".join(pieces), token_offsets(pieces)
    guide = _Guide(tools)
    for number, (start, stop) in enumerate(_calls(text, offsets, turns)):
        place = token_at(offsets, start)
        matcher = guide.matcher(text, start)
        alive = matcher.consume_tokens(list(text[start : int(offsets[place + 1])]))
        while alive and not matcher.is_accepting() and place + 1 < stop:
            place += 1
            allowed = known.allowed(matcher)
            taken = known.place(output[place])
            alive = taken is not None and bool(allowed[taken]) and matcher.consume_tokens(list(pieces[place]))
            yield number, place, allowed, not alive


@dataclass(slots=True)
class _Guide:
    """Makes matchers over bytes: the vocabulary of llguidance is the 256 bytes and an end."""

    tools: Sequence[Json]
    grammars: dict[str, str] = field(default_factory=dict)
    tokenizer: Any = None

    def matcher(self, text: bytes, start: int) -> Any:
        """Return a matcher for the call that starts at an offset."""
        library = _llguidance()
        opener = next(opener for opener in OPENERS if text.startswith(opener.encode(), start))
        if self.tokenizer is None:
            self.tokenizer = library.LLTokenizer(
                library.TokenizerWrapper(_Bytes()), n_vocab=_END + 1, eos_token=_END, slices=[]
            )
        if opener not in self.grammars:
            self.grammars[opener] = library.LLMatcher.grammar_from_lark(call_grammar(self.tools, opener))
        return library.LLMatcher(self.tokenizer, self.grammars[opener], log_level=0)


class _Bytes:
    """What llguidance asks of a tokenizer, for single bytes."""

    eos_token_id = _END
    bos_token_id = None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
    special_token_ids = (_END,)

    def __call__(self, data: str | bytes) -> list[int]:
        return list(data.encode() if isinstance(data, str) else data)


def _llguidance() -> Any:
    try:
        return importlib.import_module("llguidance")
    except ImportError as error:
        raise UsageError(
            "the probability of breaking a call's grammar needs llguidance; install 'flipscope[grammar]'"
        ) from error


class _Rows:
    """The probabilities of a run, position by position."""

    def __init__(self, bundle: Bundle, run: Run, steps: Steps, known: KnownTokens) -> None:
        self._bundle, self._run, self._steps, self._known = bundle, run, steps, known
        self._has_bytes = spans_mask(bundle.facts.id_spans, run.vocabulary_size)
        self._inside = known.ids < run.vocabulary_size

    def masses(self, row: int, allowed: NDArray[np.bool_]) -> tuple[float, float]:
        """Return (breaking, unknown) at a row of the steps, where `allowed` of the known tokens are."""
        raw = self._bundle.row(self._run.run_id, int(self._steps.position[row]))
        if raw is None:
            return self._of_top(row, allowed)
        logits = widen([raw], self._run.dtype)[0].astype(np.float64)
        weights = np.exp(logits - logits.max())
        probability = weights / weights.sum()
        ids = self._known.ids[self._inside]
        rest = np.ones(len(probability), np.bool_)
        rest[ids] = False
        breaking = probability[ids[~allowed[self._inside]]].sum() + probability[rest & ~self._has_bytes].sum()
        return _share(breaking), _share(probability[rest & self._has_bytes].sum())

    def _of_top(self, row: int, allowed: NDArray[np.bool_]) -> tuple[float, float]:
        steps = self._steps
        probability = np.exp(steps.top_logits[row].astype(np.float64) - steps.log_sum_exp[row])
        places = [self._known.place(int(token_id)) for token_id in steps.top_ids[row]]
        told = np.array([place is not None for place in places], np.bool_)
        fine = np.array([place is not None and bool(allowed[place]) for place in places], np.bool_)
        return _share(probability[told & ~fine].sum()), _share(1.0 - probability[told].sum())


def _share(value: float) -> float:
    return min(max(float(value), 0.0), 1.0)
