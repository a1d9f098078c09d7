"""The panel of an open fork: every continuation in full, the difference in words, the certificates. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.drawing import Head, Sheet, TokenView, flow, heads
from app.forks import Fork, Side
from app.position import CertificateLine, certificates_at
from app.source_consequences import different_words, reference_text
from app.strands import Story
from app.text import Label, token_label
from app.words import letters_of, quoted
from capture.consequences import Pill
from capture.turns import turn_of

SHOWN_TOKENS = 72
"""Tokens of a continuation that are shown at once."""

SHOWN_LINES = 14
"""Line breaks of a continuation that are shown at once."""

MOST_TOKENS = 1024
"""Tokens of a continuation that the panel holds."""

Sheets = Sequence[Sheet] | Mapping[int, Sheet]
"""Sheets by the index of their strand."""

NOWHERE: Mapping[int, str] = {}


@dataclass(frozen=True, slots=True)
class ContinuationView:
    """One continuation after the fork.

    Attributes:
        key: of its strand; empty where it was not grown.
        heads: the lanes that went there.
        token: the token at the fork.
        words: what it comes to: the argument that differs, else the token.
        percent: the probability of the token in the first of these lanes, as text.
        tokens: from the fork on; empty where it was not grown.
        more: the tokens behind those.
        rest: how many tokens are not in the panel.
        pills: what became of it.
        note: where it re-joins, or why there is nothing.
        certificate: of its replay; None where it is a lane's own run.
        onward: where it can be read on; empty where the panel holds all of it.
    """

    key: str
    heads: tuple[Head, ...]
    token: Label
    words: str
    percent: str
    tokens: tuple[TokenView, ...]
    more: tuple[TokenView, ...]
    rest: int
    pills: tuple[Pill, ...]
    note: str
    certificate: CertificateLine | None
    onward: str = ""


@dataclass(frozen=True, slots=True)
class ForkPanel:
    """An open fork.

    Attributes:
        position: output position.
        flip_class: tie, near-tie or decided.
        margin_nats: the smaller margin.
        continuations: the one that stayed first.
        headline: the difference in words.
        close: address of the page without the panel.
        earlier, later: addresses of the neighbouring flips; empty where there is none.
    """

    position: int
    flip_class: str
    margin_nats: float
    continuations: tuple[ContinuationView, ...]
    headline: str
    close: str
    earlier: str
    later: str


def fork_panel(
    story: Story,
    sheets: Sheets,
    fork: Fork,
    percents: Mapping[int, str],
    addresses: tuple[str, str, str],
    onward: Mapping[int, str] = NOWHERE,
) -> ForkPanel:
    """Return the panel of a fork.

    Args:
        story: the page's strands, those of the fork open.
        sheets: of each strand of the fork.
        fork: which one.
        percents: probability of each side's token in its own first lane, by token id.
        addresses: of the page without the panel, of the earlier flip and of the later flip.
        onward: where a strand can be read on, by its index.
    """
    close, earlier, later = addresses
    sides = (fork.stayed, *fork.left)
    certificates = {(line.letter, line.token_id): line for line in certificates_at(story.case, fork.prefix_id)}
    words = side_words(story, fork)
    continuations = tuple(
        _continuation(story, sheets, fork, side, text, percents.get(side.token_id, ""), certificates, onward)
        for side, text in zip(sides, words, strict=True)
    )
    headline = headline_of(fork, words)
    return ForkPanel(
        position=fork.position,
        flip_class=fork.flip_class.value,
        margin_nats=fork.margin_nats,
        continuations=continuations,
        headline=headline,
        close=close,
        earlier=earlier,
        later=later,
    )


def headline_of(fork: Fork, words: Sequence[str]) -> str:
    """Return the difference in words: `A: show arp · C: show run`."""
    sides = (fork.stayed, *fork.left)
    named = [(letters_of(side.letters), text) for side, text in zip(sides, words, strict=True) if side.letters]
    return " \u00b7 ".join(f"{letters}: {text}" for letters, text in named)


def side_words(story: Story, fork: Fork) -> list[str]:
    """Return each side in words: where calls differ the value that does, else the token."""
    tokens = [quoted(token_label(side.token_id, story.case.tokens)) for side in (fork.stayed, *fork.left)]
    if fork.stayed.consequence is None:
        return tokens
    first = tokens[0]
    words = [first]
    turn = turn_of(story.case.prompt.turns, fork.position)
    stayed = fork.stayed.consequence.text if turn is None else reference_text(story.case, turn)
    for side, token in zip(fork.left, tokens[1:], strict=True):
        consequence = side.consequence
        found = consequence and different_words(stayed, consequence.text)
        words.append(found[1] if found else token)
        if found and words[0] == first:
            words[0] = found[0]
    return words


def _continuation(
    story: Story,
    sheets: Sheets,
    fork: Fork,
    side: Side,
    words: str,
    percent: str,
    certificates: Mapping[tuple[str, int], CertificateLine],
    onward: Mapping[int, str],
) -> ContinuationView:
    token = token_label(side.token_id, story.case.tokens)
    keys = [(letter, side.token_id) for letter in side.letters]
    certificate = next((certificates[key] for key in keys if key in certificates), None)
    if side.strand is None:
        note = "this continuation was not grown"
        return ContinuationView("", heads(side.letters), token, words, percent, (), (), 0, (), note, certificate)
    sheet = sheets[side.strand]
    stop = sheet.first_position + len(sheet.drawn)
    cut = min(fork.position + SHOWN_TOKENS, _after_breaks(sheet, fork.position), stop)
    last = min(fork.position + MOST_TOKENS, stop)
    return ContinuationView(
        key=sheet.key,
        heads=heads(side.letters),
        token=token,
        words=words,
        percent=percent,
        tokens=flow(sheet, fork.position, cut),
        more=flow(sheet, cut, last),
        rest=stop - last + sheet.beyond,
        pills=sheet.pills,
        note=sheet.note,
        certificate=certificate,
        onward=onward.get(side.strand, ""),
    )


def _after_breaks(sheet: Sheet, position: int) -> int:
    """Return the position after the last line break that is shown."""
    tokens = sheet.drawn[position - sheet.first_position :]
    breaking = [at for at, token in enumerate(tokens) if any(glyph.breaks for glyph in token.glyphs)]
    return position + (breaking[SHOWN_LINES - 1] + 1 if len(breaking) >= SHOWN_LINES else len(tokens))
