"""The exported file in a real browser: opened from disk, with no network, under its own policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from app.cli import main
from app.library import Library
from app.links import CaseLink
from capture.model import Mode
from tests.browser.conftest import Seen
from tests.export_pages import fork_of
from tests.synthetic import make_library

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=[("iface", Mode.FREE), ("iface", Mode.FORCED), ("hostile", Mode.FREE)])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_library(tmp_path_factory.mktemp("library"), lanes=4, positions=70)
    name, mode = request.param
    library = Library(folder)
    key = library.find_case(name)
    fork = fork_of(library.open_case(key, mode), CaseLink(key).where(mode=mode))
    library.close()
    path = tmp_path_factory.mktemp("export") / "fork.html"
    assert main(["export", fork.format(), "-o", str(path), "--library", str(folder)]) == 0
    return path


@dataclass
class Alone:
    """A page with no network, and every address that it asked for."""

    seen: Seen
    asked: list[str]


@pytest.fixture
def alone(browser: Browser, file: Path) -> Iterator[Alone]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, color_scheme="dark")
    found = Alone(Seen(context.new_page()).watch(), [])
    found.seen.page.on("request", lambda request: found.asked.append(request.url))
    found.seen.page.goto(file.as_uri())
    yield found
    context.close()
    assert found.seen.faults == []
    assert found.asked == [file.as_uri()]


def test_hovering_shows_the_table_without_a_server(alone: Alone) -> None:
    page = alone.seen.page
    popover = page.locator("#popover.open")
    page.locator("#streams .pinned").first.hover()
    expect(popover.locator("thead .head").first).to_have_text("A")
    expect(popover.locator("td.winner").first).to_be_visible()
    expect(popover).to_contain_text("flip")
    page.keyboard.press("Escape")
    expect(popover).to_have_count(0)


def test_the_fork_can_be_hovered_too(alone: Alone) -> None:
    page = alone.seen.page
    page.locator("#fork .way").nth(1).locator(".t").first.hover()
    expect(page.locator("#popover.open td.winner").first).to_be_visible()


def test_the_keyboard_reaches_the_flips_and_they_are_said(alone: Alone) -> None:
    page = alone.seen.page
    page.keyboard.press("Tab")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('#streams .t')"):
            break
    expect(page.locator("#popover.open")).to_be_visible()
    expect(page.locator("#announcer")).to_contain_text("position")


def test_it_is_dark_where_the_system_is(alone: Alone) -> None:
    colour = alone.seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")) < 120
