"""Draws chunks of a long text: stretches along which the same lanes go, and the forks between them. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from app.chunks import Chunks
from app.digest import Digest
from app.drawing import Mark, Sheet, TokenView, flow, heads
from app.forks import Fork
from app.links import CaseLink
from app.scene import Scene
from app.sheets import letters_on, pills_of
from app.spine import Spine
from app.text import token_label
from app.transcript_values import CardView, ChunkView, LeaveView, LeavingSide, Row, StretchView
from app.windows import window_sheet
from capture.model import Mode

ROW_CELLS = 184
"""Cells between two positions in the margin, two of the longest lines, so that no line has two of them."""

ROW_TOKENS = 16
"""Tokens that a line break has to come after to be a place for a position in the margin."""


class Drawer:
    """Draws the chunks of one text."""

    def __init__(self, scene: Scene, spine: Spine, digest: Digest, base: CaseLink, fork: Fork | None = None) -> None:
        self._scene = scene
        self._spine = spine
        self._base = base
        self._forced = scene.story.case.mode is Mode.FORCED
        self._leaves = {} if self._forced else _leaves(scene, spine, base)
        self._fork = fork
        self._open = fork.position if fork is not None else None
        self._marked = [fork.position for fork in digest.forks if fork.marked and _on(spine, fork)]
        self._chunks = digest.chunks_of(spine)

    @property
    def chunks(self) -> Chunks:
        """Where the text is cut."""
        return self._chunks

    def chunk(self, index: int) -> ChunkView:
        """Draw a chunk."""
        first, stop = self._chunks.span(index)
        before = bisect_left(self._marked, first)
        behind = bisect_left(self._marked, stop)
        return ChunkView(
            index=index,
            first=first,
            stop=stop,
            items=tuple(self._items(first, stop)),
            earlier=self._marked[before - 1] if before else None,
            later=self._marked[behind] if behind < len(self._marked) else None,
        )

    def _items(self, first: int, stop: int) -> Iterator[StretchView | LeaveView | CardView]:
        cuts = sorted({cut for cut in self._cuts() if first < cut < stop} | {stop})
        start = first
        if start == 0 and start in self._leaves:
            yield from self._between(start)
        for cut in cuts:
            if start < cut:
                yield self._stretch(start, cut)
            yield from self._between(cut)
            start = cut

    def _cuts(self) -> Iterable[int]:
        yield from self._leaves
        if self._open is not None:
            yield self._open + 1

    def _between(self, cut: int) -> Iterator[LeaveView | CardView]:
        """Yield what stands in front of the position `cut`."""
        for leave in self._leaves.get(cut, ()):
            if not (leave.href and leave.position == self._open):
                yield leave
        if self._fork is not None and cut == self._fork.position + 1:
            yield self._card(self._fork)

    def _card(self, fork: Fork) -> CardView:
        """Forced lanes go into the card and come back to the rail; free ones are gone for good."""
        letters = self._spine.letters(fork.position)
        staying = letters if self._forced else self._spine.staying(fork.position)
        left = fork.letters if self._forced else [letter for letter in letters if letter not in staying]
        return CardView(fork.position, heads(sorted(staying)), heads(sorted(left)))

    def _stretch(self, first: int, stop: int) -> StretchView:
        rows: list[Row] = []
        for part in self._spine.parts:
            start, end = max(first, part.first), min(stop, part.stop)
            if start < end:
                rows += _rows(window_sheet(self._scene, part.strand, start, end, self._base))
        lanes = heads(sorted(self._spine.letters(first)))
        return StretchView(self._spine.part_at(first).key, lanes, tuple(rows))


def _on(spine: Spine, fork: Fork) -> bool:
    """Return whether a fork is on a text: it goes on there, or leaves there."""
    return any(part.strand == fork.strand and part.first <= fork.position <= part.stop for part in spine.parts)


def _rows(sheet: Sheet) -> Iterator[Row]:
    """Cut a stretch where a position can stand in the margin."""
    tokens = flow(sheet, sheet.first_position, sheet.first_position + len(sheet.drawn))
    widths = {id(drawn): drawn.width for drawn in {id(one): one for one in sheet.drawn}.values()}
    start, cells = 0, 0
    for at in range(len(tokens)):
        if at > start and (cells >= ROW_CELLS or (at - start >= ROW_TOKENS and tokens[at - 1].breaks)):
            yield _row(sheet, tokens[start:at])
            start, cells = at, 0
        cells += widths[id(sheet.drawn[at])]
    if start < len(tokens):
        yield _row(sheet, tokens[start:])


def _row(sheet: Sheet, tokens: Sequence[TokenView]) -> Row:
    quiet = sum(sheet.marks.get(token.position, Mark()).quiet for token in tokens)
    return Row(tokens[0].position, quiet, tuple(tokens))


def _leaves(scene: Scene, spine: Spine, base: CaseLink) -> dict[int, list[LeaveView]]:
    """Return where lanes leave a text for good, by the position in front of which that is told."""
    found: dict[int, list[LeaveView]] = {}
    for fork in scene.forks:
        if _on(spine, fork):
            found.setdefault(fork.position + 1, []).append(_left(scene, spine, fork, base))
    on = {part.strand for part in spine.parts}
    for strand in scene.story.strands:
        if strand.parent in on and not len(strand.token_ids) and strand.first_position < len(spine):
            gone = heads(letters_on(scene.story, strand.ended))
            lanes = heads(sorted(spine.staying(strand.first_position)))
            side = LeavingSide(gone, None, pills_of(scene, strand.ended))
            found.setdefault(strand.first_position, []).append(
                LeaveView(strand.first_position, lanes, gone, (side,), "")
            )
    return found


def _left(scene: Scene, spine: Spine, fork: Fork, base: CaseLink) -> LeaveView:
    staying = spine.staying(fork.position)
    sides = [side for side in (fork.stayed, *fork.left) if not set(side.letters) & set(staying)]
    told = tuple(
        LeavingSide(
            heads(side.letters),
            token_label(side.token_id, scene.story.case.tokens),
            side.consequence.pills if side.consequence else (),
        )
        for side in sides
    )
    gone = heads(sorted(letter for side in sides for letter in side.letters))
    href = base.fork(fork.position, fork.prefix_id).format()
    return LeaveView(fork.position, heads(sorted(staying)), gone, told, href)
