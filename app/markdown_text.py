"""Text inside of Markdown: whatever it holds, it stays text. Pure; imports app.text only."""

from __future__ import annotations

import re

from app.text import clean

LONGEST = 240
"""Characters of a text within a line."""

_HARMLESS = re.compile(r"(?:[^\W_]|[ ,.;:()/%\u201c\u201d\u2018\u2019\u00b7\u2013\u2026\u2713\u2265\u2016-])*")
"""Letters and digits of any script, and punctuation that means nothing to Markdown within a line."""

_LINKS = re.compile(r"://|www\.|-->", re.IGNORECASE)


def inline(text: str) -> str:
    """Return a text for a line or a cell of a table: as it is where nothing in it could mean something, else as code.

    A mention, an address or an emphasis within code is just that text.
    """
    line = one_line(text)
    return line if _HARMLESS.fullmatch(line) and not _LINKS.search(line) else code(line)


def code(text: str) -> str:
    """Return a text as code within a line, also within a cell of a table; empty for an empty text.

    A fence longer than any run of backticks holds it. A pipe would end a cell even there, so that a text with one
    becomes an element whose every sign is a character reference.
    """
    line = one_line(text)
    if not line:
        return ""
    if "|" in line:
        return f"<code>{''.join(map(_reference, line))}</code>"
    ticks = "`" * (longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or line[0] == line[-1] == " " else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fenced(text: str) -> str:
    """Return a text of several lines as a block that nothing in it can end."""
    fence = "`" * max(3, longest_run(text) + 1)
    return f"{fence}text\n{clean(text)}\n{fence}"


def longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max((len(run) for run in re.findall("`+", text)), default=0)


def one_line(text: str) -> str:
    """Return a text on one line, cut, with what cannot be seen by name."""
    line = clean(text).replace("\n", "\u23ce")
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "\u2026"


def _reference(character: str) -> str:
    return character if character.isalnum() or character == " " else f"&#{ord(character)};"
