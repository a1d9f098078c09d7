"""Makes the page of a transcript, or of a chunk of it alone; chooses it for long outputs. Pure."""

from __future__ import annotations

from app.card import card_sheets, onward_of
from app.digest import Digest, digest_of
from app.drawing import heads
from app.forks import Fork, first_of_interest
from app.lanes import OpenCase
from app.links import CaseLink, ForkLink
from app.scene import Scene, open_scene
from app.spine import Spine, spine_of
from app.streams import Text, base_of, framed, panel_of
from app.streams_values import StreamsPage
from app.transcript import Drawer
from app.transcript_values import ChunkView, TranscriptView
from capture.errors import NotFoundError

LONG = 400
"""Positions from which on an output is read as a transcript unless the link says otherwise."""

MOST_STREAMS = 4096
"""Positions up to which streams are drawn at all."""

CHUNKS_SHOWN = 3
"""Chunks in the page; the browser asks for others, and links lead to them."""


def is_transcript(case: OpenCase, link: CaseLink | ForkLink) -> bool:
    """Return whether a case is shown as a transcript: as the link says, else by its longest run."""
    longest = max((len(lane.steps) for lane in case.lanes), default=0)
    if longest > MOST_STREAMS:
        return True
    return link.options.view == "transcript" or (link.options.view != "streams" and longest > LONG)


def too_long(case: OpenCase, link: CaseLink | ForkLink) -> tuple[str, ...]:
    """Return what to say where streams were asked for and are not drawn."""
    longest = max((len(lane.steps) for lane in case.lanes), default=0)
    if link.options.view != "streams" or longest <= MOST_STREAMS:
        return ()
    return (f"Streams are drawn up to {MOST_STREAMS:,} positions; these {longest:,} are read as a transcript.",)


def transcript_page(case: OpenCase, link: CaseLink | ForkLink, digest: Digest | None = None) -> StreamsPage:
    """Return the page of a transcript: the chunks around the place that the link names.

    Args:
        case: the case with its lanes.
        link: what the reader asked for; of a fork, its card is open.
        digest: what was worked out of the case before; None to work it out now.
    """
    digest = (digest or digest_of(case)).marking(case, link.options.filter)
    scene = _at_the_text(open_scene(case, link, digest), link)
    spine = spine_of(scene.story, _strand(scene, link))
    fork = _open_fork(scene) if scene.pinned else None
    base = _along(base_of(link), spine)
    drawer = Drawer(scene, spine, digest, base, fork)
    first, stop = _window(drawer, scene, link)
    chunks = tuple(drawer.chunk(index) for index in range(first, stop))
    panel = None
    if fork is not None:
        near = drawer.chunks.starts[max(drawer.chunks.at(fork.position) - 1, 0)]
        sheets = card_sheets(scene, spine, fork, base)
        panel = panel_of(scene, sheets, base, fork, onward_of(scene, fork, base), near or None)
    view = _view(drawer, spine, chunks, link, base, scene.position if scene.pinned else None)
    text = Text((view.first, max(view.stop - 1, view.first)), transcript=view)
    return framed(scene, _linked(link, base), panel, text, digest)


def chunk_view(case: OpenCase, link: CaseLink, index: int, digest: Digest | None = None) -> ChunkView:
    """Return one chunk of a transcript with no fork open.

    Raises:
        NotFoundError: the text has no such chunk.
    """
    digest = (digest or digest_of(case)).marking(case, link.options.filter)
    scene = open_scene(case, link, digest)
    spine = spine_of(scene.story, _strand(scene, link))
    drawer = Drawer(scene, spine, digest, _along(base_of(link), spine))
    if not 0 <= index < len(drawer.chunks):
        raise NotFoundError(f"this text has {len(drawer.chunks):,} chunks, counted from 0; reload the page")
    return drawer.chunk(index)


