"""Every answer carries the policy, only known names are answered, and tokens are never markup."""

from __future__ import annotations

from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from app.library import Library
from app.settings import Settings
from app.web import create_app
from app.web.security import POLICY
from tests.synthetic_text import HOSTILE
from tests.web.conftest import Page, client_of

ADDRESSES = (
    "/",
    "/index.json",
    "/healthz",
    "/c/nothing",
    "/no/such/page",
    "/static/theme.js",
    "/static/nothing",
    "/c/iface",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_answer_carries_the_policy(client: TestClient, address: str) -> None:
    headers = client.get(address).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "HX-Request" in headers["vary"]


def test_an_unexpected_error_is_told_in_one_sentence(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Library) -> None:
        raise RuntimeError("a secret in /home/someone")

    with client_of(made) as client:
        monkeypatch.setattr(Library, "catalog", fail)
        for address in ("/", "/index.json", "/c/iface", "/c/iface.json"):
            response = client.get(address)
            assert response.status_code == 500
            assert response.headers["content-security-policy"] == POLICY
            assert "log" in response.text
            assert "secret" not in response.text
            assert "Traceback" not in response.text


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8017", "127.0.0.1:1", "[::1]:8017", "LOCALHOST", "lab.example"]
)
def test_known_names_are_answered(made: Path, host: str) -> None:
    app = create_app(Settings(library=made, allow_hosts=("lab.example",)))
    assert TestClient(app).get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "127.0.0.1@evil", "[::1", "a b", "0.0.0.0"]
)
def test_other_names_are_refused(client: TestClient, host: str) -> None:
    response = client.get("/", headers={"host": host})
    assert response.status_code == 421
    assert "--allow-host" in response.text
    assert response.headers["content-security-policy"] == POLICY


def test_the_address_that_is_listened_on_is_a_known_name(made: Path) -> None:
    app = create_app(Settings(library=made, host="::"))
    assert TestClient(app).get("/healthz", headers={"host": "[::]:8017"}).status_code == 200


@pytest.mark.parametrize("address", ["/c/hostile", "/c/hostile?mode=forced", "/c/hostile/f/4?mode=forced", "/"])
def test_tokens_are_text_and_nothing_else(page: Page, address: str) -> None:
    found = page(address)
    assert [script for script in found.find_all("script") if not script.get("src")] == []
    assert found.find_all("style") == []
    assert found.find_all("img") == []
    assert found.find_all("b") == []
    for node in found.find_all(True):
        assert "style" not in node.attrs
        assert not [name for name in node.attrs if name.startswith("on")]
        assert not str(node.get("href", "")).lower().startswith(("javascript:", "data:", "//", "http"))


def test_hostile_tokens_can_be_read_as_they_are(page: Page) -> None:
    text = page("/c/hostile").get_text()
    for data in HOSTILE[:4]:
        assert data.decode() in text
    assert "\x1b" not in text
    assert "\x00" not in text


def test_hostile_tokens_survive_in_json(client: TestClient) -> None:
    for address in ("/c/hostile.json", "/c/hostile.json?mode=forced"):
        response = client.get(address)
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        response.json()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed_from_a_browser(client: TestClient, method: str) -> None:
    assert client.request(method, "/").status_code == 405


@pytest.mark.parametrize("name", ["..%2f..%2fpyproject.toml", "%2e%2e/pyproject.toml", "%00", "x" * 300])
def test_static_files_stay_in_their_folder(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_pages_have_no_inline_script_and_ask_nobody_else(page: Page) -> None:
    for address in ("/", "/c/iface"):
        found: BeautifulSoup = page(address)
        sources = [str(node.get("src") or node.get("href")) for node in found.select("script, link, img, iframe")]
        assert sources
        assert all(source.startswith("/") and not source.startswith("//") for source in sources)


@pytest.mark.parametrize("path", ["/", "/index.json", "/healthz", "/c/iface"])
def test_the_head_of_a_page_may_be_asked_for_alone(client: TestClient, path: str) -> None:
    answer = client.head(path)
    assert answer.status_code == client.get(path).status_code
    assert answer.content == b""
