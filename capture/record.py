"""Recording a study: each runtime in its own worker, each case into a spool, each spool sealed into a bundle.

What is sealed is never touched; what is spooled and whole is not run again; what is missing is run.
"""

from __future__ import annotations

import fcntl
import filecmp
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from capture.bundle import Bundle, RecordedRun, write_bundle
from capture.bundle_facts import BundleFacts
from capture.case_recorder import CaseRecorder
from capture.errors import EngineError, StudyError, UsageError, WorkerDiedError
from capture.identity import id_spans, vocabulary_hash
from capture.live import VOCABULARY, Mark, live_capture, tell, write_vocabulary
from capture.model import Case, Exactness, Mode, Prompt, Runtime
from capture.pairs import write_missing_comparisons
from capture.plan import PlannedBundle, bundle_count, bundle_path, check_disk, definition, plan_study
from capture.progress import Reporter
from capture.public import public_runtime
from capture.reference import Reference, check_same_vocabulary, read_reference
from capture.seal import mentioned_tokens
from capture.session import RuntimeSession
from capture.spool import sync_folder
from capture.study import Follow, Study
from capture.version import VERSION


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """What a capture found and left.

    Attributes:
        sealed: bundles sealed by this capture.
        present: bundles that were there already.
        forks: forks of the study by what their certificates say.
        unchanged: runtimes whose logits never differed from the reference's: their options may have had no effect.
    """

    sealed: int
    present: int
    forks: Mapping[Exactness, int]
    unchanged: tuple[str, ...]


