"""The values of a report: a study's sections, one a mode and scoring path, with floors, ranking, verdicts and costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from capture.costs import Cost, cost_of
from capture.divergence import nearness
from capture.encoding import Encoding
from capture.evidence import LaneSample, StudyEvidence
from capture.floors import FloorKind, FloorSample
from capture.model import Mode, ScoringPath
from capture.outcomes import Outcome, has_calls, wanted
from capture.perplexity import Perplexity, perplexity, unknown_tokens
from capture.ranking import Ranked, rank
from capture.samples import CONFIDENCE_EDGES, KINDS, Sample, of_confidence, of_kind
from capture.summary import Summary, summarize
from capture.toolcalls import Verdict

ORDER = (
    (Mode.FORCED, ScoringPath.DECODE),
    (Mode.FORCED, ScoringPath.PREFILL),
    (Mode.FREE, ScoringPath.DECODE),
    (Mode.FREE, ScoringPath.PREFILL),
)
"""The sections of a study: those that score every position of the reference's tokens first."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A summary over a part of the positions, and what that part is called."""

    name: str
    summary: Summary


@dataclass(frozen=True, slots=True)
class LaneReport:
    """One runtime against the reference, in one mode and scoring path.

    Attributes:
        runtime, label: its name, and what people call it.
        summary: over all cases.
        perplexity: over the reference's tokens; None unless every token's probability is known in both.
        unknown_tokens: how many are not.
        by_case: each case is one run, so that its intervals come from blocks of it.
        by_kind: kinds of range that occur.
        by_confidence: buckets of the reference's confidence that occur, from unsure to sure.
        identical: whether every row of every case is the reference's, bit for bit.
    """

    runtime: str
    label: str
    summary: Summary
    perplexity: Perplexity | None
    unknown_tokens: int
    by_case: tuple[Scope, ...]
    by_kind: tuple[Scope, ...]
    by_confidence: tuple[Scope, ...]
    identical: bool


@dataclass(frozen=True, slots=True)
class FloorReport:
    """The reference against itself.

    Attributes:
        kind: what was repeated.
        summary: over all cases.
        perplexity: as for a lane.
        identical: whether every row is the same, bit for bit.
    """

    kind: FloorKind
    summary: Summary
    perplexity: Perplexity | None
    identical: bool


@dataclass(frozen=True, slots=True)
class Section:
    """The lanes of one mode and scoring path; others are never pooled with them.

    Attributes:
        mode, scoring_path: of the candidates' runs.
        dtypes: of the logits of all lanes, the reference's among them.
        listed: how many of the highest tokens every position keeps.
        lanes: by name.
        floors: replica, then benign control, where the reference has them.
        ranking: the lanes, nearest to the reference first.
        encoding: the coarsest code that rows were written in before they were imported; None for rows that are exact.
    """

    mode: Mode
    scoring_path: ScoringPath
    dtypes: tuple[str, ...]
    listed: int
    lanes: tuple[LaneReport, ...]
    floors: tuple[FloorReport, ...]
    ranking: tuple[Ranked, ...]
    encoding: Encoding | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    count: int
    of: int


@dataclass(frozen=True, slots=True)
class Choice:
    """A row of "which should I use": how near a runtime is, beside what it costs; see `costs.Cost`.

    Attributes:
        runtime, label: its name, and what people call it.
        is_reference: whether it is the yardstick, of which nothing but costs and calls is told.
        summary: of the study's first section; None for the reference.
        calls_as_reference: free runs whose calls are the reference's, of those in which either called.
        calls_as_labelled: the same of the label, over the cases that have one.
        cost: as captured.
    """

    runtime: str
    label: str
    is_reference: bool
    summary: Summary | None
    calls_as_reference: Share
    calls_as_labelled: Share
    cost: Cost


@dataclass(frozen=True, slots=True)
class StudyReport:
    """All that a report says of one study.

    Attributes:
        study, title: its name and its own words.
        reference, reference_label: the yardstick's name, and what people call it.
        cases: the cases that were compared.
        sections: in `ORDER`.
        outcomes: verdicts on calls: of free runs, then of continuations.
        choices: the reference first, then the nearest by `divergence.nearness` in the first section.
        not_told: what the sources of imported bundles do not tell, in the importer's words.
    """

    study: str
    title: str
    reference: str
    reference_label: str
    cases: tuple[str, ...]
    sections: tuple[Section, ...]
    outcomes: tuple[Outcome, ...]
    choices: tuple[Choice, ...]
    not_told: tuple[str, ...]


