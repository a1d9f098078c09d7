from __future__ import annotations

import pytest

from capture.consequences import Loop, Pill, Tone, consequence_pills, find_loop, with_rejoin
from capture.model import Ending
from capture.toolcalls import CallVerdict, Verdict, verdict

CALL = b'<tool_call>\n{"name": "ping", "arguments": {"host": "a"}}\n</tool_call>'

SAME = CallVerdict(Verdict.SAME, "same call")


@pytest.mark.parametrize(
    ("token_ids", "loop"),
    [
        ([7] * 16, Loop(1, 16, 0)),
        ([7] * 15, None),
        ([*range(50), *[1, 2] * 12], Loop(2, 12, 50)),
        ([*range(50), *[1, 2, 3] * 8, 1], Loop(3, 8, 51)),
        ([*range(20)] * 3, Loop(20, 3, 0)),
        ([*range(20)] * 2, None),
        ([*range(256)] * 3, Loop(256, 3, 0)),
        ([*range(257)] * 3, None),
        ([*range(100)], None),
        ([], None),
    ],
)
def test_a_loop_is_three_whole_blocks_and_16_tokens(token_ids: list[int], loop: Loop | None) -> None:
    assert find_loop(token_ids) == loop


def test_a_loop_counts_only_where_the_length_cut_the_output() -> None:
    loop = Loop(1, 20, 3)
    assert consequence_pills(SAME, Ending.LENGTH, loop)[1:] == (Pill("in a loop of 1 token", Tone.BROKEN),)
    assert consequence_pills(SAME, Ending.END_OF_SEQUENCE, loop)[1:] == ()


@pytest.mark.parametrize("kept", range(len(b"<tool_call>\n{"), len(CALL) - len(b"</tool_call>")))
def test_a_call_that_the_length_cut_is_not_malformed(kept: int) -> None:
    found = verdict(CALL[:kept], (), None, CALL)
    assert consequence_pills(found, Ending.LENGTH) == (Pill("ended by length inside a call", Tone.NEUTRAL),)
    assert consequence_pills(found, Ending.INTERRUPTED) == (Pill("interrupted inside a call", Tone.BROKEN),)
    assert consequence_pills(found, Ending.END_OF_SEQUENCE)[0].tone is Tone.BROKEN


def test_an_output_without_a_call_is_as_labelled_where_no_call_is_right() -> None:
    none = verdict(b"text")
    assert consequence_pills(none, Ending.PATH, label=verdict(b"text", (), ())) == (Pill("as labelled", Tone.SAME),)
    missing = verdict(b"text", (), ({"name": "ping", "arguments": {}},))
    assert consequence_pills(none, Ending.PATH, label=missing) == (Pill("not as labelled", Tone.NEUTRAL),)


def test_the_reference_has_the_reference_call() -> None:
    assert consequence_pills(SAME, Ending.PATH, is_reference=True) == (Pill("reference call", Tone.NEUTRAL),)


def test_a_rejoin_is_said_with_the_call_that_is_the_same_else_alone() -> None:
    different = Pill("different arguments: host", Tone.DIFFERENT)
    assert with_rejoin([Pill("same call", Tone.SAME)]) == (Pill("same call · re-joined", Tone.SAME),)
    assert with_rejoin([different]) == (different, Pill("re-joined", Tone.NEUTRAL))
