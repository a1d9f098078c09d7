"""The library page: each study as a table of cases by runtimes, with what differs from its reference. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.catalog import BrokenFile, BundleEntry, CaseEntry, Catalog, ComparedPair, forced_run, free_run
from app.labels import lane_labels
from app.lanes import MOST_LANES
from app.links import CaseLink, ViewOptions
from capture.model import FlipClass, Mode, Run

LEVELS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.3)
"""Top-1 disagreement from which on a cell is tinted one step darker; 0 is the first step."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One runtime on one case, against the study's reference.

    Attributes:
        kind: `reference`, `compared`, `alone` (recorded, not compared) or `absent`.
        href: opens the streams at the first decided flip, else the case; empty where absent.
        flips: positions where the winner differs, or None.
        positions: positions with the same prefix, or None.
        decided: decided flips among them.
        percent: top-1 disagreement in percent, as text.
        kl: mean KL(reference‖candidate) in nats, as text; `≥` marks a lower bound.
        level: 0 to 5, how strong the tint is.
        mode: of the candidate's run.
        note: what else there is to say, such as that nothing differs at all.
    """

    kind: str
    href: str = ""
    flips: int | None = None
    positions: int | None = None
    decided: int = 0
    percent: str = ""
    kl: str = ""
    level: int = 0
    mode: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One runtime of a study."""

    name: str
    label: str
    is_reference: bool
    engine: str


@dataclass(frozen=True, slots=True)
class Row:
    """One case of a study; a cell for each column."""

    case: str
    key: str
    href: str
    positions: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class StudyTable:
    """One study; `totals` are over all of its cases, a cell for each column."""

    name: str
    title: str
    created: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    totals: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class LibraryPage:
    """The library page.

    Attributes:
        folder: as the user named it.
        exists: whether the folder is there.
        studies: the newest first.
        broken: files that cannot be used.
        bundles, cases, runs: how many there are.
        commands: what fills an empty library.
    """

    folder: str
    exists: bool
    studies: tuple[StudyTable, ...]
    broken: tuple[BrokenFile, ...]
    bundles: int
    cases: int
    runs: int
    commands: tuple[str, ...]


def library_page(catalog: Catalog, folder: str, *, exists: bool) -> LibraryPage:
    """Return the page of what a library holds."""
    names = dict.fromkeys(bundle.facts.study for bundle in catalog.bundles if not bundle.only_branches)
    studies = [_study(name, catalog) for name in names]
    return LibraryPage(
        folder=folder,
        exists=exists,
        studies=tuple(sorted(studies, key=lambda study: study.created, reverse=True)),
        broken=catalog.broken,
        bundles=len(catalog.bundles),
        cases=len(catalog.cases),
        runs=sum(len(bundle.runs) for bundle in catalog.bundles),
        commands=("flipscope demo", f"flipscope capture STUDY.toml --library {folder}"),
    )


def _study(name: str, catalog: Catalog) -> StudyTable:
    places: dict[tuple[str, str], dict[str, BundleEntry]] = {}
    for case in catalog.cases.values():
        for bundle in case.bundles:
            if bundle.facts.study == name and not bundle.only_branches:
                place = (case.key, bundle.facts.case.case_id)
                places.setdefault(place, {})[bundle.facts.runtime.name] = bundle
    newest = {runtime: bundle for found in places.values() for runtime, bundle in found.items()}
    columns = _columns(newest)
    rows = tuple(_row(catalog, catalog.cases[key], found, columns) for (key, _), found in sorted(places.items()))
    latest = max(newest.values(), key=lambda bundle: bundle.facts.created)
    totals = tuple(_total([row.cells[index] for row in rows]) for index in range(len(columns)))
    return StudyTable(name, latest.facts.study_title, latest.facts.created, columns, rows, totals)


def _columns(newest: Mapping[str, BundleEntry]) -> tuple[Column, ...]:
    ordered = sorted(newest.values(), key=lambda bundle: (not bundle.facts.is_reference, bundle.facts.created))
    labels = lane_labels([bundle.facts.runtime for bundle in ordered])
    return tuple(
        Column(bundle.facts.runtime.name, label, bundle.facts.is_reference, bundle.facts.runtime.engine)
        for bundle, label in zip(ordered, labels, strict=True)
    )


