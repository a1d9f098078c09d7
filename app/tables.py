"""The probability table of a position: top tokens aligned by token, a column a lane. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.strands import Source, Story
from app.text import Label, token_label
from capture.model import Float64Array, Token

ROWS_PER_LANE = 5
"""Tokens of each lane that get a row."""

MOST_ROWS = 10


@dataclass(frozen=True, slots=True)
class Cell:
    """What one lane says of one token.

    Attributes:
        text: the probability in percent, or a bound such as `< 0.4`.
        percent: 0 to 100; the bound where it is one.
        bound: whether the lane did not report the token.
        winner: whether it is the lane's own choice.
        taken: whether the lane's stream goes on with it.
    """

    text: str
    percent: float
    bound: bool = False
    winner: bool = False
    taken: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One token and a cell for each lane; None for a lane that was never after this prefix."""

    token_id: int
    label: Label
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The table of one position.

    Attributes:
        position: of the token.
        letters: of every lane on the page.
        present: for each lane, whether it was after this prefix.
        rows: by the probability in the first lane present.
        rest: for each lane, the probability outside of the rows, as text.
    """

    position: int
    letters: tuple[str, ...]
    present: tuple[bool, ...]
    rows: tuple[Row, ...]
    rest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Column:
    """One lane's row, ready to be looked up."""

    known: Mapping[int, float]
    floor: float
    winner: int
    taken: int


def by_letter(sources: Sequence[Source]) -> dict[str, Source]:
    """Return the first source of each letter: a lane before its branch, which repeats the lane's row."""
    found: dict[str, Source] = {}
    for source in sources:
        found.setdefault(source.letter, source)
    return found


def table_at(story: Story, strand: int, position: int) -> Table:
    """Return the table of a position of a strand, over every lane of the page."""
    letters = tuple(lane.letter for lane in story.case.lanes)
    present = by_letter(story.readings(strand, position))
    columns = {letter: _column(source, position) for letter, source in present.items()}
    ids = _union([columns[letter] for letter in letters if letter in columns])
    return Table(
        position=position,
        letters=letters,
        present=tuple(letter in columns for letter in letters),
        rows=tuple(_row(token_id, letters, columns, story.case.tokens) for token_id in ids),
        rest=tuple(_rest(columns.get(letter), ids) for letter in letters),
    )


def probabilities(source: Source, position: int) -> tuple[list[int], Float64Array]:
    """Return the reported token ids, highest first, and their probabilities 0..1.

    Raises:
        ValueError: the source has no such position.
    """
    row = source.row(position)
    if row is None:
        raise ValueError(f"{source.key} has no position {position}")
    logs = source.steps.top_logits[row].astype(np.float64) - source.steps.log_sum_exp[row]
    return source.steps.top_ids[row].tolist(), np.exp(logs)


def percent(probability: float) -> str:
    """Return a probability as percent: one digit, more where that would say 0 or 100."""
    value = probability * 100
    if value >= 99.95:
        return "100" if value >= 99.995 else f"{value:.2f}"
    if value >= 0.05 or value == 0:
        return f"{value:.1f}" if value else "0"
    return f"{value:.1g}".replace("e-0", "e-")


def _column(source: Source, position: int) -> _Column:
    ids, values = probabilities(source, position)
    row = source.row(position)
    assert row is not None
    known = dict(zip(ids, values.tolist(), strict=True))
    emitted, taken = int(source.steps.emitted[row]), int(source.steps.token_id[row])
    choice = emitted if emitted >= 0 else int(source.steps.top1[row])  # `choice` would be worked out for every row
    return _Column(known, min(known.values(), default=1.0), choice, taken)


def _union(columns: Sequence[_Column]) -> list[int]:
    """Return the ids that get a row: the first few of each lane and its winner, sorted by the first lane."""
    wanted = [token_id for column in columns for token_id in (column.winner, *list(column.known)[:ROWS_PER_LANE])]
    order = sorted(dict.fromkeys(wanted), key=lambda token_id: [-column.known.get(token_id, 0.0) for column in columns])
    must = {column.winner for column in columns}
    room = MOST_ROWS - len(must)
    kept = {token_id for token_id in order if token_id not in must}
    optional = [token_id for token_id in order if token_id in kept][: max(room, 0)]
    return [token_id for token_id in order if token_id in must or token_id in optional]


def _row(token_id: int, letters: Sequence[str], columns: Mapping[str, _Column], tokens: Mapping[int, Token]) -> Row:
    cells = tuple(_cell(token_id, columns[letter]) if letter in columns else None for letter in letters)
    return Row(token_id, token_label(token_id, tokens), cells)


def _cell(token_id: int, column: _Column) -> Cell:
    value = column.known.get(token_id)
    winner, taken = token_id == column.winner, token_id == column.taken
    if value is None:
        return Cell(f"< {percent(column.floor)}", column.floor * 100, True, winner, taken)
    return Cell(percent(value), value * 100, False, winner, taken)


def _rest(column: _Column | None, ids: Sequence[int]) -> str:
    if column is None:
        return ""
    return percent(max(1.0 - sum(column.known.get(token_id, 0.0) for token_id in ids), 0.0))
