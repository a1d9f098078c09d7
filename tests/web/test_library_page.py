"""The library page says what was recorded, what differs, and what cannot be read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import duckdb
import pytest
from bs4 import BeautifulSoup, Tag
from starlette.testclient import TestClient

from app.links import ForkLink, parse
from capture.comparison import read_comparisons
from capture.model import FlipClass, Mode
from tests.synthetic import interface_scripts, make_case
from tests.web.conftest import Page, client_of


def _text(node: Tag | None) -> str:
    assert node is not None
    return " ".join(node.get_text(" ").split())


def _cells(page: BeautifulSoup, case: str) -> list[str]:
    row = next(row for row in page.select("tbody tr") if _text(row.select_one("th")) == case)
    return [_text(cell) for cell in row.select("td")]


def test_a_study_is_a_table_of_cases_by_runtimes(page: Page) -> None:
    table = page("/").select_one("table.matrix")
    assert table is not None
    headers = [_text(header) for header in table.select("thead th")]
    assert headers[:2] == ["case", "eager reference bf16-eager"]
    assert {header.split(" ")[-1] for header in headers[1:]} == {"bf16-eager", "bf16-sdpa", "int4", "int4-int8cache"}
    assert [_text(header) for header in table.select("tbody th")] == ["hostile", "iface"]


def test_a_cell_counts_the_flips_of_the_comparison(client: TestClient, made: Path) -> None:
    study = client.get("/index.json").json()["studies"][0]
    row = next(row for row in study["rows"] if row["case"] == "iface")
    for column, cell in zip(study["columns"], row["cells"], strict=True):
        if column["is_reference"]:
            assert cell["kind"] == "reference"
            continue
        path = made / "synthetic" / f"iface--{column['name']}.vs.bf16-eager.comparison.duckdb"
        forced = max(read_comparisons(path), key=lambda comparison: len(comparison.position))
        assert (cell["flips"], cell["positions"]) == (len(forced.flips), len(forced.position))
        assert cell["percent"].startswith(f"{100 * forced.disagreement:.1f}"[:3])
        assert float(cell["kl"]) == pytest.approx(float(forced.metrics.kl_forward.mean()), abs=5e-5)


def test_a_cell_opens_the_streams_at_the_first_decided_flip(page: Page, made: Path) -> None:
    comparisons = read_comparisons(made / "synthetic" / "iface--int4.vs.bf16-eager.comparison.duckdb")
    decided = [flip for flip in comparisons[1].flips if flip.flip_class is FlipClass.DECIDED]
    table = page("/").select_one("table.matrix")
    assert table is not None
    links = [parse(str(link["href"])) for link in table.select("td.cell-compared a")]
    assert all(parsed.notices == () for parsed in links)
    forks = [parsed.link for parsed in links if isinstance(parsed.link, ForkLink)]
    wanted = (decided[0].position, decided[0].prefix_id.hex()[:16], Mode.FORCED)
    assert wanted in [(fork.position, fork.prefix, fork.options.mode) for fork in forks]


def test_every_link_of_the_page_works(page: Page, client: TestClient) -> None:
    addresses = {str(link["href"]) for link in page("/").select("main a[href]")}
    assert addresses
    for address in addresses:
        response = client.get(address)
        assert response.status_code == 200
        assert not BeautifulSoup(response.text, "html.parser").select(".notice"), address


def test_all_cases_together_stand_at_the_foot(client: TestClient) -> None:
    study = client.get("/index.json").json()["studies"][0]
    index = [column["name"] for column in study["columns"]].index("int4")
    cells = [row["cells"][index] for row in study["rows"]]
    total = study["totals"][index]
    assert total["flips"] == sum(cell["flips"] for cell in cells)
    assert total["positions"] == sum(cell["positions"] for cell in cells)


def test_a_broken_bundle_is_listed_and_hides_nothing(copy: Path) -> None:
    (copy / "synthetic" / "iface--int4.duckdb").write_bytes(b"<script>alert(1)</script>" * 100)
    with client_of(copy) as client:
        page = BeautifulSoup(client.get("/").text, "html.parser")
        assert [_text(name) for name in page.select(".broken-files .file")] == ["synthetic/iface--int4.duckdb"]
        assert _text(page.select_one(".broken-files .reason"))
        assert page.find("script", string=True) is None
        assert len(_cells(page, "iface")) == 4
        assert [cell for cell in _cells(page, "iface") if "not recorded" in cell]
        assert client.get("/healthz").json() == {"ok": True, "version": "0.1.0", "bundles": 5, "broken": 1}


def test_runs_without_a_comparison_can_be_opened(copy: Path) -> None:
    for path in copy.rglob("*.comparison.duckdb"):
        path.unlink()
    with client_of(copy) as client:
        cells = _cells(BeautifulSoup(client.get("/").text, "html.parser"), "iface")
    assert [cell.startswith("open") for cell in cells] == [False, True, True, True]


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
