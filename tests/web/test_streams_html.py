"""What the Streams page says to readers, screen readers and the policy, whatever the tokens are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest
from bs4 import BeautifulSoup, Tag
from starlette.testclient import TestClient

from app.library import Library
from app.links import CaseLink
from capture.model import Mode
from tests.web.conftest import Page, client_of

EVERY = [(case, mode) for case in ("iface", "hostile") for mode in (Mode.FREE, Mode.FORCED)]


def link_of(made: Path, case: str, mode: Mode) -> CaseLink:
    return CaseLink(Library(made).find_case(case)).where(mode=mode)


def first_fork(html: BeautifulSoup) -> str:
    found = html.select_one(".flips a")
    assert found is not None
    return str(found["href"])


@pytest.fixture(params=EVERY, ids=[f"{case}-{mode.value}" for case, mode in EVERY])
def both(request: pytest.FixtureRequest, made: Path, page: Page) -> tuple[BeautifulSoup, BeautifulSoup]:
    """A page without and with a fork open."""
    case, mode = request.param
    html = page(link_of(made, case, mode).format())
    return html, page(first_fork(html))


def test_nothing_is_inline_that_the_policy_forbids(both: tuple[BeautifulSoup, BeautifulSoup]) -> None:
    for html in both:
        assert html.select("[style], style") == []
        assert [script for script in html.select("script") if not script.get("src")] == []
        handlers = [name for tag in html.find_all(True) for name in tag.attrs if name.startswith("on")]
        assert handlers == []


def test_tokens_never_become_elements(both: tuple[BeautifulSoup, BeautifulSoup]) -> None:
    known = {"a", "b", "bdi", "br", "details", "div", "i", "section", "span", "summary", "svg", "use"}
    for html in both:
        for part in html.select("#streams, .flow"):
            assert {tag.name for tag in part.find_all(True)} <= known - {"b"}


def test_no_invisible_or_turning_character_reaches_the_page(both: tuple[BeautifulSoup, BeautifulSoup]) -> None:
    for html in both:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]", html.get_text())


def test_every_link_that_swaps_has_the_same_address_without_script(
    both: tuple[BeautifulSoup, BeautifulSoup],
) -> None:
    for html in both:
        swapping = html.select("[hx-get]")
        assert swapping
        assert all((link.get("href") or link.get("action")) == link["hx-get"] for link in swapping)


def test_every_button_waits_for_the_script(both: tuple[BeautifulSoup, BeautifulSoup]) -> None:
    for html in both:
        outside = [button for button in html.select("button") if button.find_parent("dialog") is None]
        assert outside
        assert all(button.has_attr("hidden") for button in outside)


def test_every_link_on_the_page_leads_somewhere(made: Path, page: Page) -> None:
    html = page(link_of(made, "iface", Mode.FREE).format())
    addresses = {str(link["href"]) for link in html.select("a[href^='/c/']:not([download])")}
    assert len(addresses) > 8
    for address in addresses:
        assert page(address).select_one(".charts" if address.endswith("/charts") else "#streams") is not None


def test_an_open_fork_says_what_differs_in_title_description_and_heading(
    both: tuple[BeautifulSoup, BeautifulSoup],
) -> None:
    html = both[1]
    assert html.title is not None
    heading = html.select_one("#fork-title")
    description = html.select_one("meta[name=description]")
    assert heading is not None
    assert description is not None
    words = [part.get_text() for part in heading.select(".words")]
    assert len(words) == 2
    assert all(word in html.title.get_text() for word in words)
    assert "osition" in str(description["content"])
    shared = html.select_one("meta[property='og:title']")
    assert shared is not None
    assert shared["content"] == html.title.get_text()


def test_every_letter_has_its_shape_beside_it(both: tuple[BeautifulSoup, BeautifulSoup]) -> None:
    for html in both:
        shapes = {symbol["id"] for symbol in html.select("symbol")}
        for head in html.select(".head, .chip, .mini"):
            use = head.select_one("use")
            assert use is not None
            assert str(use["href"]).removeprefix("#") in shapes
            assert re.search("[A-E]", head.get_text())


def test_every_chip_opens_what_differs_without_script(both: tuple[BeautifulSoup, BeautifulSoup]) -> None:
    for html in both:
        chips = html.select(".chip")
        reference, others = chips[0], chips[1:]
        assert len(reference.select(".entries thead th")) == 1 + len(chips)
        assert "reference" in reference.select(".sheet")[0].get_text()
        for chip in others:
            summary = chip.select_one("details > summary")
            assert summary is not None
            letters = [head.get_text() for head in chip.select(".entries thead .head")]
            assert letters == ["A", summary.select("strong")[0].get_text()]
            assert summary.get_text().endswith(f"what differs between A and {letters[1]}")
            rows = {row.select("th")[0].get_text(): row.select("td") for row in chip.select(".entries tbody tr")}
            assert "runtime" in rows
            assert all(len(cells) == 2 for cells in rows.values())
            assert all(row.select_one("th[scope=row]") for row in chip.select(".entries tbody tr"))


def test_the_twin_tells_what_differs_as_the_chips_do(made: Path, page: Page, client: TestClient) -> None:
    link = link_of(made, "iface", Mode.FREE)
    chips, lanes = page(link.format()).select(".chip"), client.get(link.format(".json")).json()["lanes"]
    for chip, lane in zip(chips, lanes, strict=True):
        shown = [row.get_text() for row in chip.select(".entries tbody th")]
        assert [one["entry"] for one in lane["differences"]] == shown
    (weights,) = [one["values"] for one in lanes[0]["differences"] if one["entry"] == "options.weights"]
    assert "A" not in weights
    assert set(weights.values()) == {"int4"}


def test_hostile_manifests_are_text_that_can_be_seen(copy: Path) -> None:
    wild = {"<b>x</b>": "<script>alert(1)</script>", "\u202eevil": "\x1b[2J\u200b", "a'\"b": {"c.d": None}}
    for path in copy.glob("synthetic/iface--int4.duckdb"):
        with duckdb.connect(str(path)) as connection:
            connection.execute("UPDATE run SET manifest = ?", [json.dumps(wild)])
    with client_of(copy) as client:
        html = BeautifulSoup(client.get(link_of(copy, "iface", Mode.FREE).format()).text, "html.parser")
    chip = next(one for one in html.select(".chip")[1:] if "<b>x</b>" in one.get_text())
    known = {"thead", "tbody", "tr", "th", "td", "bdi", "wbr", "span", "svg", "use"}
    assert {tag.name for tag in chip.select(".entries *")} <= known
    rows = {row.select("th")[0].get_text(): row.select("td")[1].get_text() for row in chip.select(".entries tbody tr")}
    assert rows['"<b>x</b>"'] == "<script>alert(1)</script>"
    assert rows['"\u2039RLO\u203aevil"'] == '"\\u001b[2J\u2039ZWSP\u203a"'
    assert rows['"a\'\\"b"."c.d"'] == "null"
    assert rows["engine"] == "absent"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e]", html.get_text())


def test_the_table_has_a_column_a_lane_and_headers(both: tuple[BeautifulSoup, BeautifulSoup]) -> None:
    for html in both:
        lanes = len(html.select(".chip"))
        table = html.select_one(".position table")
        assert table is not None
        assert len(table.select("thead th")) == lanes + 1
        for row in table.select("tbody tr"):
            assert len(row.select("td")) == lanes
            assert row.select_one("th[scope=row]") is not None


def test_flips_in_the_text_say_what_happened(both: tuple[BeautifulSoup, BeautifulSoup]) -> None:
    flips: list[Tag] = both[0].select("#streams a.t")
    assert flips
    assert all(str(flip["aria-label"]).startswith("flip at position") for flip in flips)


def test_the_reference_is_called_a_yardstick(both: tuple[BeautifulSoup, BeautifulSoup]) -> None:
    assert all("not the right answer" in html.get_text() for html in both)


def test_the_prompt_is_there_for_those_who_come_from_a_link(made: Path, page: Page) -> None:
    html = page(link_of(made, "iface", Mode.FREE).format())
    prompt = html.select_one(".prompt")
    assert prompt is not None
    assert "Is GigabitEthernet0/1/4 up?" in prompt.get_text()
