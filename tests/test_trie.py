from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.errors import ComparisonError, NotFoundError
from capture.model import PrefixId
from capture.prefix import output_prefixes, prefix_of
from capture.trie import FIRST_WINDOW, Stream, Trie, build, common_length

PROMPT = [7, 7, 9]
START = prefix_of(PROMPT)
# Few distinct tokens, so that streams share prefixes, end inside one another and are equal.
token_lists = st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=6)


def streams_of(lists: Sequence[Sequence[int]]) -> list[Stream]:
    return [Stream(f"run{index}", START, np.array(tokens, dtype=np.int32)) for index, tokens in enumerate(lists)]


def trie_of(*lists: Sequence[int]) -> Trie:
    return build(streams_of(lists))


def shape(trie: Trie) -> set[tuple[int, tuple[int, ...], frozenset[str], frozenset[str], bytes]]:
    """A trie without its order."""
    return {
        (
            segment.first_position,
            tuple(segment.token_ids.tolist()),
            frozenset(segment.keys),
            frozenset(segment.ended),
            segment.prefix_id,
        )
        for segment in trie.segments
    }


@settings(deadline=None)
@given(token_lists)
def test_every_stream_can_be_read_back_from_the_root(lists: list[list[int]]) -> None:
    trie = trie_of(*lists)
    (root,) = trie.roots
    for index, tokens in enumerate(lists):
        path = trie.path_of(f"run{index}")
        assert trie.tokens_of(f"run{index}").tolist() == tokens
        assert path[0] is root
        assert [segment.parent for segment in path[1:]] == [segment.index for segment in path[:-1]]
        assert [segment.first_position for segment in path[1:]] == [segment.stop for segment in path[:-1]]
        assert f"run{index}" in path[-1].ended


