"""The distinct continuations of an open case: which lanes are on each, where it starts, and its tokens. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.lanes import Branch, Lane, OpenCase
from capture.model import Ending, Int32Array, Mode, PrefixId, Steps
from capture.prefix import prefix_of
from capture.trie import Segment, Stream, Trie, build

CONTEXT = 3
"""Tokens in front of a strand that may hold the first bytes of its first character."""


@dataclass(frozen=True, slots=True)
class Source:
    """A recorded path of tokens with its distributions: a lane, or a branch.

    Attributes:
        key: names it within the page: the lane's letter, or the letter and the start of the branch's run id.
        letter: of the lane.
        steps: its positions.
        dtype: of its logits.
        ending: why it ends.
        branch: the branch; None for a lane.
    """

    key: str
    letter: str
    steps: Steps
    dtype: str
    ending: Ending
    branch: Branch | None = None

    def row(self, position: int) -> int | None:
        """Return the row of `steps` at a position; None where it has none."""
        row = position - int(self.steps.position[0]) if len(self.steps) else -1
        return row if 0 <= row < len(self.steps) else None

    def prefix_id(self, position: int) -> bytes | None:
        """Return the prefix id at a position; None where it has none."""
        row = self.row(position)
        return None if row is None else self.steps.prefix_id[row]


@dataclass(frozen=True, slots=True)
class Strand:
    """One distinct continuation: a line of its own.

    Attributes:
        key: names it within the page: the key of its first source.
        parent: index of the strand it leaves; None for the first.
        first_position: of its first token, or where it ended without one.
        token_ids: int32 [n].
        before: the tokens in front of it, a few.
        spans: the sources on it, as (first position, stop, their keys), in order, without a gap.
        ended: keys of the sources that end with it.
    """

    key: str
    parent: int | None
    first_position: int
    token_ids: Int32Array
    before: tuple[int, ...]
    spans: tuple[tuple[int, int, tuple[str, ...]], ...]
    ended: tuple[str, ...]

    @property
    def stop(self) -> int:
        """The position after its last token."""
        return self.first_position + len(self.token_ids)

    def keys_at(self, position: int) -> tuple[str, ...]:
        """Return the sources that take the token at a position, or that end there."""
        return next((keys for first, stop, keys in self.spans if first <= position < stop), self.spans[-1][2])

    def sharing(self, position: int) -> tuple[str, ...]:
        """Return the sources that reach a position by the strand's prefix, also those that leave it there."""
        for at, (first, stop, keys) in enumerate(self.spans):
            if first <= position < stop:
                return self.spans[at - 1][2] if position == first and at else keys
        return self.spans[-1][2]


@dataclass(frozen=True, slots=True)
class Story:
    """A page's strands and where its distributions come from.

    Attributes:
        case: what it was made of.
        sources: by key.
        strands: each after its parent.
        opened: the position whose stubs are open, in a forced case; None where none is.
    """

    case: OpenCase
    sources: dict[str, Source]
    strands: tuple[Strand, ...]
    opened: int | None = None

    def readings(self, strand: int, position: int) -> tuple[Source, ...]:
        """Return every source that computed a distribution after the strand's prefix at a position."""
        own = self.strands[strand]
        keys = list(own.sharing(position))
        if own.parent is not None and position == own.first_position:
            keys = [*self.strands[own.parent].sharing(position), *keys]
        found = [self.sources[key] for key in dict.fromkeys(keys)]
        prefix_id = self.prefix_id(strand, position)
        return tuple(source for source in found if prefix_id and source.prefix_id(position) == prefix_id)

    def prefix_id(self, strand: int, position: int) -> bytes | None:
        """Return the prefix id at a position of a strand; None past its end."""
        for key in self.strands[strand].keys_at(position):
            prefix_id = self.sources[key].prefix_id(position)
            if prefix_id is not None:
                return prefix_id
        return None

    def find(self, position: int, prefix_id: bytes) -> int | None:
        """Return the first strand that has a prefix at a position; ids may be given by their first bytes."""
        for index, strand in enumerate(self.strands):
            if strand.first_position <= position < strand.stop:
                found = self.prefix_id(index, position)
                if found is not None and found.startswith(prefix_id):
                    return index
        return None


def free_story(case: OpenCase) -> Story:
    """Return the strands of free runs: each distinct continuation once."""
    sources = {lane.letter: _lane_source(lane) for lane in case.lanes}
    return Story(case, sources, tuple(_strands(_trie(sources.values(), case.prompt.token_ids))))


