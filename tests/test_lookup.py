"""Looking a token up: against softmax worked out here, and in the bundled study."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.library import Library
from app.links import CaseLink
from app.lookup import Found, find_token, look_up
from app.scene import Scene, open_scene
from capture.model import Mode, Token
from capture.resources import bundled_library
from capture.rows import widen

CASE = "mac-751ffd9f"
POSITION, PREFIX = 38, "f20475388d0a026b"


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    found = Library(bundled_library())
    yield found
    found.close()


@pytest.fixture(scope="module", params=[Mode.FREE, Mode.FORCED])
def scene(request: pytest.FixtureRequest, library: Library) -> Scene:
    case = library.open_case(CASE, request.param)
    return open_scene(case, CaseLink(CASE).where(mode=request.param).fork(POSITION, PREFIX))


def test_whole_rows_give_the_probability_and_rank_of_any_token(library: Library, scene: Scene) -> None:
    lane = scene.story.case.lanes[0]
    raw = library.row(lane.run.run_id, POSITION)
    assert raw is not None
    logits = widen([raw], lane.run.dtype)[0].astype(np.float64)
    weights = np.exp(logits)
    for token_id in (0, 17, 49151, int(logits.argmax())):
        found = look_up(scene, str(token_id), library.row)
        answer = found.lanes[0]
        assert answer is not None
        assert answer.whole
        assert float(answer.percent) == pytest.approx(100 * weights[token_id] / weights.sum(), rel=0.6)
        assert int(answer.rank.replace(",", "")) == 1 + sum(value > logits[token_id] for value in logits.tolist())
        assert float(answer.logit) == pytest.approx(logits[token_id], rel=1e-3)


def test_lanes_that_kept_top_tokens_only_give_a_bound(library: Library, scene: Scene) -> None:
    found = look_up(scene, "0", library.row)
    labels = [lane.facts.runtime.name for lane in scene.story.case.lanes]
    by_name = dict(zip(labels, found.lanes, strict=True))
    whole, bound = by_name["kv-e4m3"], by_name["fp32"]
    assert whole is not None
    assert whole.whole
    assert isinstance(bound, Found)
    assert bound.bound
    assert bound.percent.startswith("< ")
    assert bound.rank.startswith("> ")


def test_a_reported_token_has_the_same_answer_with_and_without_its_row(library: Library, scene: Scene) -> None:
    lane = scene.story.case.lanes[0]
    best = str(int(lane.steps.top1[POSITION]))
    whole, top = (look_up(scene, best, row).lanes[0] for row in (library.row, lambda *_: None))
    assert whole is not None
    assert top is not None
    assert (whole.percent, whole.rank) == (top.percent, top.rank)
    assert (whole.whole, top.whole) == (True, False)


def test_a_row_that_holds_no_distribution_counts_as_not_kept(scene: Scene) -> None:
    for row in (b"", b"\xff\x7f" * 8):
        found = look_up(scene, "1", lambda *_, row=row: row)
        assert any(found.lanes)
        assert not any(one is not None and one.whole for one in found.lanes)


def test_an_id_beyond_the_vocabulary_is_said(library: Library, scene: Scene) -> None:
    assert look_up(scene, "99999999999", library.row).notice
    assert look_up(scene, "no token has this text", library.row).notice


TOKENS = {
    1: Token(1, b" on"),
    2: Token(2, b"5"),
    3: Token(3, b"on"),
    4: Token(4, b"<script>"),
    5: Token(5, b" and"),
    6: Token(6, b"\n"),
}


@pytest.mark.parametrize(
    ("asked", "token_id"),
    [("on", 3), (" on", 1), ("and", 5), ("5", 5), ('"5"', 2), ("<script>", 4), ("\u2423on", 1), ("\u23ce", 6)],
)
def test_a_question_is_an_id_or_a_text(asked: str, token_id: int) -> None:
    assert find_token(asked, TOKENS)[0] == token_id


@given(st.text(max_size=300))
def test_any_question_is_answered(asked: str) -> None:
    token_id, notice = find_token(asked, TOKENS)
    assert token_id is not None or notice
