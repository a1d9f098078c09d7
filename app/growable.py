"""Which runtimes this server may start, and what they may grow of the case on a page. Starts nothing."""

from __future__ import annotations

import ipaddress
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.catalog import Catalog
from app.drawing import Head, heads
from app.growing import Job, Jobs, State
from app.lanes import Lane, OpenCase
from app.library import Library
from app.settings import Settings
from app.words import letters_of
from capture.bundle_facts import BundleFacts
from capture.errors import NotFoundError, UsageError
from capture.flips import Flip
from capture.growing import WantedFork, grow_fork, refusal
from capture.model import Mode, Run, ScoringPath
from capture.study import Study, read_study


class Growable:
    """The runtimes of the studies that the server was started with."""

    def __init__(self, studies: Sequence[Study]) -> None:
        """Take the studies.

        Raises:
            UsageError: two have the same name.
        """
        self._studies = {study.name: study for study in studies}
        if len(self._studies) < len(studies):
            raise UsageError("two of the studies given with --grow have the same name; give each once")

    def study(self, facts: BundleFacts, run: Run, position: int) -> Study:
        """Return the study that can start the runtime of a run.

        Raises:
            UsageError: nothing can grow from there; the message says why.
        """
        known = self._studies.get(facts.study)
        if known is None:
            raise UsageError(f"this server was not started with the study '{facts.study}'; give it with --grow")
        reason = refusal(known, facts, run, position) or _missing_program(known, facts.runtime.name)
        if reason:
            raise UsageError(reason)
        return known

    def allows(self, facts: BundleFacts, run: Run, position: int) -> bool:
        """Return whether something can grow from there."""
        try:
            self.study(facts, run, position)
        except UsageError:
            return False
        return True

    def find(self, catalog: Catalog, run_id: str, position: int, token_id: int) -> tuple[Study, WantedFork, str]:
        """Return what is meant, and the name of its runtime.

        Raises:
            NotFoundError: the library holds no such run.
            UsageError: as `study`.
        """
        for bundle in catalog.bundles:
            for run in bundle.runs:
                if run.run_id == run_id:
                    study = self.study(bundle.facts, run, position)
                    return study, WantedFork(bundle.path, run.run_id, position, token_id), bundle.facts.runtime.name
        raise NotFoundError(f"the run {run_id[:12]!r} is not in this library; reload the page")


def growable_of(settings: Settings) -> Growable | None:
    """Return what the settings let the server start; None where they let it start nothing.

    Raises:
        UsageError: the server would listen on an address that others reach.
        StudyError: a study file is wrong.
    """
    if not settings.grow:
        return None
    if not is_loopback(settings.host):
        raise UsageError(
            f"--grow lets whoever opens the page start processes, and {settings.host} is open to others; "
            "leave --host at 127.0.0.1"
        )
    return Growable([read_study(Path(path)) for path in settings.grow])


@dataclass(frozen=True, slots=True)
class Growing:
    """What a server that may start runtimes has for it.

    Attributes:
        growable: which runtimes.
        jobs: what was started.
        key: is in every form of its pages, and no page from elsewhere can read it.
    """

    growable: Growable
    jobs: Jobs
    key: str


def growing_of(settings: Settings, library: Library) -> Growing | None:
    """Return what the server needs to grow continuations; None, and raises, as `growable_of`."""
    growable = growable_of(settings)
    if growable is None:
        return None
    return Growing(growable, Jobs(grow_fork, library.folder, library.look), secrets.token_urlsafe(24))


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_grown(catalog: Catalog, wanted: WantedFork) -> bool:
    """Return whether the library holds this continuation already."""
    place = (wanted.parent_run, wanted.position, wanted.token_id)
    forks = (run.fork for bundle in catalog.bundles for run in bundle.runs if run.fork is not None)
    return any((fork.parent_run, fork.position, fork.token_id) == place for fork in forks)


@dataclass(frozen=True, slots=True)
class Offer:
    """A lane that can be let go on with a token at the open fork."""

    head: Head
    run_id: str
    position: int
    token_id: int


