"""What the tool calls of recorded outputs came to: one verdict for each free run and each continuation of a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capture.bundle import Bundle
from capture.compare import reference_run
from capture.errors import CaseError, ComparisonError, NotFoundError
from capture.model import Case, Ending, Int32Array, Mode, Run
from capture.toolcalls import CallVerdict, Verdict, verdict
from capture.turns import Turn, is_labelled, turn_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdicts on the calls of one output.

    Attributes:
        case_id: the case.
        runtime: who wrote it.
        run_id: the run.
        fork_position: where a continuation begins; None for a free run.
        reference: against the calls of the reference's free run; None where there is no such run, and for that run.
        label: against the case's label; None where it has none that can be read.
        detail: the first of both that there is as a short phrase, one line of printable characters.
        cut: whether the output was cut inside of a call, so that the call is not finished rather than wrong.
        check: what the user's own check said, a short line; empty where none was asked.
    """

    case_id: str
    runtime: str
    run_id: str
    fork_position: int | None
    reference: Verdict | None
    label: Verdict | None
    detail: str
    cut: bool
    check: str = ""


def wanted(verdict: Verdict | None) -> bool:
    """Return whether calls are those that are wanted, nothing more and nothing less."""
    return verdict in (Verdict.SAME, Verdict.EQUIVALENT)


def has_calls(verdict: Verdict | None) -> bool:
    """Return whether a call was made or wanted."""
    return verdict not in (None, Verdict.NO_CALL)


def bundle_outcomes(bundle: Bundle, reference: Bundle) -> Iterator[Outcome]:
    """Yield the outcome of every free run and continuation of a bundle; replicas do not count.

    Nothing is told of a continuation whose parent is in another bundle. Of a recorded conversation, only the turn that
    a continuation left counts, and a label is about the answer that the conversation ends with.
    """
    yardstick = _free_run(reference)
    text = None if yardstick is None else output_bytes(reference, yardstick)
    for run in bundle.runs:
        if run.mode is Mode.FORCED or run.replica:
            continue
        output = answer_bytes(bundle, run)
        if output is not None:
            own = yardstick is not None and run.run_id == yardstick.run_id
            yield _outcome(bundle, run, output, None if own else text)


def _outcome(bundle: Bundle, run: Run, text: bytes, reference_text: bytes | None) -> Outcome:
    case = bundle.facts.case
    against = None if reference_text is None else verdict(text, case.tools, None, reference_text)
    label = _label_verdict(text, case) if is_labelled(case, bundle.prompt.turns, left_turn(bundle, run)) else None
    told = against or label or verdict(text, case.tools)
    return Outcome(
        case_id=case.case_id,
        runtime=bundle.facts.runtime.name,
        run_id=run.run_id,
        fork_position=None if run.fork is None else run.fork.position,
        reference=None if against is None else against.verdict,
        label=None if label is None else label.verdict,
        detail=told.detail,
        cut=told.never_closed and run.ending in (Ending.LENGTH, Ending.INTERRUPTED),
    )


def _label_verdict(text: bytes, case: Case) -> CallVerdict | None:
    if case.expected_calls is None:
        return None
    try:
        return verdict(text, case.tools, case.expected_calls)
    except CaseError:  # a label that cannot be read says nothing
        return None


def _free_run(reference: Bundle) -> Run | None:
    try:
        run = reference_run(reference)
    except ComparisonError:
        return None
    return run if run.mode is Mode.FREE else None


def left_turn(bundle: Bundle, run: Run) -> Turn | None:
    """Return the recorded turn that a continuation left; None where it left none."""
    runs = {one.run_id: one for one in bundle.runs}
    fork, passed = run.fork, 0
    while fork is not None and passed < len(runs):
        parent = runs.get(fork.parent_run)
        if parent is None or parent.fork is None:
            break
        fork, passed = parent.fork, passed + 1
    return None if fork is None else turn_of(bundle.prompt.turns, fork.position)


def answer_bytes(bundle: Bundle, run: Run) -> bytes | None:
    """Return the bytes of a run's output from the recorded turn on that it left, else of its whole output.

    None where what came before its fork is elsewhere.
    """
    turn = left_turn(bundle, run)
    return output_bytes(bundle, run, 0 if turn is None else turn[0])


def output_bytes(bundle: Bundle, run: Run, first: int = 0, stop: int | None = None) -> bytes | None:
    """Return the bytes of a run's output, what came before its fork included; None where that is elsewhere.

    Args:
        bundle: holds the run.
        run: one of its runs.
        first: output position to start at.
        stop: output position to stop before; None for the end.
    """
    ids = _output_ids(bundle, run, len(bundle.runs))
    if ids is None:
        return None
    ids = ids[first:stop]
    tokens = bundle.tokens()
    return b"".join(tokens[token_id].data for token_id in ids if token_id in tokens)


def _output_ids(bundle: Bundle, run: Run, most_parents: int) -> list[int] | None:
    steps = bundle.steps(run.run_id)
    own: Int32Array = steps.token_id
    first = int(steps.position[0]) if len(steps) else 0
    if run.fork is None or not first:
        return own.tolist() if not first else None
    try:
        parent = bundle.run(run.fork.parent_run)
    except NotFoundError:
        return None
    head = _output_ids(bundle, parent, most_parents - 1) if most_parents else None
    return None if head is None or len(head) < first else head[:first] + own.tolist()
