"""Verdicts on what real models wrote: the continuations of the bundled study, and captured ones of a small model."""

from __future__ import annotations

import json
from os.path import commonprefix
from pathlib import Path
from typing import Any

import pytest

from capture.bundle import Bundle
from capture.model import Mode
from capture.outcomes import bundle_outcomes
from capture.pairs import study_pairs
from capture.resources import bundled_library
from capture.toolcalls import CallVerdict, Verdict, verdict

FILE = json.loads((Path(__file__).resolve().parent / "outputs" / "real.json").read_text(encoding="utf-8"))
OUTPUTS: list[dict[str, Any]] = FILE["outputs"]


def told(found: CallVerdict) -> list[object]:
    return [found.verdict.value, found.detail, found.wrong_at]


def name(output: dict[str, Any]) -> str:
    return f"{output['case']}-{output['runtime']}-{output['mode']}-{output['position']}"


def text_of(output: dict[str, Any]) -> bytes:
    text: str = output["text"]
    return text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("output", OUTPUTS, ids=name)
def test_a_captured_output_has_its_verdict_and_its_place(output: dict[str, Any]) -> None:
    case, text = FILE["cases"][output["case"]], text_of(output)
    reference = verdict(text, FILE["tools"], None, case["reference"].encode())
    assert told(reference) == output["reference"]
    assert told(verdict(text, FILE["tools"], case["expected"])) == output["label"]


@pytest.mark.parametrize("output", OUTPUTS, ids=name)
def test_an_output_goes_wrong_no_earlier_than_it_leaves_the_reference(output: dict[str, Any]) -> None:
    reference, text, place = (
        FILE["cases"][output["case"]]["reference"].encode(),
        text_of(output),
        output["reference"][2],
    )
    if place is not None:
        assert place >= len(commonprefix([text, reference]))


def test_every_kind_of_verdict_occurs_in_real_outputs() -> None:
    seen = {Verdict(output[against][0]) for output in OUTPUTS for against in ("reference", "label")}
    assert seen == set(Verdict)


def test_the_bundled_study_has_continuations_of_many_kinds() -> None:
    seen: dict[Verdict, int] = {}
    for reference_path, candidate_path in study_pairs(bundled_library() / "network-automation", print):
        with Bundle(reference_path) as reference, Bundle(candidate_path) as candidate:
            grown = {run.run_id for run in candidate.runs if run.mode is Mode.BRANCH}
            for outcome in bundle_outcomes(candidate, reference):
                if outcome.run_id in grown and outcome.reference is not None:
                    seen[outcome.reference] = seen.get(outcome.reference, 0) + 1
    assert sum(seen.values()) >= 20
    assert {Verdict.SAME, Verdict.DIFFERENT_ARGUMENTS, Verdict.MALFORMED} <= seen.keys()
