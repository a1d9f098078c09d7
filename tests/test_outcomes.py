"""Verdicts on the calls of real outputs, and of outputs cut apart by forks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from capture.bundle import Bundle, RecordedRun
from capture.model import Case, Float32Array, Fork, Mode, Origin, RunId
from capture.outcomes import bundle_outcomes, has_calls, output_bytes, wanted
from capture.toolcalls import Verdict
from tests.factories import make_bundle, make_facts, make_run, make_steps
from tests.report_samples import bundled, bundled_evidence


def free(runtime: str, case: str) -> tuple[Verdict | None, Verdict | None]:
    (found,) = [
        one
        for one in bundled_evidence().outcomes
        if (one.runtime, one.case_id, one.fork_position) == (runtime, case, None)
    ]
    return found.reference, found.label


def test_verdicts_of_real_free_runs() -> None:
    assert free("bf16", "mac") == (None, Verdict.DIFFERENT_ARGUMENTS)
    assert free("fp32", "mac") == (Verdict.SAME, Verdict.DIFFERENT_ARGUMENTS)
    assert free("kv-e4m3", "mac") == (Verdict.DIFFERENT_ARGUMENTS, Verdict.DIFFERENT_ARGUMENTS)
    assert free("kv-e5m2", "vlan") == (Verdict.MISSING, Verdict.MISSING)
    assert free("w8a8", "vlan") == (Verdict.MALFORMED, Verdict.MALFORMED)
    assert free("fp32", "arp-explain") == (Verdict.NO_CALL, None)


def test_a_call_that_the_length_cut_is_told_from_a_broken_one() -> None:
    cut = [one for one in bundled_evidence().outcomes if one.cut]
    assert ("w8a8", "vlan", None) in [(one.runtime, one.case_id, one.fork_position) for one in cut]
    assert all(one.reference is Verdict.MALFORMED for one in cut)


def test_every_continuation_has_an_outcome_with_the_text_before_its_fork() -> None:
    grown = [one for one in bundled_evidence().outcomes if one.fork_position is not None]
    assert len(grown) == 43
    with Bundle(bundled("mac", "kv-e4m3")) as bundle:
        (branch,) = [run for run in bundle.runs if run.mode is Mode.BRANCH]
        (parent,) = [run for run in bundle.runs if branch.fork and run.run_id == branch.fork.parent_run]
        whole, trunk = output_bytes(bundle, branch), output_bytes(bundle, parent)
    assert whole is not None
    assert trunk is not None
    assert branch.fork is not None
    assert whole.startswith(b"<tool_call>") == trunk.startswith(b"<tool_call>")
    assert whole[:20] == trunk[:20]
    assert whole != trunk


def test_wanted_and_called() -> None:
    assert [verdict for verdict in Verdict if wanted(verdict)] == [Verdict.SAME, Verdict.EQUIVALENT]
    assert not wanted(None)
    assert [verdict for verdict in Verdict if not has_calls(verdict)] == [Verdict.NO_CALL]


def test_a_branch_of_a_branch_is_read_back_to_the_prompt_and_a_stray_one_is_left_out(tmp_path: Path) -> None:
    logits = np.random.default_rng(1).normal(0, 3, (6, 16)).astype(np.float32)
    trunk = make_run(logits, make_steps(logits, [1, 2, 3, 4, 5, 6]))
    first = _branch(logits, trunk.run.run_id, [1, 2], [9, 10, 11], 2)
    second = _branch(logits, first.run.run_id, [1, 2, 9], [12, 13], 3)
    stray = _branch(logits, RunId("0" * 32), [1], [7], 1)
    path = make_bundle(tmp_path / "case--plain.duckdb", [trunk, first, second, stray])
    with Bundle(path) as bundle:
        assert output_bytes(bundle, second.run) == b"t1t2t9t12t13"
        assert output_bytes(bundle, stray.run) is None
        found = list(bundle_outcomes(bundle, bundle))
    assert [one.fork_position for one in found] == [None, 2, 3]
    assert [one.reference for one in found] == [None, Verdict.NO_CALL, Verdict.NO_CALL]


def _branch(logits: Float32Array, parent: RunId, before: list[int], tokens: list[int], position: int) -> RecordedRun:
    steps = make_steps(logits[: len(tokens)], tokens, before=(7, 8, 9, *before), first=position)
    return make_run(logits, steps, Origin(Mode.BRANCH, fork=Fork(parent, position, steps.prefix_id[0], tokens[0])))


def test_a_label_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    logits = np.zeros((2, 16), np.float32)
    facts = make_facts()
    facts = replace(facts, case=Case("case", facts.case.messages, (), ({"arguments": {}},)))
    path = make_bundle(tmp_path / "case--plain.duckdb", [make_run(logits, make_steps(logits))], facts)
    with Bundle(path) as bundle:
        (found,) = bundle_outcomes(bundle, bundle)
    assert (found.label, found.reference, found.detail) == (None, None, "no call")
