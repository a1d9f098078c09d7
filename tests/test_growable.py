"""Who may let the server start what, and what a page offers at a flip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.growable import Growable, GrowWay, grow_ways, growable_of, is_grown, is_loopback
from app.growing import Job, State
from app.lanes import OpenCase
from app.library import Library
from app.serve import check_address, serve
from app.settings import Settings
from capture.errors import NotFoundError, StudyError, UsageError
from capture.growing import WantedFork
from capture.model import FlipClass, Mode
from tests.growing_fakes import STUDY
from tests.synthetic import make_library

GROWABLE = Growable([STUDY])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    made = Library(make_library(tmp_path_factory.mktemp("library"), lanes=4))
    yield made
    made.close()


@pytest.fixture
def case(library: Library) -> OpenCase:
    return library.open_case("iface", Mode.FORCED)


def flips(case: OpenCase, letter: str, flip_class: FlipClass) -> list[int]:
    lane = next(lane for lane in case.lanes if lane.letter == letter)
    return [flip.position for flip in case.comparisons[lane.run.run_id].flips if flip.flip_class is flip_class]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.5", False),
        ("lab.example", False),
    ],
)
def test_only_this_machines_own_addresses_are_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_without_the_option_nothing_can_grow(tmp_path: Path) -> None:
    assert growable_of(Settings(library=tmp_path)) is None


@pytest.mark.parametrize("start", [serve, check_address, growable_of])
def test_an_address_that_others_reach_is_refused(tmp_path: Path, start: object) -> None:
    settings = Settings(library=tmp_path, host="0.0.0.0", port=0, grow=(tmp_path / "study.toml",))
    assert callable(start)
    with pytest.raises(UsageError, match=r"0\.0\.0\.0 is open to others.*--host"):
        start(settings)


def test_a_study_file_that_is_missing_is_told_before_anything_is_served(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot read the study"):
        serve(Settings(library=tmp_path, port=0, grow=(tmp_path / "none.toml",)))


def test_two_studies_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="same name"):
        Growable([STUDY, STUDY])


def test_a_flip_without_a_continuation_is_offered_to_the_lane_that_chose_it(case: OpenCase) -> None:
    position = flips(case, "D", FlipClass.NEAR_TIE)[0]
    (way,) = grow_ways(case, position, GROWABLE, (), others=True).values()
    lane = case.lanes[3]
    flip = next(flip for flip in case.comparisons[lane.run.run_id].flips if flip.position == position)
    (own,) = way.own
    assert (own.head.letter, own.run_id, own.position) == ("D", lane.run.run_id, position)
    assert own.token_id == flip.candidate_choice
    assert [offer.head.letter for offer in way.others] == ["A", "B", "C"]
    assert {offer.token_id for offer in way.others} == {own.token_id}
    (without,) = grow_ways(case, position, GROWABLE, (), others=False).values()
    assert without.others == ()


def test_what_has_grown_is_not_offered_again(case: OpenCase, library: Library) -> None:
    position = flips(case, "D", FlipClass.DECIDED)[-1]
    way = grow_ways(case, position, GROWABLE, (), others=True)["D"]
    assert way.own == ()
    assert "A" not in [offer.head.letter for offer in way.others]  # the reference was run on from this token
    branch = next(one.run for one in case.branches if one.letter == "D" and one.run.fork.position == position)  # type: ignore[union-attr]
    assert branch.fork is not None
    wanted = WantedFork(Path("x"), branch.fork.parent_run, position, branch.fork.token_id)
    assert is_grown(library.catalog(), wanted)
    assert not is_grown(library.catalog(), replace(wanted, token_id=wanted.token_id + 1))


def test_lanes_that_chose_the_same_token_are_offered_together(case: OpenCase) -> None:
    position = flips(case, "D", FlipClass.DECIDED)[0]
    ways = grow_ways(case, position, GROWABLE, (), others=True)
    assert set(ways) == {"C, D"}
    bare = replace(case, branches=())
    assert [offer.head.letter for offer in grow_ways(bare, position, GROWABLE, (), others=True)["C, D"].own] == [
        "C",
        "D",
    ]


def letters_of_jobs(way: GrowWay) -> list[tuple[str, Job]]:
    return [(head.letter, job) for head, job in way.jobs]


def test_a_job_takes_the_place_of_its_offer_until_it_has_ended(case: OpenCase) -> None:
    position = flips(case, "D", FlipClass.NEAR_TIE)[0]
    (way,) = grow_ways(case, position, GROWABLE, (), others=True).values()
    wanted = WantedFork(Path("x"), case.lanes[3].run.run_id, position, way.own[0].token_id)
    job = Job("1", wanted, "int4", "/", State.GROWING)
    (busy,) = grow_ways(case, position, GROWABLE, (job,), others=True).values()
    assert (busy.own, letters_of_jobs(busy)) == ((), [("D", job)])
    failed = replace(job, state=State.FAILED, sentence="the model is missing")
    (again,) = grow_ways(case, position, GROWABLE, (job, failed), others=True).values()
    assert (again.own, letters_of_jobs(again)) == (way.own, [("D", failed)])
    done = replace(job, state=State.DONE)
    (over,) = grow_ways(case, position, GROWABLE, (done,), others=True).values()
    assert over.jobs == ()
    elsewhere = replace(job, wanted=replace(wanted, position=position + 1))
    (other,) = grow_ways(case, position, GROWABLE, (elsewhere,), others=True).values()
    assert other == way


def test_nothing_is_offered_where_no_lane_flips_or_runs_are_free(case: OpenCase, library: Library) -> None:
    assert grow_ways(case, 0, GROWABLE, (), others=True) == {}
    free = library.open_case("iface")
    assert grow_ways(free, flips(case, "D", FlipClass.DECIDED)[0], GROWABLE, (), others=True) == {}


def test_only_runtimes_that_can_be_started_are_offered(case: OpenCase) -> None:
    position = flips(case, "D", FlipClass.NEAR_TIE)[0]
    few = replace(STUDY, runtimes=tuple(one for one in STUDY.runtimes if one.name != "int4"))
    (way,) = grow_ways(case, position, Growable([few]), (), others=True).values()
    assert (way.own, [offer.head.letter for offer in way.others]) == ((), ["A", "B", "C"])
    gone = tuple(replace(one, command=("no-such-program",)) for one in STUDY.runtimes)
    (way,) = grow_ways(case, position, Growable([replace(STUDY, runtimes=gone)]), (), others=True).values()
    assert (way.own, way.others) == ((), ())


def test_what_is_asked_for_is_found_or_refused_in_a_sentence(library: Library, case: OpenCase) -> None:
    run = case.lanes[3].run
    study, wanted, runtime = GROWABLE.find(library.catalog(), run.run_id, 4, 7)
    assert (study, runtime) == (STUDY, "int4")
    assert (wanted.parent_run, wanted.position, wanted.token_id) == (run.run_id, 4, 7)
    assert wanted.bundle.name == "iface--int4.duckdb"
    with pytest.raises(NotFoundError, match="not in this library"):
        GROWABLE.find(library.catalog(), "f" * 32, 4, 7)
    with pytest.raises(UsageError, match="is none of them"):
        GROWABLE.find(library.catalog(), run.run_id, 4000, 7)
    with pytest.raises(UsageError, match="not started with the study 'synthetic'.*--grow"):
        Growable([replace(STUDY, name="other")]).find(library.catalog(), run.run_id, 4, 7)
    with pytest.raises(UsageError, match="in no study"):
        Growable([replace(STUDY, runtimes=())]).find(library.catalog(), run.run_id, 4, 7)
    branch = case.branches[0].run
    with pytest.raises(UsageError, match="decode only"):
        GROWABLE.find(library.catalog(), branch.run_id, 4, 7)
