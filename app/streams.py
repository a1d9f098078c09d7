"""Makes the Streams page of a case: strands, marks, panes and links put together. Pure; imports no web library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from app.differences import DifferenceTable, difference_tables
from app.digest import Digest, digest_of
from app.drawing import StreamsView, set_sheets
from app.flip_filter import matching
from app.flip_list import flip_list
from app.fork_panel import NOWHERE, ForkPanel, Sheets, fork_panel, headline_of
from app.forks import Fork, Side
from app.hover import tables
from app.labels import without_effect
from app.lanes import Lane, OpenCase
from app.links import CaseLink, ForkLink
from app.position import PositionPane, position_pane
from app.ribbon import ribbon_of
from app.scene import Scene, open_scene
from app.sheets import letters_on, pills_of, sheets_of
from app.source_consequences import output_bytes
from app.strands import Source
from app.streams_json import streams_json
from app.streams_values import CHUNK, Chip, Choice, StrandFacts, StreamsPage
from app.tables import percent, probabilities
from app.text import clean, token_label
from app.transcript_values import TranscriptView
from app.words import SHAPES, count, letters_of, quoted
from capture.model import Mode

LONGEST_QUESTION = 240
"""Characters of the user's last message that are shown."""

LONGEST_PROMPT = 50_000
"""Characters of the rendered prompt that the page holds."""


def streams_page(case: OpenCase, link: CaseLink | ForkLink, columns: int, digest: Digest | None = None) -> StreamsPage:
    """Return the Streams page of a case.

    Args:
        case: the case with its lanes.
        link: what the reader asked for; of a fork, that fork is open.
        columns: cells of a line.
        digest: what was worked out of the case before; None to work it out now.
    """
    digest = (digest or digest_of(case)).marking(case, link.options.filter)
    scene = _at(open_scene(case, link, digest), link)
    base = base_of(link)
    sheets = sheets_of(scene, base)
    fork = scene.fork if scene.pinned else None
    panel = None if fork is None else panel_of(scene, sheets, base, fork)
    text = Text(
        streams=set_sheets(sheets, columns),
        strands=tuple(_facts(scene, index) for index in range(len(scene.story.strands))),
        columns=columns,
        shown=(scene.position, scene.position),
    )
    return framed(scene, link, panel, text, digest)


def _at(scene: Scene, link: CaseLink | ForkLink) -> Scene:
    """Return the scene with its place at the position of the first line that a link asks for and that exists."""
    at, last = link.options.at, len(scene.story.strands[0].token_ids) - 1
    if scene.pinned or at is None or last < 0:
        return scene
    told = () if at <= last else (f"The output ends at position {last:,}, which is shown.",)
    return replace(scene, strand=0, position=min(at, last), notices=(*scene.notices, *told))


@dataclass(frozen=True, slots=True)
class Text:
    """What a page shows in its middle, as streams or as a transcript.

    Attributes:
        streams: the lines; none on the page of a transcript.
        strands: for the JSON twin; likewise.
        columns: cells of a line.
        shown: the first and the last position in view.
        transcript: the chunks; None on the page of streams.
    """

    shown: tuple[int, int]
    streams: StreamsView = StreamsView((), (), False)
    strands: tuple[StrandFacts, ...] = ()
    columns: int = 0
    transcript: TranscriptView | None = None


def base_of(link: CaseLink | ForkLink) -> CaseLink:
    """Return the link to the case with no fork open, from which the others on the page are made."""
    return (link.up() if isinstance(link, ForkLink) else link).where(at=None, flips=None)


def framed(
    scene: Scene, link: CaseLink | ForkLink, panel: ForkPanel | None, text: Text, digest: Digest | None
) -> StreamsPage:
    """Return the page around a text: header, ribbon, list of flips, position."""
    case, base = scene.story.case, base_of(link)
    here = _here(scene, link)
    title, description = _words(scene, panel)
    return StreamsPage(
        title=title,
        description=description,
        study=case.study,
        case=case.lanes[0].facts.case.case_id,
        mode=case.mode.value,
        scoring_path=case.scoring_path.value,
        question=question_of(case),
        prompt=_prompt(case.prompt.text),
        modes=_modes(case, here if scene.strand == 0 and base.options.reference is None else base),
        views=_views(link, "transcript" if text.transcript else "streams"),
        chips=_chips(case, base, here),
        hidden=tuple(_hidden(case, here)),
        ribbon=ribbon_of(scene.story, scene.forks, base, text.shown, digest.bands if digest else None),
        list=flip_list(scene, link, base),
        streams=text.streams,
        transcript=text.transcript,
        pane=_pane(scene, _shared(scene, base, True)),
        panel=panel,
        columns=text.columns,
        address=link.format(),
        tables=base.tables(),
        chunk=CHUNK,
        permalink=_shared(scene, base, scene.pinned),
        json=link.format(".json"),
        notices=(*case.notices, *scene.notices),
        strands=text.strands,
    )


