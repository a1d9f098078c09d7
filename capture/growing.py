"""Growing a continuation from a recorded run whose bundle is sealed: into a bundle of its own beside that one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from capture.branch import REPLAY, PlannedFork, branch_job, certify, first_departure, fork_of, held_against, vouched
from capture.bundle import Bundle, RecordedRun, write_bundle
from capture.bundle_facts import BundleFacts
from capture.errors import CancelledError, NotFoundError, UsageError, VocabularyError, WorkerDiedError
from capture.identity import vocabulary_hash
from capture.manifests import differences
from capture.model import Certificate, Exactness, Json, Mode, Origin, Prompt, Run, RunId, Runtime, ScoringPath, Steps
from capture.progress import Reporter
from capture.public import public_runtime
from capture.range_hints import range_hints
from capture.record import only_writer
from capture.seal import mentioned_tokens, record_run
from capture.session import RuntimeSession
from capture.spool import Stream
from capture.study import GROWN, Study
from capture.switch import KillSwitch
from capture.version import VERSION

MOST_NAMED = 3
"""Entries of manifests that a notice names."""

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class WantedFork:
    """A continuation to grow.

    Attributes:
        bundle: the sealed bundle that holds the run it leaves.
        parent_run: that run: forced along another by decode, or free.
        position: where it leaves.
        token_id: with which token.
    """

    bundle: Path
    parent_run: RunId
    position: int
    token_id: int


@dataclass(frozen=True, slots=True)
class Grown:
    """A continuation that has grown.

    Attributes:
        path: the bundle that holds it.
        run: the branch.
        notices: what the reader should know, such as that the runtime has changed since.
    """

    path: Path
    run: Run
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Parent:
    """What growing needs of the run that is left; `free` are the steps of its runtime's free run, if there is one."""

    facts: BundleFacts
    prompt: Prompt
    run: Run
    steps: Steps
    manifest: Json
    free: Steps | None


def refusal(study: Study, facts: BundleFacts, run: Run, position: int) -> str:
    """Return why nothing can grow from a run at a position; empty where it can.

    Args:
        study: the study that is to start the runtime.
        facts: of the run's bundle.
        run: the run to leave.
        position: where.
    """
    name = facts.runtime.name
    known = {runtime.name: runtime for runtime in study.runtimes}
    if study.name != facts.study or name not in known:
        return f"runtime '{name}' of study '{facts.study}' is in no study that this was started with"
    if not _is_same(known[name], facts.runtime):
        return f"the study now describes runtime '{name}' otherwise than when this was captured; capture it anew"
    if run.scoring_path is not ScoringPath.DECODE or run.mode is Mode.BRANCH:
        return "continuations grow from free runs and from runs forced by decode only; choose such a run"
    if not 0 <= position < run.positions:
        return f"the run has {run.positions:,} positions, and {position:,} is none of them"
    return ""


def grow_fork(study: Study, wanted: WantedFork, library: Path, reporter: Reporter, switch: KillSwitch) -> Grown:
    """Start the runtime, let it go on from the fork, certify what it did, and seal that into a bundle of its own.

    The certificate holds the rows that were computed again against the recorded ones; a runtime whose manifest is
    another by now is never called exact. Whatever happens, nothing half-written stays.

    Args:
        study: the study of the runtime: how to start it, how long a continuation is, what is kept.
        wanted: the fork.
        library: the folder of bundles that holds the run.
        reporter: is told of the run.
        switch: ends the worker.

    Raises:
        CancelledError: the switch was pulled in time.
        FlipscopeError: it cannot be grown; the message says why.
    """
    parent = _read_parent(study, wanted)
    runtime = study.runtime(parent.facts.runtime.name)
    try:
        with _workplace(library, wanted) as folder, RuntimeSession(runtime, folder, reporter, switch) as session:
            _check_vocabulary(session, parent)
            return _grow(study, wanted, parent, session, folder, switch)
    except WorkerDiedError as error:
        if switch.pulled:
            raise CancelledError("growing was cancelled") from error
        raise WorkerDiedError(f"{error.how}; nothing was added, grow it again") from error


def _grow(
    study: Study, wanted: WantedFork, parent: _Parent, session: RuntimeSession, folder: Path, switch: KillSwitch
) -> Grown:
    fork = PlannedFork(wanted.position, wanted.token_id)
    path = tuple(parent.steps.token_id.tolist())
    most, room = study.forks.max_tokens, session.facts.context_length
    job = branch_job(parent.prompt.token_ids, path, (fork,), parent.facts.stop_ids, most, room)
    folders = {fork.sink: folder / fork.sink, REPLAY: folder / REPLAY}
    what = f"{parent.facts.case.case_id} \N{MIDDLE DOT} {session.runtime.name} \N{MIDDLE DOT} position {fork.position}"
    streams = session.record(what, job, folders, len(job.path) + job.forks[0].max_tokens)
    changed = _changed(parent.manifest, session.manifest)
    certificate = _certificate(wanted, parent, (streams[fork.sink], streams[REPLAY]), session, changed)
    branch = _recorded(study, parent, fork, streams[fork.sink], session, certificate)
    if switch.pulled:
        raise CancelledError("growing was cancelled")
    return Grown(_seal(wanted, parent, branch, session), branch.run, _notices(session.runtime.name, changed))


