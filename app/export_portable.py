"""A page without the server: every address taken out, and the tables of the tokens that it shows put in. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from app.digest import Digest
from app.drawing import BlockView, LineView, StreamsView, TokenView
from app.fork_panel import ContinuationView, ForkPanel
from app.hover import MOST_POSITIONS, tables
from app.lanes import OpenCase
from app.links import CaseLink
from app.streams_values import StreamsPage


def portable(page: StreamsPage) -> StreamsPage:
    """Return the page with no link that only its server could answer; its flips are marked still."""
    return replace(
        page,
        streams=_streams(page.streams),
        panel=None if page.panel is None else _panel(page.panel),
        pane=None if page.pane is None else replace(page.pane, permalink=""),
        json="",
        tables="",
        address="",
        permalink="",
    )


def _streams(streams: StreamsView) -> StreamsView:
    systems = tuple(tuple(map(_line, system)) for system in streams.systems)
    return StreamsView(systems, tuple(map(_block, streams.blocks)), streams.side_by_side)


def _block(block: BlockView) -> BlockView:
    return replace(block, lines=tuple(map(_line, block.lines)), folded=tuple(map(_line, block.folded)))


def _line(line: LineView) -> LineView:
    return replace(line, tokens=_tokens(line.tokens))


def _tokens(tokens: Iterable[TokenView]) -> tuple[TokenView, ...]:
    return tuple(replace(token, href="") if token.href else token for token in tokens)


def _panel(panel: ForkPanel) -> ForkPanel:
    continuations = tuple(map(_continuation, panel.continuations))
    return replace(panel, continuations=continuations, close="", earlier="", later="")


def _continuation(one: ContinuationView) -> ContinuationView:
    return replace(one, tokens=_tokens(one.tokens), more=_tokens(one.more), onward="")


def tables_of(case: OpenCase, page: StreamsPage, base: CaseLink, digest: Digest | None = None) -> dict[str, Any]:
    """Return what hovering shows for every token on a page, by strand and position."""
    places = {f"{key}:{token.position}" for key, token in _shown(page)}
    positions = [token.position for _, token in _shown(page)]
    first, stop = min(positions, default=0), max(positions, default=-1) + 1
    found: dict[str, Any] = {}
    for start in range(first, stop, MOST_POSITIONS):
        every = tables(case, start, min(MOST_POSITIONS, stop - start), base, digest)["tables"]
        found.update({place: _without_address(entry) for place, entry in every.items() if place in places})
    return {"lanes": [lane.letter for lane in case.lanes], "tables": found}


def _without_address(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "href"}


def _shown(page: StreamsPage) -> Iterable[tuple[str, TokenView]]:
    """Yield every token on a page with the key of its strand."""
    for line in lines_of(page.streams):
        yield from ((line.key, token) for token in line.tokens)
    for one in page.panel.continuations if page.panel else ():
        yield from ((one.key, token) for token in (*one.tokens, *one.more))


def lines_of(streams: StreamsView) -> Iterable[LineView]:
    """Yield every line: those of the systems, then those of the blocks."""
    for system in streams.systems:
        yield from system
    for block in streams.blocks:
        yield from (*block.lines, *block.folded)
