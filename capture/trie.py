"""All streams of a case as paths in one token trie (DESIGN section 2). Pure; imports numpy, model, prefix, errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture.errors import ComparisonError, NotFoundError
from capture.model import Int32Array, PrefixId
from capture.prefix import prefix_of

FIRST_WINDOW = 256
"""Tokens compared at once at first; the window doubles, so a difference near the start costs little."""


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """One recorded path of tokens.

    A branch is given as its parent's tokens up to the fork, then its own. A stream that starts later than the others
    (its prompt holds some of their output) says so with `first_position`, and joins them where the prefix is the same.

    Attributes:
        key: names the stream; unique within a trie.
        start: the prefix id before the first token.
        token_ids: int32 [n].
        first_position: the position of the first token.
        prefix_ids: the prefix id at each of the n positions where they are recorded, taken as they are; empty where
            they have to be computed.
    """

    key: str
    start: PrefixId
    token_ids: Int32Array
    first_position: int = 0
    prefix_ids: Sequence[bytes] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", np.asarray(self.token_ids, dtype=np.int32))
        if self.prefix_ids and (len(self.prefix_ids) != len(self.token_ids) or self.prefix_ids[0] != self.start):
            raise ValueError(f"the prefix ids of stream {self.key!r} do not fit its tokens")


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A stretch of tokens that the same streams pass through, as long as it can be.

    Only a root may be empty: its streams differ from their first token on, or one of them has no token.

    Attributes:
        index: its place in `Trie.segments`.
        parent: index of the segment before it; None for a root.
        children: indexes of the segments after it, the one that holds the first-given stream first.
        first_position: position of its first token.
        prefix_id: the prefix id at `first_position`.
        token_ids: int32 [n].
        keys: the streams that pass through, in the order they were given.
        ended: the streams that have no further token after this segment.
    """

    index: int
    parent: int | None
    children: tuple[int, ...]
    first_position: int
    prefix_id: PrefixId
    token_ids: Int32Array
    keys: tuple[str, ...]
    ended: tuple[str, ...]

    @property
    def stop(self) -> int:
        """The position after its last token."""
        return self.first_position + len(self.token_ids)


@dataclass(frozen=True, slots=True)
class Choice:
    """One next token at a fork: the streams that took it and the segment it starts."""

    token_id: int
    keys: tuple[str, ...]
    segment: int


@dataclass(frozen=True, slots=True)
class Branching:
    """A fork: a prefix with two or more recorded next tokens.

    Attributes:
        position: where the next tokens stand.
        prefix_id: the prefix before them.
        choices: the distinct next tokens, that of the first-given stream first.
        ended: streams that have no further token there.
    """

    position: int
    prefix_id: PrefixId
    choices: tuple[Choice, ...]
    ended: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """A compressed trie: its segments from the root down, first child first (depth first).

    There is one root for each start that is not reached by another stream: one for a case rendered once.

    Attributes:
        segments: every segment, each at its index.
        paths: for each stream the indexes of the segments that it passes through, in order.
    """

    segments: tuple[Segment, ...]
    paths: Mapping[str, tuple[int, ...]]

    @property
    def roots(self) -> tuple[Segment, ...]:
        """The segments without a parent."""
        return tuple(segment for segment in self.segments if segment.parent is None)

    def forks(self) -> tuple[Branching, ...]:
        """Return every fork, by position, then from the first line down."""
        found = [self._branching(segment) for segment in self.segments if len(segment.children) > 1]
        return tuple(sorted(found, key=lambda branching: branching.position))

    def path_of(self, key: str) -> tuple[Segment, ...]:
        """Return the segments that a stream passes through, in order.

        Raises:
            NotFoundError: no stream has this key.
        """
        if key not in self.paths:
            raise NotFoundError(f"no stream {key!r} in this case; choose one of its runs")
        return tuple(self.segments[index] for index in self.paths[key])

    def tokens_of(self, key: str) -> Int32Array:
        """Return a stream as it was given. int32 [n].

        Raises:
            NotFoundError: no stream has this key.
        """
        none = np.empty(0, dtype=np.int32)
        return np.concatenate([none, *(segment.token_ids for segment in self.path_of(key))])

    def parting(self, key: str, other: str) -> int | None:
        """Return the last position that two streams reach by the same prefix; None where they share none.

        There their tokens differ, or one of them has ended; up to and including it they may be compared.

        Raises:
            NotFoundError: no stream has one of these keys.
        """
        shared = self._ancestors(key) & self._ancestors(other)
        return max((self.segments[index].stop for index in shared), default=None)

    def _ancestors(self, key: str) -> set[int]:
        """The segments from the root to a stream's last, those before a late start included."""
        found = {segment.index for segment in self.path_of(key)}
        above = self.segments[min(found)].parent if found else None
        while above is not None:
            found.add(above)
            above = self.segments[above].parent
        return found

    def _branching(self, segment: Segment) -> Branching:
        children = [self.segments[index] for index in segment.children]
        choices = tuple(Choice(int(child.token_ids[0]), child.keys, child.index) for child in children)
        return Branching(segment.stop, children[0].prefix_id, choices, segment.ended)


