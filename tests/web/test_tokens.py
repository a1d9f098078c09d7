"""Tokens as HTML: where running text goes to a new line."""

from __future__ import annotations

from bs4 import BeautifulSoup

from app.drawing import Run, TokenView
from app.web.tokens import tokens_html


def lines(*runs: Run, broken: bool = True) -> list[str]:
    tokens = tokens_html([TokenView(0, "", runs, breaks=True)], broken)
    page = BeautifulSoup(f"<pre>{tokens}</pre>", "html.parser")
    for line_break in page.find_all("br"):
        line_break.replace_with("\n")
    return page.get_text().split("\n")


def test_a_new_line_begins_after_every_line_break_inside_a_token() -> None:
    assert lines(Run(");", ""), Run("⏎⏎", "sym"), Run("    ", "")) == [");⏎", "⏎", "    "]
    assert lines(Run("‹CR›⏎‹CR›", "sym")) == ["‹CR›⏎", "‹CR›"]


def test_the_sign_of_a_line_break_in_the_text_itself_breaks_nothing() -> None:
    assert lines(Run("⏎ x", ""), Run("⏎", "sym"), Run("y", "")) == ["⏎ x⏎", "y"]


def test_a_token_whose_line_break_was_cut_away_ends_its_line() -> None:
    assert lines(Run("aaa", ""), Run("… 10,000 characters", "cut")) == ["aaa… 10,000 characters", ""]


def test_lines_of_a_system_are_never_broken() -> None:
    assert lines(Run("a", ""), Run("⏎", "sym"), Run("b", ""), broken=False) == ["a⏎b"]
