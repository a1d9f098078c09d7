from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from app.differences import MOST_ROWS
from app.drawing import LineView, TokenView
from app.find import find_page
from app.forks import Fork
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink, ForkLink, parse
from app.scene import open_scene
from app.strands import story_of
from app.streams import streams_json, streams_page, tables
from app.streams_values import StreamsPage
from app.tables import Table, percent, table_at
from capture.model import Mode
from tests.synthetic import make_library

COLUMNS = 80


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    found = Library(make_library(tmp_path_factory.mktemp("library"), lanes=5))
    yield found
    found.close()


def opened(library: Library, case: str, mode: Mode) -> tuple[OpenCase, CaseLink]:
    key = next(entry.key for entry in library.cases() if entry.key.startswith(case))
    return library.open_case(key, mode), CaseLink(key).where(mode=mode)


@pytest.fixture(scope="module")
def free(library: Library) -> tuple[OpenCase, CaseLink]:
    return opened(library, "iface", Mode.FREE)


@pytest.fixture(scope="module")
def forced(library: Library) -> tuple[OpenCase, CaseLink]:
    return opened(library, "iface", Mode.FORCED)


def lines(page: StreamsPage) -> list[LineView]:
    inside = [line for block in page.streams.blocks for line in (*block.lines, *block.folded)]
    return [line for system in page.streams.systems for line in system] + inside


def fork_link(case: OpenCase, link: CaseLink, pick: int = 0) -> ForkLink:
    forks = open_scene(case, link).forks
    return link.fork(forks[pick].position, forks[pick].prefix_id)


def _present(table: Table) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    return table.letters, table.present


def text_of(tokens: tuple[TokenView, ...]) -> str:
    return "".join(token.lead + "".join(run.text for run in token.runs if run.part == 0) for token in tokens)


@pytest.mark.parametrize("name", ["iface", "hostile"])
@pytest.mark.parametrize("mode", [Mode.FREE, Mode.FORCED])
@pytest.mark.parametrize("columns", [30, 80, 180])
def test_every_token_of_every_lane_is_drawn_once_and_in_order(
    library: Library, name: str, mode: Mode, columns: int
) -> None:
    case, link = opened(library, name, mode)
    page = streams_page(case, link, columns)
    for strand in page.strands:
        drawn = [token.position for line in lines(page) if line.key == strand.key for token in line.tokens]
        stop = strand.first_position + len(strand.token_ids)
        assert list(dict.fromkeys(drawn)) == list(range(strand.first_position, stop))
        assert drawn == sorted(drawn)


def test_the_strands_of_free_runs_give_back_every_lane(free: tuple[OpenCase, CaseLink]) -> None:
    case, _ = free
    story = story_of(case)
    for lane in case.lanes:
        index = next(at for at, strand in enumerate(story.strands) if lane.letter in strand.ended)
        tokens: list[int] = []
        stop = story.strands[index].stop
        while True:
            strand = story.strands[index]
            tokens = strand.token_ids[: stop - strand.first_position].tolist() + tokens
            if strand.parent is None:
                break
            index, stop = strand.parent, strand.first_position
        assert tokens == lane.steps.token_id.tolist()