def common_length(first: NDArray[Any], second: NDArray[Any]) -> int:
    """Return how many leading elements two one-dimensional arrays have in common."""
    length, start, window = min(len(first), len(second)), 0, FIRST_WINDOW
    while start < length:
        stop = min(start + window, length)
        different = first[start:stop] != second[start:stop]
        if different.any():
            return start + int(different.argmax())
        start, window = stop, window * 2
    return length


def build(streams: Iterable[Stream]) -> Trie:
    """Build the trie of several streams: they are sorted, and each is compared with its neighbour.

    Only the prefix ids at the starts of segments are needed: they are taken from the streams that have them recorded
    and hashed where none has. The order of the streams decides the order of keys and children, and nothing else.

    Raises:
        ValueError: two streams have the same key.
        ComparisonError: two streams start after the same prefix at different positions.
    """
    given = tuple(streams)
    if len({stream.key for stream in given}) != len(given):
        raise ValueError("two streams have the same key")
    groups: dict[PrefixId, _Group] = {}
    for index in sorted(range(len(given)), key=lambda index: given[index].first_position):
        _place(groups, given, index)
    segments: list[Segment] = []
    for group in sorted(groups.values(), key=lambda group: min(path.stream for path in group.paths)):
        segments += _Freezer(group, given).segments(len(segments))
    paths: dict[str, list[int]] = {stream.key: [] for stream in given}
    for segment in segments:
        for key in segment.keys:
            paths[key].append(segment.index)
    return Trie(tuple(segments), {key: tuple(indexes) for key, indexes in paths.items()})


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    """Tokens from a root on: those of a stream, from its `start`, after what leads there.

    A path that is no stream's `own` marks where a late stream starts, so that a segment ends there.
    """

    stream: int
    token_ids: Int32Array
    start: int = 0
    own: bool = True


@dataclass(slots=True, eq=False)
class _Group:
    """The paths from one root."""

    start: PrefixId
    first_position: int
    paths: list[_Path] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Node:
    """Where a segment ends: its depth in tokens from the root, a path through it, and the streams of its subtree."""

    depth: int
    path: _Path
    ended: list[int] = field(default_factory=list)
    children: list[_Node] = field(default_factory=list)
    below: list[tuple[int, int]] = field(default_factory=list)


def _place(groups: dict[PrefixId, _Group], given: Sequence[Stream], index: int) -> None:
    """Put a stream into the group of its root; streams come in rising order of their first position."""
    stream = given[index]
    group = groups.get(stream.start)
    if group is not None and group.first_position != stream.first_position:
        raise ComparisonError(
            f"stream {stream.key!r} starts at position {stream.first_position} after a prefix that another stream has "
            f"at {group.first_position}; count the positions of both from the same prompt"
        )
    if group is None and (reached := _reached(groups.values(), given, stream)) is not None:
        group, before = reached
        group.paths.append(_Path(index, before, own=False))
        group.paths.append(_Path(index, np.concatenate([before, stream.token_ids]), len(before)))
        return
    if group is None:
        group = groups[stream.start] = _Group(stream.start, stream.first_position)
    group.paths.append(_Path(index, stream.token_ids))


def _reached(groups: Iterable[_Group], given: Sequence[Stream], stream: Stream) -> tuple[_Group, Int32Array] | None:
    """Return the group and the tokens that lead to where a late stream starts."""
    for group in groups:
        length = stream.first_position - group.first_position
        for path in group.paths:
            if path.own and 0 < length <= len(path.token_ids):
                recorded = _recorded(given[path.stream], stream.first_position)
                if (recorded or prefix_of(path.token_ids[:length].tolist(), group.start)) == stream.start:
                    return group, path.token_ids[:length]
    return None


