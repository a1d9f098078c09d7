"""The keys that lead through a text, and the switch that turns them off."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Seen, serve
from tests.synthetic_large import make_large_library

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def case(address: str, browser: Browser) -> str:
    return case_at(address, "iface", browser)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    for address in serve(make_large_library(tmp_path_factory.mktemp("long"), 3, 3000, 200)):
        yield case_at(address, "long", browser)


def case_at(address: str, name: str, browser: Browser) -> str:
    page = browser.new_page()
    page.goto(address)
    href = page.locator(f"a[href*='/c/{name}-']").first.get_attribute("href") or ""
    page.close()
    return address + re.sub(rf"(/c/{name}-[0-9a-f]+).*", r"\1", href)


def open_page(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("html.scripted")).to_be_attached()
    page.wait_for_load_state("networkidle")


def focused(page: Page) -> int:
    return int(page.locator(".t:focus").get_attribute("data-p") or -1)


def test_brackets_go_by_the_forks_of_the_line_that_is_read(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.keyboard.press("]")
    expect(page.locator(".t:focus")).to_have_attribute("data-p", "11")
    page.keyboard.press("2")
    key = page.evaluate("document.activeElement.closest('[data-k]').dataset.k")
    start = focused(page)
    page.keyboard.press("[")
    assert focused(page) <= start
    paths = page.locator("#streams").get_attribute("data-paths") or ""
    parents = dict(word.split(":")[:2] for word in paths.split())
    line = page.evaluate("document.activeElement.closest('[data-k]').dataset.k")
    assert line in (key, parents[key])


def test_digits_follow_a_lane_to_its_own_line(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    paths = [word.split(":") for word in (page.locator("#streams").get_attribute("data-paths") or "").split()]
    for digit, letter in zip("12345", "ABCDE", strict=True):
        page.keyboard.press(digit)
        (own,) = [key for key, _, letters in paths if letter in letters]
        assert page.evaluate("document.activeElement.closest('[data-k]')?.dataset.k") == own


def test_g_goes_to_a_position_and_keys_are_off_inside_of_the_field(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.keyboard.press("g")
    expect(page.locator("#go-at")).to_be_focused()
    page.keyboard.type("7n?")
    expect(page.locator("#go-at")).to_have_value("7n?")
    expect(page.locator("#help")).to_be_hidden()
    page.locator("#go-at").fill("7")
    page.keyboard.press("Enter")
    expect(page.locator(".t:focus")).to_have_attribute("data-p", "7")


def test_slash_finds_text_in_place_and_a_place_opens(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.keyboard.press("/")
    expect(page.locator("#find-q")).to_be_focused()
    page.keyboard.type("interface")
    page.keyboard.press("Enter")
    expect(page.locator("#found li a").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/f/"))
    expect(page.locator("#streams .pinned").first).to_be_visible()


def test_the_switch_turns_the_keys_off_and_is_remembered(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.locator("[data-keys-off]").check()
    page.keyboard.press("Escape")
    page.reload()
    expect(page.locator("html.scripted")).to_be_attached()
    for key in ("g", "/", "2", "]", "?"):
        page.keyboard.press(key)
    expect(page.locator("#go-at, #find-q, .t").and_(page.locator(":focus"))).to_have_count(0)
    expect(page.locator("#help")).to_be_hidden()
    page.locator("[data-help]").click()
    expect(page.locator("[data-keys-off]")).to_be_checked()


def test_a_transcript_follows_lanes_and_goes_far(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long)
    page.keyboard.press("g")
    page.keyboard.type("2500")
    page.keyboard.press("Enter")
    expect(page.locator(".t:focus")).to_have_attribute("data-p", "2500")
    open_page(page, long)
    page.keyboard.press("2")
    expect(page.locator(".along")).to_be_visible()
    expect(page).to_have_url(re.compile("follow="))
    page.keyboard.press("1")
    expect(page.locator(".along")).to_have_count(0)


def test_n_stops_at_what_the_filter_leaves_and_brackets_at_all(seen: Seen, long: str) -> None:
    page = seen.page
    open_page(page, long + "?mode=forced")
    page.locator(".filter summary").click()
    page.locator(".filter select[name=margin]").select_option("1-")
    page.locator(".filter [type=submit]").click()
    expect(page).to_have_url(re.compile("margin=1-"))
    assert "verdict" not in page.url
    expect(page.locator(".filter select[name=margin]")).to_have_value("1-")
    expect(page.locator("#flips-title")).to_contain_text(" of ")
    listed = page.locator(".flips tbody tr:not(.under) td:first-child").all_inner_texts()
    page.keyboard.press("n")
    expect(page.locator(".t:focus")).to_be_visible()
    near = focused(page)
    assert f"{near:,}" in listed
    seen_positions: list[int] = []
    for _ in range(6):
        page.keyboard.press("]")
        page.wait_for_function(f"Number(document.activeElement.dataset.p) > {max([near, *seen_positions])}")
        seen_positions.append(focused(page))
    assert any(f"{position:,}" not in listed for position in seen_positions)


def test_a_token_is_looked_up_in_place(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.locator("#look").fill("3")
    page.locator("#look").press("Enter")
    expect(page.locator("#lookup table, #lookup .hint").first).to_be_visible()
    assert "look=" not in page.url
    said = page.locator("#announcer").inner_text()
    assert said.startswith("lane, percent, rank, logit. A, ") or ". lane, percent, rank, logit. A, " in said
    assert re.search(r"\. B, [^,.][^,]*, ", said)


def test_n_stops_at_no_flip_of_a_stub_unless_the_stub_is_read(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, f"{case}?mode=forced")
    page.locator("#streams a.t[data-p='11']").first.click()
    expect(page.locator("#fork")).to_be_visible()
    open_page(page, f"{page.url}&class=near-tie")
    assert page.locator("#streams .line.stub a.t").count() == 1
    page.keyboard.press("n")
    first = focused(page)
    stops = []
    for _ in range(4):
        page.keyboard.press("n")
        stops.append(focused(page))
    assert 11 not in [first, *stops]
    page.locator("#streams .line.stub a.t").focus()
    page.keyboard.press("n")
    assert focused(page) == first


def test_the_width_of_the_window_stays_out_of_the_address(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, f"{case}?columns=60&class=decided")
    expect(page).to_have_url(re.compile(r"\?class=decided$"))
    page.keyboard.press("g")
    page.keyboard.type("5000")
    page.keyboard.press("Enter")
    expect(page.locator(".notice").first).to_contain_text("ends at position")
    expect(page).to_have_url(re.compile("at=5000"))
    expect(page).not_to_have_url(re.compile("columns"))
    assert "class=decided" in page.url


def test_an_answer_stays_when_the_lines_are_fitted_to_the_window(seen: Seen, case: str) -> None:
    page = seen.page
    open_page(page, case)
    page.locator("#look").fill("3")
    page.locator("#look").press("Enter")
    answer = page.locator("#lookup table, #lookup .hint").first
    expect(answer).to_be_visible()
    columns = page.locator("#streams").get_attribute("data-columns")
    page.set_viewport_size({"width": 1900, "height": 900})
    expect(page.locator("#streams")).not_to_have_attribute("data-columns", str(columns))
    expect(answer).to_be_visible()
