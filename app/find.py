"""Finding text in the whole output of a case: every distinct continuation, bounded. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.drawing import Head, heads
from app.lanes import OpenCase
from app.links import CaseLink
from app.spine import Spine, spine_of
from app.strands import Story, story_of
from app.text import clean

MOST_HITS = 200
"""Places that are listed."""

LONGEST_QUESTION = 200
"""Characters of a question that are read."""

AROUND = 48
"""Bytes of text before and behind a place."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where the text stands.

    Attributes:
        position: of the token that it starts in.
        heads: the lanes that have it.
        before, text, after: a piece of the output.
        href: opens it.
    """

    position: int
    heads: tuple[Head, ...]
    before: str
    text: str
    after: str
    href: str


@dataclass(frozen=True, slots=True)
class FoundPage:
    """What was found.

    Attributes:
        study: name of the study.
        case: id of the case.
        asked: the text that was looked for.
        hits: by position.
        more: whether there are further ones.
        searched: what was read, in words.
        back: address of the case.
        notices: what to know.
    """

    study: str
    case: str
    asked: str
    hits: tuple[Hit, ...]
    more: bool
    searched: str
    back: str
    notices: tuple[str, ...]


def find_page(case: OpenCase, link: CaseLink, asked: str, notices: tuple[str, ...] = ()) -> FoundPage:
    """Return where a text stands in the outputs; letters A to Z match whatever their case.

    Args:
        case: the case with its lanes.
        link: to the case, with no fork open.
        asked: the text; what is longer than `LONGEST_QUESTION` is cut with a notice.
        notices: what was to say before.
    """
    told = () if len(asked) <= LONGEST_QUESTION else (f"The first {LONGEST_QUESTION} characters are looked for.",)
    text = asked[:LONGEST_QUESTION]
    wanted = text.encode(errors="replace").lower()
    hits = _hits(story_of(case), link.where(mode=case.mode), wanted) if wanted else []
    one = "the reference's text" if case.mode == "forced" else "every distinct output"
    return FoundPage(
        study=case.study,
        case=case.lanes[0].facts.case.case_id,
        asked=clean(text),
        hits=tuple(hits[:MOST_HITS]),
        more=len(hits) > MOST_HITS,
        searched=one,
        back=link.format(),
        notices=(*notices, *told),
    )


def _hits(story: Story, link: CaseLink, wanted: bytes) -> list[Hit]:
    found = [hit for index in range(len(story.strands)) for hit in _on_strand(story, index, link, wanted)]
    return sorted(found, key=lambda hit: hit.position)


def _on_strand(story: Story, index: int, link: CaseLink, wanted: bytes) -> Iterator[Hit]:
    """Yield the hits that end on a strand; those that end before it are on its parent."""
    spine = spine_of(story, index)
    data, starts = _text(spine)
    folded = data.lower()
    own = spine.parts[-1].first
    first = int(starts[own]) if own < len(starts) else len(data)
    at = folded.find(wanted, max(first - len(wanted) + 1, 0))
    for _ in range(MOST_HITS + 1):
        if at < 0:
            return
        yield _hit(spine, link, data, (at, at + len(wanted)), int(np.searchsorted(starts, at, side="right")) - 1)
        at = folded.find(wanted, at + len(wanted))


def _text(spine: Spine) -> tuple[bytes, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the bytes of a text, and where each token starts in it."""
    tokens = spine.story.case.tokens
    parts = [tokens[token_id].data if token_id in tokens else b"" for token_id in spine.token_ids.tolist()]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return b"".join(parts), np.concatenate([np.zeros(1, np.int64), ends])[: len(parts)]


def _hit(spine: Spine, link: CaseLink, data: bytes, span: tuple[int, int], position: int) -> Hit:
    first, stop = span
    prefix_id = spine.story.prefix_id(spine.part_at(position).strand, position) or b""
    return Hit(
        position=position,
        heads=heads(spine.staying(position)),
        before=_shown(data[max(first - AROUND, 0) : first]),
        text=_shown(data[first:stop]),
        after=_shown(data[stop : stop + AROUND]),
        href=link.fork(position, prefix_id).format(),
    )


def _shown(data: bytes) -> str:
    return clean(data.decode("utf-8", "replace"))
