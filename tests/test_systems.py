from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.systems import LEAST_COLUMNS, Layout, Line, Piece, Voice, cut_pieces, lay_out


def words(*widths: int, breaks: tuple[int, ...] = ()) -> tuple[Piece, ...]:
    return tuple(Piece(at, 0, 1, width, breaks=at in breaks) for at, width in enumerate(widths))


def every_line(layout: Layout) -> list[Line]:
    blocks = [line for block in layout.blocks for line in block.lines]
    return [line for system in layout.systems for line in system] + blocks


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[Voice], int]:
    columns = draw(st.integers(14, 60))
    voices: list[Voice] = []
    for index in range(draw(st.integers(1, 5))):
        widths = draw(st.lists(st.integers(1, 90), max_size=40))
        pieces: list[Piece] = []
        for token, width in enumerate(widths):
            breaks = (
                [draw(st.booleans()) and draw(st.booleans()) for _ in range(width)] if width < 4 else [False] * width
            )
            pieces += cut_pieces(token, [1] * width, breaks, columns)
        parent = draw(st.integers(0, index - 1)) if index else None
        tokens = voices[parent].pieces[-1].token + 1 if parent is not None and voices[parent].pieces else 0
        voices.append(Voice(tuple(pieces), parent, draw(st.integers(0, tokens)), bool(index) and draw(st.booleans())))
    return voices, columns


@given(stories())
def test_every_piece_of_every_voice_stands_once_and_in_order(story: tuple[list[Voice], int]) -> None:
    voices, columns = story
    lines = every_line(lay_out(voices, columns))
    for index, voice in enumerate(voices):
        assert [piece for line in lines if line.voice == index for piece in line.pieces] == list(voice.pieces)


@given(stories())
def test_no_line_is_longer_than_the_columns(story: tuple[list[Voice], int]) -> None:
    voices, columns = story
    assert all(line.width <= columns for line in every_line(lay_out(voices, columns)))


@given(stories())
def test_every_voice_starts_once_and_a_joined_one_stands_under_its_fork(story: tuple[list[Voice], int]) -> None:
    voices, columns = story
    layout = lay_out(voices, columns)
    starts = [line for line in every_line(layout) if line.starts]
    assert sorted(line.voice for line in starts) == list(range(len(voices)))
    for system in layout.systems:
        for row, line in enumerate(system):
            if line.joined:
                parent = voices[line.voice].parent
                above = next(
                    other for other in reversed(system[:row]) if other.voice == parent and has_fork(other, line, voices)
                )
                assert line.offset == fork_column(above, voices[line.voice].fork)


def has_fork(above: Line, line: Line, voices: list[Voice]) -> bool:
    return fork_column(above, voices[line.voice].fork) is not None and above.voice == voices[line.voice].parent


def fork_column(line: Line, fork: int) -> int | None:
    column = line.offset
    for piece in line.pieces:
        if piece.token == fork and piece.start == 0:
            return column
        column += piece.width
    return column if line.ends and (not line.pieces or line.pieces[-1].token + 1 == fork) else None


def test_a_child_starts_under_its_fork_directly_under_its_parent() -> None:
    parent, child = Voice(words(5, 5, 5, 5)), Voice(words(4, 4), parent=0, fork=2)
    (system,) = lay_out([parent, child], 40).systems
    assert [(line.voice, line.offset, line.joined) for line in system] == [(0, 0, False), (1, 10, True)]


def test_the_rightmost_fork_stands_nearest_and_the_other_elbow_passes_it() -> None:
    voices = [Voice(words(5, 5, 5, 5)), Voice(words(4), 0, 1), Voice(words(4), 0, 2)]
    (system,) = lay_out(voices, 40).systems
    assert [(line.voice, line.offset, line.pipes) for line in system] == [(0, 0, ()), (2, 10, (5,)), (1, 5, ())]


def test_a_nested_child_stands_under_the_child_it_leaves() -> None:
    voices = [Voice(words(5, 5, 5)), Voice(words(5, 5, 5), 0, 1), Voice(words(5), 1, 1)]
    (system,) = lay_out(voices, 60).systems
    assert [(line.voice, line.offset) for line in system] == [(0, 0), (1, 5), (2, 10)]


