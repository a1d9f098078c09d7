from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.card import CARD_TOKENS, card_sheets
from app.digest import digest_of
from app.drawing import TokenView
from app.fork_panel import SHOWN_TOKENS
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink, ForkLink
from app.scene import open_scene
from app.spine import spine_of
from app.strands import story_of
from app.streams import streams_page
from app.text import draw
from app.transcript import ROW_CELLS
from app.transcript_page import CHUNKS_SHOWN, chunk_view, is_transcript, transcript_page
from app.transcript_values import CardView, ChunkView, LeaveView, StretchView
from app.windows import draw_window
from capture.errors import NotFoundError
from capture.model import Mode
from tests.synthetic import make_library
from tests.synthetic_large import make_large_library

MODES = [Mode.FREE, Mode.FORCED]


@dataclass(frozen=True)
class Libraries:
    """Cases `iface` and `hostile` with branches, and `long`, of 3 lanes by 2,000 positions."""

    short: Library
    long: Library

    def of(self, case: str) -> Library:
        return self.long if case == "long" else self.short


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Libraries]:
    folder = tmp_path_factory.mktemp("library")
    short = Library(make_library(folder / "short", lanes=5, positions=70))
    long = Library(make_large_library(folder / "long", 3, 2000, 300))
    yield Libraries(short, long)
    short.close()
    long.close()


def opened(library: Libraries, case: str, mode: Mode) -> OpenCase:
    found = library.of(case)
    return found.open_case(found.find_case(case), mode)


@pytest.fixture(scope="module", params=[(case, mode) for case in ("iface", "hostile", "long") for mode in MODES])
def case(request: pytest.FixtureRequest, library: Libraries) -> OpenCase:
    return opened(library, *request.param)


def link_of(case: OpenCase) -> CaseLink:
    return CaseLink(case.key).where(mode=case.mode)


def chunks_of(case: OpenCase, link: CaseLink | None = None) -> list[ChunkView]:
    digest = digest_of(case)
    count = len(digest.chunks_of(spine_of(story_of(case), 0)))
    return [chunk_view(case, link or link_of(case), index, digest) for index in range(count)]


def tokens_in(chunk: ChunkView) -> list[TokenView]:
    stretches = [item for item in chunk.items if isinstance(item, StretchView)]
    return [token for stretch in stretches for row in stretch.rows for token in row.tokens]


def text_of(token: TokenView) -> str:
    return token.lead + "".join(run.text for run in token.runs if run.part == 0)


def test_the_chunks_together_are_the_text_of_the_reference(case: OpenCase) -> None:
    tokens = [token for chunk in chunks_of(case) for token in tokens_in(chunk)]
    steps = case.lanes[0].steps
    drawn = draw(steps.token_id.tolist(), case.tokens)
    assert [token.position for token in tokens] == list(range(len(steps)))
    flips = {token.position for token in tokens if token.href}
    for token, one in zip(tokens, drawn, strict=True):
        assert text_of(token) == (one.text if token.position not in flips or not one.blank else text_of(token))


def test_every_flip_on_the_text_is_in_exactly_one_chunk(case: OpenCase) -> None:
    forks = [fork for fork in digest_of(case).forks if fork.strand == 0]
    linked = [token for chunk in chunks_of(case) for token in tokens_in(chunk) if token.href]
    assert [token.position for token in linked] == [fork.position for fork in forks]
    assert [token.href for token in linked] == [
        link_of(case).fork(fork.position, fork.prefix_id).format() for fork in forks
    ]


def test_a_chunk_says_where_the_nearest_marked_flips_outside_of_it_are(case: OpenCase) -> None:
    marked = [fork.position for fork in digest_of(case).forks if fork.marked and fork.strand == 0]
    for chunk in chunks_of(case):
        assert chunk.earlier == max((position for position in marked if position < chunk.first), default=None)
        assert chunk.later == min((position for position in marked if position >= chunk.stop), default=None)


