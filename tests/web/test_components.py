from __future__ import annotations

from collections import Counter

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from app.specimens import specimens


@pytest.fixture(scope="module")
def page(client: TestClient) -> BeautifulSoup:
    response = client.get("/components")
    assert response.status_code == 200
    return BeautifulSoup(response.text, "html.parser")


def test_every_state_is_on_the_page(page: BeautifulSoup) -> None:
    titles = [title.get_text() for title in page.select(".specimen > header h2")]
    assert titles == [*(one.name for one in specimens()), "Small parts"]
    assert page.select_one("#broken-bundle .reason")
    assert page.select_one("#empty-library pre")


def test_no_id_stands_twice_and_every_reference_is_there(page: BeautifulSoup) -> None:
    ids = Counter(str(tag["id"]) for tag in page.select("[id]"))
    assert [name for name, count in ids.items() if count > 1] == []
    wanted = {str(tag["for"]) for tag in page.select("label[for]")}
    wanted |= {str(tag["aria-labelledby"]) for tag in page.select("[aria-labelledby]")}
    wanted |= {str(tag["href"])[1:] for tag in page.select('[href^="#"]')}
    assert wanted <= set(ids)


def test_links_of_a_state_lead_nowhere(page: BeautifulSoup) -> None:
    assert page.select(".specimen [hx-get], .specimen a[href^='/']") == []


def test_hostile_tokens_are_text(page: BeautifulSoup) -> None:
    state = page.select_one("#characters")
    assert state
    assert "<script>alert(1)</script>" in state.get_text()
    assert state.select("script, b b") == []
