"""Files that pages can be shared as, the Share menu, and what forums and chats read in the head of a page."""

from __future__ import annotations

import json
import re
import struct
import threading
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from app.export_page import export_page
from app.library import Library
from app.links import CaseLink, ForkLink
from app.resources import StaticFolder, templates_folder
from app.streams import base_of
from app.web import export
from app.web.exported import exported_html
from app.web.rendering import Renderer
from capture.model import Mode
from tests.export_pages import EVIL_NAME, NASTY, fork_of, with_names, with_tokens
from tests.web.conftest import Page

WITHIN_SECONDS = 20.0

TYPES = {
    ".md": "text/markdown; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


def links(made: Path) -> tuple[CaseLink, ForkLink]:
    library = Library(made)
    link = CaseLink(library.find_case("iface")).where(mode=Mode.FREE)
    case = library.open_case(link.case, Mode.FREE)
    library.close()
    return link, fork_of(case, link)


@pytest.mark.parametrize("suffix", TYPES)
@pytest.mark.parametrize("which", [0, 1], ids=["case", "fork"])
def test_a_file_has_its_type_its_name_and_a_policy(made: Path, client: TestClient, suffix: str, which: int) -> None:
    link = links(made)[which]
    answer = client.get(link.format(suffix))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == TYPES[suffix]
    place = f"-{link.position}" if isinstance(link, ForkLink) else ""
    assert answer.headers["content-disposition"] == f'attachment; filename="flipscope-{link.case}{place}{suffix}"'
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "sandbox" in policy
    assert "unsafe" not in policy
    assert "'self'" not in policy
    head = client.head(link.format(suffix))
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == TYPES[suffix]


def test_nothing_is_drawn_twice_for_nothing(made: Path, client: TestClient) -> None:
    fork = links(made)[1]
    tag = client.get(fork.format(".svg")).headers["etag"]
    assert client.get(fork.format(".svg"), headers={"If-None-Match": tag}).status_code == 304
    assert client.get(fork.format(".md"), headers={"If-None-Match": tag}).status_code == 200


def test_a_bare_name_leads_to_the_cases_own_address(made: Path, client: TestClient) -> None:
    case = links(made)[0].case
    for suffix in (*TYPES, "/preview.png"):
        answer = client.get(f"/c/iface{suffix}", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (302, f"/c/{case}{suffix}")


def test_what_is_unknown_is_a_page_of_ours(client: TestClient) -> None:
    for suffix in (*TYPES, "/preview.png"):
        assert client.get(f"/c/another{suffix}").status_code == 404


def test_the_picture_is_xml_and_names_the_server(made: Path, client: TestClient) -> None:
    root = ElementTree.fromstring(client.get(links(made)[1].format(".svg")).content)
    words = " ".join(span.text or "" for span in root.iter("{http://www.w3.org/2000/svg}tspan"))
    assert "http://localhost/c/iface-" in words


@pytest.mark.parametrize("which", [0, 1], ids=["case", "fork"])
def test_forums_and_chats_get_words_and_a_picture(made: Path, client: TestClient, page: Page, which: int) -> None:
    html = page(links(made)[which].format())
    said = {
        str(tag.get("property") or tag.get("name")): str(tag.get("content")) for tag in html.select("meta[content]")
    }
    assert html.title is not None
    assert said["og:title"] == html.title.get_text()
    assert said["og:description"] == said["description"] == said["og:image:alt"]
    assert said["twitter:card"] == "summary_large_image"
    assert said["og:url"].startswith("http://localhost/c/iface-")
    if which:
        assert "A" in said["og:title"]
        assert re.search(r"Position \d+, \w", said["description"])
    assert said["og:image"].startswith("http://localhost/c/iface-")
    picture = client.get(said["og:image"])
    assert picture.headers["content-type"] == "image/png"
    assert picture.headers["content-security-policy"].startswith("default-src 'none'")
    size = struct.unpack(">II", picture.content[16:24])
    assert size == (1200, 630) == (int(said["og:image:width"]), int(said["og:image:height"]))


def test_the_menu_offers_every_file_without_script(made: Path, client: TestClient, page: Page) -> None:
    html = page(links(made)[1].format())
    downloads = html.select(".share a[download]")
    assert [link.get_text() for link in downloads] == ["HTML", "PNG", "SVG", "Markdown", "JSON"]
    assert all(client.get(str(link["href"])).status_code == 200 for link in downloads)
    field = html.select_one("#markdown")
    assert field is not None
    written = client.get(next(str(link["href"]) for link in downloads if link.get_text() == "Markdown")).text
    assert field.get_text().strip() == written.replace("http://localhost/", "/").strip()


def embedded(content: bytes) -> BeautifulSoup:
    return BeautifulSoup(content, "html.parser")


def check_policy(html: BeautifulSoup) -> None:
    """Hold that the page's own policy allows exactly its script and its style, and that nothing in it asks for more."""
    policy = html.select("meta[http-equiv=Content-Security-Policy]")[0]["content"]
    (style,) = html.select("style")
    (script,) = [one for one in html.select("script") if one.get("type") is None]
    for text, kind in ((style.string, "style-src"), (script.string, "script-src")):
        assert text
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert str(policy).count("sha256-") == 2
    asking = html.select("[src], link:not([rel=icon]), iframe, object, embed, form[action], base, img")
    assert asking == []
    assert [link["href"] for link in html.select("a[href]")] == ["#main"]
    assert html.select("[style]") == []
    assert not [name for tag in html.find_all(True) for name in tag.attrs if name.startswith("on")]


@pytest.mark.parametrize("which", [0, 1], ids=["case", "fork"])
def test_the_file_asks_for_nothing(made: Path, client: TestClient, which: int) -> None:
    html = embedded(client.get(links(made)[which].format(".html")).content)
    check_policy(html)
    tables = json.loads(html.select("#tables")[0].string or "")
    tokens = html.select("[data-k] [data-p]")
    assert len(tokens) > 50
    for token in tokens:
        line = token.find_parent(attrs={"data-k": True})
        assert line is not None
        assert f"{line['data-k']}:{token['data-p']}" in tables["tables"]
    assert len(html.select("#fork")) == which
    if which:
        assert html.select(".position .exact")


def test_the_header_and_the_file_have_the_same_policy(made: Path, client: TestClient) -> None:
    answer = client.get(links(made)[1].format(".html"))
    (own,) = embedded(answer.content).select("meta[http-equiv=Content-Security-Policy]")
    assert answer.headers["content-security-policy"].startswith(str(own["content"]))


@pytest.mark.parametrize("mode", [Mode.FREE, Mode.FORCED])
def test_a_strangers_words_are_text_in_the_file(made: Path, mode: Mode) -> None:
    library = Library(made)
    key = library.find_case("iface")
    case = with_tokens(library.open_case(key, mode), NASTY)
    link = CaseLink(key).where(mode=mode)
    page = with_names(export_page(case, fork_of(case, link)), EVIL_NAME)
    content = exported_html(Renderer(templates_folder(), StaticFolder()), case, page, base_of(link), EVIL_NAME)
    library.close()
    html = embedded(content)
    check_policy(html)
    assert len(html.select("script")) == 2
    json.loads(html.select("#tables")[0].string or "")
    allowed = {"b", "bdi", "br", "details", "div", "i", "section", "span", "summary", "svg", "use"}
    assert {tag.name for part in html.select("#streams, .flow") for tag in part.find_all(True)} <= allowed
    text = content.decode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "alert(1)</script>" not in text


def test_many_pictures_at_once_keep_no_page_waiting(
    made: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty pictures wait for one that is being drawn, more than there are threads; a page is answered meanwhile."""
    drawing, go_on = threading.Event(), threading.Event()

    def slow(*_: object) -> bytes:
        drawing.set()
        assert go_on.wait(WITHIN_SECONDS)
        return b"png"

    monkeypatch.setattr(export, "exported", slow)
    address = links(made)[0]
    with ThreadPoolExecutor(60) as pool:
        found = [pool.submit(client.get, address.where(at=number).format(".png")) for number in range(60)]
        assert drawing.wait(WITHIN_SECONDS)
        try:
            assert client.get("/healthz").status_code == 200
        finally:
            go_on.set()
        assert {answer.result().status_code for answer in found} == {200}


def test_a_picture_does_not_ask_how_wide_a_line_is(made: Path, client: TestClient) -> None:
    address = links(made)[0]
    tags = {client.get(address.where(columns=columns).format(".svg")).headers["etag"] for columns in (None, 60, 90)}
    assert len(tags) == 1
    assert client.get(address.format(".svg"), headers={"if-none-match": "*"}).status_code == 304
