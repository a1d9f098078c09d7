"""The probability of breaking a call, on real captures, against the parser and against sums made here."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from capture.bundle import Bundle
from capture.callparser import BrokenCall, read_calls
from capture.errors import UsageError
from capture.grammar import GrammarMass, call_grammar_mass
from capture.jsontext import NEVER_CLOSED
from capture.model import Keep, Mode, Run, Token
from capture.ranges import token_at, token_offsets
from capture.resources import bundled_library
from capture.rows import widen
from capture.toolcalls import Verdict, verdict

pytest.importorskip("llguidance")

FOLDER = bundled_library() / "network-automation"


@pytest.fixture
def reference() -> Iterator[Bundle]:
    """The reference of a case with a call, its rows kept inside of it."""
    with Bundle(FOLDER / "mac--bf16.duckdb") as bundle:
        yield bundle


def kept_run(bundle: Bundle) -> Run:
    return next(run for run in bundle.runs if run.logits_kept is Keep.RANGES)


def pieces(bundle: Bundle, run: Run) -> list[bytes]:
    tokens = bundle.tokens()
    return [tokens[token_id].data for token_id in bundle.steps(run.run_id).token_id.tolist()]


def probabilities(bundle: Bundle, run: Run, position: int) -> np.ndarray:
    (row,) = bundle.rows(run.run_id, [position])
    logits = widen([row], run.dtype)[0].astype(np.longdouble)
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum(), np.float64)


def cannot_be_read(text: bytes) -> bool:
    return any(isinstance(call, BrokenCall) and call.reason != NEVER_CLOSED for call in read_calls(text))


def test_what_the_parser_cannot_read_any_more_is_among_what_breaks_the_grammar(reference: Bundle) -> None:
    run, tokens = kept_run(reference), reference.tokens()
    found, output = call_grammar_mass(reference, run.run_id), pieces(reference, run)
    special = {token.token_id for token in tokens.values() if token.special}
    for at, position in list(enumerate(found.position.tolist()))[::4]:
        text = b"".join(output[:position])
        broken = {token.token_id for token in tokens.values() if cannot_be_read(text + token.data)} | special
        share = probabilities(reference, run, position)
        assert share[sorted(broken)].sum() <= found.breaking[at] + 1e-12
        assert share[sorted(tokens.keys() - broken)].sum() >= 1 - found.breaking[at] - found.unknown[at] - 1e-12


def test_positions_are_those_of_the_call_after_its_opening(reference: Bundle) -> None:
    run = kept_run(reference)
    found, output = call_grammar_mass(reference, run.run_id), pieces(reference, run)
    text, offsets = b"".join(output), token_offsets(output)
    first = token_at(offsets, text.index(b"<tool_call>")) + 1
    last = token_at(offsets, text.index(b"</tool_call>") + len(b"</tool_call>") - 1)
    assert found.position.tolist() == list(range(first, last + 1))
    assert not found.broken.any()
    assert set(found.call.tolist()) == {0}


def test_shares_are_shares(reference: Bundle) -> None:
    found = call_grammar_mass(reference, kept_run(reference).run_id)
    assert ((found.breaking >= 0) & (found.unknown >= 0) & (found.breaking + found.unknown <= 1 + 1e-12)).all()
    assert found.breaking.max() > 0.1  # a small model is often about to break its call


def test_with_the_whole_vocabulary_nothing_is_unknown(reference: Bundle) -> None:
    run = kept_run(reference)
    known = reference.tokens()
    whole = {token_id: known.get(token_id, Token(token_id, b"\x00")) for token_id in range(run.vocabulary_size)}
    some, every = call_grammar_mass(reference, run.run_id), call_grammar_mass(reference, run.run_id, whole)
    assert (every.unknown < 1e-12).all()
    # a NUL is allowed nowhere in a call, so that what was unknown breaks it
    np.testing.assert_allclose(every.breaking, some.breaking + some.unknown, atol=1e-12)


def test_with_top_tokens_alone_the_bounds_are_wider_and_hold(
    reference: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = kept_run(reference)
    full = call_grammar_mass(reference, run.run_id)
    monkeypatch.setattr(Bundle, "row", lambda *_: None)
    top = call_grammar_mass(reference, run.run_id)
    assert (top.breaking <= full.breaking + 1e-12).all()
    assert (top.breaking + top.unknown >= full.breaking + full.unknown - 1e-12).all()
    assert (top.breaking < full.breaking).any()


def test_a_branch_whose_call_broke_broke_it_by_where_the_verdict_says() -> None:
    seen = 0
    with Bundle(FOLDER / "mac--bf16.duckdb") as reference, Bundle(FOLDER / "mac--w8a8.duckdb") as bundle:
        trunk = pieces(reference, kept_run(reference))
        for run in [run for run in bundle.runs if run.mode is Mode.BRANCH and run.fork is not None]:
            first = int(bundle.steps(run.run_id).position[0])
            output = [*trunk[:first], *pieces(bundle, run)]
            told = verdict(b"".join(output), bundle.facts.case.tools, None, b"".join(trunk))
            found = call_grammar_mass(bundle, run.run_id)
            broken = found.position[found.broken].tolist()
            if told.verdict is Verdict.MALFORMED and not told.never_closed and told.wrong_at is not None:
                (place,) = broken  # the grammar refuses a key or a name before the parser fails on what follows it
                assert place <= token_at(token_offsets(output), told.wrong_at)
                seen += 1
            else:
                assert broken == []
    assert seen > 0


def test_an_output_without_calls_has_no_positions() -> None:
    with Bundle(FOLDER / "arp-explain--bf16.duckdb") as bundle:
        found = call_grammar_mass(bundle, bundle.runs[0].run_id)
    assert isinstance(found, GrammarMass)
    assert len(found) == 0


def test_without_llguidance_it_says_what_to_install(reference: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(UsageError, match=r"install 'flipscope\[grammar\]'"):
        call_grammar_mass(reference, kept_run(reference).run_id)
