"""One continuation grows at a time; it is told, cancelled, and never takes the others down."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.growing import MOST_ENDED, MOST_WAITING, Job, Jobs, State
from capture.errors import EngineError, NotFoundError, UsageError
from tests.growing_fakes import STUDY, WITHIN_SECONDS, FakeGrower, fork


class Case:
    """Jobs with a fake grower, and how often something appeared."""

    def __init__(self, grower: FakeGrower) -> None:
        self.grower = grower
        self.appeared = 0
        self.jobs = Jobs(grower, Path("library"), self._appear)

    def _appear(self) -> None:
        self.appeared += 1

    def submit(self, position: int = 3) -> Job:
        return self.jobs.submit(STUDY, fork(position), "int4", f"/c/one/f/{position}")

    def ended(self, job: Job) -> Job:
        stop = time.monotonic() + WITHIN_SECONDS
        while not (now := self.jobs.get(job.job_id)).ended and time.monotonic() < stop:
            threading.Event().wait(0.005)
        assert now.ended
        return now


@pytest.fixture
def case() -> Iterator[Case]:
    made = Case(FakeGrower())
    yield made
    made.jobs.close()


def test_a_job_is_told_from_its_start_to_its_end(case: Case) -> None:
    job = case.submit()
    assert (job.state, job.steps, job.most) in {(State.QUEUED, 0, 0), (State.STARTING, 0, 0)}
    assert case.grower.halfway.wait(WITHIN_SECONDS)
    now = case.jobs.get(job.job_id)
    assert (now.state, now.steps, now.most, now.runtime) == (State.GROWING, 4, 10, "int4")
    assert case.appeared == 0
    case.grower.go_on.set()
    done = case.ended(job)
    assert (done.state, done.steps, done.sentence) == (State.DONE, 10, "")
    assert case.appeared == 1


def test_what_to_know_of_the_result_is_kept() -> None:
    case = Case(FakeGrower(notices=("The runtime has changed.", "Twice.")))
    case.grower.go_on.set()
    assert case.ended(case.submit()).sentence == "The runtime has changed. Twice."


def test_jobs_go_one_after_the_other_in_their_order(case: Case) -> None:
    first, second, third = (case.submit(position) for position in (1, 2, 3))
    assert case.grower.halfway.wait(WITHIN_SECONDS)
    assert [job.state for job in case.jobs.all()] == [State.GROWING, State.QUEUED, State.QUEUED]
    case.grower.go_on.set()
    assert {case.ended(job).state for job in (first, second, third)} == {State.DONE}
    assert [wanted.position for wanted in case.grower.grown] == [1, 2, 3]


def test_the_same_continuation_is_one_job_while_it_is_under_way(case: Case) -> None:
    job = case.submit()
    assert case.submit().job_id == job.job_id
    case.grower.go_on.set()
    case.ended(job)
    assert case.submit().job_id != job.job_id


def test_when_too_many_wait_the_next_is_refused(case: Case) -> None:
    case.submit(0)
    assert case.grower.halfway.wait(WITHIN_SECONDS)
    for position in range(1, MOST_WAITING + 1):
        case.submit(position)
    with pytest.raises(UsageError, match="wait already; cancel one"):
        case.submit(99)


def test_a_running_job_is_cancelled_and_the_next_one_goes_on(case: Case) -> None:
    first, second = case.submit(1), case.submit(2)
    assert case.grower.halfway.wait(WITHIN_SECONDS)
    case.jobs.cancel(first.job_id)
    assert case.ended(first).state is State.CANCELLED
    case.grower.go_on.set()
    assert case.ended(second).state is State.DONE
    assert [wanted.position for wanted in case.grower.grown] == [2]


def test_a_waiting_job_is_cancelled_without_being_started(case: Case) -> None:
    first, second = case.submit(1), case.submit(2)
    assert case.grower.halfway.wait(WITHIN_SECONDS)
    assert case.jobs.cancel(second.job_id).state is State.CANCELLED
    case.grower.go_on.set()
    case.ended(first)
    assert [wanted.position for wanted in case.grower.grown] == [1]


def test_what_has_ended_cannot_be_cancelled(case: Case) -> None:
    job = case.submit()
    case.grower.go_on.set()
    case.ended(job)
    assert case.jobs.cancel(job.job_id).state is State.DONE


def test_an_error_is_told_in_its_sentence() -> None:
    case = Case(FakeGrower(EngineError("the model is missing; download it")))
    case.grower.go_on.set()
    failed = case.ended(case.submit())
    assert (failed.state, failed.sentence) == (State.FAILED, "The model is missing; download it.")
    assert case.appeared == 0


def test_what_nobody_foresaw_is_logged_and_the_next_one_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(FakeGrower(RuntimeError("a secret")))
    case.grower.go_on.set()
    with caplog.at_level(logging.ERROR, "flipscope"):
        failed = case.ended(case.submit(1))
    assert failed.state is State.FAILED
    assert "secret" not in failed.sentence
    assert "secret" in caplog.text
    case.grower.error = None
    assert case.ended(case.submit(2)).state is State.DONE


def test_closing_stops_what_runs_and_what_waits(case: Case) -> None:
    first, second = case.submit(1), case.submit(2)
    assert case.grower.halfway.wait(WITHIN_SECONDS)
    case.jobs.close()
    assert [case.jobs.get(job.job_id).state for job in (first, second)] == [State.CANCELLED] * 2
    with pytest.raises(UsageError, match="stopping"):
        case.submit(3)


def test_old_jobs_are_forgotten(case: Case) -> None:
    case.grower.go_on.set()
    jobs = []
    for position in range(MOST_ENDED + 3):
        jobs.append(case.submit(position))
        case.ended(jobs[-1])
    assert len(case.jobs.all()) == MOST_ENDED
    with pytest.raises(NotFoundError, match="no such job"):
        case.jobs.get(jobs[0].job_id)
    with pytest.raises(NotFoundError):
        case.jobs.cancel("nothing")
