"""Addresses of cases and forks lead to the nearest thing, in HTML and in JSON."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from app.library import Library
from app.links import CaseLink
from capture.flips import Flip
from capture.model import Mode
from tests.synthetic import interface_scripts, make_case
from tests.web.conftest import Page, client_of


@pytest.fixture(scope="module")
def link(made: Path) -> CaseLink:
    return CaseLink(Library(made).find_case("iface"))


@pytest.fixture(scope="module")
def flip(made: Path) -> Flip:
    """A flip that only forced runs have."""
    opened = Library(made).open_case("iface", Mode.FORCED)
    return max((flip for found in opened.comparisons.values() for flip in found.flips), key=lambda flip: flip.position)


def _notices(page: BeautifulSoup) -> list[str]:
    return [notice.get_text() for notice in page.select(".notice")]


def test_a_case_and_its_twin_say_the_same(page: Page, client: TestClient, link: CaseLink) -> None:
    html, twin = page(link.format()), client.get(link.format(".json")).json()
    assert twin["title"] == html.title.get_text() if html.title else None
    assert [lane["letter"] for lane in twin["lanes"]] == list("ABCD")
    alternate = html.select_one('link[rel="alternate"]')
    assert alternate is not None
    assert urlsplit(str(alternate["href"])).path == link.path + ".json"
    assert client.get(str(alternate["href"])).json()["lanes"] == twin["lanes"]


def test_a_bare_name_leads_to_the_cases_own_address(client: TestClient, link: CaseLink) -> None:
    for suffix in ("", ".json"):
        response = client.get(f"/c/iface{suffix}?mode=forced", follow_redirects=False)
        assert response.status_code == 302
        assert response.headers["location"] == link.where(mode=Mode.FORCED).format(suffix)


def test_an_unknown_case_lists_those_there_are(client: TestClient, link: CaseLink) -> None:
    response = client.get("/c/never-00000000")
    assert response.status_code == 404
    page = BeautifulSoup(response.text, "html.parser")
    assert link.format() in [anchor["href"] for anchor in page.select("main a")]
    twin = client.get("/c/never-00000000.json")
    assert (twin.status_code, twin.json()["status"]) == (404, 404)


def test_an_ambiguous_name_gives_a_page_to_choose_from(copy: Path) -> None:
    make_case(copy / "other", "twin", interface_scripts(1, 60), study="other")
    with duckdb.connect(str(copy / "other" / "twin--bf16-eager.duckdb")) as connection:
        connection.execute("UPDATE bundle SET facts = replace(facts, '\"twin\"', '\"iface\"')")
    with client_of(copy) as client:
        response = client.get("/c/iface")
        assert response.status_code == 300
        choices = [str(link["href"]) for link in BeautifulSoup(response.text, "html.parser").select(".case-list a")]
        assert len(choices) == 2
        assert all(client.get(choice).status_code == 200 for choice in choices)
        assert [choice["href"] for choice in client.get("/c/iface.json").json()["choices"]] == [
            f"{choice}.json" for choice in choices
        ]


def test_a_fork_link_opens_the_fork(page: Page, client: TestClient, link: CaseLink, flip: Flip) -> None:
    fork = link.where(mode=Mode.FORCED).fork(flip.position, flip.prefix_id)
    assert _notices(page(fork.format())) == []
    twin = client.get(fork.format(".json")).json()
    assert twin["fork"] is not None
    assert twin["mode"] == "forced"


def test_a_fork_link_without_a_mode_opens_the_mode_that_has_it(client: TestClient, link: CaseLink, flip: Flip) -> None:
    twin = client.get(link.fork(flip.position, flip.prefix_id).format(".json")).json()
    assert (twin["mode"], twin["fork"] is not None, twin["notices"]) == ("forced", True, [])


def test_a_fork_is_found_by_its_position_alone(client: TestClient, link: CaseLink, flip: Flip) -> None:
    twin = client.get(f"{link.path}/f/{flip.position}.json?mode=forced").json()
    assert twin["fork"] is not None
    assert len(twin["notices"]) == 1


@pytest.mark.parametrize(
    "tail",
    [
        "/f/11-ffffffffffffffff",
        "/f/99999-ffffffffffffffff",
        "/f/x",
        "/f/11-abc",
        "?lanes=000000000000",
        "?lanes=A,B",
        "?reference=ffffffffffff",
        "?mode=dream",
        "?columns=-5",
        "?view=nothing",
        "?what=%F0%28%8C%BC&is=%00",
        "?lanes=" + "0123456789ab," * 400,
    ],
)
def test_a_wrong_link_opens_the_nearest_thing_with_a_notice(page: Page, link: CaseLink, tail: str) -> None:
    found = page(link.path + tail)
    assert _notices(found)
    assert found.select("#view")


def test_links_on_a_page_do_not_repeat_the_mistakes_of_its_own(page: Page, link: CaseLink) -> None:
    found = page(link.path + "?lanes=000000000000&mode=dream&what=1")
    addresses = [str(anchor["href"]) for anchor in found.select("a[href^='/c/']")]
    assert addresses
    assert not [
        address for address in addresses if "000000000000" in address or "dream" in address or "what" in address
    ]


def test_every_link_on_a_page_leads_somewhere_without_a_notice(page: Page, client: TestClient, link: CaseLink) -> None:
    for mode in Mode.FREE, Mode.FORCED:
        found = page(link.where(mode=mode).format())
        for address in {str(anchor["href"]) for anchor in found.select("a[href^='/']")}:
            response = client.get(address)
            assert response.status_code == 200, address
            if response.headers["content-type"].startswith("text/html"):
                assert _notices(BeautifulSoup(response.text, "html.parser")) == [], address


def test_the_permalink_names_its_lanes_and_means_the_same_elsewhere(
    client: TestClient, link: CaseLink, copy: Path
) -> None:
    here = client.get(link.where(mode=Mode.FORCED).format(".json")).json()
    make_case(copy / "aaa", "iface", interface_scripts(3, 90), study="aaa")
    with client_of(copy) as elsewhere:
        address = urlsplit(here["permalink"])
        there = elsewhere.get(f"{address.path}.json?{address.query}").json()
    assert {name: there[name] for name in ("lanes", "mode", "streams", "notices")} == {
        name: here[name] for name in ("lanes", "mode", "streams", "notices")
    }


def test_the_tables_of_a_chunk_are_json(client: TestClient, link: CaseLink) -> None:
    answer = client.get(link.tables() + "?first=0&count=8").json()
    assert answer["lanes"] == list("ABCD")
    positions = {int(key.rsplit(":", 1)[1]) for key in answer["tables"]}
    assert positions == set(range(8))


@pytest.mark.parametrize("query", ["first=-1", "count=0", "first=x", "count=99999999"])
def test_wrong_chunks_are_refused_in_json(client: TestClient, link: CaseLink, query: str) -> None:
    response = client.get(f"{link.tables()}?{query}")
    assert response.status_code == 400
    assert response.json()["error"]
