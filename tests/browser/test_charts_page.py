"""The charts page in a browser: it draws under the policy, points open positions, the theme's colours are its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Seen

pytestmark = pytest.mark.browser

DRAWN = ".plot.drawn"


@pytest.fixture
def charts(seen: Seen, address: str) -> Page:
    """The charts page with its first drawing done."""
    seen.page.goto(f"{address}/charts")
    expect(seen.page.locator(DRAWN).first).to_be_attached()
    return seen.page


@pytest.fixture
def plain(browser: Browser, address: str) -> Iterator[Page]:
    """The page where no script runs."""
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}/charts")
        yield page


def scroll_through(page: Page) -> int:
    """Bring every drawing into sight, and return how many there are."""
    plots = page.locator(".plot")
    for index in range(plots.count()):
        plots.nth(index).scroll_into_view_if_needed()
        expect(plots.nth(index)).to_have_class(re.compile("drawn"))
    return plots.count()


def test_every_chart_is_drawn_and_nothing_is_refused(charts: Page) -> None:
    assert scroll_through(charts) == 11
    assert charts.locator(".plot.failed").count() == 0
    assert charts.locator(".plot svg.main-svg").count() >= 11
    assert charts.locator("details.chart-data[open]").count() == 0


def test_text_that_is_markup_is_drawn_as_text(charts: Page) -> None:
    scroll_through(charts)
    assert charts.locator(".plot :is(img, script, iframe)").count() == 0
    links = charts.locator(".plot a").evaluate_all("all => all.filter(one => !one.closest('.modebar')).length")
    assert links == 0


def test_a_click_on_a_point_opens_its_position(charts: Page) -> None:
    plot = charts.locator("#stream .plot")
    plot.scroll_into_view_if_needed()
    expect(plot).to_have_class(re.compile("drawn"))
    point = plot.locator(".scatterlayer .points path.point").first
    box = point.bounding_box()
    assert box is not None
    charts.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(plot.locator(".hoverlayer .hovertext").first).to_be_visible()
    charts.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    charts.wait_for_url(re.compile(r"/c/[^/]+/f/\d+-[0-9a-f]{16}\?mode=forced"))
    expect(charts.locator("#fork, #streams").first).to_be_attached()


def test_the_colours_are_those_of_the_theme(charts: Page) -> None:
    label = charts.locator("#disagreement .plot .ytick text").first
    charts.locator("#disagreement .plot").scroll_into_view_if_needed()
    expect(label).to_be_visible()
    before = label.evaluate("one => getComputedStyle(one).fill")
    charts.locator("[data-theme-toggle]").click()
    foreground = charts.evaluate("getComputedStyle(document.body).color")
    expect(label).to_have_css("fill", foreground)
    assert label.evaluate("one => getComputedStyle(one).fill") != before


def test_a_theme_of_the_system_redraws_too(charts: Page) -> None:
    label = charts.locator("#disagreement .plot .ytick text").first
    charts.locator("#disagreement .plot").scroll_into_view_if_needed()
    expect(label).to_be_visible()
    charts.emulate_media(color_scheme="dark")
    expect(label).to_have_css("fill", charts.evaluate("getComputedStyle(document.body).color"))


def test_the_table_has_the_data_for_those_who_cannot_see_the_drawing(charts: Page) -> None:
    figure = charts.locator("#stream")
    figure.scroll_into_view_if_needed()
    expect(figure.locator(".plot")).to_have_class(re.compile("drawn"))
    assert "table below" in (figure.locator(".plot").get_attribute("aria-label") or "")
    figure.locator("summary").click()
    expect(figure.locator("tbody a").first).to_be_visible()


def test_without_script_the_tables_are_shown(plain: Page) -> None:
    expect(plain.locator("#stream tbody tr").first).to_be_visible()
    expect(plain.locator("#stream .plot")).to_be_hidden()


def test_a_phone_shows_every_chart_in_its_width(browser: Browser, address: str) -> None:
    with browser.new_context(viewport={"width": 390, "height": 844}, reduced_motion="reduce") as context:
        seen = Seen(context.new_page()).watch()
        seen.page.goto(f"{address}/charts")
        scroll_through(seen.page)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert seen.faults == []


def test_the_library_fits_a_phone(browser: Browser, address: str) -> None:
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:
        seen = Seen(context.new_page()).watch()
        seen.page.goto(address)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
        heads = seen.page.locator("table.matrix th[scope=row]")
        assert all(heads.nth(at).evaluate("one => one.offsetHeight < 130") for at in range(heads.count()))
        assert seen.faults == []
