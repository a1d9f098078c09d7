from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from capture.align import REJOIN_BYTES, SHARED_BYTES, Alignment, Line, align_lines, rejoin
from capture.ranges import find_ranges

END = "<|im_end|>"
INTRO = "I will check the interface GigabitEthernet0/1/4"
CALL = '\n<tool_call>\n{"name": "run_command", "arguments": {"device": "%s", "command": "%s"}}\n</tool_call>' + END

# Two letters and blocks of 40 bytes: texts that share long stretches, repeat themselves and come apart again.
BLOCKS = tuple(bytes(np.random.default_rng(seed).choice(list(b"abcdef "), 40).tolist()) for seed in range(3))
texts = st.lists(st.sampled_from([b"a", b"b", b" ", b".", *BLOCKS]), max_size=8).map(b"".join)
cuts = st.integers(1, 5)


def cut(text: bytes, size: int = 3) -> Line:
    tokens = tuple(text[at : at + size] for at in range(0, len(text), size))
    return Line(tokens, find_ranges(tokens))


def line(text: str) -> Line:
    """Cut a text as tokenizers do: words with the space before them, digits, special tokens."""
    parts = re.findall(r"<\|\w+\|>|</?\w+>| ?[A-Za-z]+|\d|\s|[^\sA-Za-z\d]", text)
    assert "".join(parts) == text
    tokens = tuple(part.encode() for part in parts)
    return Line(tokens, find_ranges(tokens), tuple(token == END.encode() for token in tokens))


def align(*lines: str) -> list[tuple[Alignment, str, str]]:
    """Each line's alignment with its re-joined and its novel text."""
    found = align_lines([line(text) for text in lines])
    return [
        (one, marked(line(text), one.rejoined), marked(line(text), one.novel))
        for one, text in zip(found, lines, strict=True)
    ]


