from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.find import MOST_HITS, find_page
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink
from app.source_consequences import output_bytes
from capture.model import Mode
from tests.synthetic import make_library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    found = Library(make_library(tmp_path_factory.mktemp("library"), lanes=5))
    yield found
    found.close()


@pytest.fixture(scope="module", params=[("iface", Mode.FREE), ("iface", Mode.FORCED), ("hostile", Mode.FREE)])
def case(request: pytest.FixtureRequest, library: Library) -> OpenCase:
    name, mode = request.param
    return library.open_case(library.find_case(name), mode)


def outputs(case: OpenCase) -> list[bytes]:
    lanes = case.lanes[:1] if case.mode is Mode.FORCED else case.lanes
    return [output_bytes(lane.steps.token_id.tolist(), case.tokens) for lane in lanes]


def test_every_place_of_every_output_is_found(case: OpenCase) -> None:
    for word in (" ", "in", "E", "r"):
        page = find_page(case, CaseLink(case.key), word)
        if page.more:
            continue
        for text in outputs(case):
            # a distinct output has all its own places, and shares those before its fork
            assert len(page.hits) >= text.lower().count(word.lower().encode())
        assert [hit.position for hit in page.hits] == sorted(hit.position for hit in page.hits)


def test_a_hit_names_the_token_it_starts_in_and_opens_it(library: Library) -> None:
    case = library.open_case(library.find_case("iface"), Mode.FREE)
    page = find_page(case, CaseLink(case.key), "INTERFACE")
    hit = page.hits[0]
    steps = case.lanes[0].steps
    before = output_bytes(steps.token_id[: hit.position].tolist(), case.tokens)
    through = output_bytes(steps.token_id[: hit.position + 1].tolist(), case.tokens)
    at = output_bytes(steps.token_id.tolist(), case.tokens).lower().index(b"interface")
    assert len(before) <= at < len(through)
    assert hit.text.lower() == "interface"
    assert f"/f/{hit.position}-{steps.prefix_id[hit.position].hex()[:16]}" in hit.href


def test_text_across_a_fork_is_found_on_the_line_where_it_ends(library: Library) -> None:
    case = library.open_case(library.find_case("iface"), Mode.FREE)
    hits = find_page(case, CaseLink(case.key), "4 and then").hits + find_page(case, CaseLink(case.key), "4 on").hits
    assert len(hits) == 2
    assert all(hit.position < 11 for hit in hits)


def test_the_list_is_bounded(case: OpenCase) -> None:
    page = find_page(case, CaseLink(case.key), "e" * 5000)
    assert page.hits == ()
    assert page.notices
    assert len(find_page(case, CaseLink(case.key), "e").hits) <= MOST_HITS
    assert find_page(case, CaseLink(case.key), "").hits == ()


@given(st.text(max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_any_text_can_be_asked_for(case: OpenCase, asked: str) -> None:
    page = find_page(case, CaseLink(case.key), asked)
    encoded = asked.encode(errors="replace").lower()
    assert bool(page.hits) == (bool(encoded) and any(encoded in text.lower() for text in outputs(case)))
