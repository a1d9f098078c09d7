from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.export_page import export_page
from app.export_png import PictureError, png_of
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink
from app.picture import PREVIEW_HEIGHT, WIDTH, picture, preview
from app.picture_lines import part_of
from app.streams_values import StreamsPage
from app.svg import Drawing, Pen, cells, document, fit, xml_text
from capture.model import Mode
from tests.export_pages import EVIL_NAME, fork_of, nasty_page
from tests.synthetic import make_library

SVG = "{http://www.w3.org/2000/svg}"

ADDRESS = "http://localhost:8017/c/iface-00000000/f/11-0123456789abcdef?lanes=a,b"

ALLOWED = {"svg", "title", "desc", "rect", "path", "text", "tspan", "g", "circle"}

ANY = st.text(st.characters() | st.sampled_from("<>&\"' \n\x00\ud800\u202e\ufffe\U0001f600\u0301"), max_size=40)


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
    return export_page(opened[0], fork_of(*opened))


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg.encode())


def words(svg: str) -> str:
    """Return every line of text, its words joined."""
    lines = [" ".join(span.text or "" for span in text.iter(f"{SVG}tspan")) for text in parsed(svg).iter(f"{SVG}text")]
    return "\n".join(lines)


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Return width, height and the unpacked (still filtered) rows of a PNG."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    at, data = 8, b""
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        data += png[at + 8 : at + 8 + size] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += size + 12
    return width, height, zlib.decompress(data)


def test_it_tells_the_fork_the_lanes_the_table_and_the_certificate(page: StreamsPage) -> None:
    shown = words(picture(page, ADDRESS))
    assert page.panel is not None
    assert page.pane is not None
    assert all(one.words in shown for one in page.panel.continuations if one.heads)
    assert all(chip.label in shown for chip in page.chips)
    assert all(row.label.text in shown for row in page.pane.table.rows)
    assert all(cell.text in shown for row in page.pane.table.rows for cell in row.cells if cell)
    assert all(line.text in shown for line in page.pane.certificates)
    assert all(pill.text in shown for one in page.panel.continuations for pill in one.pills)
    assert ADDRESS.partition("?")[0] in shown
    assert "not the right answer" in shown


def test_it_draws_every_line_of_the_page_with_its_letters(page: StreamsPage) -> None:
    root = parsed(picture(page, ADDRESS))
    lines = [line for system in page.streams.systems for line in system]
    lines += [line for block in page.streams.blocks for line in block.lines]
    at = [text for text in root.iter(f"{SVG}text") if text.get("font-size") == "10.5"]
    assert len(at) == len(lines)
    elbows = [path for path in root.iter(f"{SVG}path") if "Q" in str(path.get("d"))]
    assert len(elbows) == sum(kind == "elbow" for line in lines for _, kind in line.pad)


def test_words_stand_in_cells_whatever_the_font(page: StreamsPage) -> None:
    for text in parsed(picture(page, ADDRESS)).iter(f"{SVG}text"):
        cell = float(str(text.get("font-size"))) * 1233 / 2048
        for span in text.iter(f"{SVG}tspan"):
            length = span.get("textLength")
            assert length is None or float(length) == pytest.approx(cells(span.text or "") * cell, abs=0.01)
            assert float(str(span.get("x"))) + float(length or 0) <= WIDTH + 1


def test_a_strangers_words_are_text_and_nothing_else(opened: tuple[OpenCase, CaseLink]) -> None:
    for svg in (picture(nasty_page(*opened), EVIL_NAME), preview(nasty_page(*opened))):
        root = parsed(svg.encode(errors="replace").decode())
        assert {tag.tag.removeprefix(SVG) for tag in root.iter()} <= ALLOWED
        names = {name for tag in root.iter() for name in tag.attrib}
        assert not [name for name in names if name.startswith("on") or "href" in name or name == "style"]
        assert "url(" not in svg
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", svg)
        assert all(0 <= float(str(span.get("x"))) <= WIDTH for span in root.iter(f"{SVG}tspan"))


@given(ANY)
def test_any_text_is_xml(text: str) -> None:
    drawing = Drawing()
    end = drawing.text(10, 20, text, Pen(10))
    root = parsed(document(drawing, 100, 100, text, text))
    assert root.findtext(f"{SVG}title") == xml_text(text).replace("\r", "\n")
    assert end == pytest.approx(10 + cells(xml_text(text)) * Pen(10).cell)


@given(ANY, st.integers(2, 30))
def test_a_text_is_cut_to_its_cells(text: str, most: int) -> None:
    assert cells(fit(text, most)) <= max(most, 1)
    assert fit(text, 1000) == xml_text(text)


def test_a_preview_is_what_forums_ask_for(page: StreamsPage) -> None:
    root = parsed(preview(page))
    assert (root.get("width"), root.get("height")) == (str(WIDTH), str(PREVIEW_HEIGHT)) == ("1200", "630")
    assert all(float(str(text.get("y"))) < PREVIEW_HEIGHT for text in root.iter(f"{SVG}text"))
    assert page.panel is not None
    assert page.panel.continuations[0].words in words(preview(page))


def test_few_lines_are_those_around_the_place(page: StreamsPage) -> None:
    every = part_of(page.streams, (), 10_000)
    assert every.before == every.behind == 0
    assert page.panel is not None
    some = part_of(page.streams, (page.panel.position,), 3)
    assert len(some.lines) == 3
    assert some.before + 3 + some.behind == len(every.lines)
    assert any(token.position == page.panel.position for one in some.lines for token in one.line.tokens)


def test_a_png_has_its_size_and_is_not_blank(page: StreamsPage) -> None:
    svg = preview(page)
    width, height, rows = pixels(png_of(svg))
    assert (width, height) == (WIDTH, PREVIEW_HEIGHT)
    assert len(set(rows)) > 100
    blank = document(Drawing(), WIDTH, PREVIEW_HEIGHT, "", "")
    assert len(set(pixels(png_of(blank))[2])) < 10
    assert pixels(png_of(blank, 2.0))[:2] == (2 * WIDTH, 2 * PREVIEW_HEIGHT)


def test_a_png_needs_no_font_of_the_system() -> None:
    def drawn(text: str) -> bytes:
        drawing = Drawing()
        drawing.text(10, 30, text, Pen(20))
        return pixels(png_of(document(drawing, 200, 40, "", "")))[2]

    assert drawn("abc") != drawn("abd") != drawn("")


def test_hostile_pictures_become_png(opened: tuple[OpenCase, CaseLink]) -> None:
    svg = picture(nasty_page(*opened), EVIL_NAME)
    assert pixels(png_of(svg.encode(errors="replace").decode()))[0] == WIDTH


def test_what_is_no_picture_is_refused_in_a_sentence() -> None:
    with pytest.raises(PictureError, match="cannot be drawn .* export svg instead"):
        png_of("<svg")