def marked(one: Line, marks: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> str:
    """The marked tokens, with a bar where others lie between them."""
    parts = [token.decode() if mark else "|" for token, mark in zip(one.tokens, marks, strict=True)]
    return re.sub(r"\|+", "|", "".join(parts)).strip("|")


@pytest.fixture
def interface() -> list[tuple[Alignment, str, str]]:
    reference = INTRO + " on the interface that is connected." + CALL % ("gigabit-e-1-4", "stop-interface-1")
    same_call = INTRO + "." + CALL % ("gigabit-e-1-4", "stop-interface-1")
    other_call = INTRO + "." + CALL % ("gigabit-e-0/1/4", "shutdown")
    return align(reference, same_call, other_call)


def test_text_that_goes_on_as_the_reference_to_the_end_is_rejoined(interface: list[tuple[Alignment, str, str]]) -> None:
    alignment, rejoined, novel = interface[1]
    assert rejoined == "." + CALL % ("gigabit-e-1-4", "stop-interface-1")
    assert novel == ""
    assert alignment.rejoin is not None
    assert alignment.rejoin.to_end
    assert alignment.rejoin.token == alignment.fork == len(line(INTRO).tokens)
    assert alignment.rejoin.reference_token == len(line(INTRO + " on the interface that is connected").tokens)
    assert alignment.rejoin.byte_length == len(rejoined)


def test_text_between_stretches_is_novel_where_no_other_line_has_it(
    interface: list[tuple[Alignment, str, str]],
) -> None:
    _, rejoined, novel = interface[2]
    assert (
        rejoined
        == '.\n<tool_call>\n{"name": "run_command", "arguments": {"device": "gigabit-e-|"}}\n</tool_call>' + END
    )
    assert novel == "0/1/|shutdown"


def test_a_short_equal_stretch_inside_a_range_is_neither(interface: list[tuple[Alignment, str, str]]) -> None:
    alignment, _, _ = interface[2]
    neither = marked(
        line(INTRO + "." + CALL % ("gigabit-e-0/1/4", "shutdown")), ~(alignment.novel | alignment.rejoined)
    )
    assert neither == INTRO + '|4", "command": "'


def test_the_reference_has_no_rejoin_but_may_have_text_of_its_own(interface: list[tuple[Alignment, str, str]]) -> None:
    alignment, rejoined, novel = interface[0]
    assert alignment.rejoin is None
    assert (rejoined, novel) == ("", " on the interface that is connected")


def test_a_line_in_a_loop_leaves_the_reference_for_good() -> None:
    loop = "I will look.\n" + '<tool_call>\n{"name": "run_command", "arguments": {' + '"type": "E", ' * 20
    alignment, rejoined, novel = align("I will check." + CALL % ("a", "b"), loop)[1]
    assert rejoined == '.\n<tool_call>\n{"name": "run_command", "arguments": {"'
    assert novel.endswith('"type": "E", ')
    assert alignment.rejoin is not None
    assert not alignment.rejoin.to_end


def test_stretches_keep_their_order() -> None:
    first, second = (
        "the first sentence has thirty-two bytes or more. ",
        "and so has this one, the second of all the two. ",
    )
    _, rejoined, _ = align("A " + first + second + "x", "B " + second + first + "y")[1]
    assert rejoined.strip() in (first.strip(), second.strip())


def test_prose_that_ends_in_the_same_words_is_rejoined_and_in_a_full_stop_is_not() -> None:
    both = align("The port is up." + END, "This port is up." + END, "It has a cable." + END)
    assert both[1][1] == " port is up." + END
    assert both[2][0].rejoin is None


def test_a_stretch_up_to_the_end_of_the_thinking_counts_although_it_is_short() -> None:
    reference = "<think>It is up.</think>Yes, all of the ports are up."
    found = align(reference, "<think>All is up.</think>No, some are down now")[1]
    assert found[1] == " is up.</think>"
    assert found[0].rejoin is not None
    assert not found[0].rejoin.to_end


def test_equal_text_cut_into_other_tokens_is_rejoined_at_once() -> None:
    found = align_lines([Line((b"show", b" arp")), Line((b"sh", b"ow arp"))])[1]
    assert found.rejoin is not None
    assert (found.fork, found.rejoin.token, found.rejoin.reference_token) == (0, 0, 0)
    assert found.rejoined.all()


def test_a_token_that_holds_one_byte_of_its_own_is_novel() -> None:
    shared = b"x" * SHARED_BYTES
    found = align_lines([Line((b"1", shared + b"end")), Line((b"2", shared + b"endA"))])
    assert found[1].novel.tolist() == [True, True]
    assert found[0].novel.tolist() == [True, False]


def test_one_byte_less_than_the_rule_asks_for_is_no_rejoin() -> None:
    words = b"abcdefghijklmnopqrstuvwxyz012345"
    assert len(words) == REJOIN_BYTES
    assert rejoin(b"1" + words + b"<", b"2" + words + b">") is not None
    assert rejoin(b"1" + words[1:] + b"<", b"2" + words[1:] + b">") is None


@settings(deadline=None)
@given(texts)
def test_the_same_text_rejoins_at_its_first_byte(text: bytes) -> None:
    text = b"a" + text + b"z"
    found = rejoin(text, text)
    assert found is not None
    assert (found.first, found.second, found.length) == (0, 0, len(text))


@settings(deadline=None)
@given(st.binary(min_size=1), st.binary(min_size=1))
def test_texts_without_a_byte_in_common_do_not_rejoin(first: bytes, second: bytes) -> None:
    assert rejoin(bytes(byte | 0x80 for byte in first), bytes(byte & 0x7F for byte in second)) is None


@settings(deadline=None)
@given(texts, texts)
@example(BLOCKS[0] * 3, BLOCKS[0] * 2 + b"b")
def test_there_is_a_rejoin_wherever_the_rule_finds_one(reference: bytes, continuation: bytes) -> None:
    long_enough = any(
        continuation[at : at + REJOIN_BYTES] in reference for at in range(len(continuation) - REJOIN_BYTES + 1)
    )
    if long_enough:
        assert rejoin(reference, continuation) is not None


@settings(deadline=None)
@given(texts, texts, cuts, cuts)
def test_what_a_rejoin_says_to_be_equal_is_equal(reference: bytes, text: bytes, size: int, other: int) -> None:
    lines = [cut(reference, size), cut(text, other)]
    found = align_lines(lines)[1]
    assert (found.rejoin is not None) == found.rejoined.any()
    if found.rejoin is not None:
        assert found.rejoin.token == int(found.rejoined.argmax()) >= found.fork
        assert found.rejoin.reference_token >= found.fork
        equal = b"".join(lines[1].tokens[found.rejoin.token :])[: found.rejoin.byte_length]
        assert len(equal) == found.rejoin.byte_length
        assert equal in b"".join(lines[0].tokens[found.rejoin.reference_token :])[: len(equal) + size]


@settings(deadline=None)
@given(texts, texts)
def test_rejoined_text_occurs_in_the_reference_in_order(reference: bytes, text: bytes) -> None:
    line_of_reference, line_of_text = cut(reference, 1), cut(text, 1)
    found = align_lines([line_of_reference, line_of_text])[1]
    runs = np.split(np.flatnonzero(found.rejoined), np.flatnonzero(np.diff(np.flatnonzero(found.rejoined)) > 1) + 1)
    at = found.fork
    for run in runs:
        if len(run):
            part = text[run[0] : run[-1] + 1]
            # Neighbouring stretches may be one run here, so look for its bytes one after the other.
            for byte in part:
                at = reference.index(byte, at) + 1


@settings(deadline=None)
@given(st.lists(texts, min_size=2, max_size=4), cuts)
def test_novel_and_rejoined_text_are_disjoint_and_shared_text_is_never_novel(parts: list[bytes], size: int) -> None:
    lines = [cut(text, size) for text in parts]
    for text, one, found in zip(parts, lines, align_lines(lines), strict=True):
        assert not (found.novel & found.rejoined).any()
        assert len(found.novel) == len(found.rejoined) == len(one.tokens)
        others = [other for other in lines if other is not one]
        for token in np.flatnonzero(found.novel):
            assert all(other.tokens[: token + 1] != one.tokens[: token + 1] for other in others)
        assert not (found.novel.any() and text in parts[: lines.index(one)])


@settings(deadline=None)
@given(texts, texts)
def test_novel_text_is_what_no_window_of_the_other_line_covers(first: bytes, second: bytes) -> None:
    found = align_lines([cut(first, 1), cut(second, 1)])[1]
    fork = found.fork
    covered = set(range(fork))
    for at in range(fork, len(second) - SHARED_BYTES + 1):
        if second[at : at + SHARED_BYTES] in first[fork:]:
            covered |= set(range(at, at + SHARED_BYTES))
    expected = [at not in covered and not found.rejoined[at] for at in range(len(second))]
    assert found.novel.tolist() == expected


def test_a_single_line_has_nothing_novel_and_lines_may_be_empty() -> None:
    assert not align_lines([line("alone")])[0].novel.any()
    empty = align_lines([Line(()), Line((b"", b"a")), Line((b"",))])
    assert [len(found.novel) for found in empty] == [0, 2, 1]


def test_a_hundred_kilobytes_of_text_and_of_loops_are_aligned() -> None:
    random = np.random.default_rng(0)
    words = [bytes(random.choice(list(b"abcdefgh"), 7).tolist()) + b" " for _ in range(500)]
    base = [words[at] for at in random.integers(0, 500, 13_000)]
    edited = [*base[:50], b"other ", *base[60:9_000], b"more ", *base[9_000:]]
    loop = [*base[:40], *[b'"key": "value", '] * 6_000]
    found = align_lines([Line(tuple(base)), Line(tuple(edited)), Line(tuple(loop))])
    assert marked(Line(tuple(edited)), found[1].novel) == "other |more "
    assert int((~found[1].rejoined[51:]).sum()) == 1
    assert found[2].rejoin is None


def test_punctuation_alone_is_no_rejoin() -> None:
    assert rejoin(b"a..", b"...") is None
    assert rejoin(b"..", b"..") is None


def test_a_line_that_is_cut_while_it_runs_along_stays_to_its_end() -> None:
    tail = "so the partial sums are rounded differently and the two candidates swap places."
    cut_line, whole = align("The order changes, " + tail, "A factor is chosen, " + tail[:60])[1][0], tail
    assert cut_line.rejoin is not None
    assert cut_line.rejoin.to_end
    gone = align("The order changes, " + whole, "A factor is chosen, " + whole[:60] + " and more")[1][0]
    assert gone.rejoin is not None
    assert not gone.rejoin.to_end
