from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Seen, serve
from tests.synthetic_large import make_large_library

pytestmark = pytest.mark.browser

POSITIONS = 12_000

MOST_ELEMENTS = 9000

COUNT = "document.querySelectorAll('*').length"


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    """The address of a case of 3 lanes by 12,000 positions, forced."""
    for address in serve(make_large_library(tmp_path_factory.mktemp("long"), 3, POSITIONS, 600)):
        page = browser.new_page()
        page.goto(address)
        href = page.locator("a[href*='/c/long-']").first.get_attribute("href") or ""
        page.close()
        yield address + re.sub(r"(/c/long-[0-9a-f]+).*", r"\1", href) + "?mode=forced"


def open_page(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("html.scripted")).to_be_attached()
    page.wait_for_load_state("networkidle")


def token(page: Page, position: int) -> Locator:
    return page.locator(f".stretch .t[data-p='{position}']")


def top_of(found: Locator) -> float:
    box = found.bounding_box()
    assert box is not None
    return box["y"]


def scroll_to(page: Page, share: float) -> None:
    page.evaluate(f"scrollTo(0, {share} * document.documentElement.scrollHeight)")


def focused(page: Page) -> int:
    return int(page.locator(".t:focus").get_attribute("data-p") or -1)


def text_by_position(page: Page) -> dict[int, str]:
    pairs = page.evaluate(
        "[...document.querySelectorAll('.stretch .t')].map((t) => [Number(t.dataset.p), t.textContent])"
    )
    return {int(position): text for position, text in pairs}


def test_scrolling_to_the_end_and_back_keeps_the_page_small_and_the_text_right(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long)
    before = text_by_position(page)
    assert before[0]
    for share in (0.2, 0.4, 0.41, 0.42, 0.43, 0.8):
        scroll_to(page, share)
        expect(page.locator(".chunk:not(.empty)").nth(2)).to_be_attached()
        assert page.evaluate(COUNT) < MOST_ELEMENTS
    scroll_to(page, 1)
    expect(token(page, POSITIONS - 1)).to_be_visible()
    expect(token(page, 0)).to_have_count(0)
    assert page.evaluate(COUNT) < MOST_ELEMENTS
    last = page.request.get(long.replace("?", f"/chunks/{-(-POSITIONS // 256) - 1}.json?")).json()
    there = text_by_position(page)
    assert [there[position] for position in range(last["first"], last["stop"])] == last["tokens"]
    scroll_to(page, 0)
    expect(token(page, 0)).to_be_visible()
    again = text_by_position(page)
    assert {position: again[position] for position in range(256)} == {
        position: before[position] for position in range(256)
    }


def test_the_scroll_bar_is_about_right_from_the_start(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long)
    thought = page.evaluate("document.documentElement.scrollHeight")
    for share in range(11):
        scroll_to(page, share / 10)
        expect(page.locator(".chunk:not(.empty)").nth(2)).to_be_attached()
        page.wait_for_load_state("networkidle")
    real = page.evaluate("document.documentElement.scrollHeight")
    assert abs(real - thought) < 0.15 * thought


def test_what_is_read_stays_where_it_is_while_text_above_it_comes(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, f"{long}&at=6000")
    place = page.evaluate("Number(document.querySelector('[data-transcript]').dataset.at)")
    expect(token(page, place)).to_be_visible()
    top = top_of(token(page, place))
    page.mouse.move(700, 500)
    page.mouse.wheel(0, -1)
    expect(page.locator(f".chunk:not(.empty) .t[data-p='{place - 300}']")).to_be_attached()
    assert abs(top_of(token(page, place)) - top) < 3


def test_the_keys_go_from_flip_to_flip_across_chunks(seen: Seen, long: str) -> None:
    page = seen.page
    flips = page.request.get(long.replace("?", ".json?")).json()
    start = flips["flips"][60]
    open_page(page, start["href"] if start["href"].startswith("http") else long.split("/c/")[0] + start["href"])
    page.keyboard.press("Escape")
    expect(page.locator("#fork")).to_have_count(0)
    visited = [start["position"]]
    for _ in range(30):
        page.keyboard.press("n")
        expect(page.locator(f".t:focus:not([data-p='{visited[-1]}'])")).to_be_visible()
        visited.append(focused(page))
    assert visited == sorted(set(visited))
    chunks = {page.evaluate("document.activeElement.closest('.chunk').dataset.chunk")}
    for position in reversed(visited[:-1]):
        page.keyboard.press("p")
        expect(token(page, position)).to_be_focused()
        chunks.add(page.evaluate("document.activeElement.closest('.chunk').dataset.chunk"))
    assert len(chunks) >= 3


def test_n_goes_on_into_text_that_is_not_in_the_page(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long)
    scroll_to(page, 0.5)
    expect(page.locator(".chunk:not(.empty)").nth(3)).to_be_attached()
    page.keyboard.press("n")
    expect(page.locator(".t:focus")).to_be_visible()
    assert focused(page) > 2000
    assert 0 < top_of(page.locator(".t:focus")) < 800


def test_a_fork_opens_in_place_and_escape_closes_it(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long)
    flip = page.locator(".stretch a.flip").nth(6)
    position = int(flip.get_attribute("data-p") or 0)
    top = top_of(flip)
    flip.click()
    expect(page.locator(".opened #fork")).to_be_visible()
    expect(page.locator("#fork .way")).to_have_count(2)
    assert abs(top_of(token(page, position)) - top) < 400
    assert top_of(page.locator("#fork")) > top_of(token(page, position))
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("#fork")).to_have_count(0)
    expect(token(page, position)).to_be_visible()
    assert "/f/" not in page.url