def test_lanes_that_agree_are_one_line_and_each_continuation_has_one(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    page = streams_page(case, link, COLUMNS)
    assert len(page.strands) == len({tuple(lane.steps.token_id.tolist()) for lane in case.lanes})
    first = lines(page)[0]
    assert [head.letter for head in first.heads] == [lane.letter for lane in case.lanes]


def test_a_child_starts_under_the_token_that_it_replaces(free: tuple[OpenCase, CaseLink]) -> None:
    page = streams_page(*free, COLUMNS)
    joined = [line for line in lines(page) if line.pad and line.pad[-1][1] == "elbow"]
    assert joined
    for line in joined:
        parent = next(strand for strand in page.strands if strand.key == line.key).parent
        above = [
            other
            for other in lines(page)
            if other.key == page.strands[parent or 0].key and line.at in [token.position for token in other.tokens]
        ]
        column = len("".join(spaces for spaces, _ in above[0].pad)) + len(
            text_of(tuple(token for token in above[0].tokens if token.position < line.at))
        )
        assert len("".join(spaces for spaces, _ in line.pad)) == column


def test_the_flips_are_those_of_the_comparisons(forced: tuple[OpenCase, CaseLink]) -> None:
    case, link = forced
    expected = {flip.position for comparison in case.comparisons.values() for flip in comparison.flips}
    page = streams_page(case, link, COLUMNS)
    assert [row.position for row in page.flips] == sorted(expected)


def test_flips_at_one_position_are_one_mark_with_the_letters(forced: tuple[OpenCase, CaseLink]) -> None:
    case, link = forced
    scene = open_scene(case, link)
    for fork in scene.forks:
        flipped = {
            lane.letter
            for lane in case.lanes[1:]
            for flip in case.comparisons[lane.run.run_id].flips
            if flip.position == fork.position
        }
        assert set(fork.letters) == flipped


def test_flips_close_together_are_one_mark_with_a_count(forced: tuple[OpenCase, CaseLink]) -> None:
    forks = open_scene(*forced).forks
    marked = [fork for fork in forks if fork.marked]
    assert sum(fork.count for fork in marked) == len(forks)
    assert all(later.position - one.position >= 4 for one, later in zip(marked, marked[1:], strict=False))


def test_every_flip_in_the_text_links_to_its_fork(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    page = streams_page(case, link, COLUMNS)
    hrefs = {token.href for line in lines(page) for token in line.tokens if token.href}
    assert hrefs == {row.href for row in page.flips}
    for href in hrefs:
        found = parse(href).link
        assert isinstance(found, ForkLink)
        assert streams_page(case, found, COLUMNS).panel is not None


@pytest.mark.parametrize("mode", [Mode.FREE, Mode.FORCED])
def test_an_open_fork_shows_both_continuations_in_full(library: Library, mode: Mode) -> None:
    case, link = opened(library, "iface", mode)
    page = streams_page(case, fork_link(case, link), COLUMNS)
    assert page.panel is not None
    stayed, left = page.panel.continuations
    assert text_of(stayed.tokens).startswith(" on the core switch")
    assert text_of(left.tokens).startswith(" and then")
    assert "on" in page.panel.headline
    assert f"position {page.panel.position}" in page.title


def test_the_headline_says_the_argument_that_differs(forced: tuple[OpenCase, CaseLink]) -> None:
    case, link = forced
    page = streams_page(case, fork_link(case, link, -1), COLUMNS)
    assert page.panel is not None
    assert page.panel.headline.endswith("E: clear interface")
    assert "show interface" in page.panel.headline
    pills = [pill.text for pill in page.panel.continuations[1].pills]
    assert "different arguments: command" in pills
    assert page.panel.continuations[1].certificate is not None
    assert "bit-identical" in page.panel.continuations[1].certificate.text


def test_an_opened_stub_stands_under_the_trunk_which_goes_on(forced: tuple[OpenCase, CaseLink]) -> None:
    case, link = forced
    page = streams_page(case, fork_link(case, link, -1), COLUMNS)
    (system,) = [system for system in page.streams.systems if any(line.stub for line in system)]
    assert [line.stub for line in system] == [False] + [True] * (len(system) - 1)
    trunk = [token.position for line in lines(page) if not line.stub for token in line.tokens]
    assert trunk == sorted(trunk)
    assert len(set(trunk)) == len(case.lanes[0].steps)


def test_the_pane_agrees_with_the_steps(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    page = streams_page(case, fork_link(case, link), COLUMNS)
    assert page.pane is not None
    steps = case.lanes[0].steps
    row = int(np.flatnonzero(steps.position == page.pane.position)[0])
    expected = 100 * np.exp(float(steps.top_logits[row, 0]) - steps.log_sum_exp[row])
    winner = next(cells.cells[0] for cells in page.pane.table.rows if cells.cells[0] and cells.cells[0].winner)
    assert winner.percent == pytest.approx(expected)
    assert page.pane.numbers[0].values[0] == f"{steps.margin_nats[row]:.3f}"
    assert page.pane.prefix == steps.prefix_id[row].hex()


def test_a_lane_that_left_has_no_column_of_numbers_any_more(free: tuple[OpenCase, CaseLink]) -> None:
    case, _ = free
    story = story_of(case)
    child = next(at for at, strand in enumerate(story.strands) if strand.parent == 0)
    first = story.strands[child].first_position
    both = [letter for letter, here in zip(*_present(table_at(story, child, first)), strict=True) if here]
    assert set(both) > set(story.strands[child].keys_at(first + 1))
    later = table_at(story, child, first + 1)
    present = [letter for letter, here in zip(later.letters, later.present, strict=True) if here]
    assert present == list(story.strands[child].keys_at(first + 1))
    assert all(
        cell is None for row in later.rows for cell, here in zip(row.cells, later.present, strict=True) if not here
    )


def test_the_reported_probabilities_and_the_rest_make_one(free: tuple[OpenCase, CaseLink]) -> None:
    table = table_at(story_of(free[0]), 0, 3)
    for lane in range(len(table.letters)):
        cells = [row.cells[lane] for row in table.rows]
        known = sum(cell.percent for cell in cells if cell is not None and not cell.bound)
        assert known + float(table.rest[lane]) == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize(
    ("probability", "text"),
    [(1, "100"), (0.99991, "99.99"), (0.9991, "99.9"), (0.221, "22.1"), (0.0004, "0.04"), (2e-7, "2e-5"), (0, "0")],
)
def test_percent_never_says_0_or_100_for_what_is_not(probability: float, text: str) -> None:
    assert percent(probability) == text


@pytest.mark.parametrize("mode", [Mode.FREE, Mode.FORCED])
def test_the_tables_of_a_chunk_hold_every_token_of_the_page(library: Library, mode: Mode) -> None:
    case, link = opened(library, "iface", mode)
    links: list[CaseLink | ForkLink] = [link, *(fork_link(case, link, pick) for pick in range(3))]
    for each in links:
        page = streams_page(case, each, COLUMNS)
        found = tables(case, 0, 256, link)["tables"]
        wanted = {f"{line.key}:{token.position}" for line in lines(page) for token in line.tokens}
        assert wanted <= found.keys()


@pytest.mark.parametrize("mode", [Mode.FREE, Mode.FORCED])
def test_what_is_said_of_a_token_is_what_its_own_lane_gave_it(library: Library, mode: Mode) -> None:
    case, link = opened(library, "iface", mode)
    story = story_of(case)
    found = tables(case, 0, 1024, link)["tables"]
    for index, strand in enumerate(story.strands):
        for at, token_id in enumerate(strand.token_ids.tolist()):
            position = strand.first_position + at
            source = story.sources[strand.keys_at(position)[0]]
            row = source.row(position)
            assert row is not None, index
            known = source.steps.top_ids[row].tolist()
            if token_id in known:
                log = float(source.steps.top_logits[row][known.index(token_id)]) - float(source.steps.log_sum_exp[row])
                assert f", {percent(np.exp(log))} percent" in found[f"{strand.key}:{position}"]["say"]


@pytest.mark.parametrize("mode", [Mode.FREE, Mode.FORCED])
def test_a_pages_own_links_stay_in_its_mode(library: Library, mode: Mode) -> None:
    case, link = opened(library, "iface", mode)
    bare = link.where(mode=None)
    addresses = [entry["href"] for entry in tables(case, 0, 1024, bare)["tables"].values()]
    addresses += [hit.href for hit in find_page(case, bare, "interface").hits]
    for address in addresses:
        found = parse(address).link
        assert found is not None
        assert library.open_link(found).mode is mode


def test_the_tables_say_position_token_probability_and_flip(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    fork: Fork = open_scene(case, link).forks[0]
    entry = tables(case, fork.position, 1, link)["tables"][f"A:{fork.position}"]
    assert entry["say"].startswith(
        f"position {fork.position}, \u201c\u2423on\u201d, 70.5 percent, decided flip: D, E chose"
    )
    assert parse(entry["href"]).link == link.fork(fork.position, fork.prefix_id)


def test_a_permalink_names_every_lane_and_opens_the_same_fork(
    library: Library, free: tuple[OpenCase, CaseLink]
) -> None:
    case, link = free
    page = streams_page(case, fork_link(case, link), COLUMNS)
    found = parse(page.permalink).link
    assert isinstance(found, ForkLink)
    again = streams_page(library.open_link(found), found, COLUMNS)
    assert again.title == page.title
    assert again.panel is not None
    assert page.panel is not None
    assert [one.tokens for one in again.panel.continuations][0][0].position == page.panel.position


def test_a_fork_that_is_unknown_opens_the_nearest_with_a_notice(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    page = streams_page(case, link.fork(7, "ab" * 8), COLUMNS)
    assert page.panel is None
    assert page.pane is not None
    assert page.pane.position == 7
    assert any("prefix" in notice for notice in page.notices)


def test_a_place_that_is_no_fork_is_pinned_without_a_panel(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    page = streams_page(case, link.fork(2, case.lanes[0].steps.prefix_id[2]), COLUMNS)
    assert page.panel is None
    assert page.pane is not None
    assert page.pane.pinned
    assert [token.position for line in lines(page) for token in line.tokens if "pinned" in token.marks] == [2]


def test_chips_hide_a_lane_and_choose_the_reference(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    page = streams_page(case, link, COLUMNS)
    reference, second = page.chips[:2]
    assert reference.is_reference
    assert not reference.hide
    hidden = parse(second.hide).link
    assert hidden is not None
    assert len(hidden.options.lanes) == len(case.lanes) - 1
    assert case.lanes[1].run.run_id[:12] not in hidden.options.lanes
    preferred = parse(second.prefer).link
    assert preferred is not None
    assert preferred.options.lanes[0] == case.lanes[1].run.run_id[:12]


def links_that_change_lanes(page: StreamsPage) -> list[str]:
    return [href for chip in page.chips for href in (chip.hide, chip.prefer) if href] + [
        one.href for one in page.hidden
    ]


def test_an_open_fork_stays_open_where_lanes_change_and_it_still_exists(library: Library) -> None:
    whole, link = opened(library, "iface", Mode.FREE)
    fewer = link.where(lanes=tuple(lane.run.run_id for lane in whole.lanes if lane.letter != "C"))
    case = library.open_link(fewer)
    here = fork_link(case, fewer)
    page = streams_page(case, here, COLUMNS)
    assert page.panel is not None
    assert len(page.hidden) == 1
    hrefs = links_that_change_lanes(page)
    assert len(hrefs) == 3 + 3 + 1
    for href in hrefs:
        found = parse(href).link
        assert isinstance(found, ForkLink)
        assert (found.position, found.prefix) == (here.position, here.prefix)
        again = streams_page(library.open_link(found), found, COLUMNS)
        assert again.pane is not None
        assert (again.pane.position, again.pane.pinned) == (here.position, True)
        assert again.panel is not None
    assert all(isinstance(parse(choice.href).link, ForkLink) for choice in page.modes)


def test_where_no_fork_is_open_lanes_change_at_the_place_that_the_link_names(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    for wanted, at in ((link.where(at=40), 40), (link, None), (link.fork(7, "ab" * 8), None)):
        page = streams_page(case, wanted, COLUMNS)
        for href in links_that_change_lanes(page):
            found = parse(href).link
            assert isinstance(found, CaseLink)
            assert found.options.at == at


def test_the_switch_of_modes_keeps_a_place_on_the_references_text_alone(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    on_another = next(fork for fork in open_scene(case, link).forks if fork.strand)
    page = streams_page(case, link.fork(on_another.position, on_another.prefix_id), COLUMNS)
    assert page.panel is not None
    assert all(isinstance(parse(choice.href).link, CaseLink) for choice in page.modes)


def test_a_lane_that_never_differs_is_warned_of(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    lane = case.lanes[1]
    comparison = case.comparisons[lane.run.run_id]
    same = replace(comparison, identical=True)
    changed = replace(case, comparisons={**case.comparisons, lane.run.run_id: same})
    warning = streams_page(changed, link, COLUMNS).chips[1].warning
    assert "may have had no effect" in warning
    reference = case.lanes[0].facts.runtime.options
    asked = {name for name, value in lane.facts.runtime.options.items() if reference.get(name) != value}
    assert asked
    assert all(name in warning for name in asked)


def test_a_lane_that_breaks_ties_its_own_way_is_not_called_without_effect(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    lane = next(one for one in case.lanes[1:] if case.comparisons[one.run.run_id].flips)
    same = replace(case.comparisons[lane.run.run_id], identical=True)
    changed = replace(case, comparisons={**case.comparisons, lane.run.run_id: same})
    chip = next(one for one in streams_page(changed, link, COLUMNS).chips if one.letter == lane.letter)
    assert "no effect" not in chip.warning


def test_a_chip_tells_what_its_manifest_does_not_share_with_the_reference(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    chips = streams_page(case, link, COLUMNS).chips
    for lane, chip in zip(case.lanes[1:], chips[1:], strict=True):
        told = {row.entry: row.values for row in chip.differences.rows}
        reference, own = case.lanes[0].manifest, lane.manifest
        options = reference["options"].keys() | own["options"].keys()
        differing = {name for name in options if reference["options"].get(name) != own["options"].get(name)}
        assert told.keys() == {"runtime", *(f"options.{name}" for name in differing)}
        assert told["runtime"] == (reference["runtime"], own["runtime"])
        assert chip.differences.letters == ("A", chip.letter)
    entries = {row.entry for chip in chips[1:] for row in chip.differences.rows}
    assert {row.entry for row in chips[0].differences.rows} == entries
    assert chips[0].differences.letters == tuple("ABCDE")


def test_a_page_lists_the_first_of_many_differences_and_the_twin_all(free: tuple[OpenCase, CaseLink]) -> None:
    case, link = free
    many = {"options": {f"option{index}": index for index in range(500)}}
    lanes = (case.lanes[0], replace(case.lanes[1], manifest={**case.lanes[0].manifest, **many}), *case.lanes[2:])
    page = streams_page(replace(case, lanes=lanes), link, COLUMNS)
    table = page.chips[1].differences
    own = len(case.lanes[0].manifest["options"])
    assert (len(table.rows), len(table.rows) + table.more) == (MOST_ROWS, 500 + own)
    assert len(streams_json(page)["lanes"][1]["differences"]) == 500 + own


@pytest.mark.parametrize("mode", [Mode.FREE, Mode.FORCED])
def test_the_twin_tells_the_same_as_the_page(library: Library, mode: Mode) -> None:
    case, link = opened(library, "iface", mode)
    page = streams_page(case, fork_link(case, link), COLUMNS)
    twin = streams_json(page)
    assert twin["mode"] == mode.value
    assert [flip["position"] for flip in twin["flips"]] == [row.position for row in page.flips]
    assert twin["fork"]["headline"] == page.panel.headline if page.panel else False
    assert twin["streams"][0]["token_ids"] == tuple(case.lanes[0].steps.token_id.tolist())


def test_lanes_that_were_grown_from_one_fork_share_a_line_as_long_as_they_agree(library: Library) -> None:
    case, link = opened(library, "iface", Mode.FORCED)
    story = story_of(case, (fork_link(case, link, 0).position, case.lanes[0].steps.prefix_id[11]))
    stubs = [strand for strand in story.strands if strand.parent is not None]
    assert stubs[0].first_position == 11
    assert {key[0] for _, _, keys in stubs[0].spans for key in keys} >= {"D"}
