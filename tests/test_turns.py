"""Recorded conversations of two turns: what a label, a check, a page and a stored comparison make of each turn."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

import app.library_comparisons as comparisons_module
from app.library import Library
from app.library_links import ChartsView
from app.run_pairs import reference_of
from app.source_consequences import consequences
from app.strands import Source
from capture.bundle import Bundle, RecordedRun, write_bundle
from capture.checks import CheckRule, check_pair
from capture.comparison import read_comparisons
from capture.model import Case, Float32Array, Fork, Mode, Origin, Prompt, RangeKind, ScoringPath, Token
from capture.outcomes import bundle_outcomes
from capture.pairs import compare_bundles, comparison_path, stored_comparisons, write_missing_comparisons
from capture.progress import SilentReporter
from capture.toolcalls import Verdict
from capture.turns import is_labelled, turn_of
from tests.factories import PROMPT, make_facts, make_run, make_steps

PATH = (10, 12, 1, 2, 11, 12)
TURNS = ((0, 2), (4, 6))
UNCLOSED = b'<tool_call>\n{"name": "other"'
CALL = b'<tool_call>\n{"name": "run", "arguments": {}}\n</tool_call>'
CASE = Case(
    "case",
    tuple({"role": role, "content": "x"} for role in ("user", "assistant", "user", "assistant")),
    expected_calls=({"name": "run", "arguments": {}},),
)
LOGITS = np.random.default_rng(3).normal(0, 1, (6, 16)).astype(np.float32)


def noisy(seed: int, size: float) -> Float32Array:
    noise = np.random.default_rng(seed).normal(0, size, LOGITS.shape)
    found: Float32Array = (LOGITS + noise).astype(np.float32)
    return found


def along(logits: Float32Array, path: ScoringPath) -> RecordedRun:
    return make_run(logits, make_steps(logits, PATH, forced=True), Origin(Mode.FORCED, path))


def branch(parent: RecordedRun, position: int, tokens: tuple[int, ...]) -> RecordedRun:
    logits = LOGITS[: len(tokens)]
    steps = make_steps(logits, tokens, before=(*PROMPT, *PATH[:position]), first=position)
    fork = Fork(parent.run.run_id, position, steps.prefix_id[0], tokens[0])
    return make_run(logits, steps, Origin(Mode.BRANCH, fork=fork))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = {10: UNCLOSED, 11: CALL, 12: b"</s>"}
    tokens = [Token(token_id, data.get(token_id, f"t{token_id}".encode())) for token_id in range(16)]
    decode = along(noisy(2, 2.0), ScoringPath.DECODE)
    runs = {
        "plain": [along(LOGITS, ScoringPath.DECODE), along(noisy(1, 0.8), ScoringPath.PREFILL)],
        "other": [decode, along(noisy(4, 2.0), ScoringPath.PREFILL), branch(decode, 1, (3,)), branch(decode, 5, (3,))],
    }
    for name, recorded in runs.items():
        facts = replace(make_facts(name, is_reference=name == "plain"), case=CASE)
        write_bundle(tmp_path / f"case--{name}.duckdb", facts, Prompt("hello", PROMPT, TURNS), recorded, tokens)
    return tmp_path


@pytest.fixture
def pair(folder: Path) -> Iterator[tuple[Bundle, Bundle]]:
    with Bundle(folder / "case--plain.duckdb") as reference, Bundle(folder / "case--other.duckdb") as candidate:
        yield reference, candidate


def test_a_position_belongs_to_the_last_turn_that_began() -> None:
    assert [turn_of(TURNS, position) for position in (0, 1, 5, 9)] == [TURNS[0], TURNS[0], TURNS[1], TURNS[1]]
    assert turn_of((), 3) is None
    assert turn_of(((2, 4),), 1) is None


def test_a_label_is_about_the_answer_at_the_end() -> None:
    assert [is_labelled(CASE, TURNS, turn) for turn in (*TURNS, None)] == [False, True, False]
    assert is_labelled(CASE, (), None)
    assert not is_labelled(replace(CASE, messages=CASE.messages[:3]), TURNS, TURNS[1])


def test_continuations_are_held_against_the_label_by_their_own_turn(pair: tuple[Bundle, Bundle]) -> None:
    found = {one.fork_position: one.label for one in bundle_outcomes(pair[1], pair[0])}
    assert found == {1: None, 5: Verdict.SAME}


def test_a_check_reads_the_turn_that_was_left_on_both_sides(pair: tuple[Bundle, Bundle], tmp_path: Path) -> None:
    source = "import sys; open('seen', 'a').write(sys.stdin.read() + chr(10)); print('{\"verdict\": \"x\"}')"
    rule = CheckRule((sys.executable, "-c", source), 30.0, tmp_path)
    assert [one.verdict for one in check_pair(rule, *pair)] == ["x", "x"]
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    texts = [(one["reference"]["text"].encode(), one["candidate"]["text"].encode()) for one in seen]
    assert texts == [(UNCLOSED + b"</s>", UNCLOSED + b"t3"), (CALL + b"</s>", CALL + b"t3")]


def test_a_page_judges_a_continuation_by_its_own_turn(folder: Path) -> None:
    library = Library(folder)
    case = library.open_case("case")
    sources = [
        Source(str(grown.run.fork.position), grown.letter, grown.steps, "float32", grown.run.ending, grown)
        for grown in case.branches
        if grown.run.fork is not None
    ]
    found = consequences(case, sources)
    library.close()
    assert found["5"].verdict.verdict is Verdict.SAME
    assert {key: one.text for key, one in found.items()} == {"1": UNCLOSED + b"t3", "5": CALL + b"t3"}


@pytest.mark.parametrize("number", [0, 1])
def test_a_page_computes_what_the_capture_stores(folder: Path, pair: tuple[Bundle, Bundle], number: int) -> None:
    expected = compare_bundles(*pair)[number]
    library = Library(folder)
    found = library.comparison(expected.reference, expected.candidate)
    library.close()
    assert found is not None
    assert expected.flips
    assert found.flips == expected.flips
    assert found.position.tolist() == expected.position.tolist() == [0, 1, 4, 5]


def test_a_stored_comparison_of_recorded_turns_is_believed(
    folder: Path, pair: tuple[Bundle, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = compare_bundles(*pair)
    write_missing_comparisons(folder, SilentReporter())
    monkeypatch.delattr(comparisons_module, "compare_runs")
    library = Library(folder)
    found = [library.comparison(one.reference, one.candidate) for one in expected]
    library.close()
    assert [one and one.flips for one in found] == [one.flips for one in expected]


def test_a_stored_comparison_of_fewer_positions_counts_as_missing(folder: Path, pair: tuple[Bundle, Bundle]) -> None:
    write_missing_comparisons(folder, SilentReporter())
    path = comparison_path(folder / "case--plain.duckdb", folder / "case--other.duckdb")
    assert stored_comparisons(path, *pair) is not None
    with duckdb.connect(str(path)) as connection:
        connection.execute("DELETE FROM flip")
        connection.execute("DELETE FROM shared WHERE position = 4")
    assert [len(one.position) for one in read_comparisons(path)] == [3, 3]
    assert stored_comparisons(path, *pair) is None


def test_pages_show_the_control_floor_and_ranges_that_end_with_their_turn(folder: Path) -> None:
    library = Library(folder)
    catalog = library.catalog()
    (case,) = library.cases()
    bundles = {one.facts.runtime.name: one for one in case.bundles}
    reference = reference_of(case, bundles["other"])
    assert reference is bundles["plain"]
    for one in bundles.values():
        library.summaries.of(catalog, one, reference)
    library.summaries.settle()
    floors = library.summaries.of(catalog, reference, reference)
    summary = library.summaries.of(catalog, bundles["other"], reference)
    charts = library.charts.page(catalog, ChartsView("study", "", "forced", ""))
    library.close()
    assert floors is not None
    assert {name: one.positions for name, one in floors.floors.items()} == {"prefill against decode": 4}
    assert summary is not None
    assert summary.pairs["forced"].kinds[RangeKind.TOOL_CALL].positions == 3  # the last token is beyond the call
    assert any("benign control" in str(row) for chart in charts.charts for row in chart.rows)
