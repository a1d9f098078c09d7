from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.markdown_text import LONGEST, code, fenced, inline, longest_run, one_line
from app.text import clean

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")

ANY = st.text(st.characters() | st.sampled_from("`|\\<>*_[]()#~!@&\n\r\t \x00\ud800\u202e"), max_size=60)


def rendered(markdown: str) -> BeautifulSoup:
    return BeautifulSoup(MARKDOWN.render(markdown.encode(errors="replace").decode()), "html.parser")


@given(ANY)
def test_a_fence_is_never_closed_by_what_it_holds(text: str) -> None:
    tokens = MARKDOWN.parse(f"before\n\n{fenced(text)}\n\nafter")
    assert [token.type for token in tokens if token.level == 0 and token.type in ("fence", "paragraph_open")] == [
        "paragraph_open",
        "fence",
        "paragraph_open",
    ]
    (fence,) = [token for token in tokens if token.type == "fence"]
    assert fence.content == clean(text) + "\n"


@given(ANY)
def test_code_stays_code_in_a_cell_of_a_table(text: str) -> None:
    html = rendered(f"| a | b |\n|---|---|\n| {code(text)} | end |")
    cells = html.select("tbody td")
    assert [cell.get_text() for cell in cells][1:] == ["end"]
    assert {tag.name for tag in cells[0].find_all(True)} <= {"code"}
    assert cells[0].get_text().strip() == one_line(text).strip().replace("\ud800", "?")


@given(ANY)
def test_a_text_within_a_line_is_that_text_and_no_element(text: str) -> None:
    html = rendered(f"before {inline(text)} after")
    paragraph = html.p
    assert paragraph is not None
    assert {tag.name for tag in html.find_all(True)} <= {"p", "code"}
    words = re.sub(" +", " ", paragraph.get_text())
    assert words == re.sub(" +", " ", f"before {one_line(text)} after")


@pytest.mark.parametrize("text", ["@somebody", "see #12", "https://a.example", "www.a.example", "a_b_c", "*x*", "<b>"])
def test_what_a_forum_would_act_on_is_code(text: str) -> None:
    assert inline(text) == f"`{text}`"


@pytest.mark.parametrize("text", ["KV fp8 e4m3", "different arguments: command", "bit-identical \u2713, 39 rows"])
def test_harmless_words_are_left_as_they_are(text: str) -> None:
    assert inline(text) == text


def test_a_long_text_is_cut_and_what_cannot_be_seen_is_named() -> None:
    assert len(one_line("x" * 10_000)) == LONGEST
    assert one_line("a\x00\u202eb\nc") == "a\u2039NUL\u203a\u2039RLO\u203ab\u23cec"


def test_the_longest_run_counts_backticks_in_a_row() -> None:
    assert [longest_run(text) for text in ("", "a", "`", "``a`", "a```\n````")] == [0, 0, 1, 2, 4]
