"""Parts of long strands, ready to be drawn: their tokens and marks cost what the part holds, not the strand. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from app.drawing import Mark, Sheet
from app.forks import Fork
from app.links import CaseLink
from app.marks import close_between
from app.scene import Scene
from app.sheets import fork_mark, letters_on
from app.text import DrawnToken, draw

LOOK_AROUND = 3
"""Tokens before and behind a part that may hold bytes of its first and last character."""


def window_sheet(scene: Scene, strand: int, first: int, stop: int, base: CaseLink) -> Sheet:
    """Return the positions `first` to `stop` of a strand as a sheet: close choices, flips, and the pinned token."""
    own = scene.story.strands[strand]
    close = close_between(scene.story, strand, first, stop)
    marks = {first + at: Mark(("close",)) for at, here in enumerate(close) if here}
    mark_window(scene, strand, first, stop, base, marks)
    return Sheet(
        key=own.key,
        first_position=first,
        drawn=draw_window(scene, strand, first, stop),
        marks=marks,
        heads=[(start, letters_on(scene.story, keys)) for start, _, keys in own.spans],
        parent=own.parent,
        beyond=own.stop - stop,
    )


def draw_window(scene: Scene, strand: int, first: int, stop: int) -> tuple[DrawnToken, ...]:
    """Draw the tokens of positions `first` to `stop` of a strand as they look within the whole of it."""
    own = scene.story.strands[strand]
    start, end = first - own.first_position, stop - own.first_position
    before = [*own.before, *own.token_ids[max(start - LOOK_AROUND, 0) : start].tolist()][-LOOK_AROUND:]
    ids = own.token_ids[start : end + LOOK_AROUND].tolist()
    return draw(ids, scene.story.case.tokens, before)[: end - start]


def mark_window(scene: Scene, strand: int, first: int, stop: int, base: CaseLink, marks: dict[int, Mark]) -> None:
    """Add the flips between two positions of a strand, its own first token where it left another, and the pin."""
    own = scene.story.strands[strand]
    for fork in forks_between(scene.forks, first, stop):
        leaves = own.parent == fork.strand and own.first_position == fork.position
        if fork.strand == strand or leaves:
            marks[fork.position] = fork_mark(scene, fork, strand, base, marks.get(fork.position, Mark()))
    if scene.pinned and strand == scene.strand and first <= scene.position < stop:
        mark = marks.get(scene.position, Mark())
        marks[scene.position] = Mark((*mark.classes, "pinned"), mark.over, mark.href, mark.words, mark.quiet)


def forks_between(forks: Sequence[Fork], first: int, stop: int) -> Iterable[Fork]:
    """Return those of some forks, sorted by position, that lie between two positions."""
    start = bisect_left(forks, first, key=lambda fork: fork.position)
    end = bisect_left(forks, stop, key=lambda fork: fork.position)
    return forks[start:end]
