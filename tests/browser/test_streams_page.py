from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.conftest import Seen

pytestmark = pytest.mark.browser

TRUNK = ".system .line[data-k='A'] .t"


@pytest.fixture(scope="session")
def case(address: str, browser: Browser) -> str:
    """The address of case `iface`."""
    page = browser.new_page()
    page.goto(address)
    href = page.locator("a[href*='/c/iface-']").first.get_attribute("href")
    page.close()
    assert href is not None
    return address + re.sub(r"(/c/iface-[0-9a-f]+).*", r"\1", href)


def open_page(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("html.scripted")).to_be_attached()
    page.wait_for_load_state("networkidle")


def token(page: Page, position: int) -> Locator:
    return page.locator(f"{TRUNK}[data-p='{position}']").first


def popover(page: Page) -> Locator:
    return page.locator("#popover.open")


def test_hovering_a_token_shows_the_table_of_every_lane(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    token(page, 11).hover()
    expect(popover(page)).to_contain_text("decided flip")
    assert popover(page).locator("thead .head").all_inner_texts() == ["A", "B", "C", "D", "E"]
    first = popover(page).locator("tbody tr").first
    expect(first.locator("th")).to_have_text("\u2423on")
    assert first.locator("td").all_inner_texts()[:3] == ["70.5", "70.5", "70.5"]
    expect(popover(page).locator("td.winner")).to_have_count(5)
    page.mouse.move(5, 790)
    expect(popover(page)).to_have_count(0)


def test_the_pointer_may_enter_the_table_and_escape_closes_it(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    token(page, 3).hover()
    expect(popover(page)).to_be_visible()
    popover(page).hover()
    expect(popover(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(popover(page)).to_have_count(0)


def test_a_tap_shows_the_table_a_second_pins_and_one_elsewhere_closes(browser: Browser, case: str) -> None:
    with browser.new_context(viewport={"width": 1440, "height": 800}, has_touch=True) as context:
        watched = Seen(context.new_page()).watch()
        page = watched.page
        open_page(page, case)
        token(page, 3).tap()
        expect(popover(page).locator("strong")).to_have_text("3")
        assert "/f/" not in page.url
        token(page, 5).tap()
        expect(popover(page).locator("strong")).to_have_text("5")
        assert "/f/" not in page.url
        page.touchscreen.tap(700, 780)
        expect(popover(page)).to_have_count(0)
        token(page, 5).tap()
        expect(popover(page).locator("strong")).to_have_text("5")
        token(page, 5).tap()
        expect(page).to_have_url(re.compile("/f/5-"))
        expect(page.locator("#position-title")).to_contain_text("Position 5")
        assert watched.faults == []


def test_the_keyboard_reaches_tokens_and_says_them(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.keyboard.press("n")
    expect(page.locator(".t:focus")).to_have_attribute("data-p", "11")
    expect(popover(page)).to_contain_text("11")
    expect(page.locator("#announcer")).to_contain_text("position 11")
    expect(page.locator("#announcer")).to_contain_text("percent, decided flip")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".t:focus")).to_have_attribute("data-p", "10")
    expect(page.locator("#announcer")).to_contain_text("position 10")
    page.keyboard.press("Escape")
    expect(popover(page)).to_have_count(0)
    page.keyboard.press("ArrowDown")
    expect(page.locator(".t:focus")).not_to_have_attribute("data-p", "10")


def test_enter_opens_a_flip_and_escape_returns(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    expect(page.locator("#fork")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("#fork")).to_have_count(0)
    assert "/f/" not in page.url


@pytest.mark.parametrize("mode", ["free", "forced"])
def test_clicking_a_flip_shows_both_continuations(seen: Seen, case: str, mode: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode={mode}")
    token(page, 11).click()
    ways = page.locator("#fork .way")
    expect(ways).to_have_count(2)
    expect(ways.nth(0).locator(".flow")).to_contain_text(" on the core switch")
    expect(ways.nth(1).locator(".flow")).to_contain_text(" and then")
    expect(page).to_have_title(re.compile("on.*and.*position 11"))
    assert re.search(r"/f/11-[0-9a-f]{16}", page.url)
    ways.nth(1).locator(".t").nth(1).hover()
    expect(popover(page)).to_be_visible()


def test_the_difference_is_said_in_words(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode=forced")
    token(page, 74).click()
    expect(page.locator("#fork .headline")).to_contain_text("show interface")
    expect(page.locator("#fork .headline")).to_contain_text("clear interface")
    expect(page.locator("#fork")).to_contain_text("bit-identical")


def test_a_permalink_opens_the_same_fork_in_a_fresh_browser(
    context: BrowserContext, case: str, browser: Browser
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    open_page(page, case)
    token(page, 11).click()
    expect(page.locator("#fork")).to_be_visible()
    page.locator(".position [data-copy-link]").click()
    expect(page.locator(".position [data-copy-link]")).to_have_text("Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith("http")
    with browser.new_context(viewport={"width": 1440, "height": 800}) as fresh:
        other = Seen(fresh.new_page()).watch()
        open_page(other.page, link)
        assert other.page.locator(".headline").inner_text() == page.locator(".headline").inner_text()
        assert other.page.locator("#fork .flow").all_inner_texts() == page.locator("#fork .flow").all_inner_texts()
        assert other.page.locator(".odds tbody").all_inner_texts() == page.locator(".odds tbody").all_inner_texts()
        assert other.page.locator("#streams .t.pinned").all_inner_texts() == [" on"]
        assert other.faults == []


def test_going_back_leaves_the_fork(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    token(page, 11).click()
    expect(page.locator("#fork")).to_be_visible()
    page.go_back()
    expect(page.locator("#fork")).to_have_count(0)


def test_pinning_a_token_moves_the_position_pane(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    token(page, 3).click()
    expect(page.locator("#position-title")).to_contain_text("Position 3")
    expect(page.locator("#fork")).to_have_count(0)


def test_hovering_asks_the_server_once_a_chunk(seen: Seen, case: str) -> None:
    page = seen.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "tables.json" in request.url else None)
    open_page(page, case)
    for position in (2, 5, 9, 11):
        token(page, position).hover()
        expect(popover(page).locator("strong")).to_have_text(str(position))
    assert len(asked) == 1


@pytest.mark.parametrize("width", [390, 800, 1280, 2560])
def test_lines_fill_the_window_and_nothing_scrolls_sideways(browser: Browser, case: str, width: int) -> None:
    with browser.new_context(viewport={"width": width, "height": 800}) as context:
        watched = Seen(context.new_page()).watch()
        page = watched.page
        open_page(page, case)
        page.wait_for_function("document.querySelectorAll('#streams .line').length > 0")
        columns = int(page.locator("#streams").get_attribute("data-columns") or 0)
        assert columns >= 30
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.getElementById('streams').scrollWidth") <= page.evaluate(
            "document.getElementById('streams').clientWidth"
        )
        tall = page.evaluate(
            "[...document.querySelectorAll('#streams .line')].filter(line => !line.querySelector('.pill')"
            " && line.getBoundingClientRect().height > 30).length"
        )
        assert tall == 0
        assert watched.faults == []


def test_the_page_can_be_read_without_script(browser: Browser, case: str) -> None:
    with browser.new_context(java_script_enabled=False, viewport={"width": 1440, "height": 800}) as context:
        page = context.new_page()
        page.goto(case)
        expect(page.locator("#streams")).to_contain_text("I will check the interface GigabitEthernet0/1/4 on the core")
        expect(page.locator(".position .odds")).to_contain_text("70.5")
        assert page.locator("button:visible").count() == 0
        page.locator(".chip.lane-B summary").click()
        expect(page.locator(".chip.lane-B .entries")).to_be_visible()
        token(page, 11).click()
        expect(page.locator("#fork .way")).to_have_count(2)
        page.locator("[data-close]").click()
        expect(page.locator("#fork")).to_have_count(0)


@pytest.mark.parametrize("mode", ["free", "forced"])
def test_hostile_tokens_are_text_and_nothing_more(seen: Seen, case: str, mode: str) -> None:
    page = seen.page
    page.goto(case.rsplit("/c/", 1)[0])
    href = page.locator("a[href*='/c/hostile-']").first.get_attribute("href") or ""
    open_page(page, case.rsplit("/c/", 1)[0] + href.split("?")[0].split("/f/")[0] + f"?mode={mode}")
    expect(page.locator("#streams")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator("#streams")).to_contain_text("\u2039RLO\u203aevil")
    assert page.locator("#streams script, #streams img, #streams b").count() == 0
    token(page, 4).hover()
    expect(popover(page)).to_contain_text("<script>alert(1)")
    assert page.locator("#popover script, #popover img").count() == 0


def test_a_chip_opens_what_differs_by_keyboard_and_escape_closes_it(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    second, third = (page.locator(f".chip.lane-{letter} .differs") for letter in "BC")
    for _ in range(30):
        page.keyboard.press("Tab")
        if second.locator("summary:focus").count():
            break
    page.keyboard.press("Enter")
    sheet = second.locator(".sheet")
    expect(sheet).to_be_visible()
    assert sheet.locator("thead .head").all_inner_texts() == ["A", "B"]
    expect(sheet.locator("tbody th").last).to_have_text("runtime")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440
    third.locator("summary").focus()
    page.keyboard.press("Space")
    expect(third.locator(".sheet")).to_be_visible()
    expect(sheet).to_be_hidden()
    page.keyboard.press("Escape")
    expect(third.locator(".sheet")).to_be_hidden()
    expect(third.locator("summary")).to_be_focused()


@pytest.mark.parametrize("letter", "AE")
def test_five_chips_stay_on_one_line(seen: Seen, case: str, letter: str) -> None:
    page = seen.page
    open_page(page, case)
    page.locator(f".chip.lane-{letter}").hover()
    tops = page.evaluate("[...document.querySelectorAll('.chip, .tools')].map(one => one.getBoundingClientRect().top)")
    assert len(tops) == 6
    assert max(tops) - min(tops) < 8


def test_the_theme_can_be_chosen_and_stays(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.locator("[data-theme-toggle]").click()
    chosen = page.evaluate("document.documentElement.dataset.theme")
    assert chosen == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == chosen
