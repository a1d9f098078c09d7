"""The card of a fork in a transcript: one column for each distinct continuation, cut and marked by what is near. Pure.

Each continuation is aligned with the reference over `COMPARED` tokens from the fork on, so that a card costs the same
at whatever length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.drawing import Mark, Sheet
from app.fork_panel import SHOWN_TOKENS
from app.forks import Fork
from app.links import CaseLink
from app.marks import TOKENS_AFTER_REJOIN, close_between
from app.scene import Scene
from app.sheets import letters_on, pills_of
from app.spine import Spine
from app.windows import draw_window, mark_window
from capture.align import Alignment, Line, align_lines
from capture.consequences import with_rejoin
from capture.model import Mode, Token
from capture.ranges import find_ranges

CARD_TOKENS = 360
"""Tokens of a continuation that a card holds; the rest is read on a page of its own."""

COMPARED = 1024
"""Tokens from a fork on that are compared with the reference."""

BEFORE = 512
"""Tokens in front of a fork that are read to know whether it lies in a tool call or the like."""


def card_sheets(scene: Scene, spine: Spine, fork: Fork, base: CaseLink) -> dict[int, Sheet]:
    """Return the continuations of a fork as sheets from the fork on, by strand."""
    strands = list(dict.fromkeys(side.strand for side in (fork.stayed, *fork.left) if side.strand is not None))
    aligned = _alignments(scene, spine, fork, strands)
    return {strand: _sheet(scene, spine, fork, strand, aligned.get(strand), base) for strand in strands}


def onward_of(scene: Scene, fork: Fork, base: CaseLink) -> dict[int, str]:
    """Return for each strand that leaves a fork of free runs where it can be read on, as a text of its own."""
    if scene.story.case.mode is Mode.FORCED:
        return {}
    found: dict[int, str] = {}
    for side in (fork.stayed, *fork.left):
        prefix_id = None if side.strand is None else scene.story.prefix_id(side.strand, fork.position + 1)
        if side.strand is not None and prefix_id is not None:
            found[side.strand] = base.where(mode=scene.story.case.mode).fork(fork.position + 1, prefix_id).format()
    return found


def _alignments(scene: Scene, spine: Spine, fork: Fork, strands: Sequence[int]) -> Mapping[int, tuple[int, Alignment]]:
    """Return for each strand its alignment and how many tokens before the fork it covers."""
    reference = next((at for at, one in enumerate(scene.story.strands) if "A" in one.ended), 0)
    others = range(len(scene.story.strands)) if scene.story.case.mode is Mode.FREE else ()  # what they say is not novel
    order = list(dict.fromkeys([reference, *strands, *others]))
    head = spine.token_ids[max(fork.position - BEFORE, 0) : fork.position].tolist()
    known = scene.story.case.tokens
    lines = [_line(head + _tokens(scene, strand, fork.position), known) for strand in order]
    if len(lines) < 2:
        return {}
    return {strand: (len(head), one) for strand, one in zip(order, align_lines(lines), strict=True)}


def _tokens(scene: Scene, strand: int, position: int) -> list[int]:
    own = scene.story.strands[strand]
    start = max(position - own.first_position, 0)
    found: list[int] = own.token_ids[start : start + COMPARED].tolist()
    return found


def _line(token_ids: Sequence[int], tokens: Mapping[int, Token]) -> Line:
    known = [tokens.get(token_id) for token_id in token_ids]
    data = tuple(token.data if token else b"" for token in known)
    return Line(data, find_ranges(data), tuple(token is None or token.special for token in known))


def _sheet(
    scene: Scene, spine: Spine, fork: Fork, strand: int, aligned: tuple[int, Alignment] | None, base: CaseLink
) -> Sheet:
    story, own, first = scene.story, scene.story.strands[strand], fork.position
    in_place = story.case.mode is Mode.FORCED and own.parent is not None
    goes_on = strand == fork.strand and strand in {part.strand for part in spine.parts if part.stop > first}
    stop = min(first + (SHOWN_TOKENS if goes_on else CARD_TOKENS), own.stop)
    marks: dict[int, Mark] = {}
    note, cut, joined = "", None, False
    if aligned is not None:
        tinted = in_place or story.case.mode is Mode.FREE  # beside one stub the whole trunk would be novel
        marks = _classes(aligned, first, stop, tinted)
        note, cut, joined = _meets(aligned, first, own.stop, in_place)
        stop = min(stop, cut or stop)
    if goes_on:
        note = note or "goes on below"
    for position, close in enumerate(close_between(story, strand, first, stop), start=first):
        if close:
            marks[position] = Mark(("close", *marks.get(position, Mark()).classes))
    mark_window(scene, strand, first, stop, base, marks)
    pills = pills_of(scene, own.ended)
    return Sheet(
        key=own.key,
        first_position=first,
        drawn=draw_window(scene, strand, first, stop),
        marks=marks,
        heads=[(start, letters_on(story, keys)) for start, _, keys in own.spans],
        parent=own.parent,
        pills=with_rejoin(pills) if joined else pills,
        note=note,
        imposed=("A",) if in_place else (),
        beyond=0 if cut or goes_on else own.stop - stop,
    )


def _classes(aligned: tuple[int, Alignment], first: int, stop: int, tinted: bool) -> dict[int, Mark]:
    head, found = aligned
    marks: dict[int, Mark] = {}
    for position in range(first, min(stop, first + len(found.novel) - head)):
        at = head + position - first
        if found.rejoined[at]:
            marks[position] = Mark(("joined",))
        elif tinted and found.novel[at]:
            marks[position] = Mark(("novel",))
    return marks


def _meets(aligned: tuple[int, Alignment], first: int, stop: int, in_place: bool) -> tuple[str, int | None, bool]:
    """Return a note on where a continuation re-joins, where it is cut for it, and whether it stays to its end."""
    head, found = aligned
    rejoin = found.rejoin
    if rejoin is None or not rejoin.to_end:
        return "", None, False
    whole = stop - first <= COMPARED
    there = first + rejoin.reference_token - head
    cut = first + rejoin.token - head + TOKENS_AFTER_REJOIN
    if in_place and cut < stop:
        return f"\u2026 re-joins the reference at {there:,}", cut, False
    return ("" if whole else f"runs along the reference again from {there:,}"), None, whole
