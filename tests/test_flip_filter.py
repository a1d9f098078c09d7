from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.flip_filter import CLASSES, FlipFilter, margin_bounds, marked, matching
from app.forks import Fork
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink
from app.scene import open_scene
from app.streams import streams_json, streams_page
from app.transcript_page import transcript_page
from capture.model import Mode
from tests.synthetic_large import make_large_library


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenCase]:
    """A forced case of 3 lanes with many flips."""
    library = Library(make_large_library(tmp_path_factory.mktemp("long"), 3, 3000, 300))
    (entry,) = library.cases()
    yield library.open_case(entry.key, Mode.FORCED)
    library.close()


@pytest.fixture(scope="module")
def forks(case: OpenCase) -> tuple[Fork, ...]:
    return open_scene(case, CaseLink(case.key)).forks


def test_classes_part_the_flips(case: OpenCase, forks: tuple[Fork, ...]) -> None:
    parts = [matching(forks, case, FlipFilter(flip_class=name)) for name in CLASSES]
    assert sum(map(len, parts)) == len(forks) > 100
    for name, part in zip(CLASSES, parts, strict=True):
        assert {fork.flip_class.value for fork in part} <= {name}


def test_a_lane_leaves_only_flips_where_it_chose_otherwise(case: OpenCase, forks: tuple[Fork, ...]) -> None:
    for lane in case.lanes[1:]:
        found = matching(forks, case, FlipFilter(lane=lane.run.run_id[:12]))
        assert found == tuple(fork for fork in forks if lane.letter in fork.letters)
        assert found


def test_margins_are_ranges_that_part_the_flips(case: OpenCase, forks: tuple[Fork, ...]) -> None:
    low, high = (matching(forks, case, FlipFilter(margin=text)) for text in ("-0.2", "0.2-"))
    assert len(low) + len(high) == len(forks)
    assert all(fork.margin_nats < 0.2 for fork in low)
    assert all(fork.margin_nats >= 0.2 for fork in high)


def test_verdicts_say_what_became_of_a_flip(case: OpenCase, forks: tuple[Fork, ...]) -> None:
    same, changed, unknown = (
        set(map(id, matching(forks, case, FlipFilter(verdict=name)))) for name in ("same", "changed", "unknown")
    )
    assert not same & changed
    assert not same & unknown
    assert len(same | changed | unknown) == len(forks)


@pytest.mark.parametrize(("sort", "sign"), [("margin", -1), ("closest", 1)])
def test_the_order_is_that_of_the_margin(case: OpenCase, forks: tuple[Fork, ...], sort: str, sign: int) -> None:
    found = matching(forks, case, FlipFilter(sort=sort))
    assert sorted(map(id, found)) == sorted(map(id, forks))
    assert all(sign * one.margin_nats <= sign * other.margin_nats for one, other in pairwise(found))


def test_the_text_marks_what_the_list_holds(case: OpenCase, forks: tuple[Fork, ...]) -> None:
    wanted = FlipFilter(margin="0.5-")
    left = {fork.position for fork in matching(forks, case, wanted)}
    shown = [fork for fork in marked(forks, case, wanted) if fork.marked]
    assert {fork.position for fork in shown} <= left
    assert sum(fork.count for fork in shown) == len(left)
    assert marked(forks, case, FlipFilter(sort="margin")) == forks


def test_pages_of_the_list_are_those_of_what_is_left(case: OpenCase, forks: tuple[Fork, ...]) -> None:
    wanted = FlipFilter(lane=case.lanes[1].run.run_id, sort="margin")
    link = CaseLink(case.key).where(mode=Mode.FORCED, filter=wanted)
    twin = streams_json(transcript_page(case, link))
    left = matching(forks, case, wanted)
    assert twin["flips_total"] == len(left)
    assert twin["flips_unfiltered"] == len(forks)
    assert twin["flips_filter"] == {"lane": case.lanes[1].run.run_id[:12], "sort": "margin"}
    assert [row["position"] for row in twin["flips"]] == [fork.position for fork in left[:100]]
    assert "sort=margin" in twin["flips"][0]["href"]


def test_an_open_flip_leads_to_those_of_the_filter_also_where_it_is_none_of_them(
    case: OpenCase, forks: tuple[Fork, ...]
) -> None:
    wanted = FlipFilter(margin="1-")
    clear = [fork.position for fork in matching(forks, case, wanted)]
    fork = next(one for one in forks if one.margin_nats < 1 and clear[0] < one.position < clear[-1])
    link = CaseLink(case.key).where(mode=Mode.FORCED, filter=wanted).fork(fork.position, fork.prefix_id)
    panel = transcript_page(case, link).panel
    assert panel is not None
    assert f"/f/{max(p for p in clear if p < fork.position)}-" in panel.earlier
    assert f"/f/{min(p for p in clear if p > fork.position)}-" in panel.later


def test_streams_show_a_position_and_say_where_the_output_ends(case: OpenCase) -> None:
    page = streams_page(case, CaseLink(case.key).where(mode=Mode.FORCED, at=7), 80)
    assert page.pane is not None
    assert (page.pane.position, page.pane.pinned) == (7, False)
    beyond = streams_page(case, CaseLink(case.key).where(mode=Mode.FORCED, at=99_999), 80)
    assert beyond.pane is not None
    assert beyond.pane.position == 2999
    assert any("2,999" in notice for notice in beyond.notices)


@given(st.text(max_size=12))
def test_a_range_is_read_or_refused(text: str) -> None:
    bounds = margin_bounds(text)
    assert bounds is None or 0 <= bounds[0] < bounds[1]


@pytest.mark.parametrize(
    ("text", "bounds"), [("0.1-0.5", (0.1, 0.5)), ("-0.1", (0, 0.1)), ("1-", (1, float("inf"))), ("-", None)]
)
def test_ranges(text: str, bounds: tuple[float, float] | None) -> None:
    assert margin_bounds(text) == bounds
