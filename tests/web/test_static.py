"""Static files are kept for ever under their version, else asked for again."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from app.resources import StaticFolder
from tests.web.conftest import Page


def test_a_versioned_link_is_kept_for_ever(page: Page, client: TestClient) -> None:
    links = [str(link["href"]) for link in page("/").select('link[rel="stylesheet"]')]
    versioned = [link for link in links if "?v=" in link]
    assert versioned
    for link in versioned:
        assert "immutable" in client.get(link).headers["cache-control"]


@pytest.mark.parametrize("query", ["", "?v=", "?v=000000000000"])
def test_other_links_are_asked_for_again(client: TestClient, query: str) -> None:
    response = client.get(f"/static/library.css{query}")
    assert response.headers["cache-control"] == "no-cache"
    again = client.get(f"/static/library.css{query}", headers={"if-none-match": response.headers["etag"]})
    assert again.status_code == 304


def test_every_file_that_a_page_names_is_there(page: Page, client: TestClient) -> None:
    for address in ("/", "/c/iface", "/c/iface?mode=forced"):
        for node in page(address).select("script[src], link[href]"):
            assert client.get(str(node.get("src") or node.get("href"))).status_code == 200


def test_a_version_follows_from_the_bytes_and_stays_in_the_folder() -> None:
    static = StaticFolder()
    version = static.version("library.css")
    assert len(version) == 12
    assert static.url("library.css") == f"/static/library.css?v={version}"
    assert static.version("../pyproject.toml") == ""
    assert static.url("missing.css") == "/static/missing.css"
