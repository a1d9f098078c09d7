"""How tokens look: from their bytes to the glyphs a page draws, hostile ones included. Pure; imports model only."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from capture.model import Token

LONGEST = 48
"""Cells that a token may take; a longer one is cut and its length told."""

LONG_BYTES = 1024
"""Bytes of a token that are looked at; of a longer one only the start is drawn and the characters counted."""

MOST_MARKS = 4
"""Combining marks that a character keeps; the rest would climb over other lines."""

TAB_CELLS = 4

_CONTROLS = "NULSOHSTXETXEOTENQACKBELBS TABLF VT FF CR SO SI DLEDC1DC2DC3DC4NAKSYNETBCANEM SUBESCFS GS RS US"
"""The names of the first 32 characters, three columns each."""

_NAMED = {
    **{code: _CONTROLS[3 * code : 3 * code + 3].strip() for code in range(32)},
    0x007F: "DEL",
    0x00A0: "NBSP",
    0x00AD: "SHY",
    0x034F: "CGJ",
    0x061C: "ALM",
    0x115F: "HCF",
    0x1160: "HJF",
    0x180E: "MVS",
    0x200B: "ZWSP",
    0x200C: "ZWNJ",
    0x200D: "ZWJ",
    0x200E: "LRM",
    0x200F: "RLM",
    0x2028: "LS",
    0x2029: "PS",
    0x202A: "LRE",
    0x202B: "RLE",
    0x202C: "PDF",
    0x202D: "LRO",
    0x202E: "RLO",
    0x2060: "WJ",
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
    0x3164: "HF",
    0xFEFF: "BOM",
}
"""Characters that cannot be seen or that turn the text around them: drawn by name, never as themselves."""


class Look(StrEnum):
    """What a glyph is, for the style sheet."""

    PLAIN = ""
    WIDE = "wide"
    SYMBOL = "sym"
    PART = "part"
    BYTES = "raw"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Glyph:
    """One thing drawn in a whole number of monospace cells.

    Attributes:
        text: what is drawn; safe to show, though not yet escaped for HTML.
        width: cells.
        look: what it is.
        part: for a character whose bytes are split over tokens, which slice of it this is, from 0.
        parts: over how many tokens that character is split; 0 for any other glyph.
        breaks: whether the text goes to a new line after it.
    """

    text: str
    width: int
    look: Look = Look.PLAIN
    part: int = 0
    parts: int = 0
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class DrawnToken:
    """A token as glyphs.

    Attributes:
        token_id: its id.
        glyphs: in order; never empty.
        special: whether the vocabulary calls it special, or has no bytes for it.
    """

    token_id: int
    glyphs: tuple[Glyph, ...]
    special: bool = False

    @property
    def width(self) -> int:
        """Cells over all."""
        return sum(glyph.width for glyph in self.glyphs)

    @property
    def text(self) -> str:
        """What is drawn, as one string; a split character stands in its first part only."""
        return "".join(glyph.text for glyph in self.glyphs if glyph.part == 0)

    @property
    def lead(self) -> int:
        """How many glyphs at the front are plain spaces; 0 where nothing else follows."""
        count = next((at for at, glyph in enumerate(self.glyphs) if glyph.text != " "), 0)
        return count

    @property
    def blank(self) -> bool:
        """Whether nothing of it can be seen."""
        return all(glyph.text == " " for glyph in self.glyphs)


def draw(token_ids: Sequence[int], tokens: Mapping[int, Token], before: Sequence[int] = ()) -> tuple[DrawnToken, ...]:
    """Draw tokens in their order; a character split over several becomes one glyph in slices.

    Args:
        token_ids: what to draw.
        tokens: the vocabulary, as far as it is known.
        before: the tokens in front, which may hold the first bytes of a split character.
    """
    context = list(before[-3:])
    every = [_known(int(token_id), tokens) for token_id in (*context, *token_ids)]
    drawn = [_alone(token) for token in every]
    for start, stop in _broken(drawn):
        drawn[start:stop] = _together(every[start:stop])
    return _without_context([one for one in drawn if one is not None], len(context))


def draw_token(token_id: int, tokens: Mapping[int, Token]) -> DrawnToken:
    """Draw one token by itself; bytes that are no whole character show as numbers."""
    return draw([token_id], tokens)[0]


def _known(token_id: int, tokens: Mapping[int, Token]) -> Token:
    """Return a token; where no tokenizer is known one without bytes is special, since it need not be a padding id."""
    return tokens.get(token_id) or Token(token_id, b"", special=not tokens)


@lru_cache(maxsize=16384)
def _alone(token: Token) -> DrawnToken | None:
    """Draw a token whose bytes are whole characters, as most are, or that is read alone anyway; else None.

    No character goes on into such a token, since none starts with a byte that continues another.
    """
    if token.special or not 0 < len(token.data) <= LONG_BYTES:
        return _together([token])[0]
    try:
        token.data.decode()
    except UnicodeDecodeError:
        return None
    return _together([token])[0]


def _broken(drawn: Sequence[DrawnToken | None]) -> list[tuple[int, int]]:
    """Return the spans of tokens that have to be read together."""
    found: list[tuple[int, int]] = []
    for index, one in enumerate(drawn):
        if one is None and found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        elif one is None:
            found.append((index, index + 1))
    return found


def _together(every: Sequence[Token]) -> list[DrawnToken]:
    glyphs: list[list[Glyph]] = [[] for _ in every]
    _draw_stretch([token.data[:LONG_BYTES] for token in every], glyphs)
    return [_finish(token, drawn) for token, drawn in zip(every, glyphs, strict=True)]


def _draw_stretch(parts: Sequence[bytes], into: Sequence[list[Glyph]]) -> None:
    """Decode joined bytes and hand each character to the token, or the tokens, that its bytes came from."""
    data = b"".join(parts)
    owner = [index for index, part in enumerate(parts) for _ in part]
    offset = 0
    while offset < len(data):
        size, character = _character(data, offset)
        first, last = owner[offset], owner[offset + size - 1]
        if character is None:
            into[first].append(Glyph(f"\\x{data[offset]:02X}", 4, Look.BYTES))
        elif first == last:
            _append(into[first], character)
        else:
            for index, glyph in enumerate(_slices(character, last - first + 1), start=first):
                into[index].append(glyph)
        offset += size


def _character(data: bytes, offset: int) -> tuple[int, str | None]:
    """Return the size and the character at an offset; None where its bytes are not UTF-8."""
    first = data[offset]
    size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    try:
        text = data[offset : offset + size].decode()
    except UnicodeDecodeError:
        return 1, None
    return size, text


def _slices(character: str, parts: int) -> list[Glyph]:
    """Return a character as one glyph for each token that its bytes are in; one that has a name, by its name."""
    whole = _shown(character)[0]
    if whole.look is Look.SYMBOL:
        return [whole, *[Glyph("\u2025", 1, Look.SYMBOL)] * (parts - 1)]
    return [Glyph(whole.text, 1, Look.PART, part, parts) for part in range(parts)]


def _shown(character: str) -> tuple[Glyph, ...]:
    """Return a character by itself; a combining mark stands on a dotted circle."""
    return (Glyph("\u25cc" + character, 1),) if _is_mark(character) else _glyphs(character)


def _append(into: list[Glyph], character: str) -> None:
    if not (_is_mark(character) and into and into[-1].look in (Look.PLAIN, Look.WIDE) and into[-1].text != " "):
        into.extend(_shown(character))
    elif len(into[-1].text) <= MOST_MARKS:
        into[-1] = replace(into[-1], text=into[-1].text + character)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me") and ord(character) not in _NAMED


def _glyphs(character: str) -> tuple[Glyph, ...]:
    code = ord(character)
    if character == "\n":
        return (Glyph("\u23ce", 1, Look.SYMBOL, breaks=True),)
    if character == "\t":
        return (Glyph("\u21e5", 1, Look.SYMBOL), *(Glyph(" ", 1),) * (TAB_CELLS - 1))
    if character == " " or 0x21 <= code < 0x7F:
        return (Glyph(character, 1),)
    return (_unusual(character, code),)


def _unusual(character: str, code: int) -> Glyph:
    category = unicodedata.category(character)
    name = _NAMED.get(code)
    if name is None and category in ("Cc", "Cf", "Co", "Cn", "Cs", "Zs"):
        name = f"U+{code:04X}"
    if name is not None:
        return Glyph(f"\u2039{name}\u203a", len(name) + 2, Look.SYMBOL)
    if unicodedata.east_asian_width(character) in ("W", "F"):
        return Glyph(character, 2, Look.WIDE)
    return Glyph(character, 1)


def _finish(token: Token, glyphs: list[Glyph]) -> DrawnToken:
    if not token.data:
        name = f"<{token.token_id}>" if token.special else f"<pad {token.token_id:,}>"
        return DrawnToken(token.token_id, tuple(Glyph(letter, 1) for letter in name), special=True)
    return DrawnToken(token.token_id, _cut(tuple(glyphs), token.data), token.special)


def _cut(glyphs: tuple[Glyph, ...], data: bytes) -> tuple[Glyph, ...]:
    """Shorten a long token: its start, then its length in words."""
    if sum(glyph.width for glyph in glyphs) <= LONGEST:
        return glyphs
    note = f"\u2026 {len(data.decode(errors='replace')):,} characters"
    kept, width = [], len(note)
    for glyph in glyphs:
        if width + glyph.width > LONGEST:
            break
        kept.append(glyph)
        width += glyph.width
    broken = any(glyph.breaks for glyph in glyphs[len(kept) :])
    return (*kept, Glyph(note, len(note), Look.CUT, breaks=broken))


def _without_context(drawn: Sequence[DrawnToken], context: int) -> tuple[DrawnToken, ...]:
    """Drop the context; a character that began there is drawn whole in the parts that remain."""
    kept = list(drawn[context:])
    missing = kept[0].glyphs[0].part if kept and context else 0
    for index in range(len(kept) if missing else 0):
        head, *rest = kept[index].glyphs
        if head.parts == 0 or head.part < missing:
            break
        kept[index] = replace(kept[index], glyphs=(_rebased(head, missing), *rest))
        if head.part == head.parts - 1:
            break
    return tuple(kept)


def _rebased(glyph: Glyph, missing: int) -> Glyph:
    remaining = glyph.parts - missing
    if remaining > 1:
        return replace(glyph, part=glyph.part - missing, parts=remaining)
    wide = unicodedata.east_asian_width(glyph.text[-1]) in ("W", "F")
    return Glyph(glyph.text, 2 if wide else 1, Look.WIDE if wide else Look.PLAIN)


def clean(text: str) -> str:
    """Return a text that is no model output with what cannot be seen, or turns text around, by name; lines stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if character == "\n" else "".join(glyph.text for glyph in _glyphs(character)) for character in text
    )