@pytest.mark.parametrize(("left", "joined"), [(LEAST_COLUMNS, True), (LEAST_COLUMNS - 1, False)])
def test_with_fewer_than_twelve_columns_left_the_child_starts_the_next_system(left: int, joined: bool) -> None:
    columns = 40
    parent = Voice(words(columns - left, left, 10))
    first, second = lay_out([parent, Voice(words(3, 3), 0, 1)], columns).systems
    assert [line.voice for line in first] == ([0, 1] if joined else [0])
    assert [line.voice for line in second] == ([0] if joined else [0, 1])
    if not joined:
        assert second[1].starts
        assert second[1].offset == 0


def test_a_line_break_ends_a_line_that_is_alone_only() -> None:
    broken = words(3, 1, 3, breaks=(1,))
    alone = lay_out([Voice(broken)], 40).systems
    assert [[piece.token for line in system for piece in line.pieces] for system in alone] == [[0, 1], [2]]
    (system,) = lay_out([Voice(words(2)), Voice(broken, 0, 0)], 40).systems
    assert [piece.token for piece in system[1].pieces] == [0, 1, 2]


def test_a_line_that_a_voice_leaves_is_not_alone() -> None:
    broken = words(3, 1, 3, breaks=(1,))
    (system,) = lay_out([Voice(broken), Voice(words(2), 0, 0)], 40).systems
    assert [(line.voice, len(line.pieces)) for line in system] == [(0, 3), (1, 1)]


def test_two_systems_after_the_last_fork_each_voice_becomes_a_block() -> None:
    long = words(*[10] * 12)
    layout = lay_out([Voice(long), Voice(long, 0, 0)], 20)
    assert [len(system) for system in layout.systems] == [2, 2, 2]
    assert [(block.voice, len(block.lines)) for block in layout.blocks] == [(0, 3), (1, 3)]
    assert not layout.side_by_side


def test_blocks_stand_side_by_side_where_all_fit() -> None:
    long = words(*[10] * 60)
    layout = lay_out([Voice(long), Voice(long, 0, 0)], 100)
    assert layout.side_by_side
    assert all(line.width <= 46 for block in layout.blocks for line in block.lines)


def test_a_voice_in_place_is_whole_under_its_line_and_the_parent_goes_on() -> None:
    trunk, stub = Voice(words(*[10] * 6)), Voice(words(*[10] * 5), 0, 1, in_place=True)
    first, second = lay_out([trunk, stub], 40).systems
    assert [line.voice for line in first] == [0, 1, 1]
    assert [line.voice for line in second] == [0]


def test_a_voice_that_ended_still_has_a_line_for_its_consequence() -> None:
    (system,) = lay_out([Voice(words(5, 5)), Voice((), 0, 1)], 40).systems
    assert [(line.voice, line.offset, line.ends) for line in system] == [(0, 0, True), (1, 5, True)]


def test_glued_pieces_stay_together() -> None:
    pieces = (Piece(0, 0, 1, 8), Piece(1, 0, 1, 1), Piece(2, 0, 1, 1, glued=True), Piece(3, 0, 1, 1, glued=True))
    first, second = lay_out([Voice(pieces)], 10).systems
    assert [piece.token for piece in first[0].pieces] == [0]
    assert [piece.token for piece in second[0].pieces] == [1, 2, 3]


def test_a_piece_wider_than_a_line_is_refused() -> None:
    with pytest.raises(ValueError, match="wider"):
        lay_out([Voice(words(41))], 40)


def test_a_token_is_cut_after_its_line_breaks_and_at_the_columns() -> None:
    pieces = cut_pieces(7, [1, 1, 2, 1, 1], [False, True, False, False, False], 3)
    assert [(piece.start, piece.stop, piece.width, piece.breaks) for piece in pieces] == [
        (0, 2, 2, True),
        (2, 4, 3, False),
        (4, 5, 1, False),
    ]
