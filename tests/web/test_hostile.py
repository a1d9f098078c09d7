"""Tokens that a careless page would obey, on every page and in every file that can be reached from their case."""

from __future__ import annotations

import re
from urllib.parse import urljoin
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls, what turns text around, halves of surrogate pairs."""

STARTS = (
    "/c/hostile?mode=free",
    "/c/hostile?mode=forced",
    "/c/hostile?mode=free&view=transcript",
    "/c/hostile?mode=forced&view=transcript",
    "/c/hostile/chunks/0?mode=forced",
    "/c/hostile/chunks/0?mode=free",
    "/c/hostile/find?q=script",
    "/c/hostile/find?q=%1b%00%e2%80%ae",
    "/c/hostile/f/4?mode=forced&look=%22%3Cscript%3E%22",
    "/c/hostile/f/4/preview.png",
)

MOST = 160

TEXTS = ("text/html", "text/markdown", "image/svg+xml", "application/json")


@pytest.fixture(scope="module")
def answers(client: TestClient) -> dict[str, tuple[str, str]]:
    """Every text that can be reached by links from the case: by address its type and what it says."""
    found: dict[str, tuple[str, str]] = {}
    ahead = list(STARTS)
    while ahead and len(found) < MOST:
        address = ahead.pop(0)
        response = client.get(address)
        assert response.status_code == 200, address
        kind = response.headers["content-type"].split(";")[0]
        found[address] = (kind, response.text if kind in TEXTS else "")
        if kind == "text/html" and "/c/hostile" in str(response.url):
            links = [str(tag["href"]) for tag in BeautifulSoup(response.text, "html.parser").select("a[href]")]
            near = [urljoin(address, link) for link in links if not link.startswith(("#", "http"))]
            ahead += [one for one in near if one.startswith("/c/hostile") and one not in found and one not in ahead]
    return found


def of_kind(answers: dict[str, tuple[str, str]], kind: str) -> dict[str, str]:
    return {address: text for address, (own, text) in answers.items() if own == kind}


def test_every_kind_of_page_and_file_was_reached(answers: dict[str, tuple[str, str]]) -> None:
    kinds = {kind for kind, _ in answers.values()}
    assert kinds >= {*TEXTS, "image/png"}
    assert len(of_kind(answers, "text/html")) > 20


def test_nothing_steers_a_terminal_an_editor_or_the_direction_of_text(answers: dict[str, tuple[str, str]]) -> None:
    for address, (kind, text) in answers.items():
        if kind != "application/json":
            assert not UNSEEN.search(text), address


def test_no_token_became_an_element(answers: dict[str, tuple[str, str]]) -> None:
    for address, text in of_kind(answers, "text/html").items():
        page = BeautifulSoup(text, "html.parser")
        assert page.select("img, b:not([class]), object, iframe, base") == [], address
        inline = [tag for tag in page.select("script") if not tag.get("src") and tag.get("type") != "application/json"]
        own = 1 if ".html" in address else 0  # a file from disk has one script, allowed by its hash
        assert len(inline) == own, address
        assert "alert(" not in "".join(tag.get_text() for tag in inline), address
        assert not [name for tag in page.find_all(True) for name in tag.attrs if name.startswith("on")], address


def test_titles_and_descriptions_are_short_text(answers: dict[str, tuple[str, str]]) -> None:
    for address, text in of_kind(answers, "text/html").items():
        if "/chunks/" in address:
            continue
        page = BeautifulSoup(text, "html.parser")
        assert page.title, address
        words = [page.title.get_text(), *(str(tag.get("content", "")) for tag in page.select("meta[name=description]"))]
        assert all(len(word) < 600 for word in words), address


def test_the_longest_token_is_cut_everywhere(answers: dict[str, tuple[str, str]]) -> None:
    for address, text in of_kind(answers, "text/html").items():
        assert "x" * 2_000 not in BeautifulSoup(text, "html.parser").get_text(), address


def test_pictures_and_markdown_hold_no_markup_of_a_token(answers: dict[str, tuple[str, str]]) -> None:
    for address, text in of_kind(answers, "image/svg+xml").items():
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
        assert not tags & {"script", "image", "foreignObject", "a"}, address
    for address, text in of_kind(answers, "text/markdown").items():
        outside = re.sub(r"(?ms)^(`{3,}).*?^\1|`+[^`]*`+", "", text)
        assert "<script" not in outside, address