@lru_cache(maxsize=16)
def _prompt(text: str) -> str:
    return clean(text[:LONGEST_PROMPT])


def _here(scene: Scene, link: CaseLink | ForkLink) -> CaseLink | ForkLink:
    """Return the link to where the reader is, from which those are made that change the lanes and nothing else."""
    base, prefix_id = base_of(link), scene.story.prefix_id(scene.strand, scene.position) if scene.pinned else None
    return base.where(at=link.options.at) if prefix_id is None else base.fork(scene.position, prefix_id)


def panel_of(
    scene: Scene,
    sheets: Sheets,
    base: CaseLink,
    fork: Fork,
    onward: Mapping[int, str] = NOWHERE,
    place: int | None = None,
) -> ForkPanel:
    """Return the panel of an open fork.

    Args:
        scene: what is on the page.
        sheets: of the strands of the fork.
        base: the link to the case.
        fork: which one.
        onward: where a strand can be read on, by its index.
        place: the position at which a transcript stays when the panel is closed.
    """
    left = matching(scene.forks, scene.story.case, replace(base.options.filter, sort=""))
    here = (fork.position, fork.strand)
    earlier = next((one for one in reversed(left) if (one.position, one.strand) < here), None)
    later = next((one for one in left if (one.position, one.strand) > here), None)
    addresses = (
        base.where(at=place).format(),
        _address(base, earlier),
        _address(base, later),
    )
    return fork_panel(scene.story, sheets, fork, _percents(scene, fork), addresses, onward)


def _address(base: CaseLink, fork: Fork | None) -> str:
    return "" if fork is None else base.fork(fork.position, fork.prefix_id).format()


def _percents(scene: Scene, fork: Fork) -> dict[int, str]:
    """Return the probability of each side's token in its own first lane, as text."""
    found: dict[int, str] = {}
    for side in (fork.stayed, *fork.left):
        source = scene.story.sources.get(side.letters[0]) if side.letters else None
        text = _percent(source, fork.position, side.token_id) if source else ""
        if text:
            found[side.token_id] = text
    return found


def _percent(source: Source, position: int, token_id: int) -> str:
    if source.row(position) is None:
        return ""
    ids, values = probabilities(source, position)
    return f"{percent(float(values[ids.index(token_id)]))} %" if token_id in ids else ""


def _pane(scene: Scene, shared: str) -> PositionPane | None:
    if not len(scene.story.strands[scene.strand].token_ids):
        return None
    return position_pane(scene.story, scene.strand, scene.position, shared, scene.pinned)


def _shared(scene: Scene, base: CaseLink, fork: bool) -> str:
    """Return the address that names every lane, so that it opens the same view anywhere; `fork` names the position."""
    case = scene.story.case
    lanes = tuple(lane.run.run_id for lane in case.lanes)
    full = base.where(lanes=lanes, reference=None, mode=case.mode, columns=None)
    prefix_id = scene.story.prefix_id(scene.strand, scene.position)
    return full.fork(scene.position, prefix_id).format() if fork and prefix_id else full.format()


def _words(scene: Scene, panel: ForkPanel | None) -> tuple[str, str]:
    """Return the title and the description."""
    case = scene.story.case
    name = f"{case.study} / {case.lanes[0].facts.case.case_id}"
    lanes = ", ".join(f"{lane.letter} {lane.label or lane.facts.runtime.name}" for lane in case.lanes)
    fork = scene.fork
    if panel is None or fork is None:
        forks = count(len(scene.forks), "flip" if case.mode is Mode.FORCED else "fork")
        return f"{name} \u00b7 flipscope", f"{forks} between {lanes}; {case.mode.value} runs of one prompt."
    tokens = headline_of(fork, [quoted(token_label(side.token_id, case.tokens)) for side in _all(fork)])
    odds = _percents(scene, fork)
    sides = [f"{letters_of(side.letters)} {odds.get(side.token_id, '')}".strip() for side in _all(fork)]
    description = (
        f"Position {fork.position:,}, {fork.flip_class.value}: {tokens} ({' / '.join(sides)}). Lanes: {lanes}."
    )
    return f"{panel.headline} \u00b7 position {fork.position:,} of {name} \u00b7 flipscope", description


def _all(fork: Fork) -> tuple[Side, ...]:
    return (fork.stayed, *fork.left)


