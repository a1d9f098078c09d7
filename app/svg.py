"""Pieces of an SVG drawing in monospace text: everything in it is escaped, nothing in it runs. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from app.text import clean

CELL = 1233 / 2048
"""Width of a cell as a share of the font's size, in DejaVu Sans Mono as in most monospace fonts."""

FONTS = "'DejaVu Sans Mono', 'Liberation Mono', Menlo, Consolas, 'Cascadia Mono', monospace"

LANES = {"A": "#0072b2", "B": "#e69f00", "C": "#009e73", "D": "#d55e00", "E": "#cc79a7"}
"""Okabe-Ito; a letter and a shape always stand with the colour."""

FOREGROUND, MUTED, FAINT = "#14171c", "#565e6b", "#8a919d"

SURFACE, GROUND, LINE, STRONG_LINE = "#ffffff", "#f6f7f9", "#e2e5ea", "#c4c9d2"

_SHAPES = {
    "A": '<circle cx="5" cy="5" r="4.2"/>',
    "B": '<rect x="1" y="1" width="8" height="8"/>',
    "C": '<path d="M5 .8 9.6 9.2H.4Z"/>',
    "D": '<path d="M5 0 10 5 5 10 0 5Z"/>',
    "E": '<path d="M3.4.6h3.2v2.8h2.8v3.2H6.6v2.8H3.4V6.6H.6V3.4h2.8Z"/>',
}

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_WORDS = re.compile(r"[^ ]+(?: [^ ]+)*")
"""Words with one space between: XML makes one of several."""


@dataclass(frozen=True, slots=True)
class Pen:
    """How text is written.

    Attributes:
        size: of the font, in pixels.
        fill: colour.
        bold: whether it is.
        italic: whether it is.
    """

    size: float
    fill: str = FOREGROUND
    bold: bool = False
    italic: bool = False

    @property
    def cell(self) -> float:
        """Width of a cell in pixels."""
        return self.size * CELL


@dataclass(slots=True)
class Drawing:
    """A drawing that grows; coordinates in pixels from the top left."""

    pieces: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, width: float, height: float, fill: str = "none", extra: str = "") -> None:
        """Draw a rectangle; `extra` holds attributes that are no stranger's words."""
        size = f'width="{number(width)}" height="{number(height)}"'
        self.pieces.append(f'<rect x="{number(x)}" y="{number(y)}" {size} fill="{fill}"{extra and " " + extra}/>')

    def path(self, steps: str, stroke: str, width: float = 1.0, extra: str = "") -> None:
        """Draw a line along the steps of a path."""
        self.pieces.append(
            f'<path d="{steps}" fill="none" stroke="{stroke}" stroke-width="{number(width)}"{extra and " " + extra}/>'
        )

    def text(self, x: float, y: float, text: str, pen: Pen) -> float:
        """Write a line from its baseline on, every letter in its cell; return where it ends."""
        line = xml_text(text)
        words = []
        for found in _WORDS.finditer(line):
            start, width = x + cells(line[: found.start()]) * pen.cell, cells(found[0]) * pen.cell
            length = f' textLength="{number(width)}"' if len(found[0]) > 1 else ""
            words.append(f'<tspan x="{number(start)}"{length}>{escape(found[0])}</tspan>')
        if words:
            look = (' font-weight="700"' if pen.bold else "") + (' font-style="italic"' if pen.italic else "")
            self.pieces.append(
                f'<text y="{number(y)}" font-size="{number(pen.size)}" fill="{pen.fill}"{look}>{" ".join(words)}</text>'
            )
        return x + cells(line) * pen.cell

    def shape(self, x: float, y: float, letter: str, size: float = 10) -> None:
        """Draw the shape of a lane with its top left corner at a point."""
        look = f'fill="{LANES[letter]}" stroke="#00000059" stroke-width="0.6"'
        place = f'transform="translate({number(x)} {number(y)}) scale({number(size / 10)})"'
        self.pieces.append(f"<g {place} {look}>{_SHAPES[letter]}</g>")

    def heads(self, x: float, y: float, letters: Sequence[str], pen: Pen) -> float:
        """Draw lanes as shape and letter; return where they end."""
        size = pen.size * 0.8
        for letter in letters:
            self.shape(x, y - size * 0.92, letter, size)
            x = self.text(x + size + 4, y, letter, pen) + pen.size * 0.55
        return x


def heads_width(letters: Sequence[str], pen: Pen) -> float:
    """Return the width of lanes as `Drawing.heads` draws them."""
    return len(letters) * (pen.size * 0.8 + 4 + pen.cell + pen.size * 0.55)


def document(drawing: Drawing, width: int, height: int, title: str, description: str) -> str:
    """Return a drawing as a document of its own: no script, no link, no style sheet, nothing from elsewhere."""
    about = f"<title>{escape(xml_text(title))}</title><desc>{escape(xml_text(description))}</desc>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="{FONTS}" font-variant-ligatures="none">{about}\n'
        f'<rect width="{width}" height="{height}" fill="{SURFACE}"/>\n' + "\n".join(drawing.pieces) + "\n</svg>\n"
    )


def xml_text(text: str) -> str:
    """Return a text on one line that XML can hold, with what cannot be seen by name; not yet escaped."""
    line = text if text.isascii() and text.isprintable() else clean(text).replace("\n", "\u23ce")
    return _NOT_XML.sub("\ufffd", line)


def cells(text: str) -> int:
    """Return how many cells a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fit(text: str, most: int) -> str:
    """Return a text cut to a number of cells."""
    line = xml_text(text)
    if cells(line) <= most:
        return line
    kept, width = "", 1
    for character in line:
        width += _width(character)
        if width > most:
            break
        kept += character
    return kept + "\u2026"


def number(value: float) -> str:
    """Return a coordinate: two digits after the point at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