@dataclass(frozen=True, slots=True)
class Label:
    """A token in a table, a list or a sentence: short, on one line, its spaces visible.

    Attributes:
        pieces: text and its look, in order.
    """

    pieces: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The label as one string."""
        return "".join(text for text, _ in self.pieces)


LABEL_CELLS = 24


def token_label(token_id: int, tokens: Mapping[int, Token], cells: int = LABEL_CELLS) -> Label:
    """Return the label of one token by itself."""
    return _label_of(_known(token_id, tokens), cells)


@lru_cache(maxsize=8192)
def _label_of(token: Token, cells: int) -> Label:
    return label(draw_token(token.token_id, {token.token_id: token}), cells)


def label(drawn: DrawnToken, cells: int = LABEL_CELLS) -> Label:
    """Return the label of a token: spaces at its ends and in a row as marks, cut at `cells`."""
    pieces: list[tuple[str, str]] = []
    width = 0
    inked = [at for at, glyph in enumerate(drawn.glyphs) if glyph.text != " "]
    first, last = (inked[0], inked[-1]) if inked else (len(drawn.glyphs), -1)
    for at, glyph in enumerate(drawn.glyphs):
        outer = glyph.text == " " and not first < at < last
        text, look = ("\u2423", "sym") if outer else (glyph.text, _label_look(glyph, drawn.special))
        width += glyph.width
        if width > cells:
            pieces.append(("\u2026", "cut"))
            break
        _join(pieces, text, look)
    return Label(tuple(pieces))


def _label_look(glyph: Glyph, special: bool) -> str:
    if glyph.look in (Look.SYMBOL, Look.BYTES, Look.CUT):
        return glyph.look.value
    return "special" if special else ""


def _join(pieces: list[tuple[str, str]], text: str, look: str) -> None:
    if pieces and pieces[-1][1] == look:
        pieces[-1] = (pieces[-1][0] + text, look)
    else:
        pieces.append((text, look))