def test_marks_of_a_part_are_those_of_the_whole(library: Libraries) -> None:
    for case in (opened(library, "iface", Mode.FORCED), opened(library, "hostile", Mode.FREE)):
        link = link_of(case)
        whole = {
            token.position: token
            for system in streams_page(case, link, 400).streams.systems
            for line in system
            if line.key == "A"
            for token in line.tokens
        }
        ignored = {"novel", "joined"}
        for token in (token for chunk in chunks_of(case) for token in tokens_in(chunk)):
            if token.position in whole:
                other = whole[token.position]
                assert (token.over, token.href, token.words) == (other.over, other.href, other.words)
                assert set(token.marks.split()) == set(other.marks.split()) - ignored


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_part_looks_as_it_does_within_the_whole(hostile: OpenCase, first: int, length: int) -> None:
    scene = open_scene(hostile, link_of(hostile))
    whole = draw(scene.story.strands[0].token_ids.tolist(), hostile.tokens)
    found = draw_window(scene, 0, min(first, len(whole)), min(first + length, len(whole)))
    for one, other in zip(found, whole[first : first + length], strict=True):
        assert one.token_id == other.token_id
        if not any(glyph.parts for glyph in other.glyphs):
            assert one == other


@pytest.fixture(scope="module")
def hostile(library: Libraries) -> OpenCase:
    return opened(library, "hostile", Mode.FREE)


def test_lanes_leave_the_rail_where_they_leave_the_text(library: Libraries) -> None:
    case = opened(library, "iface", Mode.FREE)
    items = [item for chunk in chunks_of(case) for item in chunk.items]
    leaves = [item for item in items if isinstance(item, LeaveView)]
    forks = [fork for fork in digest_of(case).forks if fork.strand == 0]
    assert [leave.position for leave in leaves] == [fork.position for fork in forks]
    assert [{head.letter for head in leave.leaving} for leave in leaves] == [set(fork.letters) for fork in forks]
    rail = [head.letter for head in next(item for item in items if isinstance(item, StretchView)).lanes]
    assert rail == ["A", "B", "C", "D", "E"]
    for before, after in zip(items, items[1:], strict=False):
        if isinstance(before, LeaveView) and isinstance(after, StretchView):
            assert after.lanes == before.lanes
            gone = {head.letter for head in before.leaving}
            assert not gone & {head.letter for head in after.lanes}


def test_forced_lanes_stay_on_the_rail_throughout(library: Libraries) -> None:
    case = opened(library, "iface", Mode.FORCED)
    items = [item for chunk in chunks_of(case) for item in chunk.items]
    assert all(isinstance(item, StretchView) for item in items)
    assert {"".join(head.letter for head in item.lanes) for item in items} == {"ABCDE"}


def test_positions_in_the_margin_are_too_far_apart_to_share_a_line(case: OpenCase) -> None:
    for chunk in chunks_of(case):
        for item in chunk.items:
            if isinstance(item, StretchView):
                for row, following in zip(item.rows, item.rows[1:], strict=False):
                    cells = sum(len(text_of(token)) for token in row.tokens)
                    broken = row.tokens[-1].breaks
                    assert broken or cells > ROW_CELLS / 4
                    assert following.at == row.tokens[-1].position + 1


@pytest.mark.parametrize("mode", MODES)
def test_the_card_stands_right_after_its_flip(library: Libraries, mode: Mode) -> None:
    case = opened(library, "iface", mode)
    fork = next(fork for fork in digest_of(case).forks if fork.strand == 0)
    page = transcript_page(case, link_of(case).fork(fork.position, fork.prefix_id))
    assert page.transcript is not None
    assert page.panel is not None
    items = [item for chunk in page.transcript.chunks for item in chunk.items]
    (at,) = [index for index, item in enumerate(items) if isinstance(item, CardView)]
    before, card, after = items[at - 1 : at + 2]
    assert isinstance(before, StretchView)
    assert isinstance(card, CardView)
    assert isinstance(after, StretchView)
    assert before.rows[-1].tokens[-1].position == fork.position == card.position
    assert after.rows[0].at == fork.position + 1
    assert "pinned" in before.rows[-1].tokens[-1].marks
    assert len(page.panel.continuations) == 1 + len(fork.left)
    assert {head.letter for head in card.leaving} == set(fork.letters)
    assert not any(isinstance(item, LeaveView) and item.position == fork.position for item in items)


