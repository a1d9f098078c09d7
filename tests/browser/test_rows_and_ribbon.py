"""The list of flips as a treegrid, and the ribbon by pointer and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Seen, serve
from tests.browser.test_keys import case_at, open_page
from tests.synthetic_large import make_large_library

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def case(address: str, browser: Browser) -> str:
    return case_at(address, "iface", browser)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    for address in serve(make_large_library(tmp_path_factory.mktemp("long"), 2, 6000, 240)):
        yield case_at(address, "long", browser)


def test_the_list_is_one_tab_stop_and_goes_by_rows(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode=forced")
    grid = page.get_by_role("treegrid")
    assert grid.locator("a[tabindex='0']").count() == 1
    first = grid.locator("tr:not(.under) a").first
    first.focus()
    page.keyboard.press("ArrowDown")
    expect(grid.locator("tr:not(.under) a").nth(1)).to_be_focused()
    page.keyboard.press("End")
    expect(grid.locator("tr:not(.under) a").last).to_be_focused()
    page.keyboard.press("Home")
    expect(first).to_be_focused()


def test_right_opens_a_fork_and_left_closes_it(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode=forced")
    rows = page.get_by_role("treegrid").locator("tbody tr:not(.under)")
    expect(rows.first).to_have_attribute("aria-expanded", "false")
    rows.first.locator("a").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#fork")).to_be_visible()
    expect(rows.first).to_have_attribute("aria-expanded", "true")
    expect(rows.first.locator("a")).to_be_focused()
    expect(page.locator("#announcer")).to_contain_text(re.compile("^A, B, C: .*; D, E: "))
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#fork")).to_have_count(0)
    expect(rows.first.locator("a")).to_be_focused()
    expect(rows.first).to_have_attribute("aria-expanded", "false")


def test_page_keys_are_the_browsers_where_the_list_has_one_page(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode=forced")
    page.evaluate("addEventListener('keydown', (event) => (window.swallowed = event.defaultPrevented))")
    page.get_by_role("treegrid").locator("tr:not(.under) a").first.focus()
    for key, swallowed in (("PageDown", False), ("PageUp", False), ("End", True), ("ArrowDown", True)):
        page.keyboard.press(key)
        assert page.evaluate("swallowed") is swallowed


def test_arrows_turn_the_pages_of_a_long_list(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, f"{long}?mode=forced")
    links = page.get_by_role("treegrid").locator("tr:not(.under) a")
    last = links.last.inner_text()
    links.first.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    expect(links.first).to_be_focused()
    assert int(links.first.inner_text().replace(",", "")) > int(last.replace(",", ""))
    page.keyboard.press("ArrowUp")
    expect(links.last).to_be_focused()
    assert links.last.inner_text() == last


def test_the_window_of_the_ribbon_is_a_slider(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, f"{long}?mode=forced")
    slider = page.get_by_role("slider", name="the part of the text in view")
    expect(slider).to_have_attribute("aria-valuemax", "5999")
    slider.focus()
    for key, place in (("PageDown", r"[3-9]\d\d"), ("End", r"5[5-9]\d\d"), ("Home", r"1?\d")):
        page.keyboard.press(key)
        expect(slider).to_have_attribute("aria-valuenow", re.compile(rf"^{place}$"))


def test_a_press_on_the_ribbon_of_streams_goes_to_the_token_there(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode=forced")
    box = page.locator("#view .ribbon").bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] - 4)
    focused = int(page.locator(".t:focus").get_attribute("data-p") or -1)
    total = int(page.locator("#view .ribbon").get_attribute("data-total") or 0)
    assert abs(focused - total / 2) <= 2
