from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text import LONGEST, DrawnToken, Look, draw, draw_token, label
from capture.model import Token


def drawn(*parts: bytes, before: int = 0) -> tuple[DrawnToken, ...]:
    tokens = {index: Token(index, data, data.startswith(b"<|")) for index, data in enumerate(parts)}
    ids = list(range(len(parts)))
    return draw(ids[before:], tokens, ids[:before])


def texts(token: DrawnToken) -> list[str]:
    return [glyph.text for glyph in token.glyphs]


@given(st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=8))
def test_every_token_is_drawn_and_nothing_turns_hides_or_moves_the_text(parts: list[bytes]) -> None:
    result = drawn(*parts)
    assert [token.token_id for token in result] == list(range(len(parts)))
    for token in result:
        assert token.width >= 1
        for glyph in token.glyphs:
            assert glyph.width >= 1
            assert all(unicodedata.category(letter) not in ("Cc", "Cf", "Zl", "Zp", "Cn") for letter in glyph.text)


@given(st.text(min_size=1, max_size=30).filter(lambda text: text.isprintable() and text.isascii()))
def test_printable_text_is_drawn_as_itself(text: str) -> None:
    assert drawn(text.encode())[0].text == text


@given(st.text(alphabet=st.characters(categories=["Lu", "Ll", "Lo", "So"]), min_size=1, max_size=6), st.data())
def test_a_character_split_over_tokens_is_one_glyph_in_slices(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1))) if len(raw) > 1 else [])
    parts = [raw[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    result = drawn(*parts)
    assert "".join(token.text for token in result) == text
    assert all(glyph.part < glyph.parts for token in result for glyph in token.glyphs if glyph.look is Look.PART)


def test_the_bytes_of_an_emoji_over_three_tokens() -> None:
    first, second, third = drawn(b"a\xf0\x9f", b"\xa6", b"\x84b")
    assert [(glyph.text, glyph.part, glyph.parts) for glyph in first.glyphs] == [("a", 0, 0), ("\U0001f984", 0, 3)]
    assert [(glyph.text, glyph.part, glyph.parts) for glyph in second.glyphs] == [("\U0001f984", 1, 3)]
    assert [(glyph.text, glyph.part, glyph.parts) for glyph in third.glyphs] == [("\U0001f984", 2, 3), ("b", 0, 0)]


def test_a_continuation_that_starts_inside_a_character_shows_it_whole() -> None:
    (rest,) = drawn(b"\xf0\x9f\xa6", b"\x84", before=1)
    assert [(glyph.text, glyph.width, glyph.parts) for glyph in rest.glyphs] == [("\U0001f984", 2, 0)]
    second, third = drawn(b"\xf0\x9f", b"\xa6", b"\x84", before=1)
    assert [(glyph.part, glyph.parts) for token in (second, third) for glyph in token.glyphs] == [(0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00", ["\u2039NUL\u203a"]),
        (b"\x1b[31m", ["\u2039ESC\u203a", "[", "3", "1", "m"]),
        (b"\x7f", ["\u2039DEL\u203a"]),
        (b"\r", ["\u2039CR\u203a"]),
        (b"\xff\xfe", ["\\xFF", "\\xFE"]),
        (b"\xed\xa0\x80", ["\\xED", "\\xA0", "\\x80"]),
        ("\u202eevil\u202c".encode(), ["\u2039RLO\u203a", "e", "v", "i", "l", "\u2039PDF\u203a"]),
        ("\u200b".encode(), ["\u2039ZWSP\u203a"]),
        ("\u0085".encode(), ["\u2039U+0085\u203a"]),
        ("\U000e0041".encode(), ["\u2039U+E0041\u203a"]),
        ("\u00a0".encode(), ["\u2039NBSP\u203a"]),
        (b"\t", ["\u21e5", " ", " ", " "]),
        (b"<b>", ["<", "b", ">"]),
    ],
)
def test_what_cannot_be_seen_is_drawn_as_a_sign(data: bytes, expected: list[str]) -> None:
    assert texts(drawn(data)[0]) == expected


def test_a_newline_is_a_return_sign_that_breaks() -> None:
    glyphs = drawn(b"}\n  x")[0].glyphs
    assert [(glyph.text, glyph.breaks) for glyph in glyphs[:3]] == [("}", False), ("\u23ce", True), (" ", False)]


def test_wide_characters_take_two_cells_and_marks_none() -> None:
    assert drawn("\u6f22\u5b57".encode())[0].width == 4
    (glyph,) = drawn("e\u0301".encode())[0].glyphs
    assert (glyph.text, glyph.width) == ("e\u0301", 1)
    assert texts(drawn("\u0301".encode())[0]) == ["\u25cc\u0301"]


def test_a_tower_of_combining_marks_is_cut() -> None:
    (glyph,) = drawn(("a" + "\u0301" * 500).encode())[0].glyphs
    assert len(glyph.text) <= 6


def test_a_long_token_is_cut_and_says_how_long_it_is() -> None:
    token = drawn(b"x" * 10_000)[0]
    assert token.width <= LONGEST
    assert token.glyphs[-1].look is Look.CUT
    assert "10,000 characters" in token.text


def test_leading_spaces_are_counted_but_not_those_of_a_blank_token() -> None:
    assert drawn(b"  on")[0].lead == 2
    assert drawn(b"   ")[0].lead == 0
    assert drawn(b"   ")[0].blank


def test_a_token_without_bytes_is_named_by_its_id() -> None:
    token = draw_token(151_700, {0: Token(0, b"a")})
    assert token.text == "<pad 151,700>"
    assert token.special


def test_where_no_tokenizer_is_known_every_token_is_its_id() -> None:
    token = draw_token(151_700, {})
    assert token.text == "<151700>"
    assert token.special


def test_special_tokens_are_read_alone() -> None:
    first, special, last = drawn(b"\xf0\x9f", b"<|im_end|>", b"\xa6\x84")
    assert special.special
    assert special.text == "<|im_end|>"
    assert {glyph.look for token in (first, last) for glyph in token.glyphs} == {Look.BYTES}


def test_labels_show_outer_spaces_and_stay_short() -> None:
    assert label(drawn(b" on")[0]).pieces == (("\u2423", "sym"), ("on", ""))
    assert label(drawn(b"a b")[0]).text == "a b"
    assert label(drawn(b"  ")[0]).text == "\u2423\u2423"
    assert label(drawn(b"y" * 40)[0], cells=8).text == "y" * 8 + "\u2026"
    assert label(drawn(b"<|im_end|>")[0]).pieces == (("<|im_end|>", "special"),)
