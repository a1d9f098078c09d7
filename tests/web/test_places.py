"""The forms around the text: filter, position, find, look-up; without script, and whatever is sent."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.library import Library
from app.links import CaseLink
from capture.model import Mode
from capture.resources import bundled_library
from tests.web.conftest import Page, client_of

HOSTILE = ["<script>alert(1)</script>", "\x00\x1b[31m", "\u202eevil", '"><b>', "%s" * 90, "\ud7ff" * 200]

BUNDLED_FORK = "/c/mac-751ffd9f/f/38-f20475388d0a026b"


@pytest.fixture(params=[Mode.FREE, Mode.FORCED])
def address(request: pytest.FixtureRequest, made: Path) -> str:
    return CaseLink(Library(made).find_case("iface")).where(mode=request.param).format()


def sent(form: Tag, **filled: str) -> str:
    """Return the address that a browser without script asks for when a form is sent."""
    values = [(str(one["name"]), str(one.get("value", ""))) for one in form.select("input[name]")]
    values += [
        (str(one["name"]), str(chosen["value"]) if (chosen := one.select_one("option[selected]")) else "")
        for one in form.select("select")
    ]
    assert {name for name, _ in values} >= filled.keys()
    return f"{form['action']}?{urlencode([(name, filled.get(name, value)) for name, value in values])}"


def form_of(html: BeautifulSoup, field: str) -> Tag:
    found = html.select_one(f"form:has([name='{field}'])")
    assert found is not None
    return found


def test_the_filter_form_lists_what_was_chosen_and_keeps_the_rest(page: Page, address: str) -> None:
    html = page(address)
    chosen = page(sent(form_of(html, "class"), **{"class": "decided", "sort": "margin"}))
    classes = [cell.get_text() for cell in chosen.select(".flips tbody td[class^='class-']")]
    assert set(classes) == {"decided"}
    nats = [float(cell.get_text()) for cell in chosen.select(".flips tbody td.number")]
    assert nats == sorted(nats, reverse=True)
    assert not chosen.select(".notice")
    assert [one["value"] for one in chosen.select(".filter option[selected]") if one["value"]] == ["decided", "margin"]
    modes = [html.select_one(".switch [aria-current]") for html in (html, chosen)]
    assert modes[0] is not None
    assert modes[1] is not None
    assert modes[0].get_text() == modes[1].get_text()
    assert "class=decided" in str(chosen.select_one(".flips tbody a")["href"])  # type: ignore[index]


def test_the_marks_follow_the_filter(page: Page, address: str) -> None:
    html = page(sent(form_of(page(address), "class"), **{"class": "tie"}))
    listed = {cell.get_text().strip() for cell in html.select(".flips tbody tr:not(.under) td:first-child")}
    marked = {str(one["data-p"]) for one in html.select("#streams a.t:not(.quiet)")}
    assert marked <= listed


def test_a_lane_that_is_not_there_is_said(page: Page, address: str) -> None:
    html = page(f"{address}&lane=0123456789ab")
    assert "all are listed" in html.select(".notice")[0].get_text()
    assert html.select(".flips tbody tr")


def test_a_position_can_be_gone_to(page: Page, address: str) -> None:
    for view in ("streams", "transcript"):
        html = page(sent(form_of(page(f"{address}&view={view}"), "at"), at="9"))
        assert html.select(".t[data-p='9']")
        if view == "streams":
            assert html.select_one("#position-title").get_text().startswith("Position 9")  # type: ignore[union-attr]


def test_text_is_found_and_each_place_opens(page: Page, client: TestClient, address: str) -> None:
    html = page(sent(form_of(page(address), "q"), q="INTERFACE"))
    places = html.select("#found li")
    assert places
    assert {mark.get_text().lower() for mark in html.select("#found mark")} == {"interface"}
    twin = client.get(urlsplit(address).path + "/find.json?" + urlsplit(address).query + "&q=INTERFACE").json()
    assert [hit["href"] for hit in twin["hits"]] == [one.select_one("a")["href"] for one in places]  # type: ignore[index]
    opened = page(twin["hits"][0]["href"])
    assert opened.select(f".pinned[data-p='{twin['hits'][0]['position']}']")
    assert not opened.select(".notice")


@pytest.mark.parametrize("asked", HOSTILE)
def test_hostile_questions_are_text(page: Page, client: TestClient, address: str, asked: str) -> None:
    html = page(address)
    for name in ("q", "look", "at", "class", "margin"):
        answer = page(sent(form_of(html, name), **{name: asked}))
        assert [script for script in answer.select("script") if not script.get("src")] == []
        assert not answer.select("#main b, #found script")
        assert "\u202e" not in answer.get_text()
        assert "\x1b" not in answer.get_text()
    path, query = urlsplit(address).path, urlencode({"q": asked})
    assert client.get(f"{path}/find.json?{query}").status_code == 200


@given(asked=st.text(max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
def test_no_question_is_an_error(client: TestClient, address: str, asked: str) -> None:
    path = urlsplit(address).path
    for query in ({"q": asked}, {"look": asked}):
        for place in (f"{path}/find", f"{path}.json", path):
            assert client.get(f"{place}?{urlencode(query, errors='replace')}").status_code == 200


def test_a_place_that_lacks_its_rows_gives_bounds(page: Page, address: str) -> None:
    html = page(sent(form_of(page(address), "look"), look="3"))
    assert html.select("#lookup tbody tr, #lookup .hint")


@pytest.mark.parametrize("mode", ["free", "forced"])
def test_the_bundled_study_answers_for_any_token(mode: str) -> None:
    with client_of(bundled_library()) as client:
        html = BeautifulSoup(client.get(f"{BUNDLED_FORK}?mode={mode}").text, "html.parser")
        answer = BeautifulSoup(client.get(sent(form_of(html, "look"), look="12345")).text, "html.parser")
        rows = [[cell.get_text() for cell in row.select("td")] for row in answer.select("#lookup tbody tr")]
        assert len(rows) > 2
        exact = [row for row in rows if not row[0].startswith("<") and row[0] != "\u2013"]
        assert exact
        assert all(1 <= int(row[1].replace(",", "")) <= 49152 for row in exact)
        assert any(row[0].startswith("< ") and row[1].startswith("> ") for row in rows)
        twin = client.get(f"{BUNDLED_FORK}.json?mode={mode}&look=12345").json()["lookup"]
        assert [one["percent"] for one in twin["lanes"].values() if one] == [
            row[0] for row in rows if row[1] != "\u2013"
        ]
