"""Addresses of the library and of charts: what is written is read back, what makes no sense is told."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from app.library_links import (
    CELLS,
    COLUMNS,
    DEPTHS,
    FACETS,
    PROTOCOLS,
    ChartsView,
    LibraryView,
    parse_charts_view,
    parse_library_view,
)

VALUES = st.text(min_size=1, max_size=40)

VIEWS = st.builds(
    LibraryView,
    st.sampled_from(CELLS),
    st.sampled_from(COLUMNS),
    st.sampled_from(["", *PROTOCOLS]),
    st.dictionaries(st.sampled_from(FACETS), VALUES, max_size=4),
)


def items(address: str) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(address).query, keep_blank_values=True)


@given(VIEWS)
def test_a_view_of_the_library_is_read_back(view: LibraryView) -> None:
    assert parse_library_view(items(view.href())) == (view, ())


@given(st.builds(ChartsView, VALUES, st.just(""), st.sampled_from(["", *PROTOCOLS]), st.sampled_from(["", *DEPTHS])))
def test_a_view_of_charts_is_read_back(view: ChartsView) -> None:
    assert parse_charts_view(items(view.href())) == (view, ())


def test_the_plain_library_has_the_plain_address() -> None:
    assert LibraryView().href() == "/"
    assert LibraryView(facets={"KV cache": "int8"}).href() == "/?kv_cache=int8"


def test_a_facet_is_set_and_taken_back() -> None:
    view = LibraryView("kl", facets={"weights": "int4"})
    assert view.facet("KV cache", "int8") == "/?cells=kl&weights=int4&kv_cache=int8"
    assert view.facet("weights", "") == "/?cells=kl"


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=6))
def test_any_query_gives_a_view(query: list[tuple[str, str]]) -> None:
    view, notices = parse_library_view(query)
    assert view.cells in CELLS
    assert len(notices) <= len(query)
    assert parse_charts_view(query)[0].protocol in ("", *PROTOCOLS)


def test_the_case_is_in_the_path_of_its_charts() -> None:
    view = ChartsView("", "a/b", "free", "full")
    assert view.href() == "/c/a%2Fb/charts?protocol=free&depth=full"
    assert view.twin == "/c/a%2Fb/charts.json?protocol=free&depth=full"
    assert view.data("tail", ".csv") == "/charts/tail.csv?protocol=free&depth=full&case=a%2Fb"
    assert parse_charts_view(items(view.data("tail", ".csv")))[0] == view
