from __future__ import annotations

import json
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup

from app.cli import EXPORT_FORMATS, main
from app.export import MEDIA_TYPES, Format, Subject, exported, file_name, page_of
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink, ForkLink
from app.streams_values import StreamsPage
from capture.model import Mode
from tests.export_pages import EVIL_NAME, fork_of, nasty_page
from tests.synthetic import make_library


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_library(tmp_path_factory.mktemp("library"), lanes=4, positions=70)


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[tuple[OpenCase, CaseLink]]:
    library = Library(folder)
    key = library.find_case("iface")
    yield library.open_case(key, Mode.FORCED), CaseLink(key).where(mode=Mode.FORCED)
    library.close()


@pytest.fixture(scope="module")
def fork(opened: tuple[OpenCase, CaseLink]) -> str:
    return fork_of(*opened).format()


def export(folder: Path, *arguments: str) -> int:
    return main(["export", "--library", str(folder), *arguments])


def test_the_command_offers_every_format() -> None:
    assert tuple(form.value for form in Format) == EXPORT_FORMATS
    assert set(MEDIA_TYPES) == set(Format)


def test_each_format_is_what_its_ending_says(folder: Path, fork: str, tmp_path: Path) -> None:
    for form in EXPORT_FORMATS:
        assert export(folder, f"http://somewhere:8017{fork}", "-o", str(tmp_path / f"a.{form}")) == 0
    assert (tmp_path / "a.md").read_text(encoding="utf-8").startswith("### A")
    assert BeautifulSoup((tmp_path / "a.html").read_bytes(), "html.parser").select_one("#fork") is not None
    root = ElementTree.fromstring((tmp_path / "a.svg").read_bytes())
    png = (tmp_path / "a.png").read_bytes()
    assert struct.unpack(">II", png[16:24]) == (2 * int(str(root.get("width"))), 2 * int(str(root.get("height"))))
    data = json.loads((tmp_path / "a.json").read_bytes())
    assert data["permalink"].startswith("http://somewhere:8017/c/iface-")
    assert data["fork"]["continuations"][0]["text"]
    assert data["position"]["certificates"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"a.{form}" for form in EXPORT_FORMATS)


def test_the_link_may_be_a_path_a_twin_or_named_by_the_bare_case(
    folder: Path, fork: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path, _, query = fork.partition("?")
    texts = []
    for link in (fork, f"{path}.svg?{query}", f"{path}/preview.png?{query}", re.sub(r"-[0-9a-f]{8}/f", "/f", fork)):
        assert export(folder, link, "-o", "-", "--format", "md") == 0
        texts.append(capsysbinary.readouterr().out)
    assert len(set(texts)) == 1
    assert texts[0].decode().splitlines()[-1].startswith("/c/iface-")


def test_what_could_not_be_followed_is_told_apart_from_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(folder, "/c/iface/f/3-00000000000000000000?colour=red", "-o", "-", "--format", "json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["case"] == "iface"
    assert "colour" in said.err
    assert "No lane shown here has the prefix" in said.err


def test_a_file_is_replaced_only_where_that_was_asked_for(
    folder: Path, fork: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.md"
    path.write_text("mine", encoding="utf-8")
    assert export(folder, fork, "-o", str(path)) == 2
    assert "exists; name another file, or replace it with --force" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "mine"
    assert export(folder, fork, "-o", str(path), "--force") == 0
    assert path.read_text(encoding="utf-8").startswith("### A")
    assert os.listdir(tmp_path) == ["a.md"]


def test_a_new_file_can_be_read_as_other_new_files(folder: Path, fork: str, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    assert export(folder, fork, "-o", str(tmp_path / "a.md")) == 0
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["hello", "-o", "a.md"], "the link leads to no case and no fork"),
        (["/c/iface", "-o", "a.txt"], "name it with --format"),
        (["/c/iface", "-o", "-"], "name it with --format"),
        (["/c/iface", "-o", "-", "--format", "png"], "name a file with -o FILE.png"),
        (["/c/iface", "-o", "nowhere/a.md"], "there is no folder nowhere"),
        (["/c/another", "-o", "a.md"], "holds no such case"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert export(folder, *arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_a_library_the_one_that_ships_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "/c/mac-751ffd9f/f/38-f20475388d0a026b?mode=free", "-o", "-", "--format", "md"]) == 0
    assert "`learn_mac_address` \u00b7 C: `show ip route`" in capsys.readouterr().out


def test_names_of_files_are_harmless() -> None:
    assert file_name(CaseLink("mac-751ffd9f"), Format.SVG) == "flipscope-mac-751ffd9f.svg"
    assert file_name(ForkLink("mac-751ffd9f", 38, ""), Format.PNG) == "flipscope-mac-751ffd9f-38.png"
    wild = file_name(CaseLink('../"\r\n\u202e' + "x" * 500), Format.HTML)
    assert re.fullmatch(r"flipscope-[A-Za-z0-9._-]{1,80}\.html", wild)
    assert ".." not in wild
    assert file_name(CaseLink("\u202e"), Format.MARKDOWN) == "flipscope-case.md"


@pytest.mark.parametrize("form", [Format.MARKDOWN, Format.SVG, Format.JSON, Format.PNG])
def test_hostile_pages_are_exported_as_text(opened: tuple[OpenCase, CaseLink], form: Format) -> None:
    def no_html(*_: object) -> bytes:
        raise AssertionError

    case, link = opened
    subject = Subject(case, link, origin="http://localhost")
    page: StreamsPage = replace(nasty_page(case, link), permalink=page_of(subject).permalink)
    content = exported(subject, page, form, no_html)
    if form is Format.PNG:
        assert content.startswith(b"\x89PNG")
        return
    text = content.decode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    if form is Format.JSON:
        assert json.loads(text)["study"] == EVIL_NAME