def _at_the_text(scene: Scene, link: CaseLink | ForkLink) -> Scene:
    """Return the scene with its place on the text that is read, where the link pins none."""
    if scene.pinned:
        return scene
    strand = _strand(scene, link)
    spine = spine_of(scene.story, strand)
    on = {part.strand for part in spine.parts}
    fork = first_of_interest(fork for fork in scene.forks if fork.strand in on and fork.position < len(spine))
    place = (fork.strand, fork.position) if fork else (spine.parts[0].strand, 0)
    if scene.notices:  # of a place that is unknown: the nearest one, as the notice says
        place = (spine.part_at(scene.position).strand, min(scene.position, max(len(spine) - 1, 0)))
    return Scene(scene.story, scene.known, scene.forks, *place, False, scene.notices)


def _strand(scene: Scene, link: CaseLink | ForkLink) -> int:
    """Return the strand where the text ends: that of the lane to follow where the pinned place is on its way."""
    asked = next(
        (lane.letter for lane in scene.story.case.lanes if lane.run.run_id == link.options.follow),
        scene.story.case.lanes[0].letter,
    )
    ends = {key: index for index, one in enumerate(scene.story.strands) for key in one.ended}
    wanted = ends.get(asked, 0)
    if not scene.pinned:
        return wanted
    on = {part.strand: part for part in spine_of(scene.story, wanted).parts}
    there = scene.strand in on and scene.position < on[scene.strand].stop + 1
    return wanted if there else scene.strand


def _open_fork(scene: Scene) -> Fork | None:
    """Return the fork whose card is open: the pinned one, or that of the continuation that the pinned token is in."""
    if scene.fork is not None or scene.story.opened is None or scene.strand == 0:
        return scene.fork
    return next((fork for fork in scene.forks if fork.position == scene.story.opened), None)


def _along(base: CaseLink, spine: Spine) -> CaseLink:
    """Return the link with the lane whose text is read, where that is not the reference."""
    lanes = spine.story.case.lanes
    ended = [spine.story.sources[key].letter for key in spine.story.strands[spine.strand].ended]
    if not ended or lanes[0].letter in ended or not spine.parts[-1].strand:
        return base.where(follow=None)
    return base.where(follow=next(lane.run.run_id for lane in lanes if lane.letter == ended[0]))


def _linked(link: CaseLink | ForkLink, base: CaseLink) -> CaseLink | ForkLink:
    return link.where(follow=base.options.follow)


def _window(drawer: Drawer, scene: Scene, link: CaseLink | ForkLink) -> tuple[int, int]:
    """Return the chunks in the page: from the place that the link names on, or around what is pinned."""
    count = len(drawer.chunks)
    at = link.options.at
    if at is not None:
        first = drawer.chunks.at(at)
    else:
        place = scene.position if scene.pinned or scene.notices else 0
        first = max(drawer.chunks.at(place) - 1, 0)
    first = min(first, max(count - CHUNKS_SHOWN, 0))
    return first, min(first + CHUNKS_SHOWN, count)


def _view(
    drawer: Drawer,
    spine: Spine,
    chunks: tuple[ChunkView, ...],
    link: CaseLink | ForkLink,
    base: CaseLink,
    pinned: int | None,
) -> TranscriptView:
    cut, count = drawer.chunks, len(drawer.chunks)
    first, stop = chunks[0].index, chunks[-1].index + 1
    plan = [f"{cut.starts[at + 1] - cut.starts[at]}:{cut.cells[at]}:{cut.breaks[at]}" for at in range(count)]
    here = _linked(link, base)
    return TranscriptView(
        chunks=chunks,
        lanes=heads([lane.letter for lane in spine.story.case.lanes]),
        total=len(spine),
        count=count,
        plan=" ".join(plan),
        address=base.chunk(0).replace("/chunks/0", "/chunks/{}", 1),
        earlier=here.where(at=cut.starts[max(first - CHUNKS_SHOWN, 0)]).format() if first else "",
        later=here.where(at=cut.starts[stop]).format() if stop < count else "",
        along=heads(spine.staying(max(len(spine) - 1, 0))),
        up=base.where(follow=None).format() if base.options.follow else "",
        pinned=pinned,
    )
