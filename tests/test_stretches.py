from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture import stretches
from capture.model import UInt8Array
from capture.stretches import Candidate, Stretch, common_suffix, find_stretches, hashes

LEAST = 8
# Pieces of 8 bytes and single letters: texts that share, repeat and swap stretches.
pieces = st.sampled_from([b"abcdefgh", b"hgfedcba", b"aaaaaaaa", b"abababab", b"a", b"b", b"x"])
texts = st.lists(pieces, max_size=10).map(b"".join)


def array(text: bytes) -> UInt8Array:
    return np.frombuffer(text, dtype=np.uint8)


def covered(stretches: tuple[Stretch, ...]) -> int:
    return sum(stretch.length for stretch in stretches)


@settings(deadline=None)
@given(texts, texts)
def test_stretches_are_equal_long_enough_and_in_order(first: bytes, second: bytes) -> None:
    found = find_stretches(array(first), array(second), LEAST)
    for one in found:
        assert one.length >= LEAST
        assert first[one.first :][: one.length] == second[one.second :][: one.length]
        assert len(first[one.first :][: one.length]) == one.length
    for one, after in pairwise(found):
        assert one.first + one.length <= after.first
        assert one.second + one.length <= after.second


@settings(deadline=None)
@given(texts, texts)
def test_there_is_a_stretch_exactly_where_the_texts_share_a_window(first: bytes, second: bytes) -> None:
    windows = {first[at : at + LEAST] for at in range(len(first) - LEAST + 1)}
    shared = any(second[at : at + LEAST] in windows for at in range(len(second) - LEAST + 1))
    assert bool(find_stretches(array(first), array(second), LEAST)) is shared


@settings(deadline=None)
@given(texts, st.integers(0, 40), st.integers(0, 8))
def test_a_text_with_a_piece_cut_out_is_covered_around_it(text: bytes, at: int, length: int) -> None:
    text = bytes(range(100, 140)) + text + bytes(range(200, 240))
    cut = text[:at] + text[at + length :]
    missed = len(cut) - covered(find_stretches(array(cut), array(text), LEAST))
    assert missed < 2 * LEAST


def test_the_longer_of_two_that_cross_is_chosen() -> None:
    first, second = b"01234567", b"abcdefghijklm"
    (found,) = find_stretches(array(first + second), array(second + first), LEAST)
    assert found == Stretch(8, 0, len(second))


def test_repeats_are_also_paired_from_the_end() -> None:
    one, other = b"abcdefgh", b"01234567"
    found = find_stretches(array(one + b"." + other), array(other + b"," + one + b";" + other), LEAST)
    assert found == (Stretch(0, 9, 8), Stretch(9, 18, 8))


def test_a_repeat_in_the_middle_is_found_by_what_follows_it() -> None:
    one, tail = b"abcdefgh", b"01234567"
    found = find_stretches(array(one + b"." + one + tail + b";" + one), array(b"," + one + tail), LEAST)
    assert found == (Stretch(9, 1, 16),)


@settings(deadline=None)
@given(texts, texts)
def test_the_first_stretch_could_not_start_earlier(first: bytes, second: bytes) -> None:
    for one in find_stretches(array(first), array(second), LEAST)[:1]:
        assert common_suffix(array(first[: one.first]), array(second[: one.second])) == 0


def test_windows_that_share_a_hash_by_accident_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "hashes", lambda data, length: np.zeros(len(data) - length + 1, dtype=np.uint64))
    assert find_stretches(array(b"abcdefgh"), array(b"abcdefgx"), LEAST) == ()
    assert find_stretches(array(b"abcdefgh"), array(b"abcdefgh"), LEAST) == (Stretch(0, 0, 8),)


def test_where_two_overlap_the_later_one_gives_way() -> None:
    found = find_stretches(array(b"0123456789abcdefgh"), array(b"0123456789" + b"89abcdefgh"), LEAST)
    assert found == (Stretch(0, 0, 10), Stretch(10, 12, 8))


def test_a_further_candidate_may_be_shorter_and_is_kept_whole_enough() -> None:
    first, second = array(b"0123456789xyz"), array(b"0123456789.xyz")
    assert find_stretches(first, second, LEAST, [Candidate(Stretch(10, 11, 3), 3)]) == (
        Stretch(0, 0, 10),
        Stretch(10, 11, 3),
    )
    overlapping = Candidate(Stretch(9, 9, 2), 2)
    assert find_stretches(first, second, LEAST, [overlapping]) == (Stretch(0, 0, 10),)


@given(st.binary(max_size=60), st.sampled_from([8, 16, 32]))
def test_equal_windows_have_equal_hashes(data: bytes, length: int) -> None:
    found = hashes(array(data + data), length).tolist()
    windows = [(data + data)[at : at + length] for at in range(max(0, 2 * len(data) - length + 1))]
    assert len(found) == len(windows)
    assert len(set(found)) == len(set(windows))


@pytest.mark.parametrize(
    ("first", "second", "length"), [(b"", b"", 0), (b"abc", b"xbc", 2), (b"bc", b"abc", 2), (b"a", b"b", 0)]
)
def test_a_common_suffix_is_counted_from_the_end(first: bytes, second: bytes, length: int) -> None:
    assert common_suffix(array(first), array(second)) == length