def _certificate(
    wanted: WantedFork, parent: _Parent, streams: tuple[Stream, ...], session: RuntimeSession, changed: tuple[str, ...]
) -> Certificate:
    same_shape = (parent.run.dtype, parent.run.vocabulary_size) == (session.facts.dtype, session.facts.vocabulary_size)
    with Bundle(wanted.bundle) as bundle:
        kept = partial(bundle.row, wanted.parent_run) if same_shape else _no_row
        rows = certify(wanted.position, streams, parent.steps, kept, session.facts.dtype)
    found = vouched(rows, session.runtime)
    # Equal rows up to the fork do not say that a changed runtime goes on from there as the recorded one would have.
    return replace(found, exactness=Exactness.APPROXIMATE) if changed and found.exactness is Exactness.EXACT else found


def _no_row(_: int) -> bytes | None:
    return None


def _recorded(
    study: Study,
    parent: _Parent,
    fork: PlannedFork,
    stream: Stream,
    session: RuntimeSession,
    certificate: Certificate,
) -> RecordedRun:
    before = (*parent.prompt.token_ids, *parent.steps.token_id[: fork.position].tolist())
    origin = Origin(Mode.BRANCH, fork=fork_of(parent.run, parent.steps, fork), certificate=certificate)
    keep = study.keep.of(parent.facts.case.case_id, session.runtime.name)
    own = stream.from_position(fork.position)
    hints = range_hints(parent.facts.case.ranges, parent.prompt)
    branch = record_run(own, session.facts, session.manifest, keep, session.vocabulary, before, origin, hints)
    departure = None if parent.free is None else first_departure(branch.steps, parent.free)
    return replace(branch, run=replace(branch.run, certificate=held_against(certificate, departure)))


def _seal(wanted: WantedFork, parent: _Parent, branch: RecordedRun, session: RuntimeSession) -> Path:
    """Write the bundle; one of that name holds the same run, since the name follows from it, and is left alone."""
    stem = wanted.bundle.name.removesuffix(".duckdb")
    path = wanted.bundle.with_name(f"{stem}{GROWN}{branch.run.run_id[:_DIGITS]}.duckdb")
    if not path.is_file():
        created = datetime.now(UTC).isoformat(timespec="seconds")
        facts = replace(parent.facts, is_reference=False, created=created, version=VERSION, definition="")
        tokens = mentioned_tokens([branch], parent.prompt.token_ids, session.vocabulary)
        write_bundle(path, facts, parent.prompt, [branch], tokens)
    return path


def _read_parent(study: Study, wanted: WantedFork) -> _Parent:
    with Bundle(wanted.bundle) as bundle:
        run = bundle.run(wanted.parent_run)
        reason = refusal(study, bundle.facts, run, wanted.position)
        if reason:
            raise UsageError(reason)
        steps = bundle.steps(run.run_id)
        if len(steps) <= wanted.position:
            raise NotFoundError(f"{bundle.path.name} lacks positions of run {run.run_id[:_DIGITS]}; capture it again")
        free = next((own for own in bundle.runs if own.mode is Mode.FREE and own.replica == 0), None)
        return _Parent(
            facts=bundle.facts,
            prompt=bundle.prompt,
            run=run,
            steps=steps,
            manifest=bundle.manifest(run.run_id),
            free=None if free is None else bundle.steps(free.run_id),
        )


def _is_same(runtime: Runtime, recorded: Runtime) -> bool:
    """Return whether a runtime is asked for as it was; what really runs is told by its manifest."""
    return (runtime.engine, public_runtime(runtime).options) == (recorded.engine, recorded.options)


def _check_vocabulary(session: RuntimeSession, parent: _Parent) -> None:
    recorded = parent.facts.vocabulary_hash
    if recorded and recorded != vocabulary_hash(session.vocabulary.values()):
        raise VocabularyError(
            f"runtime '{session.runtime.name}' has another tokenizer than when this was captured; capture it anew"
        )


def _changed(recorded: Json, now: Json) -> tuple[str, ...]:
    return tuple(found.entry for found in differences((recorded, now)))


def _notices(runtime: str, changed: tuple[str, ...]) -> tuple[str, ...]:
    if not changed:
        return ()
    named = ", ".join(changed[:MOST_NAMED])
    rest = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
    return (f"{runtime} is not what it was when this was captured ({named}{rest}), so nothing is certified as exact.",)


@contextmanager
def _workplace(library: Path, wanted: WantedFork) -> Iterator[Path]:
    """Hold the library and lend a folder for the spool and the worker's log; it is removed, whatever happens."""
    place = library / ".spool" / ".growing"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"nothing can be added to {library}: {error.strerror}; see that it can be written") from error
    folder = place / f"{wanted.parent_run[:_DIGITS]}-{wanted.position}-{wanted.token_id}"
    with only_writer(library):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                place.rmdir()
