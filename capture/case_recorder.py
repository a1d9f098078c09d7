"""Records one runtime on one case: free runs, forced runs, and the forks of the forced run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capture.branch import (
    REPLAY,
    PlannedFork,
    branch_job,
    certify,
    choose_forks,
    first_departure,
    fork_of,
    held_against,
    vouched,
)
from capture.bundle import RecordedRun
from capture.engines.base import ForcedJob, FreeJob, Job
from capture.flips import find_flips
from capture.live import Mark, tell
from capture.model import Json, Mode, Origin, Prompt, RunId, ScoringPath
from capture.plan import PROBE, bundle_count, free_streams
from capture.range_hints import range_hints
from capture.reference import Reference
from capture.seal import record_probe, record_run
from capture.session import RuntimeSession
from capture.spool import Stream
from capture.study import Study


@dataclass(frozen=True, slots=True)
class CaseRecorder:
    """One runtime on one case.

    Attributes:
        study: limits and what to keep.
        session: the running runtime.
        case_id: for messages.
        prompt: the prompt ids that every lane gets.
        stop_ids: the ids that end a free run.
        folder: the spool of this runtime and case.
        given: ranges that the case gives.
    """

    study: Study
    session: RuntimeSession
    case_id: str
    prompt: Prompt
    stop_ids: tuple[int, ...]
    folder: Path
    given: tuple[Json, ...] = ()

    def record_reference(self) -> list[RecordedRun]:
        """Run free, with replicas, and score the run's own tokens by prefill where the study asks for that path."""
        runs = self._free_runs()
        along = runs[0]
        if ScoringPath.PREFILL in self.study.scoring_paths:
            runs.append(self._forced(ScoringPath.PREFILL, tuple(along.steps.token_id.tolist()), along.run.run_id)[0])
        return runs

    def record_candidate(self, reference: Reference) -> list[RecordedRun]:
        """Run free, then forced along the reference, then on from each fork within the budget."""
        runs = self._free_runs()
        for scoring_path in self.study.scoring_paths:
            forced, stream = self._forced(scoring_path, reference.token_ids, reference.run.run_id)
            runs.append(forced)
            if scoring_path is ScoringPath.DECODE:
                runs += [self._held(branch, runs[0]) for branch in self._branches(reference, forced, stream)]
        return runs

    def record_turns(self, path: tuple[int, ...], reference: Reference | None) -> list[RecordedRun]:
        """Run forced along what the case records, by every scoring path, then on from forks inside recorded turns.

        Args:
            path: every token after the prompt.
            reference: None for the reference itself, which grows nothing.
        """
        runs = []
        for scoring_path in sorted(self.study.scoring_paths, key=list(ScoringPath).index):
            forced, stream = self._forced(scoring_path, path, None)
            runs.append(forced)
            if scoring_path is ScoringPath.DECODE and reference is not None:
                runs += self._branches(reference, forced, stream)
        return runs

    def record_probe(self, stride: int) -> RecordedRun:
        """Score every `stride`-th position of the prompt by prefill, in one continuous context."""
        ids = self.prompt.token_ids
        job = ForcedJob(ids[:1], ids[1:], ScoringPath.PREFILL, stride)
        stream = self._run(PROBE, job, {"main": self.folder / PROBE}, -(-len(job.path) // stride))["main"]
        keep = self.study.keep.of(self.case_id, self.session.runtime.name)
        return record_probe(stream, self.session.facts, self.session.manifest, keep, ids, stride)

    def _free_runs(self) -> list[RecordedRun]:
        job = FreeJob(self.prompt.token_ids, self.stop_ids, self.study.max_tokens)
        runs = []
        for replica, name in enumerate(free_streams(self.study)):
            stream = self._run(name, job, {"main": self.folder / name}, self.study.max_tokens)["main"]
            runs.append(self._recorded(stream, self.prompt.token_ids, Origin(Mode.FREE, replica=replica)))
        return runs

    def _forced(
        self, scoring_path: ScoringPath, path: tuple[int, ...], along: RunId | None
    ) -> tuple[RecordedRun, Stream]:
        name = f"forced-{scoring_path.value}"
        job = ForcedJob(self.prompt.token_ids, path, scoring_path)
        stream = self._run(name, job, {"main": self.folder / name}, len(path))["main"]
        recorded = self._recorded(stream, self.prompt.token_ids, Origin(Mode.FORCED, scoring_path, forced_along=along))
        return recorded, stream

    def _branches(self, reference: Reference, forced: RecordedRun, stream: Stream) -> list[RecordedRun]:
        forks = self._choose(reference, forced)
        if not forks:
            return []
        most, context_length = self.study.forks.max_tokens, self.session.facts.context_length
        job = branch_job(self.prompt.token_ids, reference.token_ids, forks, self.stop_ids, most, context_length)
        folders = {fork.sink: self.folder / fork.sink for fork in forks} | {REPLAY: self.folder / REPLAY}
        streams = self._run(f"{len(forks)} branches", job, folders, len(job.path) + len(forks) * (most + 1))
        return [self._branch(fork, streams, forced, stream, reference.token_ids) for fork in forks]

    def _choose(self, reference: Reference, forced: RecordedRun) -> tuple[PlannedFork, ...]:
        dtypes = (reference.run.dtype, forced.run.dtype)
        found = find_flips(reference.steps, forced.steps, dtypes, reference.control_margin_nats)
        turns = self.prompt.turns or ((0, len(reference.steps)),)
        flips = [flip for flip in found if any(first <= flip.position < stop for first, stop in turns)]
        texts = [self._bytes(token_id) for token_id in reference.token_ids]
        return choose_forks(flips, range_hints(self.given, self.prompt).find(texts), self.study.forks)

    def _branch(
        self,
        fork: PlannedFork,
        streams: dict[str, Stream],
        forced: RecordedRun,
        parent: Stream,
        path: tuple[int, ...],
    ) -> RecordedRun:
        own = streams[fork.sink]
        found = certify(fork.position, (own, streams[REPLAY]), forced.steps, parent.row, self.session.facts.dtype)
        certificate = vouched(found, self.session.runtime)
        before = (*self.prompt.token_ids, *path[: fork.position])
        origin = Origin(Mode.BRANCH, fork=fork_of(forced.run, forced.steps, fork), certificate=certificate)
        return self._recorded(own.from_position(fork.position), before, origin)

    def _held(self, branch: RecordedRun, free: RecordedRun) -> RecordedRun:
        """Hold a branch against the runtime's own free run: after the same prefix every bit must be equal."""
        departure = first_departure(branch.steps, free.steps)
        certificate = held_against(branch.run.certificate, departure)
        if certificate == branch.run.certificate:
            return branch
        self.session.note(f"{self.case_id}: a branch differs from the runtime's own free run at position {departure}")
        return replace(branch, run=replace(branch.run, certificate=certificate))

    def _recorded(self, stream: Stream, before: Sequence[int], origin: Origin) -> RecordedRun:
        session = self.session
        keep = self.study.keep.of(self.case_id, session.runtime.name)
        return record_run(
            stream,
            session.facts,
            session.manifest,
            keep,
            session.vocabulary,
            before,
            origin,
            range_hints(self.given, self.prompt),
        )

    def _run(self, name: str, job: Job, folders: dict[str, Path], most: int) -> dict[str, Stream]:
        runtime = self.session.runtime.name
        place, planned = self.folder.name, bundle_count(self.study)
        tell(self.folder.parent, Mark(self.study.name, self.case_id, runtime, name, place, most, planned))
        what = f"{self.case_id} · {runtime} · {name}"
        return self.session.record(what, job, folders, most)

    def _bytes(self, token_id: int) -> bytes:
        token = self.session.vocabulary.get(token_id)
        return token.data if token else b""
