"""What is read from bundles beside a comparison: probabilities of tokens, kinds of range."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capture.bundle import Bundle
from capture.compare import Side, compare_runs
from capture.comparison import read_comparisons
from capture.encoding import Encoding
from capture.errors import ComparisonError
from capture.metrics import log_softmax
from capture.model import Mode, Origin, RangeKind
from capture.samples import KINDS
from capture.sampling import range_kinds, sample_of, shared_rows_of, token_log_probabilities
from tests.factories import make_bundle, make_facts, make_run, make_steps
from tests.report_samples import FOLDER, bundled

LOGITS = np.random.default_rng(5).normal(0, 2, (30, 16)).astype(np.float32)
TOKENS = np.random.default_rng(6).integers(0, 16, 30).tolist()


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """A reference that keeps every row, and a candidate that keeps the first ten, of tokens that are often unlikely."""
    reference = make_run(LOGITS, make_steps(LOGITS, TOKENS))
    other = LOGITS + np.random.default_rng(7).normal(0, 1, LOGITS.shape).astype(np.float32)
    forced = Origin(Mode.FORCED, forced_along=reference.run.run_id)
    candidate = make_run(other, make_steps(other, TOKENS, forced=True), forced, kept=range(10))
    return (
        make_bundle(tmp_path / "case--one.duckdb", [reference]),
        make_bundle(tmp_path / "case--other.duckdb", [candidate], make_facts("other", is_reference=False)),
    )


def test_a_token_is_looked_up_in_the_list_then_in_the_kept_row_else_unknown(sides: tuple[Path, Path]) -> None:
    with Bundle(sides[0]) as one, Bundle(sides[1]) as other:
        reference, candidate = Side.of(one, one.runs[0].run_id), Side.of(other, other.runs[0].run_id)
        rows, tokens = np.arange(30), np.array(TOKENS, np.int32)
        first = token_log_probabilities(reference, rows, tokens)
        second = token_log_probabilities(candidate, rows, tokens)
    assert first == pytest.approx(log_softmax(LOGITS.astype(np.float64))[rows, TOKENS], abs=1e-9)
    listed = (candidate.steps.top_ids == tokens[:, None]).any(axis=1)
    assert not listed.all()
    assert np.isnan(second).tolist() == [not (listed[at] or at < 10) for at in range(30)]


def test_change_of_probability_is_exact_where_known_and_unknown_elsewhere(sides: tuple[Path, Path]) -> None:
    with Bundle(sides[0]) as one, Bundle(sides[1]) as other:
        reference, candidate = Side.of(one, one.runs[0].run_id), Side.of(other, other.runs[0].run_id)
        comparison = compare_runs(reference, candidate)
        sample = sample_of(comparison, reference, candidate, range_kinds(one, reference.steps))
    assert sample.lower_bound.tolist() == [False] * 10 + [True] * 20
    expected = np.exp(sample.candidate_log_probability) - np.exp(sample.reference_log_probability)
    assert sample.delta_probability == pytest.approx(expected, abs=1e-9, nan_ok=True)
    assert np.isnan(sample.delta_probability[10:]).any()
    assert not np.isnan(sample.delta_probability[:10]).any()
    assert (sample.same_top == (reference.steps.top1 == candidate.steps.top1)).all()


def test_a_token_that_a_narrower_vocabulary_lacks_is_unknown(tmp_path: Path) -> None:
    reference = make_run(LOGITS, make_steps(LOGITS, TOKENS))
    narrow = LOGITS[:, : max(TOKENS)]
    origin = Origin(Mode.FORCED, forced_along=reference.run.run_id)
    candidate = make_run(narrow, make_steps(narrow, TOKENS, forced=True), origin)
    paths = make_bundle(tmp_path / "a.duckdb", [reference]), make_bundle(tmp_path / "b.duckdb", [candidate])
    with Bundle(paths[0]) as one, Bundle(paths[1]) as other:
        sides = Side.of(one, one.runs[0].run_id), Side.of(other, other.runs[0].run_id)
        sample = sample_of(compare_runs(*sides), *sides, range_kinds(one, sides[0].steps))
    unknown = [token >= max(TOKENS) for token in TOKENS]
    assert any(unknown)
    assert np.isnan(sample.delta_probability).tolist() == unknown
    assert np.isnan(sample.candidate_log_probability).tolist() == unknown


def test_what_lies_below_the_window_of_a_code_is_unknown(sides: tuple[Path, Path]) -> None:
    narrow = LOGITS.copy()
    narrow[:, 3] = -20.0
    tokens = [3 if at % 3 == 0 else 5 for at in range(30)]
    recorded = make_run(narrow, make_steps(narrow, tokens))
    with Bundle(make_bundle(sides[0].with_name("case--coded.duckdb"), [recorded])) as bundle:
        side = Side.of(bundle, bundle.runs[0].run_id)
        rows, wanted = np.arange(30), np.array(tokens, np.int32)
        cut = token_log_probabilities(side, rows, wanted, Encoding(16, 16 / 65535, 16.0, -16.0))
        whole = token_log_probabilities(side, rows, wanted, Encoding(16, 12 / 65535, 12.0, -16.0))
    assert np.isnan(cut).tolist() == [token == 3 for token in tokens]
    assert not np.isnan(whole).any()


def test_kinds_of_range_are_where_the_text_shows_them() -> None:
    with Bundle(bundled("mac", "bf16")) as bundle:
        steps = bundle.steps(bundle.runs[0].run_id)
        kinds = range_kinds(bundle, steps)
        tokens = bundle.tokens()
    inside = kinds == KINDS.index(RangeKind.TOOL_CALL)
    text = b"".join(tokens[token].data for token in steps.token_id[inside].tolist())
    assert text.startswith(b"<tool_call>")
    assert b'"name"' in text
    assert inside.any()
    assert not inside.all()


def test_a_comparison_of_other_runs_is_refused() -> None:
    comparison = read_comparisons(FOLDER / "vlan--fp32.vs.bf16.comparison.duckdb")[0]
    with Bundle(bundled("mac", "bf16")) as bundle:
        steps = bundle.steps(bundle.runs[0].run_id)
    with pytest.raises(ComparisonError, match="do not hold"):
        shared_rows_of(comparison, steps, steps)
