"""What is worked out once for an opened case, however often its pages are drawn: consequences, flips, chunks. Pure."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.cache import SizedCache
from app.chunks import Chunks, cut_chunks
from app.flip_filter import FlipFilter, marked
from app.forks import Fork, forks_of, with_stubs
from app.lanes import OpenCase
from app.ribbon import Bands, bands_of
from app.source_consequences import Consequence, consequences
from app.spine import Spine
from app.strands import Source, Story, branch_source, story_of
from capture.model import Mode

MOST_KEPT = 12
"""Opened cases of which this is kept; of a case of 5 lanes by 100,000 positions it is about 8 MB."""


MOST_READ = 1_500_000
"""Tokens of outputs of branches that are read for what they call; of further ones it is read when they are opened."""


@dataclass(frozen=True, slots=True)
class Digest:
    """What pages of a case share.

    Attributes:
        known: consequences by key of source, branches included as far as `MOST_READ` reaches.
        forks: its flips, with no fork open.
        places: the flips by strand and position.
        bands: the ribbon's bands.
        chunks: of each text that was read as a transcript, by the strand where it ends.
    """

    known: Mapping[str, Consequence]
    forks: tuple[Fork, ...]
    places: Mapping[tuple[int, int], Fork]
    bands: Bands
    chunks: dict[int, Chunks] = field(default_factory=dict)

    def forks_in(self, story: Story, known: Mapping[str, Consequence]) -> tuple[Fork, ...]:
        """Return the flips of a story of this case, which may have a fork open; `known` is `known_in` of it."""
        return self.forks if story.opened is None else with_stubs(story, self.forks, known)

    def known_in(self, story: Story) -> Mapping[str, Consequence]:
        """Return the consequences of a story of this case, those of its open fork among them in any case."""
        missing = [source for key, source in story.sources.items() if key not in self.known]
        return {**self.known, **consequences(story.case, missing)} if missing else self.known

    def marking(self, case: OpenCase, wanted: FlipFilter) -> Digest:
        """Return the same with those flips marked in the text that a filter leaves."""
        if not wanted.narrows:
            return self
        forks = marked(self.forks, case, wanted)
        return replace(self, forks=forks, places=_places(forks))

    def chunks_of(self, spine: Spine) -> Chunks:
        """Return the chunks of a text, cut when it is first asked for."""
        found = self.chunks.get(spine.strand)
        if found is None:
            found = self.chunks[spine.strand] = cut_chunks(spine.token_ids, spine.story.case.tokens)
        return found


def digest_of(case: OpenCase) -> Digest:
    """Work out what the pages of a case share."""
    story = story_of(case)
    known = consequences(case, [*story.sources.values(), *_read_at_once(case)])
    forks = forks_of(story, known)
    return Digest(known, forks, _places(forks), bands_of(case, forks))


def _places(forks: Sequence[Fork]) -> dict[tuple[int, int], Fork]:
    return {(fork.strand, fork.position): fork for fork in reversed(forks)}


def _read_at_once(case: OpenCase) -> list[Source]:
    """Return the branches whose outputs, each with the text before its fork, are not too much to read before a page."""
    found: list[Source] = []
    total = 0
    for branch in case.branches if case.mode is Mode.FORCED else ():
        total += int(branch.steps.position[-1]) + 1
        if total > MOST_READ:
            break
        found.append(branch_source(branch))
    return found


class Digests:
    """The digests of the cases that were opened last; each is worked out by one thread."""

    def __init__(self) -> None:
        self._kept: SizedCache[Hashable, Digest] = SizedCache(MOST_KEPT)
        self._turn = threading.Lock()

    def of(self, case: OpenCase) -> Digest:
        """Return the digest of a case, kept where the case says what it was read from."""
        if not case.stamps:
            return digest_of(case)
        found = self._kept.get(case.stamps)
        if found is not None:
            return found
        with self._turn:
            found = self._kept.get(case.stamps)
            if found is None:
                found = digest_of(case)
                self._kept.put(case.stamps, found)
            return found
