"""A real Chromium and a real server, for tests marked `browser`; they are skipped where there is no Chromium."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI

from app.settings import Settings
from app.web.main import create_app
from tests.synthetic import make_library

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright  # noqa: E402

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")

STARTED_WITHIN_SECONDS = 20.0


def find_chromium() -> str | None:
    """Return the path of an installed Chromium; `FLIPSCOPE_CHROMIUM` names another."""
    return os.environ.get("FLIPSCOPE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Seen:
    """A page, and everything that went wrong on it."""

    page: Page
    faults: list[str] = field(default_factory=list)

    def watch(self) -> Seen:
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        return self

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(f"{kind}: {text}")


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that shows a synthetic library."""
    folder = make_library(tmp_path_factory.mktemp("library"), lanes=5)
    yield from serve(folder)


def serve(folder: Path, grow: tuple[Path, ...] = ()) -> Iterator[str]:
    """Serve a library on a free port until the generator is closed."""
    yield from serve_application(create_app(Settings(library=folder, grow=grow)))


def serve_application(application: FastAPI) -> Iterator[str]:
    """Serve what a test made itself in the same way."""
    config = uvicorn.Config(application, port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    stop = time.monotonic() + STARTED_WITHIN_SECONDS
    while not server.started and thread.is_alive() and time.monotonic() < stop:
        thread.join(0.02)
    if not server.started:
        raise RuntimeError("the server did not start")
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(STARTED_WITHIN_SECONDS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium is installed; install one or name it in FLIPSCOPE_CHROMIUM")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh browser profile."""
    made = browser.new_context(viewport={"width": 1440, "height": 800}, reduced_motion="reduce")
    yield made
    made.close()


@pytest.fixture
def seen(context: BrowserContext) -> Iterator[Seen]:
    """A page that must end without a fault: no error, no warning, no breach of the policy."""
    watched = Seen(context.new_page()).watch()
    yield watched
    assert watched.faults == []
