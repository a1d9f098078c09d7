"""What the library page shows: matrices of runtimes by cases, facets, and a table of what to use. Pure values."""

from __future__ import annotations

from dataclasses import dataclass

from app.catalog import BrokenFile


@dataclass(frozen=True, slots=True)
class Choice:
    """A control, which is a link; `current` where it is chosen, and its link then undoes it or leads nowhere new."""

    text: str
    href: str
    current: bool = False
    title: str = ""


@dataclass(frozen=True, slots=True)
class Facet:
    """What rows can be narrowed to, by one trait."""

    name: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Whisker:
    """A value with its interval on the matrix's own scale, in percent of the strip's width, as text."""

    low: str
    high: str
    at: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One runtime on one case, one kind of range, or all of them.

    Attributes:
        kind: `reference`, `compared`, `outcome` (a verdict), `alone` (recorded, not compared) or `absent`.
        href: opens the streams at the first decided flip, else the case; empty where there is nothing to open.
        text: what stands in the cell.
        detail: what stands beside it, smaller.
        mark: the protocol, where it is not the matrix's own.
        tone: of a verdict, one of `capture.consequences.Tone`.
        level: 0 to 5, how strong the tint is.
        whisker: the value and its interval, drawn; None where no interval is known.
        title: all of it as a sentence.
        flips, positions, decided: positions after the same prefix, and flips among them; None where not compared.
        disagreement, disagreement_low, disagreement_high: flips per position 0..1, and its 95 % interval.
        kl, kl_low, kl_high: mean KL(reference‖candidate) in nats, and its 95 % interval.
        kl_positions: positions that `kl` is over: those known equally well.
        lower_bound: whether `kl` is one.
        other_kl: mean KL over the positions that are known the other way, a lower bound where `kl` is none; None where
            there are none.
        other_kl_positions: how many these are.
        protocol: by which it was measured, a key of `library_links.PROTOCOLS`.
        verdict: of the runtime's own free run, in words.
        note: what else there is to say, such as that nothing differs at all.
    """

    kind: str
    href: str = ""
    text: str = ""
    detail: str = ""
    mark: str = ""
    tone: str = ""
    level: int = 0
    whisker: Whisker | None = None
    title: str = ""
    flips: int | None = None
    positions: int | None = None
    decided: int = 0
    disagreement: float | None = None
    disagreement_low: float | None = None
    disagreement_high: float | None = None
    kl: float | None = None
    kl_low: float | None = None
    kl_high: float | None = None
    kl_positions: int = 0
    lower_bound: bool = False
    other_kl: float | None = None
    other_kl_positions: int = 0
    protocol: str = ""
    verdict: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A case, or a kind of range; `key` and `href` are empty for the latter."""

    name: str
    key: str
    href: str
    positions: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """One runtime of a study, or a floor.

    Attributes:
        study: that it belongs to.
        name: of the runtime.
        label: what differs between the study's runtimes.
        reference: name of the runtime that it is compared with; empty for a reference.
        is_reference: whether others are compared with it.
        href: opens its first case.
        total: all columns together.
        cells: one for each column.
    """

    study: str
    name: str
    label: str
    reference: str
    is_reference: bool
    href: str
    total: Cell
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that differ from their reference in the same traits."""

    name: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class StudyHead:
    """A study as the head of a matrix names it; `charts` is the address of its charts."""

    name: str
    title: str
    created: str
    charts: str
    cases: int
    runtimes: int


@dataclass(frozen=True, slots=True)
class Advice:
    """A row of the table of what to use; text is empty where it was not captured.

    Attributes:
        runtime: its label.
        name: of the runtime.
        disagreement, kl: with their intervals where they are claimed.
        kl_positions: how many positions `kl` is of.
        calls_as_reference, calls_as_labelled: how many of its calls were wanted, such as `2 of 3`.
        calls_title: verdicts on them.
        disk, memory, speed: as captured.
        is_reference: whether it is the yardstick.
    """

    runtime: str
    name: str
    disagreement: str
    disagreement_range: str
    kl: str
    kl_range: str
    kl_positions: str
    calls_as_reference: str
    calls_as_labelled: str
    calls_title: str
    disk: str
    memory: str
    speed: str
    is_reference: bool


@dataclass(frozen=True, slots=True)
class AdviceTable:
    """Which runtime of a study to use.

    Attributes:
        study: its name.
        columns: what they are called, but for those that tell nothing; `KL n` where some KL is not of all positions.
        rows: the reference first, then the nearest.
        note: what must be said of it.
    """

    study: str
    columns: tuple[str, ...]
    rows: tuple[Advice, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """Studies that share cases, as one matrix.

    Attributes:
        studies: the newest first.
        columns: cases, or kinds of range.
        groups: the references first, the floors last.
        protocol: what its numbers are measured by, a key of `library_links.PROTOCOLS`.
        protocols: the ones that there are, as links.
        scale: the two ends of the strips, in words.
        advice: a table a study.
    """

    studies: tuple[StudyHead, ...]
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    protocol: str
    protocols: tuple[Choice, ...]
    scale: tuple[str, str]
    advice: tuple[AdviceTable, ...]

    @property
    def name(self) -> str:
        """The names of its studies, for those who cannot see them."""
        return ", ".join(study.name for study in self.studies)


@dataclass(frozen=True, slots=True)
class LibraryPage:
    """The library page.

    Attributes:
        folder: as the user named it.
        exists: whether the folder is there.
        studies: the newest first.
        matrices: those of the newest studies first.
        facets: what rows can be narrowed to.
        cells, columns: what cells and columns of the matrices are, as links.
        shown_cells, shown_columns: what is chosen.
        broken: files that cannot be used.
        bundles, cases, runs: how many there are.
        href: its own address.
        pending: summaries that are still being worked out.
        clear: the address without facets; empty where none is set.
        commands: what fills an empty library.
        notices: what of the link could not be followed.
    """

    folder: str
    exists: bool
    studies: tuple[StudyHead, ...]
    matrices: tuple[Matrix, ...]
    facets: tuple[Facet, ...]
    cells: tuple[Choice, ...]
    columns: tuple[Choice, ...]
    shown_cells: str
    shown_columns: str
    broken: tuple[BrokenFile, ...]
    bundles: int
    cases: int
    runs: int
    href: str
    pending: int
    clear: str
    commands: tuple[str, ...]
    notices: tuple[str, ...] = ()