def test_a_card_says_what_the_streams_say_of_short_continuations(library: Libraries) -> None:
    for mode in MODES:
        case = opened(library, "iface", mode)
        for fork in digest_of(case).forks:
            if fork.strand != 0:
                continue
            link = link_of(case).fork(fork.position, fork.prefix_id)
            panel, streams = transcript_page(case, link).panel, streams_page(case, link, 100).panel
            assert panel is not None
            assert streams is not None
            assert panel.headline == streams.headline
            for one, other in zip(panel.continuations, streams.continuations, strict=True):
                assert [pill.text for pill in one.pills] == [pill.text for pill in other.pills]
                assert one.certificate == other.certificate
                shared = min(len(one.tokens), len(other.tokens))
                assert list(map(text_of, one.tokens[:shared])) == list(map(text_of, other.tokens[:shared]))


def test_the_text_of_another_lane_can_be_read_on(library: Libraries) -> None:
    case = opened(library, "long", Mode.FREE)
    fork = digest_of(case).forks[0]
    page = transcript_page(case, link_of(case).fork(fork.position, fork.prefix_id))
    assert page.panel is not None
    onward = next(one.onward for one in page.panel.continuations if one.rest or one.onward)
    assert onward
    lane = next(lane for lane in case.lanes if lane.letter == fork.left[0].letters[0])
    followed = transcript_page(case, link_of(case).where(follow=lane.run.run_id))
    assert followed.transcript is not None
    assert followed.transcript.total == len(lane.steps)
    tokens = [token for chunk in followed.transcript.chunks for token in tokens_in(chunk)]
    drawn = draw(lane.steps.token_id.tolist(), case.tokens)
    assert [text_of(token) for token in tokens] == [one.text for one in drawn][: len(tokens)]
    assert len(tokens) > fork.position
    assert followed.transcript.up


def test_a_link_into_another_lane_reads_along_it(library: Libraries) -> None:
    case = opened(library, "iface", Mode.FREE)
    story = story_of(case)
    for index, strand in enumerate(story.strands):
        position = strand.stop - 1
        prefix_id = story.prefix_id(index, position)
        assert prefix_id is not None
        page = transcript_page(case, link_of(case).fork(position, prefix_id))
        assert page.transcript is not None
        assert page.transcript.total == strand.stop
        pinned = [token for chunk in page.transcript.chunks for token in tokens_in(chunk) if "pinned" in token.marks]
        assert [token.position for token in pinned] == [position]


def test_a_link_into_a_grown_continuation_opens_its_card(library: Libraries) -> None:
    case = opened(library, "iface", Mode.FORCED)
    branch = next(branch for branch in case.branches if len(branch.steps) > 4 and branch.letter != "A")
    row = 3
    link = link_of(case).fork(int(branch.steps.position[row]), branch.steps.prefix_id[row])
    page = transcript_page(case, link)
    assert page.panel is not None
    assert page.transcript is not None
    marks = [token.marks for one in page.panel.continuations for token in one.tokens]
    assert sum("pinned" in words for words in marks) == 1


def test_a_page_holds_few_chunks_and_leads_to_the_others(library: Libraries) -> None:
    case = opened(library, "long", Mode.FORCED)
    seen: list[int] = []
    link: CaseLink | ForkLink = link_of(case)
    while True:
        view = transcript_page(case, link).transcript
        assert view is not None
        assert len(view.chunks) <= CHUNKS_SHOWN
        seen += [chunk.index for chunk in view.chunks if chunk.index not in seen]
        if not view.later:
            break
        link = link.where(at=view.stop)
        assert view.later == link.format()
    assert seen == list(range(view.count))
    assert sum(int(part.split(":")[0]) for part in view.plan.split()) == view.total == len(case.lanes[0].steps)