@dataclass(frozen=True, slots=True)
class GrowWay:
    """What can grow, and grows, of one continuation of the open fork.

    Attributes:
        own: the lanes that chose its token and did not go on with it.
        others: the other lanes, which would be made to take it.
        jobs: what is under way, or went wrong, with its lane; the newest last.
    """

    own: tuple[Offer, ...]
    others: tuple[Offer, ...]
    jobs: tuple[tuple[Head, Job], ...]


@dataclass(frozen=True, slots=True)
class GrowPane:
    """What a page says of growing; on the pages of a server that may start runtimes.

    Attributes:
        key: of the server's forms.
        back: the page.
        ways: what can grow at the open fork, by the letters of a continuation's lanes (`B, C`).
    """

    key: str
    back: str
    ways: Mapping[str, GrowWay]


def grow_pane(growing: Growing, case: OpenCase | None, position: int, back: str, *, others: bool) -> GrowPane:
    """Return what a page says of growing; `case` is None where no fork is open, the rest is as in `grow_ways`."""
    ways = {} if case is None else grow_ways(case, position, growing.growable, growing.jobs.all(), others=others)
    return GrowPane(growing.key, back, ways)


def grow_ways(
    case: OpenCase, position: int, growable: Growable, jobs: Sequence[Job], *, others: bool
) -> Mapping[str, GrowWay]:
    """Return what can grow at a flip of forced runs, by the letters of the lanes that chose the token.

    Args:
        case: the case on the page.
        position: of the fork that is open.
        growable: which runtimes can be started.
        jobs: what was started.
        others: whether lanes that did not choose a token may be made to take it.
    """
    if case.mode is not Mode.FORCED or case.scoring_path is not ScoringPath.DECODE:
        return {}
    sides: dict[int, list[str]] = {}
    prefix_id = b""
    for letter, flip in _flips_at(case, position):
        sides.setdefault(flip.candidate_choice, []).append(letter)
        prefix_id = flip.prefix_id
    able = [lane for lane in case.lanes if _reaches(lane, position, prefix_id)]
    able = [lane for lane in able if growable.allows(lane.facts, lane.run, position)]
    return {
        letters_of(letters): _way(case, able, (position, prefix_id, token_id), letters, jobs, others)
        for token_id, letters in sides.items()
    }


def _flips_at(case: OpenCase, position: int) -> Iterator[tuple[str, Flip]]:
    for lane in case.lanes[1:]:
        comparison = case.comparisons.get(lane.run.run_id)
        for flip in comparison.flips if comparison else ():
            if flip.position == position:
                yield lane.letter, flip


def _reaches(lane: Lane, position: int, prefix_id: bytes) -> bool:
    return position < len(lane.steps) and lane.steps.prefix_id[position] == prefix_id


def _way(
    case: OpenCase,
    able: Sequence[Lane],
    place: tuple[int, bytes, int],
    letters: Sequence[str],
    jobs: Sequence[Job],
    others: bool,
) -> GrowWay:
    position, prefix_id, token_id = place
    lanes = {lane.run.run_id: lane.letter for lane in case.lanes}
    here = [job for job in jobs if (job.wanted.position, job.wanted.token_id) == (position, token_id)]
    latest = {job.wanted.parent_run: job for job in here if job.wanted.parent_run in lanes}
    busy = {run_id for run_id, job in latest.items() if not job.ended}
    grown = {
        branch.letter
        for branch in case.branches
        if branch.run.fork and (branch.run.fork.prefix_id, branch.run.fork.token_id) == (prefix_id, token_id)
    }
    free = [lane for lane in able if lane.letter not in grown and lane.run.run_id not in busy]
    offers = [Offer(heads([lane.letter])[0], lane.run.run_id, position, token_id) for lane in free]
    return GrowWay(
        own=tuple(offer for offer in offers if offer.head.letter in letters),
        others=tuple(offer for offer in offers if others and offer.head.letter not in letters),
        jobs=tuple((heads([lanes[run_id]])[0], job) for run_id, job in latest.items() if _tells(job)),
    )


def _tells(job: Job) -> bool:
    return job.state is not State.DONE or bool(job.sentence)


def _missing_program(study: Study, runtime: str) -> str:
    command = study.runtime(runtime).command
    if command and shutil.which(command[0]) is None:
        return f"runtime '{runtime}' is started with '{command[0]}', which is not on this machine; mend its command"
    return ""
