"""What is marked in the text: close choices, novel and re-joined stretches, where a stub is cut. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.source_consequences import output_tokens
from app.strands import Story, Strand
from capture.align import Alignment, Line, align_lines
from capture.model import Mode
from capture.range_hints import range_hints

SMALL_MARGIN_NATS = 0.5
"""Margin below which a choice was close and its token gets a dotted line."""

TOKENS_AFTER_REJOIN = 8
"""Re-joined tokens of an opened continuation that are shown before it is cut."""


@dataclass(frozen=True, slots=True)
class StrandMarks:
    """What is marked on one strand.

    Attributes:
        classes: for each token, class names.
        rejoins: the position where its text meets the reference's again and stays with it; None where it does not.
        cut: how many tokens to show of an opened continuation; None for all.
        note: a few words at its end.
    """

    classes: tuple[tuple[str, ...], ...]
    rejoins: int | None = None
    cut: int | None = None
    note: str = ""


def strand_marks(story: Story) -> tuple[StrandMarks, ...]:
    """Return the marks of every strand of a story."""
    aligned = _alignments(story)
    return tuple(_marks(story, index, aligned.get(index)) for index in range(len(story.strands)))


def _alignments(story: Story) -> dict[int, Alignment]:
    """Return every strand's alignment with the one that the reference lane goes to its end on."""
    lines = {index: _line(story, strand) for index, strand in enumerate(story.strands) if len(strand.token_ids)}
    reference = next((index for index in lines if "A" in story.strands[index].ended), None)
    if reference is None or len(lines) < 2:
        return {}
    order = list(lines)
    found = align_lines([lines[index] for index in order], order.index(reference))
    return dict(zip(order, found, strict=True))


def _line(story: Story, strand: Strand) -> Line:
    tokens = story.case.tokens
    known = [tokens.get(token_id) for token_id in output_tokens(story.case, story.sources[strand.key])]
    data = tuple(token.data if token else b"" for token in known)
    return Line(
        data,
        range_hints(story.case.lanes[0].facts.case.ranges, story.case.prompt).find(data),
        tuple(token is None or token.special for token in known),
    )


def _marks(story: Story, index: int, aligned: Alignment | None) -> StrandMarks:
    strand = story.strands[index]
    close = close_calls(story, index)
    if aligned is None:
        return StrandMarks(tuple(("close",) if here else () for here in close))
    first = strand.first_position
    tinted = index > 0 or story.case.mode is Mode.FREE  # beside one stub the whole trunk would be novel
    novel, joined = aligned.novel[first:], aligned.rejoined[first:]
    names = [
        tuple(
            name
            for name, here in (("close", close[at]), ("novel", tinted and novel[at]), ("joined", joined[at]))
            if here
        )
        for at in range(len(close))
    ]
    rejoin = aligned.rejoin
    meets = rejoin.token if rejoin is not None and rejoin.to_end else None
    cut, note = _cut(story, strand, meets, rejoin.reference_token if rejoin else 0)
    return StrandMarks(tuple(names), meets, cut, note)


def _cut(story: Story, strand: Strand, meets: int | None, reference_position: int) -> tuple[int | None, str]:
    if story.case.mode is not Mode.FORCED or strand.parent is None or meets is None:
        return None, ""
    cut = meets - strand.first_position + TOKENS_AFTER_REJOIN
    if cut >= len(strand.token_ids):
        return None, ""
    return cut, f"\u2026 re-joins the reference at {reference_position:,}"


def close_calls(story: Story, strand: int) -> tuple[bool, ...]:
    """Return for each token of a strand whether the choice was close in the first source that goes through it."""
    own = story.strands[strand]
    return close_between(story, strand, own.first_position, own.stop)


def close_between(story: Story, strand: int, first: int, stop: int) -> tuple[bool, ...]:
    """Return the same for the positions `first` to `stop` of the strand."""
    found: list[bool] = []
    for start, end, keys in story.strands[strand].spans:
        low, high = max(start, first), min(end, stop)
        if low < high:
            steps = story.sources[keys[0]].steps
            offset = int(steps.position[0]) if len(steps) else high
            margins = steps.margin_nats[max(low - offset, 0) : max(high - offset, 0)]
            absent = min(max(offset - low, 0), high - low)
            found += [False] * absent + (margins < SMALL_MARGIN_NATS).tolist()
            found += [False] * (high - low - absent - len(margins))
    return tuple(found)
