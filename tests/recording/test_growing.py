"""A continuation grown after its bundle was sealed is the one that a capture with forks would have recorded."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from app.growable import Growing
from app.growing import State
from app.library import Library
from app.settings import Settings
from app.web import create_app
from capture.bundle import Bundle, verify_bundle
from capture.compare import reference_run
from capture.errors import CancelledError, FlipscopeError, UsageError, WorkerDiedError
from capture.growing import WantedFork, grow_fork
from capture.model import Exactness, Mode, Run, ScoringPath, Steps
from capture.pairs import bundle_paths, write_missing_comparisons
from capture.progress import SilentReporter
from capture.record import Recorder
from capture.stats import library_statistics
from capture.study import Study, read_study
from capture.switch import KillSwitch
from tests.recording.conftest import FORKS, WriteStudy

pytestmark = pytest.mark.engine

RUNTIMES = ("plain", "int4")
HEAD = 'reference = "plain"\nonly = ["one"]'
NO_FORKS = "[forks]\nmost = 0\nmax_tokens = 10"


@dataclass(frozen=True)
class Recorded:
    """The same study twice: captured with forks, and without; `file` says how to start it."""

    file: Path
    study: Study
    with_forks: Path
    without: Path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, write_study: WriteStudy) -> Recorded:
    base = tmp_path_factory.mktemp("growing")
    file = write_study(base / "study", HEAD, NO_FORKS, RUNTIMES)
    forking = read_study(write_study(base / "forking", HEAD, FORKS, RUNTIMES))
    Recorder(read_study(file), base / "without", SilentReporter()).capture()
    Recorder(forking, base / "with", SilentReporter()).capture()
    return Recorded(file, read_study(file), base / "with", base / "without")


@pytest.fixture
def library(recorded: Recorded, tmp_path: Path) -> Path:
    return shutil.copytree(recorded.without, tmp_path / "library")


def branches(path: Path) -> list[tuple[Run, Steps]]:
    with Bundle(path) as bundle:
        return [(run, bundle.steps(run.run_id)) for run in bundle.runs if run.mode is Mode.BRANCH]


def wanted(library: Path, recorded: Recorded) -> tuple[WantedFork, Run, Steps]:
    """The first fork that the capture with forks grew, to be grown where none was."""
    run, steps = branches(recorded.with_forks / "tiny/one--int4.duckdb")[0]
    assert run.fork is not None
    bundle = library / "tiny/one--int4.duckdb"
    return WantedFork(bundle, run.fork.parent_run, run.fork.position, run.fork.token_id), run, steps


def files(library: Path) -> list[str]:
    return sorted(str(path.relative_to(library)) for path in library.rglob("*") if path.is_file())


class Watch(SilentReporter):
    """Calls back at the third position."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._left = 3

    def advance(self, steps: int) -> None:
        self._left -= steps
        if self._left == 0:
            self._act()


def test_it_is_what_a_capture_with_forks_records(library: Path, recorded: Recorded) -> None:
    fork, run, steps = wanted(library, recorded)
    before = {path.name: path.read_bytes() for path in bundle_paths(library)}
    grown = grow_fork(recorded.study, fork, library, SilentReporter(), KillSwitch())
    assert grown.notices == ()
    assert grown.path.name == f"one--int4.grown-{run.run_id[:12]}.duckdb"
    verify_bundle(grown.path)
    ((own, own_steps),) = branches(grown.path)
    assert own == replace(run, seconds=own.seconds, certificate=own.certificate)
    assert own.certificate is not None
    assert (own.certificate.exactness, own.certificate.rows_compared) == (Exactness.EXACT, fork.position + 1)
    assert own_steps.row_hash == steps.row_hash
    assert own_steps.token_id.tolist() == steps.token_id.tolist()
    assert {path.name: path.read_bytes() for path in bundle_paths(library) if path != grown.path} == before


