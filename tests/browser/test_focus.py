"""Where the focus is after what was used has been drawn anew, and what Escape reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Seen, serve
from tests.browser.test_keys import case_at, focused, open_page
from tests.synthetic_large import make_large_library

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def case(address: str, browser: Browser) -> str:
    return case_at(address, "iface", browser)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    for address in serve(make_large_library(tmp_path_factory.mktemp("long"), 3, 3000, 200)):
        yield case_at(address, "long", browser)


def popover(page: Page) -> Locator:
    return page.locator("#popover.open")


def enter_until(page: Page, selector: str) -> None:
    page.locator(selector).first.focus()
    page.keyboard.press("Enter")


@pytest.mark.parametrize("view", ["streams", "transcript"])
def test_a_token_that_enter_pins_keeps_the_focus(seen: Seen, case: str, view: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode=forced&view={view}")
    page.keyboard.press("]")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert focused(page) == 13
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/f/13-"))
    expect(page.locator("#streams .pinned:focus")).to_have_attribute("data-p", "13")
    page.keyboard.press("ArrowRight")
    assert focused(page) == 14


def test_a_token_that_a_click_pins_has_the_focus_and_no_table_that_stays(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.locator("#streams [data-k='A'] .t[data-p='3']").first.click()
    expect(page.locator("#streams .pinned:focus")).to_have_attribute("data-p", "3")
    page.mouse.move(5, 790)
    expect(popover(page)).to_have_count(0)
    page.keyboard.press("ArrowRight")
    assert focused(page) == 4


def test_a_token_pinned_while_a_fork_is_open_has_the_focus(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode=forced")
    page.keyboard.press("]")
    page.keyboard.press("Enter")
    expect(page.locator("#fork-title")).to_be_focused()
    page.locator("#streams [data-k='A'] .t[data-p='8']").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#fork")).to_have_count(0)
    expect(page.locator("#streams .pinned:focus")).to_have_attribute("data-p", "8")


def test_hiding_a_lane_leaves_the_focus_at_the_chip_that_took_its_place(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    label = page.locator(".chip.lane-C .chip-label").inner_text()
    enter_until(page, ".chip.lane-B .chip-name")
    expect(page.locator(".chip")).to_have_count(4)
    expect(page.locator(".chip.lane-B .chip-name")).to_be_focused()
    assert page.locator(".chip.lane-B .chip-label").inner_text() == label
    enter_until(page, ".chip.lane-D .chip-name")
    expect(page.locator(".chip")).to_have_count(3)
    expect(page.locator(".chip.lane-C .chip-name")).to_be_focused()


def test_a_lane_made_the_reference_and_one_that_was_added_keep_the_focus(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    label = page.locator(".chip.lane-C .chip-label").inner_text()
    enter_until(page, ".chip.lane-C .chip-do")
    expect(page.locator(".chip.lane-A .chip-label")).to_have_text(label)
    expect(page.locator(".chip.lane-A summary")).to_be_focused()
    enter_until(page, ".chip.lane-E .chip-name")
    expect(page.locator(".chip")).to_have_count(4)
    page.locator(".adds summary").click()
    enter_until(page, ".adds li a")
    expect(page.locator(".chip")).to_have_count(5)
    expect(page.locator(".chip.lane-E summary")).to_be_focused()


def test_the_switch_of_modes_keeps_the_focus(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    forced = page.locator("nav[aria-label=mode] a").nth(1)
    forced.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("mode=forced"))
    expect(forced).to_be_focused()
    expect(forced).to_have_attribute("aria-current", "page")


def test_lines_that_are_fitted_to_the_window_keep_the_focus(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.keyboard.press("]")
    page.keyboard.press("ArrowRight")
    columns = page.locator("#streams").get_attribute("data-columns")
    page.set_viewport_size({"width": 1900, "height": 900})
    expect(page.locator("#streams")).not_to_have_attribute("data-columns", str(columns))
    expect(page.locator(".t:focus")).to_have_attribute("data-p", "12")


def test_a_lane_that_a_transcript_follows_is_read_where_the_other_was(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long)
    page.keyboard.press("g")
    page.keyboard.type("100")
    page.keyboard.press("Enter")
    expect(page.locator(".t:focus")).to_have_attribute("data-p", "100")
    page.keyboard.press("2")
    expect(page.locator(".along")).to_be_visible()
    expect(page.locator(".stretch .t:focus")).to_have_attribute("data-p", "100")
    page.keyboard.press("ArrowRight")
    assert focused(page) == 101


def test_a_lane_that_ended_before_is_read_at_its_end(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, f"{long}?at=1500")
    page.keyboard.press("2")
    expect(page.locator(".along")).to_be_visible()
    total = int(page.locator("[data-transcript]").get_attribute("data-total") or 0)
    assert 30 < total < 1000
    expect(page.locator(".stretch .t:focus")).to_have_attribute("data-p", str(total - 1))


def test_the_table_closes_when_the_focus_goes_on(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.keyboard.press("4")
    expect(popover(page)).to_be_visible()
    page.keyboard.press("Tab")
    expect(popover(page)).to_have_count(0)


def test_escape_closes_the_table_from_inside_of_a_field(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.locator("#go-at").focus()
    page.locator("#streams [data-k='A'] .t[data-p='3']").first.hover()
    expect(popover(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(popover(page)).to_have_count(0)
    expect(page.locator("#go-at")).to_be_focused()


def test_escape_closes_the_menu_from_inside_of_its_field(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode=forced")
    page.keyboard.press("]")
    page.keyboard.press("Enter")
    expect(page.locator("#fork")).to_be_visible()
    page.locator(".share summary").click()
    page.locator("#markdown").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#markdown")).to_be_hidden()
    expect(page.locator(".share summary")).to_be_focused()
    expect(page.locator("#fork")).to_be_visible()


def test_escape_in_the_help_closes_nothing_else_and_in_a_search_first_its_text(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode=forced")
    page.keyboard.press("]")
    page.keyboard.press("Enter")
    expect(page.locator("#fork")).to_be_visible()
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    expect(page.locator("#fork")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("x")
    page.keyboard.press("Escape")
    expect(page.locator("#find-q")).to_have_value("")
    expect(page.locator("#fork")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#fork")).to_have_count(0)


def test_the_keys_work_on_a_button_of_a_form(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.locator(".places [type=submit]").first.focus()
    page.keyboard.press("n")
    expect(page.locator(".t:focus")).to_have_attribute("data-p", "11")


def test_a_transcript_is_read_on_where_it_is_when_a_lane_is_hidden_and_not_where_it_was_opened(
    seen: Seen, long: str
) -> None:
    page = seen.page
    open_page(page, f"{long}?mode=forced&at=1500")
    assert "at=1500" in (page.locator(".chip.lane-B .chip-name").get_attribute("href") or "")
    enter_until(page, ".chip.lane-B .chip-name")
    expect(page.locator(".chip")).to_have_count(2)
    expect(page).to_have_url(re.compile("lanes="))
    expect(page).not_to_have_url(re.compile("at=1500"))
    expect(page.locator(".stretch .t[data-p='0']")).to_be_in_viewport()
    expect(page.locator(".chip.lane-B summary")).to_be_focused()


def test_an_open_fork_stays_open_when_a_lane_is_hidden_or_made_the_reference(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.locator("#streams a.t[data-p='11']").first.click()
    expect(page.locator("#fork")).to_be_visible()
    fork = re.search(r"/f/11-[0-9a-f]+", page.url)
    assert fork is not None
    enter_until(page, ".chip.lane-B .chip-name")
    expect(page.locator(".chip")).to_have_count(4)
    expect(page.locator("#fork .way")).to_have_count(2)
    expect(page.locator(".chip.lane-B .chip-name")).to_be_focused()
    assert fork[0] in page.url
    enter_until(page, ".chip.lane-C .chip-do")
    expect(page.locator(".chip.lane-A summary")).to_be_focused()
    expect(page.locator("#fork .way")).to_have_count(2)
    assert fork[0] in page.url
