"""The ribbon: the whole output at a glance, a band a lane, as shapes in percent of its width. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.forks import Fork
from app.lanes import Lane, OpenCase
from app.links import CaseLink
from app.strands import Story
from capture.compare import Comparison
from capture.model import FlipClass, Float64Array, Mode

MOST_BINS = 480

LEVELS = 8
"""Steps of colour; level 0 means no difference at all."""

SMALLEST, LARGEST = 1e-6, 0.3
"""Jensen-Shannon divergence in nats at the first and the last step of colour, on a log scale."""

BAND, GAP, TOP = 11, 4, 18
"""Height of a band, the gap under it, and the room for the axis, in pixels."""

MOST_NUMBERS = 10
"""Numbers on the axis."""

MOST_SHAPES = 60
"""Cells of a band, or flips, that are elements of their own; more are drawn as a few paths."""

UNITS = 10_000
"""Width of a ribbon in the units of a path."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A stretch of a band: where it starts and how wide it is, in percent, and its step of colour."""

    x: str
    width: str
    level: int


@dataclass(frozen=True, slots=True)
class Band:
    """One lane; where its cells are many, `paths` hold them by step of colour instead."""

    letter: str
    y: int
    cells: tuple[Cell, ...]
    left: Cell | None
    title: str
    paths: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Density:
    """Flips of a lane that are too many to be links, as one path."""

    letter: str
    path: str


@dataclass(frozen=True, slots=True)
class Bands:
    """What a ribbon shows whatever is open: `total` positions, where each lane's band stands, bands, dense flips."""

    total: int
    rows: tuple[tuple[str, int], ...]
    bands: tuple[Band, ...]
    density: tuple[Density, ...] = ()

    @property
    def height(self) -> int:
        """Of the ribbon, in pixels."""
        return TOP + len(self.rows) * (BAND + GAP) + 2

    @property
    def band_height(self) -> int:
        """Of a band, in pixels."""
        return BAND


