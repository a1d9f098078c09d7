"""The charts pages: what they link to, their data, what they say without script, and what they never say as markup."""

from __future__ import annotations

import csv
import io
import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from bs4 import BeautifulSoup, Tag
from starlette.testclient import TestClient

import app.library as library_module
from app.charts.page import DRAWN
from app.links import parse
from app.web.security import POLICY
from capture.comparison import read_comparisons
from capture.resources import bundled_library
from tests.web.conftest import Page, client_of


def _text(node: Tag | None) -> str:
    assert node is not None
    return " ".join(node.get_text(" ").split())


def _figure(page: BeautifulSoup, name: str) -> Tag:
    found = page.select_one(f"figure#{name}")
    assert found is not None
    return found


def test_the_library_and_the_case_lead_to_charts(page: Page) -> None:
    links = [str(link["href"]) for link in page("/").select(".study-links a")]
    assert links == ["/charts?study=synthetic"]
    case = [str(link["href"]) for link in page("/c/iface").select("nav.views a") if _text(link) == "charts"]
    assert len(case) == 1
    assert page(case[0]).select("figure.chart")
    assert page(links[0]).select("figure.chart")


def test_every_chart_has_a_caption_its_data_and_a_table(page: Page, client: TestClient) -> None:
    found = page("/charts?study=synthetic")
    figures = found.select("figure.chart")
    assert {str(figure["id"]) for figure in figures} >= {*DRAWN, "kl", "probabilities"}
    for figure in figures:
        caption = _text(figure.select_one("figcaption"))
        assert "n = " in caption
        assert "forced, decode" in caption or "Kaplan" in caption
        assert len(figure.select("tbody tr")) > 0
        for link in figure.select(".chart-files a"):
            assert client.get(str(link["href"])).status_code == 200


def test_the_table_the_csv_and_the_json_say_the_same(page: Page, client: TestClient) -> None:
    figure = _figure(page("/charts?study=synthetic"), "disagreement")
    as_csv, as_json = (str(link["href"]) for link in figure.select(".chart-files a"))
    twin = client.get(as_json).json()
    response = client.get(as_csv)
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    head, *rows = csv.reader(io.StringIO(response.text))
    assert head[: len(twin["columns"])] == twin["columns"]
    assert [row[0] for row in rows] == [row[0] for row in twin["rows"]]
    assert [_text(row.select_one("th")) for row in figure.select("tbody tr")] == [row[0] for row in twin["rows"]]
    assert [trace["y"][0] for trace in twin["figure"]["data"]] == [row[0] for row in twin["rows"]]


def test_flips_are_those_of_the_comparisons(client: TestClient, made: Path) -> None:
    twin = client.get("/charts/disagreement.json?study=synthetic").json()
    told = {row[0]: (row[1], row[2]) for row in twin["rows"]}
    files = [made / "synthetic" / f"{case}--int4.vs.bf16-eager.comparison.duckdb" for case in ("hostile", "iface")]
    forced = [max(read_comparisons(path), key=lambda one: len(one.position)) for path in files]
    positions, flips = sum(len(one.position) for one in forced), sum(len(one.flips) for one in forced)
    assert told["eager · int4 weights"] == (positions, flips)


def test_links_of_points_open_positions_without_a_notice(client: TestClient) -> None:
    twin = client.get("/charts/stream.json?study=synthetic").json()
    links = [link for link in twin["links"] if link]
    assert links
    for link in links[:3]:
        assert parse(link).notices == ()
        answer = client.get(link)
        assert answer.status_code == 200
        assert not BeautifulSoup(answer.text, "html.parser").select(".notice")


def test_protocols_are_pages_of_their_own(page: Page, client: TestClient) -> None:
    links = {_text(link): str(link["href"]) for link in page("/charts").select(".chart-controls nav a")}
    free = page(links["free, decode"])
    assert "free, decode" in _text(_figure(free, "disagreement").select_one("figcaption"))
    twin = client.get("/charts.json?protocol=free").json()
    assert twin["protocol"] == "free"
    assert all("protocol=free" in chart["json"] for chart in twin["charts"])


def test_a_case_has_charts_of_its_own(page: Page, client: TestClient) -> None:
    twin = client.get("/c/iface/charts.json").json()
    assert twin["case"] == "iface"
    found = page("/c/iface/charts")
    assert "on 1 case" in _text(_figure(found, "disagreement").select_one("figcaption"))
    other = {_text(link): str(link["href"]) for link in found.select(".chart-cases a")}
    assert "on 2 cases" in _text(_figure(page(other["all cases"]), "disagreement").select_one("figcaption"))
    address = client.get("/c/iface/charts", follow_redirects=False).headers["location"]
    assert address.startswith("/c/iface-")


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/charts?study=nothing", 404),
        ("/c/nothing/charts", 404),
        ("/charts/nothing.json", 404),
        ("/charts/nothing.csv", 404),
    ],
)
def test_what_is_not_there_is_told(client: TestClient, address: str, status: int) -> None:
    assert client.get(address).status_code == status