def _row(catalog: Catalog, case: CaseEntry, found: Mapping[str, BundleEntry], columns: Sequence[Column]) -> Row:
    reference = next((bundle for bundle in found.values() if bundle.facts.is_reference), None)
    own = free_run(reference) if reference else None
    cells = tuple(_cell(catalog, case, found.get(column.name), own, len(columns)) for column in columns)
    name = next(iter(found.values())).facts.case.case_id
    return Row(name, case.key, CaseLink(case.key).format(), own.positions if own else 0, cells)


def _cell(catalog: Catalog, case: CaseEntry, bundle: BundleEntry | None, reference: Run | None, columns: int) -> Cell:
    if bundle is None:
        return Cell("absent")
    if reference is None or bundle.facts.is_reference:
        kind = "reference" if bundle.facts.is_reference else "alone"
        return Cell(kind, CaseLink(case.key).format(), note="" if reference else "no reference here to compare with")
    forced = forced_run(bundle, reference.run_id, reference.scoring_path)
    for run in (forced, free_run(bundle)):
        compared = catalog.pairs.get((reference.run_id, run.run_id)) if run else None
        if run is not None and compared is not None:
            entry, number = compared
            link = _link(case, reference, run, simple=columns <= MOST_LANES and len(case.studies) == 1)
            return _compared(entry.pairs[number], run, link)
    return Cell("alone", CaseLink(case.key).format(), note="not compared yet; opening it compares")


def _link(case: CaseEntry, reference: Run, run: Run, *, simple: bool) -> CaseLink:
    """Return the link to a case; it names the lanes where the page would not show them by itself."""
    mode = Mode.FORCED if run.mode is Mode.FORCED else None
    return CaseLink(case.key, ViewOptions(mode, () if simple else (reference.run_id, run.run_id)))


def _compared(pair: ComparedPair, run: Run, link: CaseLink) -> Cell:
    flip = pair.first_decided
    return Cell(
        kind="compared",
        href=link.fork(flip.position, flip.prefix_id).format() if flip else link.format(),
        flips=pair.flip_count,
        positions=pair.positions,
        decided=pair.flips.get(FlipClass.DECIDED, 0),
        percent=_percent(pair.flip_count, pair.positions),
        kl=_kl(pair),
        level=_level(pair.flip_count, pair.positions),
        mode=run.mode.value,
        note="nothing differs: its options may have had no effect" if pair.identical else "",
    )


def _total(cells: Iterable[Cell]) -> Cell:
    """Return all cases of a runtime together: flips over positions."""
    cells = list(cells)
    compared = [cell for cell in cells if cell.kind == "compared"]
    if not compared:
        return Cell("reference" if any(cell.kind == "reference" for cell in cells) else "absent")
    flips = sum(cell.flips or 0 for cell in compared)
    positions = sum(cell.positions or 0 for cell in compared)
    return Cell(
        kind="compared",
        flips=flips,
        positions=positions,
        decided=sum(cell.decided for cell in compared),
        percent=_percent(flips, positions),
        level=_level(flips, positions),
        mode=", ".join(sorted({cell.mode for cell in compared})),
    )


def _percent(flips: int, positions: int) -> str:
    share = 100 * flips / positions if positions else 0.0
    return f"{share:.2f} %" if 0 < share < 1 else f"{share:.1f} %"


def _kl(pair: ComparedPair) -> str:
    if pair.kl_mean is None:
        return ""
    return ("≥ " if pair.lower_bound else "") + (
        f"{pair.kl_mean:.4f}" if pair.kl_mean >= 5e-5 or not pair.kl_mean else f"{pair.kl_mean:.1e}"
    )


def _level(flips: int, positions: int) -> int:
    share = flips / positions if positions else 0.0
    return sum(share > level for level in LEVELS[:-1])
