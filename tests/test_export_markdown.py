from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from bs4 import BeautifulSoup
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.export_markdown import markdown_of, plain
from app.export_page import export_page
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink
from app.streams_values import StreamsPage
from capture.model import Mode
from tests.export_pages import NASTY, fork_of, nasty_page, with_tokens
from tests.synthetic import make_library

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")

ADDRESS = "http://localhost:8017/c/iface-00000000"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    found = Library(make_library(tmp_path_factory.mktemp("library"), lanes=5))
    yield found
    found.close()


@pytest.fixture(scope="module", params=[Mode.FREE, Mode.FORCED])
def opened(library: Library, request: pytest.FixtureRequest) -> tuple[OpenCase, CaseLink]:
    key = library.find_case("iface")
    return library.open_case(key, request.param), CaseLink(key).where(mode=request.param)


@pytest.fixture(scope="module")
def page(opened: tuple[OpenCase, CaseLink]) -> StreamsPage:
    case, link = opened
    return export_page(case, fork_of(case, link))


def rendered(markdown: str) -> BeautifulSoup:
    return BeautifulSoup(MARKDOWN.render(markdown), "html.parser")


def fences(markdown: str) -> list[str]:
    return [token.content.rstrip("\n") for token in MARKDOWN.parse(markdown) if token.type == "fence"]


def test_both_continuations_stand_in_blocks_of_their_own(page: StreamsPage) -> None:
    assert page.panel is not None
    grown = [one for one in page.panel.continuations if one.tokens]
    assert len(grown) >= 2
    texts = [plain((*one.tokens, *one.more)).rstrip("\n") for one in grown]
    assert fences(markdown_of(page, ADDRESS)) == texts


def test_the_title_says_the_fork_in_words(page: StreamsPage) -> None:
    assert page.panel is not None
    title = rendered(markdown_of(page, ADDRESS)).h3
    assert title is not None
    assert title.get_text() == page.panel.headline


def test_the_table_has_every_probability_with_the_winner_in_bold(page: StreamsPage) -> None:
    assert page.pane is not None
    odds = rendered(markdown_of(page, ADDRESS)).select("table")[0]
    rows = [[cell.get_text() for cell in row.find_all("td")] for row in odds.select("tbody tr")]
    for expected, row in zip(page.pane.table.rows, rows, strict=False):
        assert row == [expected.label.text, *("\u2013" if cell is None else cell.text for cell in expected.cells)]
    winners = sum(bool(cell and cell.winner) for row in page.pane.table.rows for cell in row.cells)
    assert len(odds.select("strong")) == winners > 0
    assert [row[0] for row in rows if "nats" in row[0]] == [f"{one.name}, nats" for one in page.pane.numbers]


def test_it_tells_lanes_differences_certificates_and_the_address(page: StreamsPage) -> None:
    text = rendered(markdown_of(page, ADDRESS)).get_text()
    assert all(chip.label in text for chip in page.chips)
    assert all(one.entry in text for one in page.chips[0].differences.found[:3])
    assert page.pane is not None
    assert all(line.text in text for line in page.pane.certificates)
    assert "not the right answer" in text
    assert text.rstrip().endswith(ADDRESS)


def test_without_a_fork_it_lists_the_flips(opened: tuple[OpenCase, CaseLink]) -> None:
    case, link = opened
    page = export_page(case, link)
    rows = rendered(markdown_of(page, ADDRESS)).select("table")[0].select("tbody tr")
    assert [row.td.get_text() for row in rows if row.td] == [str(row.position) for row in page.flips]
    assert len(rows) == page.list.total


def test_strangers_words_are_text_and_nothing_else(opened: tuple[OpenCase, CaseLink]) -> None:
    markdown = markdown_of(nasty_page(*opened), ADDRESS)
    html = rendered(markdown)
    allowed = {"h3", "p", "strong", "code", "pre", "table", "thead", "tbody", "tr", "th", "td"}
    assert {tag.name for tag in html.find_all(True)} <= allowed
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]", markdown)
    widths = {len(row.find_all(["td", "th"])) for table in html.select("table") for row in table.select("tr")}
    lanes = len(opened[0].lanes)
    assert widths <= {lanes + 1, 3}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tokens=st.lists(
        st.binary(max_size=12) | st.sampled_from([b"`", b"```", b"\n", b"~", *NASTY]), min_size=3, max_size=9
    )
)
def test_no_tokens_close_a_fence(opened: tuple[OpenCase, CaseLink], tokens: list[bytes]) -> None:
    case = with_tokens(opened[0], tokens)
    page = export_page(case, fork_of(case, opened[1]))
    assert page.panel is not None
    texts = [plain((*one.tokens, *one.more)) for one in page.panel.continuations]
    assert fences(markdown_of(page, ADDRESS)) == [text.rstrip("\n") for text in texts if text]
