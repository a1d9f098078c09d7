"""The values that a transcript is drawn from. Pure; imports the pages' other parts."""

from __future__ import annotations

from dataclasses import dataclass

from app.drawing import Head, TokenView
from app.text import Label
from capture.consequences import Pill


@dataclass(frozen=True, slots=True)
class Row:
    """Tokens that follow one another, with what stands in the margin at the first of them.

    Attributes:
        at: position of the first token.
        quiet: how many flips in it are marked by no more than their density.
        tokens: what is drawn.
    """

    at: int
    quiet: int
    tokens: tuple[TokenView, ...]


@dataclass(frozen=True, slots=True)
class StretchView:
    """A stretch of running text along which the same lanes go.

    Attributes:
        key: of the strand.
        lanes: on the rail, in the order of their letters.
        rows: the text.
    """

    key: str
    lanes: tuple[Head, ...]
    rows: tuple[Row, ...]
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class LeavingSide:
    """Lanes that leave the text together: their token (None where they ended), and what became of them."""

    heads: tuple[Head, ...]
    label: Label | None
    pills: tuple[Pill, ...]


@dataclass(frozen=True, slots=True)
class LeaveView:
    """A place where lanes leave the text for good, told in one line.

    Attributes:
        position: of the fork, or where a lane ended.
        lanes: on the rail below.
        leaving: the lanes whose rail ends here.
        sides: who went where.
        href: of the fork; empty where a lane ended.
    """

    position: int
    lanes: tuple[Head, ...]
    leaving: tuple[Head, ...]
    sides: tuple[LeavingSide, ...]
    href: str
    kind: str = "leave"


@dataclass(frozen=True, slots=True)
class CardView:
    """Where the open fork's card stands; the card itself is the page's panel.

    Attributes:
        position: of the fork.
        lanes: on the rail below.
        leaving: the lanes that go into the card.
    """

    position: int
    lanes: tuple[Head, ...]
    leaving: tuple[Head, ...]
    kind: str = "card"


@dataclass(frozen=True, slots=True)
class ChunkView:
    """A chunk of the text.

    Attributes:
        index: its number, from 0.
        first, stop: its positions.
        items: stretches, and what stands between them.
        earlier, later: the nearest marked flips before and behind it; None where there is none.
    """

    index: int
    first: int
    stop: int
    items: tuple[StretchView | LeaveView | CardView, ...]
    earlier: int | None
    later: int | None


@dataclass(frozen=True, slots=True)
class TranscriptView:
    """The part of a transcript that is in the page, and what is known of the rest.

    Attributes:
        chunks: those in the page, in order.
        lanes: every lane that is on the rail somewhere.
        total: positions of the text.
        count: chunks of the text.
        plan: for each chunk its tokens, cells and line breaks, as `256:1180:9` with spaces between.
        address: of a chunk, its number left out as `{}`.
        earlier, later: addresses of the pages before and behind; empty where there is none.
        along: the lanes that go to the end of the text.
        up: address of the text of the reference; empty where that is what is read.
        pinned: the position that the page opens at; None for its start.
    """

    chunks: tuple[ChunkView, ...]
    lanes: tuple[Head, ...]
    total: int
    count: int
    plan: str
    address: str
    earlier: str
    later: str
    along: tuple[Head, ...]
    up: str
    pinned: int | None

    @property
    def first(self) -> int:
        """The first position in the page."""
        return self.chunks[0].first

    @property
    def stop(self) -> int:
        """The position behind the last one in the page."""
        return self.chunks[-1].stop
