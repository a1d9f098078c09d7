"""Gathers from a library's bundles and comparisons what a report is made of, study by study. Reads files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from capture.bundle import Bundle
from capture.checks import checks_path, read_checks
from capture.compare import Comparison, Side
from capture.costs import Expense, expense_of
from capture.encoding import Encoding
from capture.errors import BundleError, ComparisonError, NotFoundError, VocabularyError
from capture.floors import FloorSample, reference_floors
from capture.model import Mode, Runtime, ScoringPath
from capture.outcomes import Outcome, bundle_outcomes
from capture.pairs import compare_bundles, comparison_path, stored_comparisons, study_pairs
from capture.samples import Sample
from capture.sampling import Kinds, encoding_of_run, range_kinds, sample_of

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs a report is about; None for all."""

    mode: Mode | None = None
    scoring_path: ScoringPath | None = None

    def holds(self, mode: Mode, scoring_path: ScoringPath) -> bool:
        """Return whether runs of this mode and scoring path are wanted."""
        return self.mode in (None, mode) and self.scoring_path in (None, scoring_path)


@dataclass(frozen=True, slots=True)
class LaneSample:
    """One candidate run against its reference.

    Attributes:
        runtime: name of the candidate.
        mode, scoring_path: of its run.
        run_id: of its run.
        dtypes: native dtypes of the reference's and the candidate's logits.
        listed: how many of the highest tokens every position keeps in both.
        sample: the positions.
        identical: whether every row is the reference's, bit for bit.
        encoding: what the candidate's rows were written in before they were imported; None for rows that are exact.
    """

    runtime: str
    mode: Mode
    scoring_path: ScoringPath
    run_id: str
    dtypes: tuple[str, str]
    listed: int
    sample: Sample
    identical: bool
    encoding: Encoding | None = None


@dataclass(slots=True)
class StudyEvidence:
    """What was found of one study; grows while its bundles are read.

    Attributes:
        study: its name.
        title: its own words.
        reference: name of the reference's runtime.
        runtimes: each runtime by its name.
        lanes: candidate runs.
        floors: the reference against itself.
        outcomes: verdicts on tool calls.
        expenses: what bundles tell of costs, by runtime.
    """

    study: str
    title: str
    reference: str
    runtimes: dict[str, Runtime] = field(default_factory=dict)
    lanes: list[LaneSample] = field(default_factory=list)
    floors: list[FloorSample] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    expenses: dict[str, list[Expense]] = field(default_factory=dict)