class Recorder:
    """Records one study into one library."""

    def __init__(self, study: Study, library: Path, reporter: Reporter) -> None:
        self._library = library
        self._reporter = reporter
        self._study = _with_reference_cases(study)
        self._spool = library / ".spool" / study.name
        self._sealed = 0

    def plan(self) -> list[PlannedBundle]:
        """Return what a capture would do; starts nothing."""
        sealed, pace = {}, {}
        for runtime in self._study.runtimes:
            for case in self._study.cases:
                path = bundle_path(self._library, self._study, case.case_id, runtime.name)
                sealed[path] = path.is_file()
                pace.update(_pace(path, runtime.name) if path.is_file() else {})
        return plan_study(self._study, self._library, sealed, pace)

    def capture(self) -> CaptureSummary:
        """Record what is missing.

        Raises:
            UsageError: another capture, or a continuation that grows, writes to this library.
            FlipscopeError: what went wrong; everything recorded so far is kept.
        """
        planned = self.plan()
        check_disk(planned, self._library)
        self._spool.mkdir(parents=True, exist_ok=True)
        with only_writer(self._library), live_capture(self._spool):
            self._record_reference()
            references = self._references()
            for runtime in self._study.candidates:
                self._record_runtime(runtime, references)
            unchanged = write_missing_comparisons(self._library / self._study.name, self._reporter)
            self._tidy()
        if not any(self._spool.iterdir()):
            self._spool.rmdir()
        present = sum(bundle.sealed for bundle in planned)
        return CaptureSummary(self._sealed, present, self._count_forks(), unchanged)

    def _tidy(self) -> None:
        """Remove the workers' logs and vocabularies; a spool that another study left unfinished stays."""
        for pattern in ("*.log", f"*{VOCABULARY}"):
            for file in self._spool.glob(pattern):
                file.unlink()

    def _record_reference(self) -> None:
        if not self._study.reference:
            for path in self._study.reference_bundles:
                _adopt(path, self._library / self._study.name / path.name)
            return
        runtime = self._study.runtime(self._study.reference)
        missing = self._missing(runtime, {})
        if not missing:
            return
        with self._session(runtime, missing[0]) as session:
            for case in missing:
                prompt, along = self._tokenized(session, case)
                stop_ids = self._study.stop_ids or session.facts.stop_ids
                recorder = self._case_recorder(session, case, prompt, stop_ids, "", len(along))
                self._seal(session, case, prompt, recorder, self._recorded(recorder, along, None), "", along)

    def _tokenized(self, session: RuntimeSession, case: Case) -> tuple[Prompt, tuple[int, ...]]:
        """Return the prompt and, where the study follows what is recorded, every token after it."""
        if self._study.follow is not Follow.RECORDED:
            return session.tokenize(case, self._study.date), ()
        found = session.tokenize_turns(case, self._study.date)
        return found.prompt, found.path

    def _recorded(
        self, recorder: CaseRecorder, path: tuple[int, ...], reference: Reference | None
    ) -> list[RecordedRun]:
        """Record what the study asks of one runtime on one case; `reference` is None for the reference itself."""
        if self._study.probe is not None:
            return [recorder.record_probe(self._study.probe.stride)]
        if self._study.follow is Follow.RECORDED:
            return recorder.record_turns(path, reference)
        return recorder.record_reference() if reference is None else recorder.record_candidate(reference)

    def _references(self) -> dict[str, Reference]:
        folder = self._library / self._study.name
        if self._study.reference_bundles:
            found = [read_reference(folder / path.name) for path in self._study.reference_bundles]
            return {reference.case.case_id: reference for reference in found}
        paths = {
            case.case_id: bundle_path(self._library, self._study, case.case_id, self._study.reference)
            for case in self._study.cases
        }
        return {case_id: read_reference(path) for case_id, path in paths.items()}

    def _record_runtime(self, runtime: Runtime, references: Mapping[str, Reference]) -> None:
        missing = self._missing(runtime, references)
        if not missing:
            return
        with self._session(runtime, missing[0]) as session:
            for case in missing:
                reference = references[case.case_id]
                check_same_vocabulary(reference, runtime.name, session.vocabulary)
                path = reference.token_ids if self._study.follow is Follow.RECORDED else ()
                recorder = self._case_recorder(
                    session, case, reference.prompt, reference.stop_ids, reference.run.run_id, len(path)
                )
                runs = self._recorded(recorder, path, reference)
                self._seal(session, case, reference.prompt, recorder, runs, reference.run.run_id, path)

    @contextmanager
    def _session(self, runtime: Runtime, case: Case) -> Iterator[RuntimeSession]:
        """Start a runtime, whose first case is told while it starts."""
        study = self._study
        tell(self._spool, Mark(study.name, case.case_id, runtime.name, "starting", "starting", 0, bundle_count(study)))
        with RuntimeSession(runtime, self._spool, self._reporter) as session:
            write_vocabulary(self._spool, runtime.name, session.vocabulary.values())
            yield session

    def _missing(self, runtime: Runtime, references: Mapping[str, Reference]) -> list[Case]:
        missing = []
        for case in self._study.cases:
            path = bundle_path(self._library, self._study, case.case_id, runtime.name)
            if not path.is_file():
                missing.append(case)
                continue
            reference = references[case.case_id].run.run_id if references else ""
            asked = definition(self._study, case, runtime, reference)
            self._check_definition(path, asked)
            shutil.rmtree(self._spool_folder(case, runtime, asked), ignore_errors=True)  # killed after sealing
        return missing

    def _spool_folder(self, case: Case, runtime: Runtime, asked: str) -> Path:
        return self._spool / f"{case.case_id}--{runtime.name}-{asked[:8]}"

    def _check_definition(self, path: Path, expected: str) -> None:
        with Bundle(path) as bundle:
            if bundle.facts.definition != expected:
                raise StudyError(
                    f"{path} was captured with other settings, and a sealed bundle is never overwritten; "
                    "give the study another name, or capture into another library"
                )

    def _case_recorder(
        self,
        session: RuntimeSession,
        case: Case,
        prompt: Prompt,
        stop_ids: tuple[int, ...],
        reference: str,
        followed: int,
    ) -> CaseRecorder:
        output = 0 if self._study.probe is not None else followed or self._study.max_tokens
        session.check_length(case.case_id, prompt, output)
        asked = definition(self._study, case, session.runtime, reference)
        folder = self._spool_folder(case, session.runtime, asked)
        session.prepare(folder)
        return CaseRecorder(self._study, session, case.case_id, prompt, stop_ids, folder, case.ranges)

    def _seal(
        self,
        session: RuntimeSession,
        case: Case,
        prompt: Prompt,
        recorder: CaseRecorder,
        runs: Sequence[RecordedRun],
        reference: str,
        path: tuple[int, ...],
    ) -> None:
        facts = BundleFacts(
            study=self._study.name,
            study_title=self._study.title,
            case=case,
            runtime=public_runtime(session.runtime),
            is_reference=not reference,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            version=VERSION,
            vocabulary_hash=vocabulary_hash(session.vocabulary.values()),
            id_spans=id_spans(list(session.vocabulary)),
            template_differs=bool(reference) and self._template_differs(session, case, prompt, path),
            stop_ids=recorder.stop_ids,
            definition=definition(self._study, case, session.runtime, reference),
        )
        target = bundle_path(self._library, self._study, case.case_id, session.runtime.name)
        write_bundle(target, facts, prompt, runs, mentioned_tokens(runs, prompt.token_ids, session.vocabulary))
        shutil.rmtree(recorder.folder)
        self._sealed += 1

    def _template_differs(self, session: RuntimeSession, case: Case, prompt: Prompt, path: tuple[int, ...]) -> bool:
        """Return whether a runtime's own template renders a case otherwise: its prompt, or what is followed."""
        try:
            own, followed = self._tokenized(session, case)
        except WorkerDiedError:
            raise
        except EngineError:
            return False  # it has no template of its own, so none that could differ
        if (own.token_ids, own.turns, followed) != (prompt.token_ids, prompt.turns, path):
            self._reporter.note(f"{session.runtime.name}: its own chat template renders {case.case_id} differently")
            return True
        return False

    def _count_forks(self) -> dict[Exactness, int]:
        counts = dict.fromkeys(Exactness, 0)
        for path in sorted((self._library / self._study.name).glob("*--*.duckdb")):
            if path.name.endswith(".comparison.duckdb"):
                continue
            with Bundle(path) as bundle:
                for run in bundle.runs:
                    if run.mode is Mode.BRANCH and run.certificate is not None:
                        counts[run.certificate.exactness] += 1
        return counts


