from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.chunks import CHUNK, SLACK, Chunks, cut_chunks
from app.text import draw
from capture.model import Token

WORDS = (
    b" word",
    b"a",
    b"\n",
    b"x\n\ny",
    b"\xf0",
    b"\x9f",
    b"\xa6",
    b"\x84",
    b"\xe2\x82",
    b"\xac",
    b"\xff",
    b"",
    b"<b>",
    b"\x00",
)

TOKENS = {index: Token(index, data) for index, data in enumerate(WORDS)}

IDS = st.lists(st.sampled_from(sorted(TOKENS)), max_size=40).map(lambda part: (part * 60)[:1400])


def cut(ids: list[int]) -> Chunks:
    return cut_chunks(np.array(ids, np.int32), TOKENS)


@given(IDS)
def test_chunks_hold_every_position_once_and_in_order(ids: list[int]) -> None:
    chunks = cut(ids)
    assert len(chunks) == max(-(-len(ids) // CHUNK), 1)
    spans = [chunks.span(index) for index in range(len(chunks))]
    assert [position for first, stop in spans for position in range(first, stop)] == list(range(len(ids)))
    assert all(
        chunks.at(position) == index for index, (first, stop) in enumerate(spans) for position in range(first, stop)
    )
    assert all(stop - first <= CHUNK + SLACK + 3 for first, stop in spans)


@given(IDS)
def test_drawing_chunk_by_chunk_looks_like_drawing_the_whole(ids: list[int]) -> None:
    chunks = cut(ids)
    parts = [draw(ids[slice(*chunks.span(index))], TOKENS) for index in range(len(chunks))]
    assert [token for part in parts for token in part] == list(draw(ids, TOKENS))


def test_a_chunk_ends_after_a_line_break_that_is_near() -> None:
    ids = [0] * 1000
    ids[200], ids[240], ids[700] = 2, 2, 2
    chunks = cut(ids)
    assert chunks.starts == (0, 241, 512, 701, 1000)
    assert chunks.breaks == (2, 0, 1, 0)
    assert chunks.cells[1] == (512 - 241) * len(" word")


def test_a_break_farther_away_than_the_slack_is_too_far() -> None:
    ids = [0] * 600
    ids[CHUNK - SLACK - 2] = 2
    assert cut(ids).starts == (0, 256, 512, 600)


def test_a_chunk_never_starts_within_a_character() -> None:
    ids = [0] * 254 + [4, 5, 6, 7] + [0] * 300
    assert cut(ids).starts[1] == 254


def test_a_place_outside_of_the_text_gives_the_nearest_chunk() -> None:
    chunks = cut([0] * 600)
    assert (chunks.at(-5), chunks.at(10**9)) == (0, 2)
    assert cut([]).starts == (0, 0)
    assert cut([]).at(7) == 0
