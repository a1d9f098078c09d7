"""The tables that hovering shows, a chunk of positions at a time, as JSON values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.digest import Digest, digest_of
from app.forks import Fork
from app.lanes import OpenCase
from app.links import CaseLink
from app.strands import Story, story_of
from app.tables import Cell, Table, table_at
from app.text import token_label
from app.words import letters_of, quoted
from capture.model import Mode

MOST_POSITIONS = 1024
"""Positions that one answer may hold."""

WINNER, BOUND = 1, 2
"""Bits that say what a cell is."""


def tables(case: OpenCase, first: int, count: int, link: CaseLink, digest: Digest | None = None) -> dict[str, Any]:
    """Return the tables of the positions `first` to `first + count` on every strand, also of stubs not open.

    Args:
        case: the case with its lanes.
        first: the first position.
        count: how many positions, at most `MOST_POSITIONS`.
        link: of the case, for the address of each position.
        digest: what was worked out of the case before; None to work it out now.
    """
    stop = first + min(count, MOST_POSITIONS)
    link = link.where(mode=case.mode)  # a place in a stream may be a flip in the other mode
    digest = digest or digest_of(case)
    found: dict[str, Any] = {}
    for story, strands in _stories(case, first, stop):
        places = digest.places if 0 in strands else {}
        for index in strands:
            found.update(_strand(story, index, first, stop, places, link))
    return {"first": first, "count": count, "lanes": [lane.letter for lane in case.lanes], "tables": found}


def _stories(case: OpenCase, first: int, stop: int) -> Iterable[tuple[Story, range]]:
    """Yield stories with those of their strands that no earlier story had and that may have some positions."""
    story = story_of(case)
    yield story, range(len(story.strands))
    if case.mode is Mode.FORCED:
        ends = [(branch, branch.steps.position) for branch in case.branches]
        near = [branch for branch, positions in ends if positions[0] < stop and positions[-1] >= first]
        forks = [branch.run.fork for branch in near if branch.run.fork is not None]
        for position, prefix_id in dict.fromkeys((fork.position, fork.prefix_id) for fork in forks):
            story = story_of(case, (position, prefix_id))
            yield story, range(1, len(story.strands))


def _strand(
    story: Story, index: int, first: int, stop: int, places: Mapping[tuple[int, int], Fork], link: CaseLink
) -> Iterable[tuple[str, Any]]:
    strand = story.strands[index]
    for position in range(max(first, strand.first_position), min(stop, strand.stop)):
        fork = places.get((index, position))
        if fork is None and strand.parent is not None and position == strand.first_position:
            fork = places.get((strand.parent, position))
        yield f"{strand.key}:{position}", _entry(story, index, position, fork, link)


def _entry(story: Story, index: int, position: int, fork: Fork | None, link: CaseLink) -> dict[str, Any]:
    table = table_at(story, index, position)
    prefix_id = story.prefix_id(index, position) or b""
    entry = {
        "token": [list(piece) for piece in _token(story, index, position)],
        "href": link.fork(position, prefix_id).format(),
        "here": "".join(letter for letter, here in zip(table.letters, table.present, strict=True) if here),
        "rows": [
            [[list(piece) for piece in row.label.pieces], [_cell(cell) for cell in row.cells]] for row in table.rows
        ],
        "rest": list(table.rest),
        "say": _say(story, index, position, table, fork),
    }
    if fork is not None:
        entry["flip"] = f"{fork.flip_class.value} flip: {letters_of(fork.letters)} left"
    return entry


def _token(story: Story, index: int, position: int) -> tuple[tuple[str, str], ...]:
    strand = story.strands[index]
    token_id = int(strand.token_ids[position - strand.first_position])
    return token_label(token_id, story.case.tokens).pieces


def _cell(cell: Cell | None) -> list[Any] | None:
    if cell is None:
        return None
    return [cell.text, round(cell.percent, 2), WINNER * cell.winner + BOUND * cell.bound]


def _say(story: Story, index: int, position: int, table: Table, fork: Fork | None) -> str:
    """Return what a screen reader hears of a token: position, token, probability, flip."""
    text = "".join(piece for piece, _ in _token(story, index, position))
    words = f"position {position:,}, \u201c{text}\u201d{_percent(story, index, position, table)}"
    if fork is None:
        return words
    sides = "; ".join(
        f"{letters_of(side.letters)} chose {quoted(token_label(side.token_id, story.case.tokens))}"
        for side in fork.left
    )
    return f"{words}, {fork.flip_class.value} flip: {sides}"


def _percent(story: Story, index: int, position: int, table: Table) -> str:
    """Return the probability that the first lane of a strand gave to the strand's token; empty where none is told."""
    strand = story.strands[index]
    token_id = int(strand.token_ids[position - strand.first_position])
    column = table.letters.index(story.sources[strand.keys_at(position)[0]].letter)
    cell = next((row.cells[column] for row in table.rows if row.token_id == token_id), None)
    return "" if cell is None else f", {cell.text} percent"