def _with_reference_cases(study: Study) -> Study:
    """Take the cases from the reference's bundles where it is sealed: its prompts are what all lanes get."""
    if not study.reference_bundles:
        return study
    cases = {reference.case.case_id: reference.case for reference in map(read_reference, study.reference_bundles)}
    wanted = [case.case_id for case in study.cases] or list(cases)
    unknown = next((case_id for case_id in wanted if case_id not in cases), None)
    if unknown is not None:
        raise StudyError(
            f"no reference bundle of study '{study.name}' holds case '{unknown}'; leave it out with 'only'"
        )
    return replace(study, cases=tuple(cases[case_id] for case_id in wanted))


def _pace(path: Path, runtime: str) -> dict[str, float]:
    with Bundle(path) as bundle:
        free = [run for run in bundle.runs if run.mode is Mode.FREE and run.positions]
        return {runtime: free[0].seconds / free[0].positions} if free else {}


def _adopt(source: Path, target: Path) -> None:
    """Copy a sealed bundle into the library, whole or not at all; one that is there already is left alone.

    Raises:
        StudyError: another file of that name is there.
    """
    if target.is_file():
        if not filecmp.cmp(source, target, shallow=False):
            raise StudyError(
                f"{target} is another file than the reference bundle {source}, and a sealed bundle is never "
                "overwritten; give the study another name, or capture into another library"
            )
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with open(source, "rb") as reading, open(partial, "wb") as writing:
        shutil.copyfileobj(reading, writing)
        writing.flush()
        os.fsync(writing.fileno())
    os.replace(partial, target)
    sync_folder(target.parent)


@contextmanager
def only_writer(library: Path) -> Iterator[None]:
    """Hold the library for writing; `library/.spool` exists.

    Raises:
        UsageError: a capture, or a continuation that grows, writes to it.
    """
    with open(library / ".spool" / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"a capture, or a continuation that grows, is writing to {library}; wait for it or use another library"
            ) from error
        yield
