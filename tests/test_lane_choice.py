"""Which runs a page shows, from what the link asks for and what there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.catalog import BundleEntry, CaseEntry, Stamp
from app.lane_choice import choose_lanes
from capture.bundle_facts import BundleFacts
from capture.errors import NotFoundError
from capture.model import Case, Ending, Keep, Mode, Run, RunId, Runtime, ScoringPath


def _run(
    digit: str, mode: Mode = Mode.FREE, along: str = "", path: ScoringPath = ScoringPath.DECODE, replica: int = 0
) -> Run:
    return Run(
        run_id=RunId(digit * 32),
        mode=mode,
        scoring_path=path,
        replica=replica,
        forced_along=RunId(along * 32) if along else None,
        fork=None,
        certificate=None,
        ending=Ending.LENGTH,
        complete=True,
        logits_kept=Keep.ALL,
        dtype="bfloat16",
        vocabulary_size=9,
        positions=4,
        seconds=0.0,
    )


def _bundle(
    name: str, *runs: Run, study: str = "s", created: str = "2026-01-01", reference: bool = False
) -> BundleEntry:
    facts = BundleFacts(study, "", Case("case", ()), Runtime(name, "e", "m"), reference, created, "0", "", ())
    return BundleEntry(Path(f"{study}/{name}"), f"{study}/{name}", Stamp(0, 0, 0, 0), facts, b"p" * 16, 1, runs)


def _case(*bundles: BundleEntry) -> CaseEntry:
    return CaseEntry("case-00", "case", b"p" * 16, bundles)


REFERENCE = _bundle("ref", _run("a"), _run("b", Mode.FORCED, "a", ScoringPath.PREFILL), reference=True)
FIRST = _bundle("one", _run("1"), _run("2", Mode.FORCED, "a"), _run("3", Mode.FORCED, "a", ScoringPath.PREFILL))
SECOND = _bundle("two", _run("4"), _run("5", replica=1))


def _ids(case: CaseEntry, *asked: object, **named: object) -> str:
    return "".join(pick.run.run_id[0] for pick in choose_lanes(case, *asked, **named).picks)  # type: ignore[arg-type]


def test_the_default_is_the_reference_and_the_runtimes_of_the_newest_study() -> None:
    old = _bundle("old", _run("c"), study="older", created="2025-01-01", reference=True)
    assert _ids(_case(old, SECOND, FIRST, REFERENCE), None) == "a41"


def test_the_default_takes_the_newest_recording_of_a_runtime() -> None:
    again = _bundle("one", _run("7"), created="2026-02-02")
    assert _ids(_case(REFERENCE, FIRST, replace(again, name="s/again")), None) == "a7"


def test_at_most_five_lanes_are_shown() -> None:
    many = [_bundle(f"r{digit}", _run(digit)) for digit in "1234567"]
    choice = choose_lanes(_case(REFERENCE, *many), None)
    assert len(choice.picks) == 5
    assert choice.reference.run.run_id == "a" * 32
    assert len(choice.others) == 3
    crowded = choose_lanes(_case(REFERENCE, *many), None, [digit * 12 for digit in "12345"], "a" * 12)
    assert len(crowded.picks) == 5
    assert "At most 5" in crowded.notices[0]


def test_forced_shows_runs_of_the_references_scoring_path_only() -> None:
    choice = choose_lanes(_case(REFERENCE, FIRST, SECOND), Mode.FORCED)
    assert [pick.run.run_id[0] for pick in choice.picks] == ["a", "2"]
    assert choice.notices == ("two has no run forced along the reference, so it is left out.",)


@pytest.mark.parametrize(("asked", "shown"), [("1", "2"), ("2", "2"), ("3", "2")])
def test_any_run_of_a_bundle_leads_to_the_one_that_fits(asked: str, shown: str) -> None:
    assert _ids(_case(REFERENCE, FIRST), Mode.FORCED, ["a" * 12, asked * 12]) == f"a{shown}"
    assert _ids(_case(REFERENCE, FIRST), Mode.FREE, ["a" * 12, asked * 12]) == "a1"


def test_a_replica_is_a_lane_when_it_is_asked_for() -> None:
    assert _ids(_case(REFERENCE, SECOND), Mode.FREE, ["4" * 12, "5" * 12]) == "45"


def test_the_first_lane_is_the_reference_unless_another_is_named() -> None:
    case = _case(REFERENCE, FIRST, SECOND)
    assert _ids(case, Mode.FREE, ["4" * 12, "a" * 12, "1" * 12]) == "4a1"
    assert _ids(case, Mode.FREE, ["4" * 12, "a" * 12], "1" * 12) == "14a"


def test_a_start_that_several_ids_share_is_said() -> None:
    twin = _bundle("twin", replace(_run("6"), run_id=RunId("1" * 12 + "0" * 20)))
    choice = choose_lanes(_case(FIRST, twin), Mode.FREE, ["1" * 12])
    assert choice.picks[0].run.run_id == "1" * 32
    assert "Several runs" in choice.notices[0]


def test_bundles_that_turned_out_unreadable_are_left_out() -> None:
    assert _ids(_case(REFERENCE, FIRST), None, without=["s/ref"]) == "1"
    with pytest.raises(NotFoundError):
        choose_lanes(_case(REFERENCE, FIRST), None, without=["s/ref", "s/one"])


def test_a_case_without_a_free_run_cannot_be_shown() -> None:
    with pytest.raises(NotFoundError, match="no free run"):
        choose_lanes(_case(_bundle("one", _run("2", Mode.FORCED, "a"))), None)
