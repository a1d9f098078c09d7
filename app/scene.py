"""What a link shows of a case: the strands, the flips, and where the reader is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.digest import Digest, digest_of
from app.forks import Fork, first_of_interest
from app.lanes import OpenCase
from app.links import CaseLink, ForkLink
from app.position import fork_at
from app.source_consequences import Consequence
from app.strands import Story, branch_source, story_of
from capture.model import Mode


@dataclass(frozen=True, slots=True)
class Scene:
    """What is on the page: the strands, the flips, and where the reader is.

    Attributes:
        story: the strands.
        known: consequences by key of source, branches included.
        forks: the flips.
        strand, position: what the pane shows.
        pinned: whether the link names it.
        notices: what of the link could not be followed.
    """

    story: Story
    known: Mapping[str, Consequence]
    forks: tuple[Fork, ...]
    strand: int
    position: int
    pinned: bool
    notices: tuple[str, ...] = ()

    @property
    def fork(self) -> Fork | None:
        """The fork at the reader's place, also seen from the strand that left there."""
        strand = self.story.strands[self.strand]
        own = fork_at(self.forks, self.strand, self.position)
        if own is None and strand.parent is not None and self.position == strand.first_position:
            return fork_at(self.forks, strand.parent, self.position)
        return own


def open_scene(case: OpenCase, link: CaseLink | ForkLink, digest: Digest | None = None) -> Scene:
    """Return what a link shows of a case; a fork that is unknown gives the nearest position and a notice.

    Args:
        case: the case with its lanes.
        link: what the reader asked for.
        digest: what was worked out of the case before; None to work it out now.
    """
    place = _wanted(link)
    story = story_of(case, place)
    if place is not None and case.mode is Mode.FORCED and story.find(*place) is None:
        story = _deeper(case, place) or story
    digest = digest or digest_of(case)
    known = digest.known_in(story)
    forks = digest.forks_in(story, known)
    if place is None:
        return _unpinned(story, known, forks)
    strand = story.find(*place)
    if strand is not None:
        return Scene(story, known, forks, strand, place[0], True)
    nearest = min(place[0], max(len(story.strands[0].token_ids) - 1, 0))
    notice = f"No lane shown here has the prefix of this link; position {nearest:,} of the first is shown."
    return Scene(story, known, forks, 0, nearest, False, (notice,))


def _wanted(link: CaseLink | ForkLink) -> tuple[int, bytes] | None:
    if isinstance(link, CaseLink):
        return None
    even = len(link.prefix) // 2 * 2
    return link.position, bytes.fromhex(link.prefix[:even])


def _deeper(case: OpenCase, place: tuple[int, bytes]) -> Story | None:
    """Return the story whose opened fork leads to a place on a grown continuation."""
    for branch in case.branches:
        fork = branch.run.fork
        if fork is not None and branch_source(branch).prefix_id(place[0]) is not None:
            story = story_of(case, (fork.position, fork.prefix_id))
            if story.find(*place) is not None:
                return story
    return None


def _unpinned(story: Story, known: Mapping[str, Consequence], forks: tuple[Fork, ...]) -> Scene:
    fork = first_of_interest(forks)
    return Scene(story, known, forks, fork.strand if fork else 0, fork.position if fork else 0, False)