def test_nothing_else_is_confused_by_it(library: Path, recorded: Recorded) -> None:
    fork, _, _ = wanted(library, recorded)
    notes: list[str] = []
    numbers = library_statistics(library, notes.append)
    grow_fork(recorded.study, fork, library, SilentReporter(), KillSwitch())
    assert library_statistics(library, notes.append) == numbers
    present = files(library)
    write_missing_comparisons(library, SilentReporter())
    summary = Recorder(recorded.study, library, SilentReporter()).capture()
    assert (summary.sealed, summary.present) == (0, 2)
    assert files(library) == present
    assert notes == []
    head = f'reference_bundles = ["{library / "tiny"}"]'
    text = recorded.file.read_text().replace('reference = "plain"', head)
    other = recorded.file.parent / "other.toml"
    other.write_text(text)
    assert [path.name for path in read_study(other).reference_bundles if "grown" in path.name] == []


def test_the_reference_can_be_run_on_from_a_candidates_token(library: Path, recorded: Recorded) -> None:
    fork, _, _ = wanted(library, recorded)
    bundle = library / "tiny/one--plain.duckdb"
    with Bundle(bundle) as opened:
        own = reference_run(opened)
        recorded_steps = opened.steps(own.run_id)
    wish = WantedFork(bundle, own.run_id, fork.position, fork.token_id)
    grown = grow_fork(recorded.study, wish, library, SilentReporter(), KillSwitch())
    assert grown.run.certificate is not None
    assert grown.run.certificate.exactness is Exactness.EXACT
    ((_, steps),) = branches(grown.path)
    assert steps.row_hash[0] == recorded_steps.row_hash[fork.position]
    assert steps.token_id[0] == fork.token_id != recorded_steps.token_id[fork.position]
    with Bundle(grown.path) as opened:
        assert not opened.facts.is_reference


def test_cancelled_in_the_middle_it_leaves_nothing(library: Path, recorded: Recorded) -> None:
    fork, _, _ = wanted(library, recorded)
    before, switch = files(library), KillSwitch()
    with pytest.raises(CancelledError):
        grow_fork(recorded.study, fork, library, Watch(switch.pull), switch)
    assert files(library) == before
    assert not (library / ".spool/.growing").exists()


def test_cancelled_before_it_starts_it_leaves_nothing(library: Path, recorded: Recorded) -> None:
    fork, _, _ = wanted(library, recorded)
    before, switch = files(library), KillSwitch()
    switch.pull()
    with pytest.raises(CancelledError):
        grow_fork(recorded.study, fork, library, SilentReporter(), switch)
    assert files(library) == before


def children() -> set[int]:
    """Return the processes that this one started and that are there still."""
    own = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    tasks = own.parent.parent.glob("*/children")
    return {int(number) for task in tasks for number in task.read_text().split()}


def test_a_worker_that_is_killed_is_told_in_a_sentence(library: Path, recorded: Recorded) -> None:
    fork, _, _ = wanted(library, recorded)
    before, others = files(library), children()

    def kill() -> None:
        for number in children() - others:
            os.kill(number, signal.SIGKILL)

    with pytest.raises(WorkerDiedError, match=r"'int4': its worker was killed by signal 9.*nothing was added, grow"):
        grow_fork(recorded.study, fork, library, Watch(kill), KillSwitch())
    assert files(library) == before
    assert children() == others


def test_a_runtime_that_has_changed_is_not_certified_as_exact(library: Path, recorded: Recorded) -> None:
    fork, _, _ = wanted(library, recorded)
    runtime = recorded.study.runtime("int4")
    changed = replace(runtime, environment={"OMP_DYNAMIC": "TRUE"})
    runtimes = tuple(changed if one is runtime else one for one in recorded.study.runtimes)
    grown = grow_fork(replace(recorded.study, runtimes=runtimes), fork, library, SilentReporter(), KillSwitch())
    assert grown.run.certificate is not None
    assert grown.run.certificate.exactness is Exactness.APPROXIMATE
    assert "OMP_DYNAMIC" in grown.notices[0]


