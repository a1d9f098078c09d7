"""The values that the Streams page is drawn from. Pure; imports the pages' other parts."""

from __future__ import annotations

from dataclasses import dataclass

from app.differences import DifferenceTable
from app.drawing import StreamsView
from app.flip_list import FlipList, FlipRow
from app.fork_panel import ForkPanel
from app.position import PositionPane
from app.ribbon import Ribbon
from app.transcript_values import TranscriptView

CHUNK = 256
"""Positions whose tables the browser asks for at once."""


@dataclass(frozen=True, slots=True)
class Chip:
    """A lane in the header.

    Attributes:
        letter: its letter.
        shape: its shape.
        label: what differs between the runtimes.
        title: its runtime in full.
        is_reference: whether the others are compared with it.
        hide: address without it; empty where too few lanes would be left.
        prefer: address with it as the reference; empty where it is, or cannot be.
        follow: address of its text as a transcript; empty where it has no text of its own.
        warning: what to know before reading its numbers; mostly empty.
        differences: what its manifest does not share with the reference's; of the reference, what any lanes do not.
    """

    letter: str
    shape: str
    label: str
    title: str
    is_reference: bool
    hide: str
    prefer: str
    follow: str
    warning: str
    differences: DifferenceTable


@dataclass(frozen=True, slots=True)
class Choice:
    """A link among several, one of them current."""

    text: str
    href: str
    current: bool
    title: str = ""


@dataclass(frozen=True, slots=True)
class StrandFacts:
    """A strand for the JSON twin; `letters` are on it where it starts, those of `ended` go on to its end.

    `wrong_position` is where its calls go wrong, against the reference's; None where they do not.
    """

    key: str
    letters: tuple[str, ...]
    ended: tuple[str, ...]
    parent: int | None
    first_position: int
    token_ids: tuple[int, ...]
    text: str
    consequence: tuple[str, ...]
    wrong_position: int | None = None


@dataclass(frozen=True, slots=True)
class StreamsPage:
    """What templates/streams.html draws.

    Attributes:
        title: of the window; says the fork in words.
        description: for previews.
        study: name of the study.
        case: id of the case.
        mode: `free` or `forced`.
        scoring_path: of every lane.
        question: the last message of the user, on one line.
        prompt: the rendered prompt, or its start.
        modes: the mode switch.
        chips: the lanes.
        hidden: runs that could be shown as well.
        ribbon: the whole output at a glance.
        views: the switch between streams and transcript.
        list: the list of flips, a page of it.
        streams: the lines; none where the text is a transcript.
        transcript: the text of a long output; None where it is shown as streams.
        pane: the position that is shown.
        panel: the open fork.
        columns: of a line.
        address: of this page, for asking again.
        tables: address of the tables, in chunks of `chunk` positions.
        chunk: positions of a chunk.
        permalink: an address that opens the same view anywhere.
        json: address of the JSON twin.
        notices: what of the link could not be followed, or what to know.
        strands: for the JSON twin.
    """

    title: str
    description: str
    study: str
    case: str
    mode: str
    scoring_path: str
    question: str
    prompt: str
    modes: tuple[Choice, ...]
    chips: tuple[Chip, ...]
    hidden: tuple[Choice, ...]
    ribbon: Ribbon
    views: tuple[Choice, ...]
    list: FlipList
    streams: StreamsView
    transcript: TranscriptView | None
    pane: PositionPane | None
    panel: ForkPanel | None
    columns: int
    address: str
    tables: str
    chunk: int
    permalink: str
    json: str
    notices: tuple[str, ...]
    strands: tuple[StrandFacts, ...]

    @property
    def flips(self) -> tuple[FlipRow, ...]:
        """The rows of the list of flips."""
        return self.list.rows