def forced_story(case: OpenCase, opened: tuple[int, bytes] | None = None) -> Story:
    """Return the trunk of forced runs, and the grown continuations of one fork where it is open."""
    sources = {lane.letter: _lane_source(lane) for lane in case.lanes}
    trunk = case.lanes[0].steps
    spans = ((0, len(trunk), tuple(sources)),)
    strands = [Strand("A", None, 0, trunk.token_id, (), spans, tuple(sources))]
    if opened is None:
        return Story(case, sources, tuple(strands))
    position, prefix_id = opened
    found = sorted(map(branch_source, stubs_at(case, position, prefix_id)), key=lambda source: source.letter == "A")
    grown = {source.key: source for source in found}
    if grown:
        strands += _stubs(
            _trie(grown.values(), ()), tuple(trunk.token_id[max(position - CONTEXT, 0) : position].tolist())
        )
    return Story(case, {**sources, **grown}, tuple(strands), position if grown else None)


def stubs_at(case: OpenCase, position: int, prefix_id: bytes) -> tuple[Branch, ...]:
    """Return the branches that leave the trunk at a fork: those that went on with another token than its own."""
    trunk = case.lanes[0].steps
    own = int(trunk.token_id[position]) if position < len(trunk) else -1
    return tuple(
        branch
        for branch in case.branches
        if branch.run.fork is not None
        and branch.run.fork.prefix_id.startswith(prefix_id)
        and len(branch.steps)
        and int(branch.steps.token_id[0]) != own
    )


def branch_source(branch: Branch) -> Source:
    """Return a branch as a source."""
    key = f"{branch.letter}-{branch.run.run_id[:12]}"
    return Source(key, branch.letter, branch.steps, branch.run.dtype, branch.run.ending, branch)


def story_of(case: OpenCase, opened: tuple[int, bytes] | None = None) -> Story:
    """Return the strands of a case; `opened` is a position and the start of its prefix id."""
    return free_story(case) if case.mode is Mode.FREE else forced_story(case, opened)


def _lane_source(lane: Lane) -> Source:
    return Source(lane.letter, lane.letter, lane.steps, lane.run.dtype, lane.run.ending)


def _trie(sources: Iterable[Source], prompt: Sequence[int]) -> Trie:
    return build(_stream(source, prompt) for source in sources)


def _stream(source: Source, prompt: Sequence[int]) -> Stream:
    steps = source.steps
    if not len(steps):
        return Stream(source.key, prefix_of(prompt), steps.token_id)
    return Stream(source.key, PrefixId(steps.prefix_id[0]), steps.token_id, int(steps.position[0]), steps.prefix_id)


def _strands(trie: Trie) -> list[Strand]:
    """Return the strands of a trie: a line goes on with its first child, every other child starts one."""
    found: list[Strand] = []
    for root in trie.roots:
        _follow(trie, root, None, (), found)
    return _by_letter(found)


def _by_letter(strands: list[Strand]) -> list[Strand]:
    """Return strands in the order of their letters, each after its parent still."""
    ranks: list[str] = []
    for strand in strands:
        ranks.append(strand.key if strand.parent is None else max(strand.key, ranks[strand.parent]))
    order = sorted(range(len(strands)), key=lambda index: (ranks[index], index))
    place = {old: new for new, old in enumerate(order)}
    moved = [strands[old] for old in order]
    return [one if one.parent is None else replace(one, parent=place[one.parent]) for one in moved]


def _stubs(trie: Trie, before: tuple[int, ...]) -> list[Strand]:
    """Return the strands of grown continuations, which leave the trunk (strand 0) at the trie's roots."""
    found: list[Strand] = []
    for root in trie.roots:
        starts = [root] if len(root.token_ids) else [trie.segments[index] for index in root.children]
        for start in starts:
            _follow(trie, start, 0, before, found, 1)
    return found


def _follow(
    trie: Trie, start: Segment, parent: int | None, before: tuple[int, ...], found: list[Strand], shift: int = 0
) -> None:
    """Append the strand that starts with a segment, then the strands that leave it."""
    chain = [start]
    while chain[-1].children:
        chain.append(trie.segments[chain[-1].children[0]])
    tokens = np.concatenate([segment.token_ids for segment in chain])
    spans = tuple((segment.first_position, segment.stop, segment.keys) for segment in chain)
    index = len(found) + shift
    found.append(Strand(chain[-1].keys[0], parent, start.first_position, tokens, before, spans, chain[-1].ended))
    for segment in chain:
        cut = segment.stop - start.first_position
        context = (*before, *tokens[max(cut - CONTEXT, 0) : cut].tolist())[-CONTEXT:]
        if segment.ended and segment.children:
            spans = ((segment.stop, segment.stop, segment.ended),)
            none = np.empty(0, np.int32)
            found.append(Strand(segment.ended[0], index, segment.stop, none, context, spans, segment.ended))
        for child in segment.children[1:]:
            _follow(trie, trie.segments[child], index, context, found, shift)
