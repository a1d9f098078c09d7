"""Links keep what they say, and whatever else they hold."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.flip_filter import CLASSES, SORTS, VERDICTS, FlipFilter
from app.links import MOST_NOTICES, CaseLink, ForkLink, Link, ViewOptions, parse, parse_options, static_url
from capture.model import Mode

_HEX = "0123456789abcdef"

_RUNS = st.text(_HEX, min_size=12, max_size=12)

_OPTIONS = st.builds(
    ViewOptions,
    mode=st.sampled_from([None, Mode.FREE, Mode.FORCED]),
    lanes=st.lists(_RUNS, max_size=5, unique=True).map(tuple),
    reference=st.none() | _RUNS,
    columns=st.none() | st.integers(30, 400),
    view=st.sampled_from(["", "streams", "transcript", "charts"]),
    follow=st.none() | _RUNS,
    at=st.none() | st.integers(0, 999_999_999),
    flips=st.none() | st.integers(0, 999_999_999),
    filter=st.builds(
        FlipFilter,
        flip_class=st.sampled_from(["", *CLASSES]),
        lane=st.none() | _RUNS,
        verdict=st.sampled_from(["", *VERDICTS]),
        margin=st.sampled_from(["", "-0.1", "0.1-0.5", "2-"]),
        sort=st.sampled_from(["", *[name for name in SORTS if name != "position"]]),
    ),
)

_CASES = st.builds(
    lambda name, digits: f"{name}-{digits}",
    st.text("abcXYZ019._-", min_size=1, max_size=20),
    st.text(_HEX, min_size=8, max_size=8),
)

_LINKS: st.SearchStrategy[Link] = st.builds(CaseLink, _CASES, _OPTIONS) | st.builds(
    ForkLink, _CASES, st.integers(0, 999_999_999), st.text(_HEX, min_size=16, max_size=32), _OPTIONS
)


@given(_LINKS)
def test_a_link_says_the_same_after_a_round_trip(link: Link) -> None:
    parsed = parse(link.format())
    assert parsed.link == link
    assert parsed.notices == ()


@given(_LINKS)
def test_the_twin_has_the_same_path_and_query(link: Link) -> None:
    page, twin = urlsplit(link.format()), urlsplit(link.format(".json"))
    assert twin.path == page.path + ".json"
    assert twin.query == page.query
    assert parse(link.format(".json")).link == link


@given(st.text(max_size=200))
def test_reading_never_fails(address: str) -> None:
    parse(address)
    parse("/c/x/f/" + address)
    parse_options(parse_qsl(address, keep_blank_values=True))


_NAMES = (
    "mode",
    "lanes",
    "reference",
    "columns",
    "view",
    "follow",
    "at",
    "flips",
    "class",
    "lane",
    "verdict",
    "margin",
)

_VALUES = st.text(max_size=30) | _OPTIONS.flatmap(lambda one: st.sampled_from([*one.items().values(), "decided", "x"]))


@given(st.lists(st.tuples(st.sampled_from([*_NAMES, "sort", "other"]), _VALUES)))
def test_what_was_read_survives_a_second_round_without_notices(items: list[tuple[str, str]]) -> None:
    options, _ = parse_options(items)
    again, notices = parse_options(parse_qsl(options.query().removeprefix("?")))
    short = replace(options, lanes=tuple(dict.fromkeys(lane[:12] for lane in options.lanes)))
    assert again == short
    assert notices == ()


def test_a_prefix_in_other_digits_is_no_fork() -> None:
    assert isinstance(parse("/c/iface/f/٣٨-f20475388d0a026b").link, CaseLink)


def test_thousands_of_wrong_parameters_are_told_in_a_few_sentences() -> None:
    _, notices = parse_options([(f"wrong{number}", "1") for number in range(3000)])
    assert len(notices) == MOST_NOTICES + 1
    assert "2,992" in notices[-1]


def test_a_prefix_that_is_missing_is_not_called_cut() -> None:
    assert "missing" in parse("/c/iface/f/38").notices[0]
    assert "cut short" in parse("/c/iface/f/38-f2").notices[0]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("mode=branch", "mode"),
        ("lanes=A,B", "lane"),
        ("reference=A", "reference"),
        ("columns=wide", "columns"),
        ("columns=7", "columns"),
        ("columns=٣٤", "columns"),
        ("view=tree", "view"),
        ("at=end", "position"),
        ("flips=all", "flips"),
        ("follow=B", "lane"),
        ("class=fatal", "class"),
        ("lane=B", "lane"),
        ("verdict=<b>", "verdict"),
        ("margin=high", "margin"),
        ("margin=-", "margin"),
        ("margin=2-1", "margin"),
        ("margin=٣-", "margin"),
        ("sort=kl", "order"),
        ("zoom=3", "parameter"),
    ],
)
def test_a_wrong_parameter_is_left_out_with_a_notice(query: str, word: str) -> None:
    parsed = parse(f"/c/iface-00112233?{query}")
    assert isinstance(parsed.link, CaseLink)
    assert len([notice for notice in parsed.notices if word in notice]) == len(query.partition("=")[2].split(","))


def test_six_lanes_are_cut_to_five() -> None:
    lanes = [f"{index:012x}" for index in range(6)]
    options, notices = parse_options([("lanes", ",".join(lanes))])
    assert options.lanes == tuple(lanes[:5])
    assert len(notices) == 1


def test_a_notice_is_short_and_printable() -> None:
    _, notices = parse_options([("mode", "\x1b[31m\u202e" + "x" * 500)])
    assert notices[0].isprintable()
    assert len(notices[0]) < 120


@pytest.mark.parametrize("name", ["", "x", "-1", "12-zz", "1e5", "99999999999"])
def test_a_wrong_fork_opens_its_case(name: str) -> None:
    parsed = parse(f"/c/iface-00112233/f/{name}" if name else "/c/iface-00112233/f/%20")
    assert parsed.link == CaseLink("iface-00112233")
    assert parsed.notices


def test_a_short_prefix_is_looked_up_by_position() -> None:
    parsed = parse("/c/iface-00112233/f/14-abcdef")
    assert parsed.link == ForkLink("iface-00112233", 14, "")
    assert parsed.notices


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("/c/iface-5f0c1d2e", CaseLink("iface-5f0c1d2e")),
        (
            "/c/iface-5f0c1d2e?mode=forced&lanes=0123456789ab,ba9876543210&reference=ba9876543210",
            CaseLink(
                "iface-5f0c1d2e",
                ViewOptions(Mode.FORCED, ("0123456789ab", "ba9876543210"), "ba9876543210"),
            ),
        ),
        (
            "/c/iface-5f0c1d2e/f/14-00112233445566778899aabbccddeeff?columns=92",
            ForkLink("iface-5f0c1d2e", 14, "00112233445566778899aabbccddeeff", ViewOptions(columns=92)),
        ),
    ],
)
def test_links_made_by_version_0_1_still_mean_the_same(address: str, link: Link) -> None:
    assert parse(address).link == link
    assert parse(address).notices == ()


def test_building_a_fork_link_keeps_the_options() -> None:
    link = CaseLink("iface-5f0c1d2e").where(mode=Mode.FORCED).fork(14, bytes(range(16)))
    assert link.format() == "/c/iface-5f0c1d2e/f/14-0001020304050607?mode=forced"
    assert link.up().format() == "/c/iface-5f0c1d2e?mode=forced"
    assert link.where(mode=None).format() == "/c/iface-5f0c1d2e/f/14-0001020304050607"


def test_hostile_case_names_stay_one_segment_of_the_path() -> None:
    link = CaseLink("../x?y#z/<b>")
    assert urlsplit(link.format()).path.count("/") == 2
    assert parse(link.format()).link == link


def test_static_addresses_carry_their_version() -> None:
    assert static_url("flipscope.css", "0a1b") == "/static/flipscope.css?v=0a1b"
    assert static_url("icon.svg") == "/static/icon.svg"
