"""What the page of a transcript and its chunks say, whatever the tokens are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag
from starlette.testclient import TestClient

from app.library import Library
from app.links import CaseLink
from capture.model import Mode
from tests.synthetic_large import make_large_library
from tests.web.conftest import Page, client_of

MODES = [Mode.FREE, Mode.FORCED]

POSITIONS = 3000


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = make_large_library(tmp_path_factory.mktemp("long"), 3, POSITIONS, 300)
    with client_of(folder) as client:
        yield client


@pytest.fixture(scope="module")
def address(long: TestClient) -> str:
    """The address of the forced runs of the long case."""
    (case,) = long.get("/index.json").json()["matrices"][0]["columns"]
    return str(case["href"]).split("?")[0].split("/f/")[0] + "?mode=forced"


def read(client: TestClient, address: str) -> BeautifulSoup:
    response = client.get(address)
    assert response.status_code == 200, response.text[:300]
    return BeautifulSoup(response.text, "html.parser")


def link_of(made: Path, case: str, mode: Mode) -> CaseLink:
    return CaseLink(Library(made).find_case(case)).where(mode=mode, view="transcript")


def positions(html: BeautifulSoup | Tag) -> list[int]:
    return [int(str(token["data-p"])) for token in html.select(".stretch .t")]


def test_a_long_case_opens_as_a_transcript_and_says_how_long_it_is(long: TestClient, address: str) -> None:
    html = read(long, address)
    root = html.select_one("[data-transcript]")
    assert root is not None
    assert root["data-total"] == str(POSITIONS)
    assert positions(html)[0] == 0
    assert len(positions(html)) < 1200
    assert html.select_one("nav.views [aria-current]").get_text() == "transcript"  # type: ignore[union-attr]
    assert read(long, address + "&view=streams").select_one("[data-transcript]") is None


def test_the_links_go_through_the_whole_text_page_by_page(long: TestClient, address: str) -> None:
    seen: list[int] = []
    here: str | None = address
    while here:
        html = read(long, here)
        seen += positions(html)
        later = html.select_one("nav.parts a[rel=next]")
        here = str(later["href"]) if later else None
    assert seen == sorted(seen)
    assert set(seen) == set(range(POSITIONS))
    back = html.select_one("nav.parts a[rel=prev]")
    assert back is not None
    assert positions(read(long, str(back["href"])))[-1] < positions(html)[-1]


def test_chunks_asked_for_alone_are_those_of_the_page(long: TestClient, address: str) -> None:
    html = read(long, address)
    root = html.select_one("[data-transcript]")
    assert root is not None
    for chunk in root.select(".chunk"):
        alone = read(long, str(root["data-chunks"]).replace("{}", str(chunk["data-chunk"])))
        assert alone.select_one(".chunk") == chunk


def test_the_chunks_are_the_whole_text_and_every_flip_once(long: TestClient, address: str) -> None:
    root = read(long, address).select_one("[data-transcript]")
    assert root is not None
    plan = [int(part.split(":")[0]) for part in str(root["data-plan"]).split()]
    found: list[int] = []
    flips: list[str] = []
    for index, size in enumerate(plan):
        chunk = read(long, str(root["data-chunks"]).replace("{}", str(index)))
        assert len(positions(chunk)) == size
        found += positions(chunk)
        flips += [str(flip["href"]) for flip in chunk.select(".stretch a.t")]
    assert found == list(range(POSITIONS))
    assert len(flips) == len(set(flips)) == int(long.get(address.replace("?", ".json?")).json()["flips_total"])


def test_a_chunk_is_not_sent_twice(long: TestClient, address: str) -> None:
    path = address.replace("?", "/chunks/2?")
    first = long.get(path)
    assert first.headers["cache-control"] == "no-cache"
    again = long.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = long.get(path.replace("/2?", "/3?"))
    assert other.headers["etag"] != first.headers["etag"]
    assert long.get(path.replace("forced", "free")).headers["etag"] != first.headers["etag"]


def test_a_chunk_has_a_twin(long: TestClient, address: str) -> None:
    html = read(long, address.replace("?", "/chunks/1?"))
    twin = long.get(address.replace("?", "/chunks/1.json?")).json()
    assert [twin["first"], twin["stop"]] == [positions(html)[0], positions(html)[-1] + 1]
    assert "".join(twin["tokens"]) == "".join(token.get_text() for token in html.select(".stretch .t"))
    assert [flip["href"] for flip in twin["flips"]] == [flip["href"] for flip in html.select(".stretch a.t")]


def test_the_twin_of_the_page_tells_the_part_that_is_shown(long: TestClient, address: str) -> None:
    twin = long.get(address.replace("?", ".json?")).json()
    assert twin["transcript"]["positions"] == POSITIONS
    assert [chunk["chunk"] for chunk in twin["transcript"]["shown"]] == [0, 1, 2]
    assert twin["streams"] == []


@pytest.mark.parametrize("index", ["99", "-1", "x", "1e9"])
def test_a_chunk_that_is_not_there_is_no_fault_of_the_server(long: TestClient, address: str, index: str) -> None:
    assert 400 <= long.get(address.replace("?", f"/chunks/{index}?")).status_code < 500


def test_the_page_opens_at_the_fork_of_its_link(long: TestClient, address: str) -> None:
    rows = long.get(address.replace("?", ".json?")).json()["flips"]
    html = read(long, rows[80]["href"])
    pinned = html.select(".stretch .pinned")
    assert [int(str(token["data-p"])) for token in pinned] == [rows[80]["position"]]
    card = html.select_one(".opened #fork")
    assert card is not None
    before = html.select_one(".opened").find_previous_sibling(class_="stretch")  # type: ignore[union-attr]
    assert isinstance(before, Tag)
    assert positions(before)[-1] == rows[80]["position"]
    close = html.select_one("[data-close]")
    assert close is not None
    closed = read(long, str(close["href"]))
    assert rows[80]["position"] in positions(closed)
    assert closed.select_one("#fork") is None


def test_the_list_of_flips_is_a_page_of_many(long: TestClient, address: str) -> None:
    html = read(long, address)
    assert len(html.select(".flips tbody tr:not(.under)")) == 100
    later = html.select_one(".flips .pager a[rel=next]")
    assert later is not None
    assert later["href"] == later["hx-get"]
    turned = read(long, str(later["href"]))
    assert positions(turned) == positions(html)
    first, second = (page.select_one(".flips tbody a") for page in (html, turned))
    assert first is not None
    assert second is not None
    assert first["href"] != second["href"]


def test_the_number_of_elements_does_not_grow_with_the_text(long: TestClient, address: str) -> None:
    rows = long.get(address.replace("?", ".json?")).json()["flips"]
    for path in (address, address + "&at=1500", rows[50]["href"]):
        assert len(read(long, path).find_all(True)) < 6500


def test_streams_of_what_is_too_long_are_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, long: TestClient, address: str
) -> None:
    monkeypatch.setattr("app.transcript_page.MOST_STREAMS", 1000)
    html = read(long, address + "&view=streams")
    assert html.select_one("[data-transcript]") is not None
    assert "Streams are drawn up to 1,000 positions" in html.select_one(".notice").get_text()  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", ["iface", "hostile"])
def test_whatever_the_tokens_say_the_page_stays_itself(made: Path, page: Page, case: str, mode: Mode) -> None:
    html = page(link_of(made, case, mode).format())
    flip = html.select_one(".stretch a.t")
    assert flip is not None
    for one in (html, page(str(flip["href"])), page(link_of(made, case, mode).chunk(0))):
        assert one.select("[style], style") == []
        assert [script for script in one.select("script") if not script.get("src")] == []
        assert [name for tag in one.find_all(True) for name in tag.attrs if name.startswith("on")] == []
        known = {"a", "bdi", "br", "i", "span", "svg", "use"}
        for stretch in one.select(".stretch"):
            assert {tag.name for tag in stretch.find_all(True)} <= known
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]", one.get_text())
        assert all((link.get("href") or link.get("action")) == link["hx-get"] for link in one.select("[hx-get]"))


def test_hostile_tokens_are_shown_as_what_they_are(made: Path, page: Page) -> None:
    text = page(link_of(made, "hostile", Mode.FREE).format()).select_one("#streams")
    assert text is not None
    shown = text.get_text()
    for piece in ("<script>alert(1)</script>", "‹RLO›evil", "‹NUL›", "\\xFF\\xFE", "‹ESC›[31mred", "10,000 characters"):
        assert piece in shown


def test_lanes_that_leave_are_told_in_the_text(made: Path, page: Page) -> None:
    html = page(link_of(made, "iface", Mode.FREE).format())
    told = [" ".join(leave.get_text(" ").split()) for leave in html.select(".leave")]
    assert any("left at 11" in line for line in told)
    rails = [len(rail.select("i")) for rail in html.select(".stretch .rail")]
    assert rails == sorted(rails, reverse=True)
    assert rails[0] == 4
    assert rails[-1] < 4


def test_a_lane_can_be_followed(made: Path, page: Page) -> None:
    link = link_of(made, "iface", Mode.FREE)
    lane = Library(made).open_case(link.case, Mode.FREE).lanes[1]
    html = page(link.where(follow=lane.run.run_id).format())
    assert html.select_one("[data-transcript]")["data-total"] == str(len(lane.steps))  # type: ignore[index]
    assert html.select_one(".along") is not None
    lost = page(link.where(follow="0" * 12).format())
    assert "not on this page" in lost.select_one(".notice").get_text()  # type: ignore[union-attr]