class _Reference:
    """A reference bundle, open, and what is read once of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bundle = Bundle(path, known=True)  # whoever found the pair has checked both
        self._sides: dict[str, tuple[Side, Kinds]] = {}

    def side(self, run_id: str) -> tuple[Side, Kinds]:
        """Return a run and its kinds of range."""
        if run_id not in self._sides:
            side = Side.of(self.bundle, run_id)
            self._sides[run_id] = side, range_kinds(self.bundle, side.steps)
        return self._sides[run_id]


def gather(folder: Path, wanted: Wanted, note: Note) -> list[StudyEvidence]:
    """Read every study below a folder.

    Files that cannot be read, and pairs that cannot be compared, are told to `note` and hide nothing else.

    Raises:
        NotFoundError: the folder does not exist or holds no pair of a reference and a candidate.
    """
    if not folder.is_dir():
        raise NotFoundError(
            f"there is no library {folder}; capture one with: flipscope capture STUDY.toml --library DIR"
        )
    gathering = _Gathering(wanted, note)
    try:
        for reference, candidate in _newest_first(study_pairs(folder, note)):
            try:
                gathering.add(reference, candidate)
            except (BundleError, ComparisonError, VocabularyError) as error:
                note(f"left out: {error}")
    finally:
        gathering.close()
    if not gathering.studies:
        raise NotFoundError(f"{folder} holds nothing to compare: a study needs its reference and another runtime")
    return [gathering.studies[name] for name in sorted(gathering.studies)]


def _newest_first(pairs: Iterable[tuple[Path, Path]]) -> list[tuple[Path, Path]]:
    """Return pairs in their order, but of several captures of a runtime on a case the newest first."""
    groups: dict[tuple[str, str, str], list[tuple[str, Path, Path]]] = {}
    for reference, candidate in pairs:
        with Bundle(candidate, known=True) as bundle:
            facts = bundle.facts
        key = (facts.study, facts.case.case_id, facts.runtime.name)
        groups.setdefault(key, []).append((facts.created, candidate, reference))
    ordered = (sorted(group, reverse=True) for group in groups.values())
    return [(reference, candidate) for group in ordered for _, candidate, reference in group]


class _Gathering:
    """Adds pairs of bundles one after the other; a reference is measured once for each study."""

    def __init__(self, wanted: Wanted, note: Note) -> None:
        self.studies: dict[str, StudyEvidence] = {}
        self._wanted = wanted
        self._note = note
        self._seen: dict[tuple[str, str, str], tuple[Path, tuple[str, ...]]] = {}
        self._counted: set[tuple[str, str, str]] = set()
        self._reference: _Reference | None = None

    def close(self) -> None:
        """Close what is open."""
        if self._reference is not None:
            self._reference.bundle.close()
            self._reference = None

    def add(self, reference_path: Path, candidate_path: Path) -> None:
        """Read a reference's and a candidate's bundle."""
        reference = self._opened(reference_path)
        path = comparison_path(reference_path, candidate_path)
        with Bundle(candidate_path, known=True) as candidate:
            comparisons = stored_comparisons(path, reference.bundle, candidate, self._note)
            if comparisons is None:
                comparisons = compare_bundles(reference.bundle, candidate)
            study = self._study(reference.bundle, candidate)
            if self._is_new(study, reference.bundle):
                self._add_bundle(study, reference.bundle, reference.bundle)
                self._add_floors(study, reference.bundle)
            if self._is_new(study, candidate):
                lanes = list(self._lanes(comparisons, reference, candidate))
                self._add_bundle(study, candidate, reference.bundle)
                study.lanes += lanes

    def _add_floors(self, study: StudyEvidence, reference: Bundle) -> None:
        """Measure a reference against itself; where that cannot be, its candidates are measured all the same."""
        try:
            study.floors += reference_floors(reference)
        except (BundleError, ComparisonError, VocabularyError) as error:
            self._note(f"the floors of {reference.path.name} are left out: {error}")

    def _opened(self, path: Path) -> _Reference:
        """Return a reference; it stays open, since the candidates of a case come one after the other."""
        if self._reference is None or self._reference.path != path:
            self.close()
            self._reference = _Reference(path)
        return self._reference

    def _study(self, reference: Bundle, candidate: Bundle) -> StudyEvidence:
        facts = candidate.facts
        return self.studies.setdefault(
            facts.study, StudyEvidence(facts.study, facts.study_title, reference.facts.runtime.name)
        )

    def _is_new(self, study: StudyEvidence, bundle: Bundle) -> bool:
        """Return whether this runtime has not been seen on this case; tell of another capture of the same."""
        key = (study.study, bundle.facts.case.case_id, bundle.facts.runtime.name)
        ids = tuple(run.run_id for run in bundle.runs)
        known = self._seen.setdefault(key, (bundle.path, ids))
        if known[0] != bundle.path and known[1] != ids:
            self._note(
                f"left out: {bundle.path.name} is another capture of {key[2]} on {key[1]} in study {key[0]}; "
                "give one of them a study name of its own"
            )
        new = key not in self._counted
        self._counted.add(key)
        return new

    def _add_bundle(self, study: StudyEvidence, bundle: Bundle, reference: Bundle) -> None:
        name = bundle.facts.runtime.name
        expense, checked = expense_of(bundle), self._checked(bundle)
        outcomes = [replace(one, check=checked.get(one.run_id, "")) for one in bundle_outcomes(bundle, reference)]
        study.runtimes.setdefault(name, bundle.facts.runtime)
        study.expenses.setdefault(name, []).append(expense)
        study.outcomes += outcomes

    def _checked(self, bundle: Bundle) -> dict[str, str]:
        """Return what the user's own check said of a bundle's runs."""
        try:
            found = read_checks(checks_path(bundle.path))
        except BundleError as error:
            self._note(f"left out: {error}")
            return {}
        return {run_id: one.verdict or "no verdict" for run_id, one in found.items()}

    def _lanes(
        self, comparisons: tuple[Comparison, ...], reference: _Reference, candidate: Bundle
    ) -> Iterator[LaneSample]:
        for comparison in comparisons:
            run = candidate.run(comparison.candidate)
            if not self._wanted.holds(run.mode, run.scoring_path):
                continue
            side, kinds = reference.side(comparison.reference)
            other = Side.of(candidate, run.run_id)
            yield LaneSample(
                runtime=candidate.facts.runtime.name,
                mode=run.mode,
                scoring_path=run.scoring_path,
                run_id=run.run_id,
                dtypes=(side.run.dtype, run.dtype),
                listed=min(side.steps.top_ids.shape[1], other.steps.top_ids.shape[1]),
                sample=sample_of(comparison, side, other, kinds),
                identical=comparison.identical,
                encoding=encoding_of_run(other),
            )