def test_a_link_opens_at_its_fork_in_the_middle_of_the_text(seen: Seen, long: str) -> None:
    page = seen.page
    rows = page.request.get(long.replace("?", ".json?") + "&flips=300").json()["flips"]
    open_page(page, long.split("/c/")[0] + rows[70]["href"])
    expect(token(page, rows[70]["position"])).to_be_in_viewport()
    expect(page.locator("#fork")).to_be_in_viewport()
    expect(page.locator(".flips tr.current")).to_be_in_viewport()


def test_hovering_shows_the_table_also_of_text_that_came_later(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long)
    scroll_to(page, 0.6)
    expect(page.locator(".chunk:not(.empty)").nth(3)).to_be_attached()
    place = page.evaluate(
        "[...document.querySelectorAll('.stretch .t')].find((t) => t.getBoundingClientRect().top > 400).dataset.p"
    )
    token(page, int(place)).hover()
    expect(page.locator("#popover.open")).to_contain_text(f"{int(place):,}")
    expect(page.locator("#popover.open thead .head")).to_have_count(3)


def test_the_ribbon_goes_where_it_is_pressed_and_follows(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long)
    box = page.locator(".ribbon").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 6)
    expect(page.locator(".chunk:not(.empty) .stretch").first).to_be_attached()
    expect(page).to_have_url(re.compile(r"at=(8|9)\d\d\d"))
    frame = page.locator(".ribbon .window")
    expect(frame).to_have_attribute("x", re.compile(r"^7[2-6]"))


def test_the_address_follows_the_reader_without_a_trace_in_the_history(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long)
    entries = page.evaluate("history.length")
    scroll_to(page, 0.5)
    expect(page).to_have_url(re.compile(r"at=\d+"))
    assert page.evaluate("history.length") == entries
    at = int(re.search(r"at=(\d+)", page.url)[1])  # type: ignore[index]
    page.reload()
    expect(token(page, at)).to_be_in_viewport()


def test_reloading_leads_to_the_same_line_every_time(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, f"{long}&at=617")
    top = top_of(token(page, 617))
    places = []
    for _ in range(4):
        page.reload()
        expect(page.locator("html.scripted")).to_be_attached()
        page.evaluate("scrollBy(0, 1)")
        page.wait_for_load_state("networkidle")
        places.append(int(re.search(r"at=(\d+)", page.url)[1]))  # type: ignore[index]
    assert len(set(places)) == 1
    assert abs(top_of(token(page, places[0])) - top_of(token(page, 617))) < 2
    assert abs(top_of(token(page, 617)) - top) < 4


def test_the_address_is_right_at_once_when_a_fork_is_closed(seen: Seen, long: str) -> None:
    page = seen.page
    rows = page.request.get(long.replace("?", ".json?")).json()["flips"]
    row = next(one for one in rows if one["position"] > 600)
    open_page(page, long.split("/c/")[0] + row["href"])
    top = top_of(token(page, row["position"]))
    page.keyboard.press("Escape")
    expect(page.locator("#fork")).to_have_count(0)
    page.reload()
    expect(token(page, row["position"])).to_be_in_viewport()
    assert abs(top_of(token(page, row["position"])) - top) < 40


def test_the_text_can_be_read_without_script(browser: Browser, long: str) -> None:
    with browser.new_context(java_script_enabled=False, viewport={"width": 1440, "height": 800}) as context:
        page = context.new_page()
        page.goto(long)
        first = page.locator(".stretch .t").first.get_attribute("data-p")
        page.locator("nav.parts a[rel=next]").first.click()
        expect(page.locator(".stretch .t").first).not_to_have_attribute("data-p", first or "")
        page.locator(".stretch a.flip").first.click()
        expect(page.locator(".opened #fork")).to_be_visible()
        page.locator("[data-close]").click()
        expect(page.locator("#fork")).to_have_count(0)
        page.locator("nav.parts a[rel=prev]").first.click()
        expect(page.locator(".stretch .t").first).to_be_visible()


@pytest.mark.parametrize("width", [390, 800, 1280, 2560])
def test_nothing_scrolls_sideways(browser: Browser, long: str, width: int) -> None:
    with browser.new_context(viewport={"width": width, "height": 800}) as context:
        watched = Seen(context.new_page()).watch()
        open_page(watched.page, long)
        watched.page.locator(".stretch a.flip").first.click()
        expect(watched.page.locator("#fork")).to_be_visible()
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
        assert watched.faults == []


def test_positions_in_the_margin_never_overlap(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long)
    tops = page.evaluate("[...document.querySelectorAll('.place')].map((p) => p.getBoundingClientRect().top)")
    assert len(tops) > 8
    assert all(later - earlier >= 12 for earlier, later in zip(tops, tops[1:], strict=False))


def test_a_place_whose_prefix_is_unknown_is_in_sight(seen: Seen, long: str) -> None:
    page = seen.page
    page.goto(re.sub(r"\?.*", "", long) + "/f/5000-0123456789abcdef?mode=forced")
    expect(page.locator(".notice")).to_contain_text("position 5,000")
    expect(page.locator("#streams .t[data-p='5000']").first).to_be_in_viewport()
