"""A reader grows a continuation: a button, a bar, and the text in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from capture.pairs import bundle_paths
from capture.progress import SilentReporter
from capture.record import Recorder
from capture.study import read_study
from tests.browser.conftest import Seen, serve
from tests.engines.tiny_models import save_llama
from tests.recording.conftest import write_study_of

pytestmark = [pytest.mark.engine, pytest.mark.browser]

HEAD = 'reference = "plain"\nonly = ["one"]'
FORKS = "[forks]\nmost = 0\nmax_tokens = 40"
GROWS_WITHIN_MS = 90_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grown")


@pytest.fixture(scope="module")
def growing(folder: Path) -> Iterator[str]:
    """A captured study without any fork, on a server that may start its runtimes."""
    model = save_llama(folder / "model")
    study = write_study_of(model, folder / "study", HEAD, FORKS, ("plain", "int4"))
    Recorder(read_study(study), folder / "library", SilentReporter()).capture()
    yield from serve(folder / "library", (study,))


def open_flip(page: Page, address: str, number: int) -> None:
    page.goto(f"{address}/c/one?mode=forced")
    expect(page.locator("html.scripted")).to_be_attached()
    page.locator(".flips a[href*='/f/']").nth(number).click()
    expect(page.locator("#fork .grow-way")).to_have_count(1)


def test_a_continuation_is_grown_from_its_flip_and_appears_in_place(seen: Seen, growing: str, folder: Path) -> None:
    page = seen.page
    open_flip(page, growing, 0)
    way = page.locator("#fork .way").nth(1)
    expect(way).to_contain_text("not grown")
    expect(way.locator(".flow")).to_have_count(0)
    address = page.url
    way.get_by_role("button", name="Grow from here B").click()
    expect(way.locator("progress")).to_be_visible()
    expect(way.locator(".job [aria-live=polite]")).to_have_text(re.compile("queued|starting|growing"))
    expect(way.locator(".flow .t").nth(3)).to_be_visible(timeout=GROWS_WITHIN_MS)
    expect(way.locator(".certificate.exact")).to_contain_text("bit-identical")
    expect(way.get_by_role("button", name="Grow from here B")).to_have_count(0)
    expect(page.locator("#announcer")).not_to_be_empty()
    assert page.url == address
    assert len([path for path in bundle_paths(folder / "library") if ".grown-" in path.name]) == 1


def test_what_grows_can_be_cancelled(seen: Seen, growing: str, folder: Path) -> None:
    page = seen.page
    before = bundle_paths(folder / "library")
    open_flip(page, growing, 1)
    way = page.locator("#fork .way").nth(1)
    way.get_by_role("button", name="Grow from here B").click()
    way.get_by_role("button", name="Cancel").click()
    expect(way.locator(".job.cancelled")).to_contain_text("cancelled", timeout=GROWS_WITHIN_MS)
    expect(way.get_by_role("button", name="Grow from here B")).to_be_enabled()
    assert bundle_paths(folder / "library") == before
