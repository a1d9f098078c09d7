from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from app.export_page import BEFORE, BEHIND, export_page
from app.export_portable import lines_of, portable, tables_of
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink
from app.streams import base_of, streams_page, tables
from capture.model import Mode
from tests.export_pages import fork_of
from tests.synthetic import make_library
from tests.synthetic_large import make_large_library


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Library]]:
    """A library with a short case and one with a long one: the two have the same prompt, which makes them one case."""
    short = Library(make_library(tmp_path_factory.mktemp("short"), lanes=5, positions=90))
    long = Library(make_large_library(tmp_path_factory.mktemp("long"), lanes=3, positions=3000, flips=20))
    yield {"iface": short, "long": long}
    short.close()
    long.close()


def opened(libraries: dict[str, Library], case: str, mode: Mode) -> tuple[OpenCase, CaseLink]:
    library = libraries[case]
    key = library.find_case(case)
    return library.open_case(key, mode), CaseLink(key).where(mode=mode)


def values(value: Any) -> Iterator[Any]:
    """Yield every value inside of dataclasses and tuples."""
    yield value
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from values(getattr(value, field.name))
    elif isinstance(value, tuple):
        for one in value:
            yield from values(one)


@pytest.mark.parametrize("mode", [Mode.FREE, Mode.FORCED])
def test_a_short_output_is_exported_as_its_page_shows_it(libraries: dict[str, Library], mode: Mode) -> None:
    case, link = opened(libraries, "iface", mode)
    fork = fork_of(case, link)
    assert export_page(case, fork) == streams_page(case, fork, 100)


@pytest.mark.parametrize("mode", [Mode.FREE, Mode.FORCED])
def test_of_a_long_output_the_part_around_the_fork_is_shown(libraries: dict[str, Library], mode: Mode) -> None:
    case, link = opened(libraries, "long", mode)
    page = export_page(case, fork_of(case, link, 1 if mode is Mode.FORCED else 0))
    assert page.transcript is None
    assert page.panel is not None
    shown = [token.position for line in lines_of(page.streams) for token in line.tokens]
    place = page.panel.position
    assert place in shown
    assert min(shown) >= place - BEFORE
    assert max(shown) <= place + max(BEHIND, 360)
    pinned = [token for line in lines_of(page.streams) for token in line.tokens if "pinned" in token.marks.split()]
    assert [token.position for token in pinned] == [place]
    assert page.pane is not None
    assert page.pane.position == place


def test_a_long_case_without_a_fork_open_is_exported_too(libraries: dict[str, Library]) -> None:
    case, link = opened(libraries, "long", Mode.FORCED)
    page = export_page(case, link)
    assert page.panel is None
    assert sum(len(line.tokens) for line in lines_of(page.streams)) <= BEFORE + BEHIND


@pytest.mark.parametrize(("case", "mode"), [("iface", Mode.FREE), ("iface", Mode.FORCED), ("long", Mode.FORCED)])
def test_the_text_of_a_portable_page_leads_nowhere(libraries: dict[str, Library], case: str, mode: Mode) -> None:
    found, link = opened(libraries, case, mode)
    page = portable(export_page(found, fork_of(found, link)))
    inside = [*values(page.streams), *values(page.panel), *values(page.pane)]
    assert not [text for text in inside if isinstance(text, str) and text.startswith("/c/")]
    assert (page.json, page.tables, page.address, page.permalink) == ("", "", "", "")


@pytest.mark.parametrize(("case", "mode"), [("iface", Mode.FREE), ("iface", Mode.FORCED), ("long", Mode.FORCED)])
def test_every_token_has_its_table(libraries: dict[str, Library], case: str, mode: Mode) -> None:
    found, link = opened(libraries, case, mode)
    fork = fork_of(found, link)
    page = export_page(found, fork)
    embedded = tables_of(found, page, base_of(fork))
    places = {f"{line.key}:{token.position}" for line in lines_of(page.streams) for token in line.tokens}
    assert page.panel is not None
    places |= {f"{one.key}:{token.position}" for one in page.panel.continuations for token in (*one.tokens, *one.more)}
    assert places
    assert set(embedded["tables"]) == places
    assert not any("href" in entry for entry in embedded["tables"].values())
    at = page.panel.position
    served = tables(found, at, 1, base_of(fork))["tables"]
    key = next(key for key in served if key in places)
    assert embedded["tables"][key] == {name: value for name, value in served[key].items() if name != "href"}