def _modes(case: OpenCase, here: CaseLink | ForkLink) -> tuple[Choice, ...]:
    titles = {Mode.FREE: "each runtime by itself", Mode.FORCED: "each runtime along the reference's tokens"}
    if case.lanes[0].run.follows_text:
        titles = {Mode.FORCED: "each runtime along the same text"}
    return tuple(
        Choice(
            mode.value, here.where(mode=mode, lanes=(), reference=None, follow=None).format(), case.mode is mode, title
        )
        for mode, title in titles.items()
    )


def _views(link: CaseLink | ForkLink, current: str) -> tuple[Choice, ...]:
    titles = {"streams": "every line side by side", "transcript": "one text down the page, for long outputs"}
    return tuple(
        Choice(name, link.where(view=name, flips=None).format(), name == current, title)
        for name, title in titles.items()
    )


def _chips(case: OpenCase, base: CaseLink, here: CaseLink | ForkLink) -> tuple[Chip, ...]:
    lanes = zip(case.lanes, difference_tables(case.lanes), strict=True)
    return tuple(_chip(case, lane, base, here, differing) for lane, differing in lanes)


def _chip(case: OpenCase, lane: Lane, base: CaseLink, here: CaseLink | ForkLink, differing: DifferenceTable) -> Chip:
    others = [other.run.run_id for other in case.lanes if other is not lane]
    prefer = not lane.is_reference and case.mode is Mode.FREE
    hide = len(others) > 1 and not lane.is_reference
    first = here.where(lanes=(lane.run.run_id, *others), reference=lane.run.run_id)
    return Chip(
        letter=lane.letter,
        shape=SHAPES[lane.letter],
        label=lane.label or lane.facts.runtime.name,
        title=f"{lane.facts.runtime.name}: {lane.facts.runtime.engine}, {lane.facts.runtime.model}",
        is_reference=lane.is_reference,
        hide=here.where(lanes=tuple(others)).format() if hide else "",
        prefer=first.format() if prefer else "",
        follow=_follow(case, lane, base),
        warning=_warning(case, lane),
        differences=differing,
    )


def _follow(case: OpenCase, lane: Lane, base: CaseLink) -> str:
    if case.mode is Mode.FORCED:
        return ""  # every lane has the reference's text
    return base.where(follow=None if lane.is_reference else lane.run.run_id).format()


def _warning(case: OpenCase, lane: Lane) -> str:
    comparison = case.comparisons.get(lane.run.run_id)
    if comparison is not None and comparison.identical and not comparison.flips:
        effect = without_effect(case.lanes[0].facts.runtime, lane.facts.runtime)
        return clean(f"bit-identical to the reference throughout: {effect}")
    if lane.facts.template_differs:
        return "its own chat template would give another prompt"
    return "" if lane.run.complete else "this run was cut short"


def _hidden(case: OpenCase, here: CaseLink | ForkLink) -> list[Choice]:
    """Return the runs that could be shown as well; where the page is full, each takes the last lane's place."""
    full = len(case.lanes) >= len(SHAPES)
    stay = case.lanes[:-1] if full else case.lanes
    shown = tuple(lane.run.run_id for lane in stay)
    place = f" in place of {case.lanes[-1].letter}" if full else ""
    return [
        Choice(
            (facts.runtime.label or facts.runtime.name) + place, here.where(lanes=(*shown, run.run_id)).format(), False
        )
        for run, facts in case.available
    ]


def question_of(case: OpenCase) -> str:
    """Return the last message of the user, on one line; empty where there is none in plain text."""
    messages = [one.get("content") for one in case.lanes[0].facts.case.messages if one.get("role") == "user"]
    text = messages[-1] if messages and isinstance(messages[-1], str) else ""
    line = " ".join(text.split())
    return clean(line if len(line) <= LONGEST_QUESTION else line[: LONGEST_QUESTION - 1] + "\u2026")


def _facts(scene: Scene, index: int) -> StrandFacts:
    strand = scene.story.strands[index]
    ids = tuple(strand.token_ids.tolist())
    found = scene.known.get(strand.ended[0]) if strand.ended else None
    return StrandFacts(
        key=strand.key,
        letters=letters_on(scene.story, strand.keys_at(strand.first_position)),
        ended=letters_on(scene.story, strand.ended),
        parent=strand.parent,
        first_position=strand.first_position,
        token_ids=ids,
        text=output_bytes(ids, scene.story.case.tokens).decode("utf-8", "replace"),
        consequence=tuple(pill.text for pill in pills_of(scene, strand.ended)),
        wrong_position=found.wrong_position if found else None,
    )


__all__ = ["streams_json", "streams_page", "tables"]