def study_report(evidence: StudyEvidence) -> StudyReport:
    """Summarize what was found of a study."""
    sections = tuple(found for key in ORDER if (found := _section(evidence, *key)) is not None)
    outcomes = sorted(
        evidence.outcomes,
        key=lambda one: (one.fork_position is not None, one.runtime, one.case_id, one.fork_position or 0),
    )
    return StudyReport(
        study=evidence.study,
        title=evidence.title,
        reference=evidence.reference,
        reference_label=_label(evidence, evidence.reference),
        cases=tuple(sorted({lane.sample.case_id for lane in evidence.lanes})),
        sections=sections,
        outcomes=tuple(outcomes),
        choices=_choices(evidence, sections),
        not_told=tuple(
            sorted({one.not_told for expenses in evidence.expenses.values() for one in expenses if one.not_told})
        ),
    )


def _label(evidence: StudyEvidence, runtime: str) -> str:
    return evidence.runtimes[runtime].label or runtime


def _section(evidence: StudyEvidence, mode: Mode, scoring_path: ScoringPath) -> Section | None:
    lanes = [lane for lane in evidence.lanes if (lane.mode, lane.scoring_path) == (mode, scoring_path)]
    if not lanes:
        return None
    names = sorted({lane.runtime for lane in lanes})
    by_name = {name: [lane for lane in lanes if lane.runtime == name] for name in names}
    return Section(
        mode=mode,
        scoring_path=scoring_path,
        dtypes=tuple(sorted({dtype for lane in lanes for dtype in lane.dtypes})),
        listed=min(lane.listed for lane in lanes),
        lanes=tuple(_lane(name, _label(evidence, name), by_name[name]) for name in names),
        floors=tuple(_floors(evidence.floors, scoring_path)),
        ranking=rank({name: [lane.sample for lane in found] for name, found in by_name.items()}),
        encoding=max((lane.encoding for lane in lanes if lane.encoding), key=lambda one: one.step_nats, default=None),
    )


def _lane(name: str, label: str, lanes: Sequence[LaneSample]) -> LaneReport:
    samples = [lane.sample for lane in lanes]
    return LaneReport(
        runtime=name,
        label=label,
        summary=summarize(samples),
        perplexity=perplexity(samples),
        unknown_tokens=unknown_tokens(samples),
        by_case=tuple(Scope(sample.case_id, summarize([sample], pooled=False)) for sample in samples),
        by_kind=tuple(_scopes((kind.value, of_kind(samples, kind)) for kind in KINDS)),
        by_confidence=tuple(
            _scopes((bucket_name(bucket), of_confidence(samples, bucket)) for bucket in range(len(BUCKETS)))
        ),
        identical=all(lane.identical for lane in lanes),
    )


def bucket_name(bucket: int) -> str:
    """Return what a bucket of confidence is called: its edges in percent."""
    low, high = CONFIDENCE_EDGES[bucket : bucket + 2]
    return f"{100 * low:.0f}\u2013{100 * high:.0f} %"


BUCKETS = tuple(map(bucket_name, range(len(CONFIDENCE_EDGES) - 1)))
"""The buckets of confidence, from unsure to sure."""


def _scopes(parts: Iterable[tuple[str, Sequence[Sample]]]) -> Iterable[Scope]:
    return (Scope(name, summarize(samples)) for name, samples in parts if samples)


def _floors(floors: Sequence[FloorSample], scoring_path: ScoringPath) -> Iterable[FloorReport]:
    for kind in FloorKind:
        found = [
            floor
            for floor in floors
            if floor.kind is kind and (kind is FloorKind.CONTROL or floor.scoring_path is scoring_path)
        ]
        if found:
            samples = [floor.sample for floor in found]
            identical = all(floor.identical for floor in found)
            yield FloorReport(kind, summarize(samples), perplexity(samples), identical)


def _choices(evidence: StudyEvidence, sections: Sequence[Section]) -> tuple[Choice, ...]:
    lanes = {lane.runtime: lane.summary for lane in sections[0].lanes} if sections else {}
    found = [
        _choice(evidence, name, lanes.get(name)) for name in dict.fromkeys((evidence.reference, *evidence.runtimes))
    ]
    return tuple(sorted(found, key=lambda one: (not one.is_reference, _nearness(one))))


def _nearness(choice: Choice) -> tuple[bool, float, float, str]:
    summary = choice.summary
    main = None if summary is None else summary.main
    return nearness(
        None if main is None else main.kl_forward.mean,
        None if summary is None else summary.disagreement.rate,
        choice.label,
    )


def _choice(evidence: StudyEvidence, name: str, summary: Summary | None) -> Choice:
    free = [one for one in evidence.outcomes if one.runtime == name and one.fork_position is None]
    return Choice(
        runtime=name,
        label=_label(evidence, name),
        is_reference=name == evidence.reference,
        summary=summary,
        calls_as_reference=_share([one.reference for one in free]),
        calls_as_labelled=_share([one.label for one in free]),
        cost=cost_of(evidence.expenses.get(name, [])),
    )


def _share(verdicts: Sequence[Verdict | None]) -> Share:
    return Share(sum(map(wanted, verdicts)), sum(map(has_calls, verdicts)))
