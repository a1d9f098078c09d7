"""The text that a transcript shows: one path through a page's strands, from the first token to an end. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.strands import Story
from capture.model import Int32Array, Mode


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a spine on one strand: positions `first` to `stop`."""

    strand: int
    key: str
    first: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Spine:
    """One path of tokens from position 0 on.

    Attributes:
        story: whose strands it goes along.
        strand: index of the last of them.
        parts: in order, without a gap.
        token_ids: int32 [n].
    """

    story: Story
    strand: int
    parts: tuple[Part, ...]
    token_ids: Int32Array

    def __len__(self) -> int:
        """Return how many tokens it has."""
        return len(self.token_ids)

    def part_at(self, position: int) -> Part:
        """Return the part that holds a position; the last one for those behind its end."""
        return next((part for part in self.parts if position < part.stop), self.parts[-1])

    def letters(self, position: int) -> tuple[str, ...]:
        """Return the lanes that reach a position by this text, also those that leave it there."""
        part = self.part_at(position)
        strand = self.story.strands[part.strand]
        if position == strand.first_position and strand.parent is not None:
            strand = self.story.strands[strand.parent]
        return _letters(self.story, strand.sharing(position))

    def staying(self, position: int) -> tuple[str, ...]:
        """Return the lanes that take the token at a position."""
        part = self.part_at(position)
        return _letters(self.story, self.story.strands[part.strand].keys_at(position))


def spine_of(story: Story, strand: int) -> Spine:
    """Return the path that ends with a strand; of forced runs always the reference's own output."""
    path = [0 if story.case.mode is Mode.FORCED else strand]
    while (parent := story.strands[path[0]].parent) is not None:
        path.insert(0, parent)
    stops = [story.strands[index].first_position for index in path[1:]] + [story.strands[path[-1]].stop]
    parts: list[Part] = []
    for index, stop in zip(path, stops, strict=True):
        own = story.strands[index]
        parts.append(Part(index, own.key, parts[-1].stop if parts else own.first_position, stop))
    tokens = [_tokens(story, part) for part in parts]
    return Spine(story, path[-1], tuple(parts), tokens[0] if len(tokens) == 1 else np.concatenate(tokens))


def _tokens(story: Story, part: Part) -> Int32Array:
    own = story.strands[part.strand]
    return own.token_ids[part.first - own.first_position : part.stop - own.first_position]


def _letters(story: Story, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(story.sources[key].letter for key in keys))