@settings(deadline=None)
@given(token_lists)
def test_two_streams_share_segments_up_to_their_longest_common_prefix(lists: list[list[int]]) -> None:
    trie = trie_of(*lists)
    for i, first in enumerate(lists):
        for j, second in enumerate(lists):
            common = next(
                (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
                min(len(first), len(second)),
            )
            shared = set(trie.paths[f"run{i}"]) & set(trie.paths[f"run{j}"])
            assert sum(len(trie.segments[index].token_ids) for index in shared) == common
            assert trie.parting(f"run{i}", f"run{j}") == common


@settings(deadline=None)
@given(token_lists)
def test_the_forks_are_the_prefixes_with_two_recorded_next_tokens(lists: list[list[int]]) -> None:
    followers: dict[tuple[int, ...], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for index, tokens in enumerate(lists):
        for position, token in enumerate(tokens):
            followers[tuple(tokens[:position])][token].add(f"run{index}")
    expected = {
        (len(before), prefix_of([*PROMPT, *before])): {token: frozenset(keys) for token, keys in after.items()}
        for before, after in followers.items()
        if len(after) > 1
    }
    found = trie_of(*lists).forks()
    assert {
        (fork.position, fork.prefix_id): {choice.token_id: frozenset(choice.keys) for choice in fork.choices}
        for fork in found
    } == expected
    assert [fork.position for fork in found] == sorted(fork.position for fork in found)


@settings(deadline=None)
@given(token_lists)
def test_a_fork_names_the_streams_that_end_there(lists: list[list[int]]) -> None:
    for fork in trie_of(*lists).forks():
        ended = {f"run{i}" for i, tokens in enumerate(lists) if prefix_of([*PROMPT, *tokens]) == fork.prefix_id}
        assert set(fork.ended) == ended


@settings(deadline=None)
@given(st.data())
def test_the_order_of_the_streams_does_not_change_the_structure(data: st.DataObject) -> None:
    streams = streams_of(data.draw(token_lists))
    assert shape(build(data.draw(st.permutations(streams)))) == shape(build(streams))


@settings(deadline=None)
@given(token_lists)
def test_no_segment_could_be_longer(lists: list[list[int]]) -> None:
    trie = trie_of(*lists)
    for segment in trie.segments:
        assert len(segment.token_ids) or segment.parent is None
        if len(segment.children) == 1:
            assert set(trie.segments[segment.children[0]].keys) != set(segment.keys)


@settings(deadline=None)
@given(token_lists)
def test_recorded_prefix_ids_are_used_as_computed_ones(lists: list[list[int]]) -> None:
    recorded = [
        Stream(stream.key, START, stream.token_ids, 0, output_prefixes(PROMPT, stream.token_ids.tolist()))
        for stream in streams_of(lists)
    ]
    assert shape(build(recorded)) == shape(trie_of(*lists))


@settings(deadline=None)
@given(token_lists, st.data())
def test_a_stream_that_starts_later_joins_where_the_prefix_is_the_same(
    lists: list[list[int]], data: st.DataObject
) -> None:
    whole = max(lists, key=len)
    cut = data.draw(st.integers(0, len(whole)))
    tail = [*whole[cut:], *data.draw(st.lists(st.integers(0, 2), max_size=3))]
    late = Stream("late", prefix_of([*PROMPT, *whole[:cut]]), np.array(tail, dtype=np.int32), cut)
    trie = build([late, *streams_of(lists)])
    assert len(trie.roots) == 1
    assert trie.tokens_of("late").tolist() == tail
    assert all(trie.tokens_of(f"run{index}").tolist() == tokens for index, tokens in enumerate(lists))
    for segment in trie.segments:
        keys = [key for key in segment.keys if key != "late"]
        before = lists[int(keys[0].removeprefix("run"))] if keys else [*whole[:cut], *tail]
        assert segment.prefix_id == prefix_of([*PROMPT, *before[: segment.first_position]])


def test_lanes_that_agree_are_one_segment_and_a_fork_makes_two() -> None:
    trie = trie_of([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 9])
    trunk, stayed, left = trie.segments
    assert (trunk.token_ids.tolist(), trunk.keys) == ([1, 2], ("run0", "run1", "run2"))
    assert (stayed.token_ids.tolist(), stayed.keys, stayed.first_position) == ([3, 4], ("run0", "run1"), 2)
    assert (left.token_ids.tolist(), left.keys, left.ended) == ([9], ("run2",), ("run2",))
    assert trunk.children == (1, 2)
    (fork,) = trie.forks()
    assert fork.position == 2
    assert fork.prefix_id == prefix_of([*PROMPT, 1, 2])


def test_the_child_of_the_stream_given_first_comes_first() -> None:
    streams = streams_of([[1, 5], [1, 4], [1, 3]])
    trie = build([streams[2], streams[0], streams[1]])
    assert [choice.keys for choice in trie.forks()[0].choices] == [("run2",), ("run0",), ("run1",)]
    assert [segment.keys[0] for segment in trie.segments[1:]] == ["run2", "run0", "run1"]


def test_a_stream_that_just_ends_makes_no_fork() -> None:
    trie = trie_of([1, 2, 3], [1, 2])
    assert trie.forks() == ()
    assert [segment.ended for segment in trie.segments] == [("run1",), ("run0",)]
    assert trie.parting("run0", "run1") == 2


def test_another_prompt_is_another_root_and_nothing_is_shared() -> None:
    other = Stream("other", prefix_of([1]), np.array([1, 2], dtype=np.int32))
    trie = build([*streams_of([[1, 2]]), other])
    assert [root.keys for root in trie.roots] == [("run0",), ("other",)]
    assert trie.parting("run0", "other") is None
    assert trie.forks() == ()


def test_branches_of_branches_may_nest_deeply() -> None:
    lists = [[0] * depth + [1] for depth in range(1500)]
    trie = trie_of(*lists)
    assert trie.tokens_of("run1499").tolist() == lists[1499]
    assert len(trie.forks()) == 1499


def test_long_streams_are_compared_beyond_the_first_window() -> None:
    base = np.arange(100_000, dtype=np.int32)
    for position in (0, FIRST_WINDOW - 1, FIRST_WINDOW, 99_999):
        changed = base.copy()
        changed[position] = -1
        assert common_length(base, changed) == position
    assert common_length(base, base[:-1]) == 99_999


def test_segments_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        trie_of([1, 2]).segments[0].token_ids[0] = 5


def test_the_given_tokens_stay_writable() -> None:
    stream = streams_of([[1, 2]])[0]
    build([stream])
    assert stream.token_ids.flags.writeable


def test_an_unknown_stream_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="nobody"):
        trie_of([1]).path_of("nobody")


def test_a_key_is_given_once() -> None:
    with pytest.raises(ValueError, match="same key"):
        build([*streams_of([[1]]), *streams_of([[2]])])


def test_one_prefix_has_one_position() -> None:
    later = Stream("later", START, np.array([1], dtype=np.int32), 4)
    with pytest.raises(ComparisonError, match="position 4"):
        build([*streams_of([[1, 2]]), later])


def test_prefix_ids_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        Stream("a", START, np.array([1, 2], dtype=np.int32), 0, (START,))


def test_recorded_prefix_ids_are_taken_as_they_are() -> None:
    recorded = tuple(bytes([index]) * 16 for index in range(3))
    trie = build(
        [
            Stream("a", PrefixId(recorded[0]), np.array([1, 2, 3], dtype=np.int32), 0, recorded),
            Stream("b", PrefixId(recorded[0]), np.array([1, 2, 4], dtype=np.int32)),
        ]
    )
    assert trie.forks()[0].prefix_id == recorded[2]
