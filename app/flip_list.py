"""The list of flips: a page of them at a time, around the open one. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.drawing import Head, heads
from app.filter_form import FilterForm, filter_form
from app.flip_filter import matching
from app.forks import Fork, Side
from app.links import CaseLink, ForkLink
from app.scene import Scene
from app.text import Label, token_label
from app.words import nats
from capture.consequences import Pill, Tone

PAGE = 100
"""Flips of a page of the list."""

LABEL_CELLS = 11


@dataclass(frozen=True, slots=True)
class SideView:
    """A token and who chose it."""

    label: Label
    heads: tuple[Head, ...]


@dataclass(frozen=True, slots=True)
class FlipRow:
    """A row of the list of flips."""

    position: int
    href: str
    stayed: SideView
    left: tuple[SideView, ...]
    flip_class: str
    nats: str
    pill: Pill | None
    current: bool
    marked: bool


@dataclass(frozen=True, slots=True)
class FlipList:
    """A page of the list.

    Attributes:
        rows: of this page.
        first: how many flips come before it.
        total: flips that the filter leaves.
        every: flips in all.
        quiet: how many of `total` are not marked in the text.
        earlier, later: addresses of the pages before and behind; empty where there is none.
        form: to choose what is listed, and in which order.
    """

    rows: tuple[FlipRow, ...]
    first: int
    total: int
    every: int
    quiet: int
    earlier: str
    later: str
    form: FilterForm


def flip_list(scene: Scene, link: CaseLink | ForkLink, base: CaseLink) -> FlipList:
    """Return the page of the list that a link asks for, else that of the open fork, else the first.

    Args:
        scene: what is on the page.
        link: what the reader asked for; turning a page of the list changes nothing else of it.
        base: of the case, for the address of each flip.
    """
    left = matching(scene.forks, scene.story.case, link.options.filter)
    total, fork = len(left), scene.fork
    asked = link.options.flips
    wanted = asked if asked is not None else left.index(fork) if fork in left else 0
    first = min(wanted, max(total - 1, 0)) // PAGE * PAGE
    stop = min(first + PAGE, total)
    return FlipList(
        rows=tuple(_row(scene, one, base, one is fork) for one in left[first:stop]),
        first=first,
        total=total,
        every=len(scene.forks),
        quiet=sum(not one.marked for one in left),
        earlier=link.where(flips=max(first - PAGE, 0)).format() if first else "",
        later=link.where(flips=stop).format() if stop < total else "",
        form=filter_form(scene.story.case, link),
    )


def _row(scene: Scene, fork: Fork, base: CaseLink, current: bool) -> FlipRow:
    pills = [pill for side in fork.left if side.consequence for pill in side.consequence.pills]
    telling = next((pill for pill in pills if pill.tone is not Tone.NEUTRAL), None)
    return FlipRow(
        position=fork.position,
        href=base.fork(fork.position, fork.prefix_id).format(),
        stayed=_side(scene, fork.stayed),
        left=tuple(_side(scene, side) for side in fork.left),
        flip_class=fork.flip_class.value,
        nats=nats(fork.margin_nats),
        pill=telling,
        current=current,
        marked=fork.marked,
    )


def _side(scene: Scene, side: Side) -> SideView:
    return SideView(token_label(side.token_id, scene.story.case.tokens, LABEL_CELLS), heads(side.letters))
