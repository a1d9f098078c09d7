"""The library page says what was recorded, what differs, and what cannot be read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from bs4 import BeautifulSoup, Tag
from starlette.testclient import TestClient

from app.library import Library
from app.links import ForkLink, parse
from app.report_choices import COLUMNS
from capture.comparison import read_comparisons
from capture.model import FlipClass, Mode
from tests.synthetic import interface_scripts, make_case
from tests.web.conftest import Page, client_of


def _text(node: Tag | None) -> str:
    assert node is not None
    return " ".join(node.get_text(" ").split())


def _matrix(page: BeautifulSoup) -> Tag:
    table = page.select_one("table.matrix")
    assert table is not None
    return table


def _columns(page: BeautifulSoup) -> list[str]:
    return [_text(header) for header in _matrix(page).select("thead th")]


def _rows(page: BeautifulSoup) -> dict[str, list[str]]:
    """Return the cells of each runtime, by what its row is called."""
    rows = [row for row in _matrix(page).select("tbody tr") if row.select_one("th[scope=row]")]
    return {_text(row.select_one("th")): [_text(cell) for cell in row.select("td")] for row in rows}


def _cell(page: BeautifulSoup, runtime: str, case: str) -> str:
    at = [column.split(" ")[0] for column in _columns(page)].index(case)
    return _rows(page)[runtime][at - 1]


def _twin_rows(client: TestClient, address: str = "/index.json") -> list[dict[str, Any]]:
    (matrix,) = client.get(address).json()["matrices"]
    return [{**row, "group": group["name"]} for group in matrix["groups"] for row in group["rows"]]


@pytest.fixture(scope="module")
def settled(client: TestClient) -> TestClient:
    """The client when all summaries are known."""
    client.get("/")
    library: Library = client.app.state.library  # type: ignore[attr-defined]
    library.settle()
    return client


def test_a_study_is_a_matrix_of_runtimes_by_cases(page: Page) -> None:
    found = page("/")
    assert [column.split(" ")[0] for column in _columns(found)] == ["runtime", "all", "hostile", "iface"]
    assert list(_rows(found)) == ["eager", "eager · int4 weights", "sdpa", "eager · int4 weights · KV cache int8"]


def test_rows_are_grouped_by_what_differs_from_the_reference(page: Page) -> None:
    groups = {
        _text(group.select_one(".group-head")): [_text(row) for row in group.select("th[scope=row] a")]
        for group in _matrix(page("/")).select("tbody.group")
    }
    assert groups == {
        "reference": ["eager"],
        "weights": ["eager · int4 weights"],
        "attention": ["sdpa"],
        "weights + KV cache": ["eager · int4 weights · KV cache int8"],
    }


def test_a_cell_counts_the_flips_of_the_comparison(client: TestClient, made: Path) -> None:
    (matrix,) = client.get("/index.json").json()["matrices"]
    at = [column["name"] for column in matrix["columns"]].index("iface")
    for row in _twin_rows(client):
        cell = row["cells"][at]
        if row["is_reference"]:
            assert cell["kind"] == "reference"
            continue
        path = made / "synthetic" / f"iface--{row['name']}.vs.bf16-eager.comparison.duckdb"
        forced = max(read_comparisons(path), key=lambda comparison: len(comparison.position))
        assert (cell["flips"], cell["positions"]) == (len(forced.flips), len(forced.position))
        assert cell["disagreement"] == pytest.approx(forced.disagreement)
        assert cell["text"] in ("0 %", f"{100 * forced.disagreement:.1f} %", f"{100 * forced.disagreement:.2f} %")
        assert cell["kl"] == pytest.approx(float(forced.metrics.kl_forward.mean()))


def test_a_cell_opens_the_streams_at_the_first_decided_flip(page: Page, made: Path) -> None:
    comparisons = read_comparisons(made / "synthetic" / "iface--int4.vs.bf16-eager.comparison.duckdb")
    decided = [flip for flip in comparisons[1].flips if flip.flip_class is FlipClass.DECIDED]
    links = [parse(str(link["href"])) for link in _matrix(page("/")).select("td.cell-compared a")]
    assert all(parsed.notices == () for parsed in links)
    forks = [parsed.link for parsed in links if isinstance(parsed.link, ForkLink)]
    wanted = (decided[0].position, decided[0].prefix_id.hex()[:16], Mode.FORCED)
    assert wanted in [(fork.position, fork.prefix, fork.options.mode) for fork in forks]


def test_intervals_hold_the_value_and_are_drawn(settled: TestClient) -> None:
    compared = [cell for row in _twin_rows(settled) for cell in row["cells"] if cell["kind"] == "compared"]
    assert compared
    for cell in compared:
        assert cell["disagreement_low"] <= cell["disagreement"] <= cell["disagreement_high"]
        assert cell["kl_low"] <= cell["kl"] <= cell["kl_high"]
        places = [float(cell["whisker"][name]) for name in ("low", "at", "high")]
        assert places == sorted(places)
        assert "95 %" in cell["title"]
    page = BeautifulSoup(settled.get("/").text, "html.parser")
    assert len(page.select("td.cell-compared svg.strip")) == len(compared)
    assert page.select_one(".pending") is None


def test_under_ten_cases_none_is_claimed_for_the_study(settled: TestClient) -> None:
    totals = [row["total"] for row in _twin_rows(settled) if not row["is_reference"]]
    assert [cell["disagreement_low"] for cell in totals] == [None] * len(totals)
    page = BeautifulSoup(settled.get("/").text, "html.parser")
    assert "2 cases, under 10" in _text(page.select_one(".advice .hint"))


def test_cells_show_kl_or_the_verdict_by_a_link(settled: TestClient) -> None:
    page = BeautifulSoup(settled.get("/").text, "html.parser")
    links = {_text(link): str(link["href"]) for link in page.select(".control a")}
    told = BeautifulSoup(settled.get(links["verdict"]).text, "html.parser")
    assert _cell(told, "eager · int4 weights", "iface") == "different arguments: command"
    assert _rows(told)["eager"][0] == "1 of 1"
    divergence = BeautifulSoup(settled.get(links["KL"]).text, "html.parser")
    kl = next(row for row in _twin_rows(settled) if row["name"] == "int4")["cells"][1]["kl"]
    assert _cell(divergence, "eager · int4 weights", "iface").startswith(f"{kl:.2f}" if kl > 0.1 else f"{kl:.4f}")


def test_columns_can_be_kinds_of_range_that_add_up(settled: TestClient) -> None:
    whole = next(row for row in _twin_rows(settled) if row["name"] == "int4")
    kinds = next(row for row in _twin_rows(settled, "/index.json?columns=ranges") if row["name"] == "int4")
    assert sum(cell["flips"] for cell in kinds["cells"]) == whole["total"]["flips"]
    assert sum(cell["positions"] for cell in kinds["cells"]) == whole["total"]["positions"]
    page = BeautifulSoup(settled.get("/?columns=ranges").text, "html.parser")
    assert [column.split(" ")[0] for column in _columns(page)][:3] == ["runtime", "all", "prose"]


def test_one_protocol_stands_in_one_matrix(settled: TestClient) -> None:
    page = BeautifulSoup(settled.get("/").text, "html.parser")
    links = {_text(link): str(link["href"]) for link in page.select(".matrix-head nav a")}
    assert set(links) == {"forced, decode", "free, decode"}
    free = _twin_rows(settled, "/index.json?protocol=free")
    assert {cell["protocol"] for row in free for cell in row["cells"] if cell["kind"] == "compared"} == {"free"}
    forced = {row["name"]: row["total"]["positions"] for row in _twin_rows(settled)}
    assert all(row["total"]["positions"] < forced[row["name"]] for row in free if row["name"] == "int4")


def test_facets_narrow_the_rows_and_keep_their_reference(settled: TestClient) -> None:
    page = BeautifulSoup(settled.get("/").text, "html.parser")
    facets = {_text(facet.select_one("dt")): facet for facet in page.select(".facet")}
    assert set(facets) == {"weights", "KV cache", "attention"}
    links = {_text(link): str(link["href"]) for link in facets["KV cache"].select("a")}
    narrowed = BeautifulSoup(settled.get(links["int8"]).text, "html.parser")
    assert list(_rows(narrowed)) == ["eager", "eager · int4 weights · KV cache int8"]
    chosen = narrowed.select_one(".facet a[aria-current]")
    assert chosen is not None
    assert len(_rows(BeautifulSoup(settled.get(str(chosen["href"])).text, "html.parser"))) == 4


def test_a_facet_that_nothing_has_offers_the_way_back(settled: TestClient) -> None:
    page = BeautifulSoup(settled.get("/?weights=int2").text, "html.parser")
    assert page.select_one("table.matrix") is None
    link = page.select_one(".nothing a")
    assert link is not None
    assert link["href"] == "/"


def test_a_link_that_makes_no_sense_is_told_and_shows_the_library(settled: TestClient) -> None:
    page = BeautifulSoup(settled.get("/?cells=wrong&nothing=1").text, "html.parser")
    assert len(page.select(".notice")) == 2
    assert page.select_one("table.matrix") is not None


def test_what_to_use_is_told_as_captured(settled: TestClient) -> None:
    (matrix,) = settled.get("/index.json").json()["matrices"]
    (table,) = matrix["advice"]
    first, *others = table["rows"]
    assert (first["name"], first["is_reference"]) == ("bf16-eager", True)
    assert [row["name"] for row in others][-1] in ("int4", "int4-int8cache")
    assert {row["disk"] for row in table["rows"]} == {""}
    page = BeautifulSoup(settled.get("/").text, "html.parser")
    cells = [_text(cell) for cell in page.select(".advice-table tbody tr:first-of-type td")]
    heads = [_text(cell) for cell in page.select(".advice-table thead th")][1:]
    told = dict(zip(heads, cells, strict=True))
    assert heads == table["columns"][1:] == [name for name in COLUMNS[1:] if name not in ("KL n", "on disk", "weights")]
    assert told["calls as reference"] == "–"
    assert told["speed"].endswith(" tok/s")


def test_studies_that_share_a_case_are_one_matrix_and_name_their_study(copy: Path) -> None:
    make_case(copy / "rig", "iface", interface_scripts(2, 70), study="another rig")
    with client_of(copy) as client:
        rows = _twin_rows(client)
        page = BeautifulSoup(client.get("/").text, "html.parser")
    assert {row["study"] for row in rows} == {"synthetic", "another rig"}
    assert [_text(head) for head in page.select(".study-head h2")].count("another rig") == 1
    assert {"bf16-eager another rig", "eager synthetic"} <= set(_rows(page))
    assert {facet["name"] for facet in client.get("/index.json").json()["facets"]} >= {"study"}


def test_studies_without_a_common_case_stay_apart(copy: Path) -> None:
    make_case(copy / "other", "elsewhere", interface_scripts(2, 60), study="other")
    with client_of(copy) as client:
        matrices = client.get("/index.json").json()["matrices"]
    assert [[study["name"] for study in matrix["studies"]] for matrix in matrices] in (
        [["synthetic"], ["other"]],
        [["other"], ["synthetic"]],
    )


def test_every_link_of_the_page_works(page: Page, client: TestClient) -> None:
    addresses = {str(link["href"]) for link in page("/").select("main a[href]")}
    assert addresses
    for address in addresses:
        response = client.get(address)
        assert response.status_code == 200
        assert not BeautifulSoup(response.text, "html.parser").select(".notice"), address


def test_all_cases_together_stand_first(client: TestClient) -> None:
    row = next(row for row in _twin_rows(client) if row["name"] == "int4")
    assert row["total"]["flips"] == sum(cell["flips"] for cell in row["cells"])
    assert row["total"]["positions"] == sum(cell["positions"] for cell in row["cells"])


def test_a_broken_bundle_is_listed_and_hides_nothing(copy: Path) -> None:
    (copy / "synthetic" / "iface--int4.duckdb").write_bytes(b"<script>alert(1)</script>" * 100)
    with client_of(copy) as client:
        page = BeautifulSoup(client.get("/").text, "html.parser")
        assert [_text(name) for name in page.select(".broken-files .file")] == ["synthetic/iface--int4.duckdb"]
        assert _text(page.select_one(".broken-files .reason"))
        assert page.find("script", string=True) is None
        assert len(_rows(page)) == 4
        assert "not recorded" in _cell(page, "eager · int4 weights", "iface")
        assert client.get("/healthz").json() == {"ok": True, "version": "0.1.0", "bundles": 5, "broken": 1}


def test_runs_without_a_comparison_can_be_opened_and_are_compared_meanwhile(copy: Path) -> None:
    for path in copy.rglob("*.comparison.duckdb"):
        path.unlink()
    with client_of(copy) as client:
        app: Any = client.app
        before = [row["cells"][1]["kind"] for row in _twin_rows(client)]
        app.state.library.settle()
        after = [row["cells"][1]["kind"] for row in _twin_rows(client)]
    assert before == ["reference", "alone", "alone", "alone"]
    assert after == ["reference", "compared", "compared", "compared"]


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_library_shows_the_commands_that_fill_it(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "empty"
    if exists:
        folder.mkdir()
    with client_of(folder) as client:
        page = BeautifulSoup(client.get("/").text, "html.parser")
    assert [_text(code) for code in page.select("pre code")] == [
        "flipscope demo",
        f"flipscope capture STUDY.toml --library {folder}",
    ]
    assert ("does not exist" in _text(page.select_one("main"))) is not exists


def test_a_new_study_appears_by_itself(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.library.LOOK_SECONDS", 0.0)
    with client_of(copy) as client:
        assert len(client.get("/index.json").json()["studies"]) == 1
        make_case(copy / "new", "iface", interface_scripts(1, 60), study="new")
        assert {study["name"] for study in client.get("/index.json").json()["studies"]} == {"new", "synthetic"}
        shutil.rmtree(copy / "new")
        assert len(client.get("/index.json").json()["studies"]) == 1


def test_a_file_name_that_is_no_utf8_is_listed(copy: Path) -> None:
    shutil.copyfile(next(copy.rglob("*.duckdb")), os.fsencode(copy) + b"/bad\xff.duckdb")
    with client_of(copy) as client:
        for address in ("/", "/index.json", "/c/iface"):
            response = client.get(address)
            assert response.status_code == 200
            assert address == "/c/iface" or "bad?.duckdb" in response.text


def test_controls_in_names_are_shown_and_do_nothing(copy: Path) -> None:
    for path in copy.rglob("hostile--int4.duckdb"):
        with duckdb.connect(str(path)) as connection:
            connection.execute("UPDATE bundle SET facts = replace(facts, 'Synthetic', '\\u001b[2J\\u202e\\u0000x')")
            connection.execute(
                "UPDATE bundle SET facts = replace(facts, '\"synthetic\"', '\"\\u001b[2J\\u202e\\u0000x\"')"
            )
    with client_of(copy) as client:
        for address in ("/", "/c/hostile"):
            response = client.get(address)
            assert response.status_code == 200
            assert not {"\x1b", "\u202e", "\x00"} & set(response.text)
        assert "[2J" in client.get("/").text
