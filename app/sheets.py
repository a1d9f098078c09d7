"""Strands with their marks and flips, ready to be set as lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.drawing import Mark, Sheet
from app.forks import Fork
from app.links import CaseLink
from app.marks import StrandMarks, strand_marks
from app.scene import Scene
from app.strands import Story
from app.text import draw, token_label
from app.words import count, letters_of, quoted
from capture.consequences import Pill, with_rejoin
from capture.model import FlipClass, Mode

STUB_TOKENS = 160
"""Tokens of an opened continuation under the trunk; all of them are in the panel."""


def sheets_of(scene: Scene, base: CaseLink) -> list[Sheet]:
    """Return every strand of a scene as a sheet; flips link to themselves."""
    return [_sheet(scene, index, found, base) for index, found in enumerate(strand_marks(scene.story))]


def _sheet(scene: Scene, index: int, found: StrandMarks, base: CaseLink) -> Sheet:
    story, strand = scene.story, scene.story.strands[index]
    in_place = story.case.mode is Mode.FORCED and strand.parent is not None
    kept = strand.token_ids[: found.cut].tolist() if in_place and found.cut else strand.token_ids.tolist()
    note = found.note
    if in_place and len(kept) > STUB_TOKENS:
        kept, note = kept[:STUB_TOKENS], f"{count(len(strand.token_ids) - STUB_TOKENS, 'token')} more"
    marks = {strand.first_position + at: Mark(classes) for at, classes in enumerate(found.classes) if classes}
    _mark_forks(scene, index, base, marks)
    if scene.pinned and index == scene.strand:
        own = marks.get(scene.position, Mark())
        marks[scene.position] = Mark((*own.classes, "pinned"), own.over, own.href, own.words, own.quiet)
    return Sheet(
        key=strand.key,
        first_position=strand.first_position,
        drawn=draw(kept, story.case.tokens, strand.before),
        marks=marks,
        heads=_heads(story, index),
        parent=strand.parent,
        pills=_ends(scene, index, found),
        note=note,
        in_place=in_place,
        imposed=("A",) if in_place else (),
    )


def _heads(story: Story, index: int) -> list[tuple[int, tuple[str, ...]]]:
    """Return who is on a strand from which position on; the trunk of forced runs is the reference's own text."""
    if index == 0 and story.case.mode is Mode.FORCED:
        return [(0, ("A",))]
    return [(first, letters_on(story, keys)) for first, _, keys in story.strands[index].spans]


def _ends(scene: Scene, index: int, found: StrandMarks) -> tuple[Pill, ...]:
    """Return what stands at the end of a strand; where it is cut, its note says the re-join."""
    pills = pills_of(scene, scene.story.strands[index].ended)
    return pills if found.rejoins is None or found.note else with_rejoin(pills)


def letters_on(story: Story, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the letters of sources, each once."""
    return tuple(dict.fromkeys(story.sources[key].letter for key in keys))


def pills_of(scene: Scene, ended: Sequence[str]) -> tuple[Pill, ...]:
    """Return what became of the first of the sources that end together."""
    consequence = scene.known.get(ended[0]) if ended else None
    return consequence.pills if consequence else ()


def _mark_forks(scene: Scene, index: int, base: CaseLink, marks: dict[int, Mark]) -> None:
    """Add the flips of a strand, and its own first token where it left another."""
    strand = scene.story.strands[index]
    for fork in scene.forks:
        leaves = strand.parent == fork.strand and strand.first_position == fork.position and len(strand.token_ids) > 0
        if fork.strand == index or leaves:
            own = marks.get(fork.position, Mark())
            marks[fork.position] = fork_mark(scene, fork, index, base, own)


def fork_mark(scene: Scene, fork: Fork, index: int, base: CaseLink, own: Mark) -> Mark:
    """Return the mark of a flip on a strand that goes through it or leaves there; `own` is what marks it besides."""
    href = base.fork(fork.position, fork.prefix_id).format()
    words = _flip_words(scene, fork)
    forced = scene.story.case.mode is Mode.FORCED
    if not fork.marked and (fork.strand == index or not forced):
        return Mark((*own.classes, "quiet"), "", href, words, quiet=True)
    letter = _mark_letter(scene, fork, index)
    over = "".join(fork.letters) if forced and fork.strand == index else ""
    over += f"\u00d7{fork.count}" if fork.count > 1 and fork.strand == index else ""
    kind = "tie" if fork.flip_class is FlipClass.TIE else "flip"
    return Mark((*own.classes, kind, f"lane-{letter}"), over, href, words)


def _mark_letter(scene: Scene, fork: Fork, index: int) -> str:
    if fork.strand == index and scene.story.case.mode is Mode.FORCED:
        return fork.letters[0]
    keys = scene.story.strands[index].keys_at(fork.position)
    return scene.story.sources[keys[0]].letter


def _flip_words(scene: Scene, fork: Fork) -> str:
    tokens = scene.story.case.tokens
    sides = (fork.stayed, *fork.left)
    named = [f"{letters_of(side.letters)} {quoted(token_label(side.token_id, tokens))}" for side in sides]
    return f"flip at position {fork.position:,}, {fork.flip_class.value}: {'; '.join(named)}"
