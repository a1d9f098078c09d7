"""The library page in a browser while its bundles are still being summarised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from playwright.sync_api import expect

from app.library import Library
from app.settings import Settings
from app.web.main import create_app
from tests.browser.conftest import Seen, serve_application
from tests.synthetic import make_library

pytestmark = pytest.mark.browser


@pytest.fixture
def application(tmp_path: Path) -> FastAPI:
    """A server whose library nobody has looked at yet."""
    return create_app(Settings(library=make_library(tmp_path)))


@pytest.fixture
def address(application: FastAPI) -> Iterator[str]:
    """Where it is."""
    yield from serve_application(application)


def test_the_page_fills_itself_in_when_the_last_summary_is_there(
    seen: Seen, address: str, application: FastAPI
) -> None:
    library: Library = application.state.library
    page = seen.page
    with library.summaries.paused():
        page.goto(address)
        expect(page.locator(".pending")).to_contain_text("being summarised")
        assert page.locator("td.cell-compared svg.strip").count() == 0
    expect(page.locator(".pending")).to_have_count(0)
    expect(page.locator("td.cell-compared:not(.total) svg.strip")).not_to_have_count(0)
    expect(page.locator(".advice-table").first).not_to_contain_text("…")