def test_many_flips_are_listed_a_page_at_a_time(library: Libraries) -> None:
    case = opened(library, "long", Mode.FORCED)
    digest = digest_of(case)
    fork = digest.forks[150]
    page = transcript_page(case, link_of(case).fork(fork.position, fork.prefix_id), digest)
    assert len(page.flips) == 100
    assert page.list.total == len(digest.forks) > 200
    assert [row.position for row in page.flips if row.current] == [fork.position]
    turned = transcript_page(case, link_of(case).where(flips=200), digest)
    assert turned.flips[0].position == digest.forks[200].position
    assert turned.list.later == ""
    assert "flips=100" in turned.list.earlier
    beyond = transcript_page(case, link_of(case).where(flips=10**9), digest)
    assert beyond.flips == turned.flips


def test_a_long_continuation_is_cut(library: Libraries) -> None:
    case = opened(library, "long", Mode.FREE)
    link = link_of(case)
    fork = digest_of(case).forks[0]
    scene = open_scene(case, link.fork(fork.position, fork.prefix_id))
    sheets = card_sheets(scene, spine_of(scene.story, 0), fork, link)
    assert len(sheets[0].drawn) == SHOWN_TOKENS
    for side in fork.left:
        assert side.strand is not None
        strand, sheet = scene.story.strands[side.strand], sheets[side.strand]
        assert len(sheet.drawn) == min(CARD_TOKENS, len(strand.token_ids))
        assert sheet.beyond == len(strand.token_ids) - len(sheet.drawn)


def test_the_view_fits_the_length_unless_the_link_says_otherwise(library: Libraries) -> None:
    short, long = opened(library, "iface", Mode.FREE), opened(library, "long", Mode.FREE)
    assert not is_transcript(short, link_of(short))
    assert is_transcript(short, link_of(short).where(view="transcript"))
    assert is_transcript(long, link_of(long))
    assert not is_transcript(long, link_of(long).where(view="streams"))


def test_a_digest_changes_nothing_but_the_time(case: OpenCase) -> None:
    digest = digest_of(case)
    for fork in digest.forks[:3]:
        link = link_of(case).fork(fork.position, fork.prefix_id)
        assert transcript_page(case, link, digest) == transcript_page(case, link)
        fresh = open_scene(case, link)
        assert open_scene(case, link, digest).forks == fresh.forks


def test_a_chunk_that_is_not_there_is_said(library: Libraries) -> None:
    case = opened(library, "iface", Mode.FREE)
    for index in (-1, 99):
        with pytest.raises(NotFoundError, match="chunks"):
            chunk_view(case, link_of(case), index)


def test_opening_again_what_did_not_change_gives_the_same_digest(library: Libraries) -> None:
    first, second = opened(library, "iface", Mode.FREE), opened(library, "iface", Mode.FREE)
    assert first.stamps == second.stamps != ()
    assert library.short.digest(first) is library.short.digest(second)
    other = opened(library, "iface", Mode.FORCED)
    assert library.short.digest(other) is not library.short.digest(first)
    assert library.short.digest(replace(first, stamps=())) is not library.short.digest(first)


def test_no_spine_has_a_gap(case: OpenCase) -> None:
    story = story_of(case)
    for index, strand in enumerate(story.strands):
        spine = spine_of(story, index)
        if case.mode is Mode.FREE:
            assert len(spine) == strand.stop
        assert [part.stop for part in spine.parts[:-1]] == [part.first for part in spine.parts[1:]]
        lane = next(lane for lane in case.lanes if lane.letter == spine.staying(len(spine) - 1)[0])
        assert spine.token_ids.tolist() == lane.steps.token_id.tolist()[: len(spine)]


def test_continuations_that_were_not_read_before_are_read_when_their_fork_opens(
    library: Libraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = opened(library, "iface", Mode.FORCED)
    whole = digest_of(case)
    monkeypatch.setattr("app.digest.MOST_READ", 0)
    partial = digest_of(case)
    assert len(partial.known) < len(whole.known)
    grown = [fork for fork in whole.forks if fork.grown]
    assert grown
    for fork in grown:
        link = link_of(case).fork(fork.position, fork.prefix_id)
        one, other = (open_scene(case, link, digest).fork for digest in (partial, whole))
        assert one is not None
        assert other is not None
        assert one.left == other.left
