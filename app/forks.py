"""The flips of a page: where lanes that had the same prefix chose different tokens, and what came of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.lanes import Branch, Lane, OpenCase
from app.source_consequences import Consequence
from app.strands import Source, Story, branch_source
from capture.consequences import Tone, worst_tone
from capture.flips import Flip, find_flips
from capture.model import FlipClass, Mode, Steps

CLUSTER = 4
"""Flips fewer tokens apart than this are one mark."""

QUIET_ABOVE = 12
"""With more flips than this only the decided ones that changed something are marked."""

STRENGTH = {FlipClass.TIE: 0, FlipClass.NEAR_TIE: 1, FlipClass.DECIDED: 2}
"""Classes of flips in rising order."""


@dataclass(frozen=True, slots=True)
class Side:
    """A token and the lanes that chose it.

    Attributes:
        token_id: the token.
        letters: of the lanes.
        strand: index of the strand that goes on with it; None where it was not grown or is not open.
        consequence: what became of it; None where it is unknown.
    """

    token_id: int
    letters: tuple[str, ...]
    strand: int | None = None
    consequence: Consequence | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    """One position where lanes part, or would.

    Attributes:
        strand: index of the strand that goes on.
        position: output position.
        prefix_id: what they share.
        stayed: the side that goes on.
        left: the others, in the order of their lanes.
        flip_class: the strongest among them.
        margin_nats: the smaller margin of the two that flipped most clearly.
        marked: whether the text shows it by default; else it counts as density.
        count: how many flips this mark stands for.
        grown: whether a continuation was recorded.
    """

    strand: int
    position: int
    prefix_id: bytes
    stayed: Side
    left: tuple[Side, ...]
    flip_class: FlipClass
    margin_nats: float
    marked: bool = True
    count: int = 1
    grown: bool = True

    @property
    def letters(self) -> tuple[str, ...]:
        """The lanes that left."""
        return tuple(letter for side in self.left for letter in side.letters)

    @property
    def changed(self) -> bool:
        """Whether some continuation called something else than the reference, or none is known."""
        return any(side.consequence is None or not side.consequence.same for side in self.left)

    @property
    def tone(self) -> Tone:
        """The worst of what became of it."""
        return worst_tone([pill for side in self.left if side.consequence for pill in side.consequence.pills])


def forks_of(story: Story, known: Mapping[str, Consequence]) -> tuple[Fork, ...]:
    """Return the forks of a story by position; `known` holds consequences by key of source."""
    if story.case.mode is Mode.FREE:
        return tuple(sorted(_free(story, known), key=lambda fork: (fork.position, fork.strand)))
    return clustered(_quietened(_forced(story, known)))


def with_stubs(story: Story, forks: Sequence[Fork], known: Mapping[str, Consequence]) -> tuple[Fork, ...]:
    """Return the forks of a forced story that has a fork open, made of those of the same case with none open.

    Args:
        story: the story.
        forks: of the case with no fork open.
        known: consequences by key of source, those of the open fork among them.
    """
    return tuple(_with_stubs(story, fork, known) if fork.position == story.opened else fork for fork in forks)


def _with_stubs(story: Story, fork: Fork, known: Mapping[str, Consequence]) -> Fork:
    left = tuple(_grown_side(story, side, known) for side in fork.left)
    return replace(fork, left=left, grown=any(side.consequence is not None for side in left))


def _grown_side(story: Story, side: Side, known: Mapping[str, Consequence]) -> Side:
    strand = _stub(story, side)
    if strand is None:
        return side
    keys = [key for key in story.strands[strand].spans[0][2] if story.sources[key].letter in side.letters]
    return replace(side, strand=strand, consequence=side.consequence or known.get(keys[0]))


def _stub(story: Story, side: Side) -> int | None:
    """Return the strand on which some lane of a side went on with its token."""
    for index, strand in enumerate(story.strands):
        letters = {story.sources[key].letter for key in strand.spans[0][2]}
        starts = strand.parent == 0 and strand.first_position == story.opened
        if starts and letters & set(side.letters) and int(strand.token_ids[0]) == side.token_id:
            return index
    return None


def first_of_interest(forks: Iterable[Fork]) -> Fork | None:
    """Return the fork that a page opens at: the first decided one that changed something, else the first."""
    every = list(forks)
    decided = [fork for fork in every if fork.flip_class is FlipClass.DECIDED]
    return next((fork for fork in decided if fork.changed), None) or next(iter([*decided, *every]), None)


def _free(story: Story, known: Mapping[str, Consequence]) -> Iterable[Fork]:
    places: dict[tuple[int, int], list[int]] = {}
    for index, strand in enumerate(story.strands):
        if strand.parent is not None and len(strand.token_ids):
            places.setdefault((strand.parent, strand.first_position), []).append(index)
    for (parent, position), children in places.items():
        yield _free_fork(story, parent, position, children, known)


def _free_fork(story: Story, parent: int, position: int, children: list[int], known: Mapping[str, Consequence]) -> Fork:
    sides = [_side(story, parent, position, known), *(_side(story, child, position, known) for child in children)]
    stayed = story.sources[sides[0].letters[0]]
    found = [_flip(story.case, stayed, story.sources[side.letters[0]], position) for side in sides[1:]]
    strongest = max(found, key=_clearness)
    return Fork(
        strand=parent,
        position=position,
        prefix_id=strongest.prefix_id,
        stayed=sides[0],
        left=tuple(sides[1:]),
        flip_class=strongest.flip_class,
        margin_nats=_clearness(strongest)[1],
    )


def _side(story: Story, index: int, position: int, known: Mapping[str, Consequence]) -> Side:
    strand = story.strands[index]
    keys = strand.keys_at(position)
    token_id = int(strand.token_ids[position - strand.first_position])
    return Side(token_id, keys, index, known.get(keys[0]))


def _flip(case: OpenCase, stayed: Source, left: Source, position: int) -> Flip:
    """Return the flip of two lanes at a position: as compared before, else classed from their two rows."""
    prefix_id = stayed.prefix_id(position)
    for comparison in case.comparisons.values():
        if stayed.letter == "A" and comparison.candidate == _lane(case, left.letter).run.run_id:
            known = next((flip for flip in comparison.flips if flip.prefix_id == prefix_id), None)
            if known is not None:
                return known
    rows = (_one_row(stayed, position), _one_row(left, position))
    found = find_flips(*rows, (stayed.dtype, left.dtype))
    return found[0] if found else _parted(*rows)


def _parted(stayed: Steps, left: Steps) -> Flip:
    """Return the fork of two streams whose winners agree although they went apart: a tie, however it came about."""
    margins = float(stayed.margin_nats[0]), float(left.margin_nats[0])
    taken = int(stayed.token_id[0]), int(left.token_id[0])
    return Flip(int(stayed.position[0]), stayed.prefix_id[0], *taken, FlipClass.TIE, *margins)


def _one_row(source: Source, position: int) -> Steps:
    row = source.row(position)
    assert row is not None
    columns = {name: getattr(source.steps, name)[row : row + 1] for name in Steps.__slots__}
    return Steps(**columns)


def _clearness(flip: Flip) -> tuple[int, float]:
    """Return how clear a flip is: its class, then the smaller of its margins in nats."""
    return STRENGTH[flip.flip_class], min(flip.reference_margin_nats, flip.candidate_margin_nats)


def _lane(case: OpenCase, letter: str) -> Lane:
    return next(lane for lane in case.lanes if lane.letter == letter)


def _forced(story: Story, known: Mapping[str, Consequence]) -> list[Fork]:
    """Return one fork for each position of the trunk where a forced lane wanted another token."""
    found: dict[int, list[tuple[str, Flip]]] = {}
    for lane in story.case.lanes[1:]:
        comparison = story.case.comparisons.get(lane.run.run_id)
        for flip in comparison.flips if comparison else ():
            found.setdefault(flip.position, []).append((lane.letter, flip))
    grown = _grown(story.case.branches)
    return [_forced_fork(story, position, found[position], grown, known) for position in sorted(found)]


def _grown(branches: Iterable[Branch]) -> dict[tuple[bytes, int], list[Branch]]:
    found: dict[tuple[bytes, int], list[Branch]] = {}
    for branch in branches:
        if branch.run.fork is not None and len(branch.steps):
            found.setdefault((branch.run.fork.prefix_id, int(branch.steps.token_id[0])), []).append(branch)
    return found


def _forced_fork(
    story: Story,
    position: int,
    flips: list[tuple[str, Flip]],
    grown: Mapping[tuple[bytes, int], list[Branch]],
    known: Mapping[str, Consequence],
) -> Fork:
    strongest = max((flip for _, flip in flips), key=_clearness)
    chosen: dict[int, list[str]] = {}
    for letter, flip in flips:
        chosen.setdefault(flip.candidate_choice, []).append(letter)
    stayed = tuple(lane.letter for lane in story.case.lanes if all(lane.letter != letter for letter, _ in flips))
    left = [
        _forced_side(story, token_id, tuple(letters), grown.get((strongest.prefix_id, token_id), []), known)
        for token_id, letters in chosen.items()
    ]
    return Fork(
        strand=0,
        position=position,
        prefix_id=strongest.prefix_id,
        stayed=Side(strongest.reference_choice, stayed, 0, known.get("A")),
        left=tuple(left),
        flip_class=strongest.flip_class,
        margin_nats=_clearness(strongest)[1],
        grown=any(side.consequence is not None for side in left),
    )


def _forced_side(
    story: Story, token_id: int, letters: tuple[str, ...], branches: list[Branch], known: Mapping[str, Consequence]
) -> Side:
    keys = [branch_source(branch).key for branch in branches if branch.letter in letters]
    strand = next((index for index, one in enumerate(story.strands) if set(keys) & set(one.spans[0][2])), None)
    return Side(token_id, letters, strand, known.get(keys[0]) if keys else None)


def _quietened(forks: list[Fork]) -> list[Fork]:
    """Keep the marks to what matters where there are many."""
    if len(forks) <= QUIET_ABOVE:
        return forks
    return [replace(fork, marked=fork.flip_class is FlipClass.DECIDED and fork.changed) for fork in forks]


def clustered(forks: list[Fork]) -> tuple[Fork, ...]:
    """Join the marks of flips that stand close together: the first stays, and says how many it stands for."""
    found: list[Fork] = []
    last_marked: int | None = None
    for fork in forks:
        near = last_marked is not None and fork.position - found[last_marked].position < CLUSTER
        if fork.marked and near and last_marked is not None:
            first = found[last_marked]
            found[last_marked] = replace(first, count=first.count + 1)
            found.append(replace(fork, marked=False))
            continue
        found.append(fork)
        if fork.marked:
            last_marked = len(found) - 1
    return tuple(found)
