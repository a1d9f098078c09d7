"""What an export shows: the Streams page, of a long output the part around its fork. Pure."""

from __future__ import annotations

from dataclasses import replace

from app.card import card_sheets
from app.digest import Digest, digest_of
from app.drawing import Sheet, set_sheets
from app.forks import Fork
from app.lanes import OpenCase
from app.links import CaseLink, ForkLink
from app.scene import Scene, open_scene
from app.spine import spine_of
from app.streams import Text, base_of, framed, panel_of, streams_page
from app.streams_values import StreamsPage
from app.transcript_page import LONG
from app.windows import window_sheet
from capture.consequences import Pill
from capture.model import Mode

COLUMNS = 100
"""Cells of a line."""

BEFORE, BEHIND = 160, 240
"""Tokens around the fork of a long output."""


def export_page(case: OpenCase, link: CaseLink | ForkLink, digest: Digest | None = None) -> StreamsPage:
    """Return the page that exports of a link are made from.

    Args:
        case: the case with its lanes.
        link: what is exported; of a fork, that fork is open.
        digest: what was worked out of the case before; None to work it out now.
    """
    columns = link.options.columns or COLUMNS
    if max((len(lane.steps) for lane in case.lanes), default=0) <= LONG:
        return streams_page(case, link, columns, digest)
    digest = digest or digest_of(case)
    scene = open_scene(case, link, digest)
    base, fork = base_of(link), scene.fork
    cards = {} if fork is None else card_sheets(scene, spine_of(scene.story, fork.strand), fork, base)
    panel = None if fork is None or not scene.pinned else panel_of(scene, cards, base, fork)
    sheets = _sheets(scene, fork, cards, base)
    text = Text((scene.position, scene.position), set_sheets(sheets, columns), columns=columns)
    return framed(scene, link, panel, text, digest)


def _sheets(scene: Scene, fork: Fork | None, cards: dict[int, Sheet], base: CaseLink) -> list[Sheet]:
    """Return the text up to the place, the strand that goes on there, and those that leave it."""
    strand = scene.strand if fork is None else fork.strand
    sheets = _before(scene, strand, base)
    own = scene.story.strands[strand]
    first = max(scene.position - BEFORE, own.first_position)
    window = window_sheet(scene, strand, first, min(scene.position + BEHIND, own.stop), base)
    goes_on = cards.get(strand)
    marks = {**window.marks, **(goes_on.marks if goes_on else {})}
    note = f"{window.beyond:,} more tokens" if window.beyond else ""
    parent = len(sheets) - 1 if sheets else None
    in_place = scene.story.case.mode is Mode.FORCED
    heads = [(0, ("A",))] if in_place and own.parent is None else window.heads
    pills = _pills(goes_on, window)
    sheets.append(replace(window, parent=parent, marks=marks, heads=heads, note=note, pills=pills))
    others = [card for at, card in cards.items() if at != strand]
    return sheets + [replace(card, parent=len(sheets) - 1, in_place=in_place) for card in others]


def _before(scene: Scene, strand: int, base: CaseLink) -> list[Sheet]:
    """Return what comes before a strand, as far as it is near the place; each part leaves the one above it."""
    found: list[Sheet] = []
    for part in spine_of(scene.story, strand).parts:
        first = max(scene.position - BEFORE, part.first)
        if part.strand != strand and first < part.stop:
            window = window_sheet(scene, part.strand, first, part.stop, base)
            found.append(replace(window, parent=len(found) - 1 if found else None))
    return found


def _pills(goes_on: Sheet | None, window: Sheet) -> tuple[Pill, ...]:
    return goes_on.pills if goes_on is not None and not window.beyond else ()