@dataclass(frozen=True, slots=True)
class Tick:
    """A flip: from the band that stays to the bands that left."""

    x: str
    y: int
    y_end: int
    letter: str
    strong: bool
    href: str
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A number on the axis."""

    x: str
    text: str


@dataclass(frozen=True, slots=True)
class Ribbon:
    """All shapes of the ribbon; `height` in pixels."""

    drawn: Bands
    ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    window: Cell | None

    @property
    def bands(self) -> tuple[Band, ...]:
        """A band a lane."""
        return self.drawn.bands

    @property
    def height(self) -> int:
        """Of the whole, in pixels."""
        return self.drawn.height

    @property
    def total(self) -> int:
        """Positions."""
        return self.drawn.total


def bands_of(case: OpenCase, forks: Sequence[Fork]) -> Bands:
    """Return the bands of a case with these flips, whatever is open."""
    total = max((len(lane.steps) for lane in case.lanes), default=0) or 1
    rows = {lane.letter: TOP + index * (BAND + GAP) for index, lane in enumerate(case.lanes)}
    bands = tuple(_band(case, lane, rows[lane.letter], total) for lane in case.lanes)
    density = tuple(_density(forks, rows, total)) if len(forks) > MOST_SHAPES else ()
    return Bands(total, tuple(rows.items()), bands, density)


def ribbon_of(
    story: Story, forks: Sequence[Fork], link: CaseLink, shown: tuple[int, int] | None, bands: Bands | None = None
) -> Ribbon:
    """Return the ribbon of a story.

    Args:
        story: the page's strands.
        forks: its flips.
        link: of the case.
        shown: the first and the last position that are in view; None for none.
        bands: from `bands_of`, where they are known.
    """
    bands = bands or bands_of(story.case, forks)
    total = bands.total
    return Ribbon(
        drawn=bands,
        ticks=tuple(_ticks(forks, dict(bands.rows), total, link)),
        marks=tuple(_marks(total)),
        window=None if shown is None else _cell(max(shown[0] - 0.35, 0), shown[1] + 1.35, total, 0),
    )


def _percent(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def _cell(start: float, stop: float, total: int, level: int) -> Cell:
    return Cell(_percent(start / total * 100), _percent(max(stop - start, 0) / total * 100), level)


def _band(case: OpenCase, lane: Lane, y: int, total: int) -> Band:
    length = len(lane.steps)
    comparison = case.comparisons.get(lane.run.run_id)
    if comparison is None or lane.is_reference:
        return Band(lane.letter, y, (_cell(0, length, total, 0),), None, f"{lane.letter}: {length:,} tokens")
    shared = len(comparison.position)
    cells = tuple(_cells(comparison, total))
    left = _cell(shared, length, total, 0) if case.mode is Mode.FREE and length > shared else None
    words = f"{lane.letter}: {shared:,} of {length:,} positions after the reference's prefix"
    if len(cells) > MOST_SHAPES:
        return Band(lane.letter, y, (), left, words, tuple(_paths(cells)))
    return Band(lane.letter, y, cells, left, words)


def _paths(cells: Iterable[Cell]) -> Iterable[tuple[int, str]]:
    """Yield one path a step of colour, in units across and pixels down."""
    found: dict[int, list[str]] = {}
    for cell in cells:
        start, width = (float(text[:-1]) * UNITS / 100 for text in (cell.x, cell.width))
        found.setdefault(cell.level, []).append(f"M{start:.0f} 0h{width:.0f}v{BAND}h-{width:.0f}z")
    for level, pieces in sorted(found.items()):
        yield level, "".join(pieces)


def _density(forks: Iterable[Fork], rows: Mapping[str, int], total: int) -> Iterable[Density]:
    """Yield a path a lane with a line in its band for each bin that holds a flip of it."""
    bins: dict[str, set[int]] = {}
    for fork in forks:
        for letter in fork.letters:
            bins.setdefault(letter, set()).add(round((fork.position + 0.5) * 2 * MOST_BINS / total))
    for letter, places in sorted(bins.items()):
        lines = [f"M{place * UNITS // (2 * MOST_BINS)} {rows[letter]}v{BAND}" for place in sorted(places)]
        yield Density(letter, "".join(lines))


def levels(divergence: Float64Array) -> list[int]:
    """Return the step of colour of each divergence: 0 for none, else 1 to `LEVELS` on a log scale."""
    span = np.log(LARGEST / SMALLEST)
    scaled = 1 + (LEVELS - 1) * np.log(np.maximum(divergence, SMALLEST) / SMALLEST) / span
    found: list[int] = np.where(divergence > 0, np.clip(np.rint(scaled), 1, LEVELS), 0).astype(int).tolist()
    return found


def _cells(comparison: Comparison, total: int) -> Iterable[Cell]:
    """Yield stretches of equal colour; a bin of several positions has its largest divergence."""
    size = max(1, -(-total // MOST_BINS))
    places, first = np.unique(comparison.position // size, return_index=True)
    if not len(places):
        return
    steps = levels(np.maximum.reduceat(comparison.metrics.jensen_shannon, first))
    start, level, stop = 0, -1, 0
    for index, step in zip(places.tolist(), steps, strict=True):
        if step != level or index * size != stop:
            if level >= 0:
                yield _cell(start, stop, total, level)
            start, level = index * size, step
        stop = min((index + 1) * size, total)
    if level >= 0:
        yield _cell(start, stop, total, level)


def _ticks(forks: Sequence[Fork], rows: Mapping[str, int], total: int, link: CaseLink) -> Iterable[Tick]:
    """Yield a tick a fork; where they are too many for the width, one a bin, the marked ones first."""
    size = max(1.0, total / (MOST_BINS if len(forks) <= MOST_SHAPES else MOST_SHAPES))
    taken: set[int] = set()
    for fork in sorted(forks, key=lambda fork: not fork.marked):
        where = int(fork.position // size)
        if where in taken:
            continue
        taken.add(where)
        stayed = min((rows[letter] for letter in fork.stayed.letters), default=TOP)
        yield Tick(
            x=_percent((fork.position + 0.5) / total * 100),
            y=stayed,
            y_end=max(rows[letter] for letter in fork.letters) + BAND,
            letter=fork.letters[0],
            strong=fork.marked and fork.flip_class is not FlipClass.TIE,
            href=link.fork(fork.position, fork.prefix_id).format(),
            title=f"position {fork.position:,}: {', '.join(fork.letters)} left",
        )


def _marks(total: int) -> Iterable[Mark]:
    step = next(
        size for power in range(9) for size in (10**power, 2 * 10**power, 5 * 10**power) if total / size <= MOST_NUMBERS
    )
    for position in range(0, total, step):
        yield Mark(_percent(position / total * 100), f"{position:,}")