def _recorded(stream: Stream, position: int) -> PrefixId | None:
    offset = position - stream.first_position
    return PrefixId(stream.prefix_ids[offset]) if 0 <= offset < len(stream.prefix_ids) else None


def _tree(paths: Sequence[_Path]) -> _Node:
    """Join paths into nodes, each the end of a segment, by the common lengths of sorted neighbours."""
    ordered = sorted(paths, key=cmp_to_key(_compared))
    open_nodes = [_Node(0, ordered[0])]
    before = ordered[0].token_ids[:0]
    for path in ordered:
        _close(open_nodes, common_length(before, path.token_ids))
        if len(path.token_ids) > open_nodes[-1].depth:
            open_nodes.append(_Node(len(path.token_ids), path))
        if path.own:
            open_nodes[-1].ended.append(path.stream)
            open_nodes[-1].below.append((path.start, path.stream))
        before = path.token_ids
    _close(open_nodes, 0)
    root = open_nodes[0]
    return root.children[0] if len(root.children) == 1 and not root.ended else root


def _compared(one: _Path, other: _Path) -> int:
    first, second = one.token_ids, other.token_ids
    length = common_length(first, second)
    if length == min(len(first), len(second)):
        return len(first) - len(second)
    return int(first[length]) - int(second[length])


def _close(open_nodes: list[_Node], depth: int) -> None:
    """Hang the open nodes deeper than `depth` under their parents, and open one at `depth` where they split there."""
    while open_nodes[-1].depth > depth:
        node = open_nodes.pop()
        if open_nodes[-1].depth < depth:
            open_nodes.append(_Node(depth, node.path))
        open_nodes[-1].children.append(node)
        open_nodes[-1].below += node.below


@dataclass(frozen=True, slots=True)
class _Freezer:
    """Turns the tree of a group into segments."""

    group: _Group
    given: Sequence[Stream]

    def segments(self, first_index: int) -> list[Segment]:
        """Return the segments depth first; without recursion, since branches of branches nest deeply."""
        placed: list[tuple[_Node, int, int | None, PrefixId]] = []
        children: list[list[int]] = []
        pending: list[tuple[_Node, int, int | None, PrefixId]] = [(_tree(self.group.paths), 0, None, self.group.start)]
        while pending:
            node, depth, parent, prefix_id = pending.pop()
            index = len(placed)
            placed.append((node, depth, parent, prefix_id))
            children.append([])
            if parent is not None:
                children[parent].append(index)
            if node.children:
                stop_id = self._stop_id(node, depth, prefix_id)
                below = sorted(node.children, key=lambda child: -self._streams(child, node.depth)[0])
                pending += [(child, node.depth, index, stop_id) for child in below]
        return [self._segment(*place, first_index, index, children[index]) for index, place in enumerate(placed)]

    def _streams(self, node: _Node, depth: int) -> list[int]:
        """The streams that pass through the segment from `depth` to a node, in the order they were given."""
        return sorted(stream for start, stream in node.below if start <= depth)

    def _stop_id(self, node: _Node, depth: int, prefix_id: PrefixId) -> PrefixId:
        """Return the prefix id after a segment: recorded if a stream that passes has it, else hashed."""
        position = self.group.first_position + node.depth
        recorded = (_recorded(self.given[stream], position) for _, stream in node.below)
        found = next((one for one in recorded if one is not None), None)
        return found or prefix_of(node.path.token_ids[depth : node.depth].tolist(), prefix_id)

    def _segment(
        self,
        node: _Node,
        depth: int,
        parent: int | None,
        prefix_id: PrefixId,
        first_index: int,
        index: int,
        children: list[int],
    ) -> Segment:
        token_ids = node.path.token_ids[depth : node.depth]
        token_ids.flags.writeable = False
        return Segment(
            index=first_index + index,
            parent=None if parent is None else first_index + parent,
            children=tuple(first_index + child for child in children),
            first_position=self.group.first_position + depth,
            prefix_id=prefix_id,
            token_ids=token_ids,
            keys=self._keys(self._streams(node, depth)),
            ended=self._keys(sorted(node.ended)),
        )

    def _keys(self, streams: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.given[stream].key for stream in streams)
