"""A small library behind the server, for every test of pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from app.settings import Settings
from app.web import create_app
from tests.synthetic import make_library

Page = Callable[[str], BeautifulSoup]


def client_of(folder: Path) -> TestClient:
    return TestClient(create_app(Settings(library=folder)), base_url="http://localhost", raise_server_exceptions=False)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_library(tmp_path_factory.mktemp("library"), lanes=4, positions=70)


@pytest.fixture(scope="session")
def client(made: Path) -> Iterator[TestClient]:
    with client_of(made) as client:
        yield client


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "copy")


@pytest.fixture(scope="session")
def page(client: TestClient) -> Page:
    """Ask for a page that must be there and be HTML."""

    def get(address: str) -> BeautifulSoup:
        response = client.get(address)
        assert response.status_code == 200, response.text[:500]
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        return BeautifulSoup(response.text, "html.parser")

    return get