def test_a_runtime_that_is_asked_for_otherwise_is_refused(library: Path, recorded: Recorded) -> None:
    fork, _, _ = wanted(library, recorded)
    plain, int4 = recorded.study.runtimes
    study = replace(recorded.study, runtimes=(plain, replace(int4, options=plain.options)))
    with pytest.raises(UsageError, match="describes runtime 'int4' otherwise"):
        grow_fork(study, fork, library, SilentReporter(), KillSwitch())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda fork, _: replace(fork, position=1000), "1,000 is none of them"),
        (lambda fork, _: replace(fork, token_id=100_000), "token id 100000"),
        (lambda fork, _: replace(fork, parent_run="0" * 32), "holds no run"),
    ],
)
def test_what_cannot_be_grown_is_refused(
    library: Path, recorded: Recorded, change: Callable[[WantedFork, Path], WantedFork], reason: str
) -> None:
    fork, _, _ = wanted(library, recorded)
    before = files(library)
    with pytest.raises(FlipscopeError, match=reason):
        grow_fork(recorded.study, change(fork, library), library, SilentReporter(), KillSwitch())
    assert files(library) == before


def test_a_model_that_is_gone_is_told_in_a_sentence(library: Path, recorded: Recorded, tmp_path: Path) -> None:
    fork, _, _ = wanted(library, recorded)
    gone = tuple(replace(one, model=str(tmp_path / "gone")) for one in recorded.study.runtimes)
    with pytest.raises(FlipscopeError, match="runtime 'int4'.*gone"):
        grow_fork(replace(recorded.study, runtimes=gone), fork, library, SilentReporter(), KillSwitch())
    assert len(bundle_paths(library)) == 2


def test_a_server_that_is_interrupted_takes_its_worker_with_it(library: Path, recorded: Recorded) -> None:
    fork, _, _ = wanted(library, recorded)
    before = files(library)
    command = [sys.executable, "-m", "app.cli", "serve", str(library), "--port", "0", "--grow", str(recorded.file)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = next(found[0] for line in server.stdout if (found := re.search(r"http://\S+[0-9]", line)))
    form = {"run": fork.parent_run, "position": str(fork.position), "token": str(fork.token_id), "back": "/c/one"}
    own = {"origin": address}
    job = httpx.post(f"{address}/grow.json", data=form, headers=own, timeout=60).json()["job"]["job"]
    with httpx.stream("GET", f"{address}/grow/{job}/events", timeout=60) as events:
        lines = events.iter_lines()
        assert next(lines).startswith("event: ")  # a page is told of it while the server stops
        server.send_signal(signal.SIGINT)
        assert "cancelled" in "".join(lines)
    assert server.wait(30) == 0
    server.stdout.close()
    assert files(library) == before


@pytest.fixture
def client(library: Path, recorded: Recorded) -> Iterator[TestClient]:
    app = create_app(Settings(library=library, grow=(recorded.file,)))
    with TestClient(app, base_url="http://localhost", headers={"origin": "http://localhost"}) as client:
        yield client


def test_over_http_it_appears_on_its_page(client: TestClient, library: Path, recorded: Recorded) -> None:
    fork, run, _ = wanted(library, recorded)
    assert run.fork is not None
    table = client.get("/index.json").json()["studies"]
    page = f"/c/one/f/{fork.position}-{run.fork.prefix_id.hex()}.json?mode=forced"
    back = client.get(page).json()["permalink"]
    assert [way["certificate"] for way in client.get(page).json()["fork"]["continuations"]] == [None, None]
    form = {"run": fork.parent_run, "position": fork.position, "token": fork.token_id, "back": back}
    answer = client.post("/grow.json", data=form)
    assert answer.status_code == 202
    job = answer.json()["job"]["job"]
    with client.stream("GET", f"/grow/{job}/events") as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        names = [line.removeprefix("event: ") for line in events.iter_lines() if line.startswith("event: ")]
    assert names[-1] == "done"
    assert "progress" in names
    growing: Growing = client.app.state.growing  # type: ignore[attr-defined]
    assert growing.jobs.get(job).state is State.DONE
    texts = [way["certificate"] or "" for way in client.get(page).json()["fork"]["continuations"]]
    assert "bit-identical" in texts[1]
    assert client.post("/grow.json", data=form).json() == {"job": None, "href": back}
    assert client.get("/index.json").json()["studies"] == table
    shown = Library(library)
    try:
        case = shown.open_case("one", Mode.FORCED)
        assert [branch.run.run_id for branch in case.branches] == [run.run_id]
        assert case.scoring_path is ScoringPath.DECODE
    finally:
        shown.close()
