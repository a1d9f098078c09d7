"""What a capture that is going has said so far, drawn token by token for pages.

Nothing of it is sealed: a page of a live capture has no numbers and no permalink, and ends when the bundle is there.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.catalog import CaseEntry, free_run
from app.drawing import TokenView, runs
from app.library import Library
from app.links import CaseLink, live_path
from app.source_consequences import output_bytes
from app.text import clean, draw
from app.words import count
from capture.errors import NotFoundError, SpoolError
from capture.live import (
    MOST_POSITIONS,
    LiveCapture,
    LiveReader,
    LiveStream,
    Mark,
    live_captures,
    read_vocabulary,
    vocabulary_stamp,
)
from capture.model import Token


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """A capture in a list.

    Attributes:
        study, case, runtime, job: what is run.
        done, most: positions of the job so far, and at most.
        bundles, planned: bundles of the study that are sealed, and that it will have.
        running: False where it was stopped.
        href: where it can be watched.
    """

    study: str
    case: str
    runtime: str
    job: str
    done: int
    most: int
    bundles: int
    planned: int
    running: bool
    href: str


@dataclass(frozen=True, slots=True)
class LiveLine:
    """A stream that grows.

    Attributes:
        name: of the stream.
        words: how far it is.
        count: positions so far.
        flips: positions where it chose otherwise than the reference.
        ended: whether it ended by itself.
        first: position of the first token that is shown.
        tokens: those that are shown, flips marked.
        text: the same as text.
    """

    name: str
    words: str
    count: int
    flips: tuple[int, ...]
    ended: bool
    first: int
    tokens: tuple[TokenView, ...]
    text: str


@dataclass(frozen=True, slots=True)
class LivePage:
    """A capture that is watched.

    Attributes:
        entry: what it is doing.
        lines: its streams, in the order in which they were begun.
        reference: the reference's text, empty where it is not sealed.
        sealed: the address of its case where something of it is sealed already.
    """

    entry: LiveEntry
    lines: tuple[LiveLine, ...]
    reference: tuple[TokenView, ...]
    sealed: str


class Watcher:
    """Reads the captures of one library; keeps the vocabulary of the runtime that is at work."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._reader = LiveReader(library.folder)
        self._vocabulary: tuple[tuple[str, str, int], Mapping[int, Token]] = (("", "", 0), {})
        self._lock = threading.Lock()

    def entries(self) -> tuple[LiveEntry, ...]:
        """Return the captures that work or were stopped, by study."""
        return tuple(_entry(one, self._reader.done(one.mark)) for one in live_captures(self._library.folder))

    def page(self, study: str) -> LivePage:
        """Return a capture that is watched.

        Raises:
            NotFoundError: nothing of that study is being captured.
        """
        found = next((one for one in live_captures(self._library.folder) if one.mark.study == study), None)
        if found is None:
            raise NotFoundError("nothing of this study is being captured now; what was captured is in the library")
        with self._lock:
            streams = self._streams(found.mark)
            tokens = self._tokens(found.mark)
        case = next((one for one in self._library.cases() if _holds(one, found.mark)), None)
        reference = () if case is None else self._reference(case, study)
        lines = tuple(_line(stream, tokens, reference) for stream in streams)
        sealed = "" if case is None else CaseLink(case.key).format()
        first = lines[-1].first if lines else 0
        beside = _text(reference[first : first + MOST_POSITIONS], tokens, first)
        return LivePage(_entry(found, len(streams[-1]) if streams else 0), lines, beside, sealed)

    def _streams(self, mark: Mark) -> tuple[LiveStream, ...]:
        try:
            return self._reader.streams(mark)
        except SpoolError:  # between two jobs its folder is emptied or sealed
            return ()

    def _tokens(self, mark: Mark) -> Mapping[int, Token]:
        spool = self._library.folder / ".spool" / mark.study
        key = (mark.study, mark.runtime, vocabulary_stamp(spool, mark.runtime))
        if self._vocabulary[0] != key:
            self._vocabulary = (key, read_vocabulary(spool, mark.runtime))
        return self._vocabulary[1]

    def _reference(self, case: CaseEntry, study: str) -> tuple[int, ...]:
        """Return the tokens of the reference's free run, as far as it is sealed."""
        for bundle in case.bundles:
            run = free_run(bundle)
            if bundle.facts.study == study and bundle.facts.is_reference and run is not None:
                opened = self._library.open_case(case.key, lanes=(run.run_id,))
                return tuple(opened.lanes[0].steps.token_id.tolist())
        return ()


def _holds(case: CaseEntry, mark: Mark) -> bool:
    return case.case_id == mark.case_id and any(bundle.facts.study == mark.study for bundle in case.bundles)


def _entry(capture: LiveCapture, done: int) -> LiveEntry:
    mark = capture.mark
    return LiveEntry(
        study=mark.study,
        case=mark.case_id,
        runtime=mark.runtime,
        job=clean(mark.job),
        done=min(done, mark.most),
        most=mark.most,
        bundles=capture.bundles,
        planned=mark.planned,
        running=capture.running,
        href=live_path(mark.study),
    )


def _line(stream: LiveStream, tokens: Mapping[int, Token], reference: Sequence[int]) -> LiveLine:
    flips = _flips(stream, reference)
    first = max(len(stream) - MOST_POSITIONS, 0)
    return LiveLine(
        name=clean(stream.name),
        words=f"{count(len(stream), 'position')}{', ended' if stream.ended else ''}",
        count=len(stream),
        flips=tuple(sorted(flips)),
        ended=stream.ended,
        first=int(stream.position[first]),
        tokens=_drawn(stream, tokens, flips),
        text=output_bytes(stream.token_id[first:].tolist(), tokens).decode("utf-8", "replace"),
    )


def _flips(stream: LiveStream, reference: Sequence[int]) -> set[int]:
    """Return where a forced stream chose otherwise, or where a free one left the reference's text for good."""
    if stream.forced.any():
        looked_at = stream.forced & (stream.choice >= 0)
        return set(stream.position[looked_at & (stream.choice != stream.token_id)].tolist())
    if not stream.name.startswith("free"):  # a branch left it by intent
        return set()
    taken = zip(stream.position.tolist(), stream.token_id.tolist(), strict=True)
    left = (position for position, token in taken if position < len(reference) and reference[position] != token)
    return set(list(left)[:1])


def _drawn(stream: LiveStream, tokens: Mapping[int, Token], flips: set[int]) -> tuple[TokenView, ...]:
    first = max(len(stream) - MOST_POSITIONS, 0)
    views = _text(stream.token_id[first:].tolist(), tokens, int(stream.position[first]))
    return tuple(
        replace(view, marks=f"{view.marks} flip".strip()) if view.position in flips else view for view in views
    )


def _text(token_ids: Sequence[int], tokens: Mapping[int, Token], first: int) -> tuple[TokenView, ...]:
    return tuple(
        TokenView(
            position,
            " " * drawn.lead,
            runs(drawn.glyphs[drawn.lead :]),
            "special" if drawn.special else "",
            breaks=any(glyph.breaks for glyph in drawn.glyphs),
        )
        for position, drawn in enumerate(draw(token_ids, tokens), start=first)
    )
