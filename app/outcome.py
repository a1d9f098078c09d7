"""What a runtime's own free run came to, in a few words: the verdict on its calls, and how it ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.pair_summary import Outcome
from capture.consequences import AGREES, Tone, consequence_pills, worst_tone
from capture.errors import CaseError
from capture.model import Case, Run
from capture.toolcalls import CallVerdict, Verdict, verdict


def outcome_of(reference: Sequence[bytes], output: Sequence[bytes], case: Case, run: Run | None) -> Outcome | None:
    """Return the outcome of a run; None where there is no run.

    Args:
        reference: the bytes of each token of the reference's own output.
        output: those of the run's.
        case: its label decides where it has one, else the reference's calls do.
        run: how it ended counts.
    """
    if run is None or not output:
        return None
    text, yardstick = b"".join(output), b"".join(reference)
    label, against = _label_verdict(text, case), verdict(text, case.tools, None, yardstick)
    found = label or against
    pills = consequence_pills(found, run.ending)
    tone = max(worst_tone(pills), Tone.SAME if found.verdict in AGREES else Tone.NEUTRAL, key=list(Tone).index)
    words = "no call" if found.verdict is Verdict.NO_CALL or not pills else pills[0].text
    as_reference = _wanted(against) if yardstick else None
    return Outcome(words, tone.value, _wanted(found), label is not None, as_reference, _wanted(label))


def _wanted(found: CallVerdict | None) -> bool | None:
    """Return whether calls are the wanted ones; None where none was wanted or made."""
    return None if found is None or found.verdict is Verdict.NO_CALL else found.verdict in AGREES


def _label_verdict(text: bytes, case: Case) -> CallVerdict | None:
    if case.expected_calls is None:
        return None
    try:
        return verdict(text, case.tools, case.expected_calls)
    except CaseError:  # a label that cannot be read says nothing
        return None