def test_a_link_that_makes_no_sense_shows_the_charts_with_a_notice(page: Page) -> None:
    found = page("/charts?protocol=wrong&depth=wrong&other=1")
    assert len(found.select(".notice")) == 3
    assert found.select("figure.chart")


def test_the_policy_is_the_one_of_every_page(client: TestClient) -> None:
    assert client.get("/charts").headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY


def test_the_page_holds_no_script_or_style_of_its_own(page: Page) -> None:
    found = page("/charts")
    assert found.find("script", string=True) is None
    assert found.find("style") is None
    assert not found.select("[style], [onclick]")


def test_only_the_charts_pages_load_the_library_of_charts(page: Page, client: TestClient) -> None:
    def scripts(address: str) -> list[str]:
        return [str(one["src"]) for one in page(address).select("script[src]") if "plotly" in str(one["src"])]

    assert [*scripts("/"), *scripts("/c/iface")] == []
    (script,) = scripts("/charts")
    assert client.get(script).status_code == 200
    style = page("/charts").select_one("link[href*='vendor/plotly/plotly.css']")
    assert style is not None
    assert style["id"] == "plotly.js-style-global"
    assert "no-inline-styles" in style["class"]


def test_hostile_names_are_text_in_the_page_and_in_the_figure(copy: Path) -> None:
    name = "<img src=x onerror=alert(1)>\\u202e"
    for path in copy.rglob("*--int4.duckdb"):
        with duckdb.connect(str(path)) as connection:
            connection.execute('UPDATE bundle SET facts = replace(facts, \'"name":"int4"\', ?)', [f'"name":"{name}"'])
            connection.execute('UPDATE bundle SET facts = replace(facts, \'"name": "int4"\', ?)', [f'"name": "{name}"'])
            connection.execute('UPDATE bundle SET facts = replace(facts, \'"label": ""\', ?)', [f'"label": "{name}"'])
            connection.execute('UPDATE bundle SET facts = replace(facts, \'"label":""\', ?)', [f'"label":"{name}"'])
    with client_of(copy) as client:
        response = client.get("/charts")
        twin: Any = client.get("/charts/disagreement.json").json()
    page = BeautifulSoup(response.text, "html.parser")
    assert page.find("img") is None
    assert "\u202e" not in response.text
    labels = [trace["y"][0] for trace in twin["figure"]["data"]]
    assert any(label.startswith("&lt;img src=x onerror=alert(1)&gt;") for label in labels)
    assert not any("<" in label or "\u202e" in label for label in labels)


def test_a_library_without_a_comparison_still_has_charts(copy: Path) -> None:
    for path in copy.rglob("*.comparison.duckdb"):
        path.unlink()
    with client_of(copy) as client:
        assert client.get("/charts.json").json()["charts"]


def test_a_broken_bundle_leaves_the_other_charts(copy: Path) -> None:
    (copy / "synthetic" / "iface--int4.duckdb").write_bytes(b"x" * 5000)
    with client_of(copy) as client:
        assert client.get("/charts.json").json()["charts"]


def test_a_label_that_changes_without_a_position_is_drawn_anew(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_module, "LOOK_SECONDS", 0.0)
    for path in copy.rglob("*--int4.duckdb"):  # its forced run goes, so that only how long it agrees is left
        with duckdb.connect(str(path)) as connection:
            connection.execute('DELETE FROM run WHERE facts LIKE \'%"mode": "forced"%\'')
    with client_of(copy) as client:
        before = client.get("/charts.json?protocol=forced").text
        assert "renamed lane" not in before
        for path in copy.rglob("*--int4.duckdb"):
            renamed = shutil.copyfile(path, path.with_suffix(".partial"))
            with duckdb.connect(str(renamed)) as connection:
                statement = 'UPDATE bundle SET facts = replace(facts, \'"label": ""\', \'"label": "renamed lane"\')'
                connection.execute(statement)
            os.replace(renamed, path)
        agreements = client.get("/charts/agreement.json?protocol=forced").text
        assert "renamed lane" in agreements


def test_an_agreement_that_cannot_be_read_is_told(copy: Path) -> None:
    (path,) = copy.rglob("iface--int4.duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE step SET token_id = 7, top1 = 7 WHERE run = 0 AND position = 9")
    with client_of(copy) as client:
        page = BeautifulSoup(client.get("/charts?protocol=forced").text, "html.parser")
    notices = [_text(notice) for notice in page.select(".notice")]
    assert any("iface--int4.duckdb is left out" in notice for notice in notices)


def test_a_link_that_names_no_study_of_several_says_which_it_shows(tmp_path: Path, made: Path) -> None:
    shutil.copytree(made / "synthetic", tmp_path / "synthetic")
    for name in ("mac--bf16.duckdb", "mac--w8a8.duckdb"):
        shutil.copy(bundled_library() / "network-automation" / name, tmp_path / name)
    with client_of(tmp_path) as client:
        found = [
            BeautifulSoup(client.get(link).text, "html.parser").select_one(".notice")
            for link in ("/charts", "/charts?study=synthetic", "/charts?study=network-automation")
        ]
    assert found[0] is not None
    assert "2 studies could be meant" in found[0].get_text()
    assert found[1:] == [None, None]
