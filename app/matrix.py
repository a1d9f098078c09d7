"""The library page: runtimes by cases or kinds of range, with what differs from their reference. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.advice import Candidate, advice_table
from app.catalog import Catalog
from app.facets import facets_of, matches
from app.library_links import PROBE, PROTOCOL_WORDS, PROTOCOLS, ChartsView, LibraryView
from app.links import CaseLink, ViewOptions
from app.matrix_cells import ABSENT, Scale, drawn, outcome_cell, outcome_total, scale_of, share_cell
from app.matrix_rows import FLOOR, REFERENCE, Entry, RuntimeRow, SummaryOf, runtime_rows, together
from app.matrix_values import AdviceTable, Cell, Choice, Column, Group, LibraryPage, Matrix, Row, StudyHead
from app.pair_summary import Share, pooled
from app.run_pairs import page_runs
from app.traits import group_order
from app.words import count
from capture.model import Mode, RangeKind

_CELL_WORDS = {"disagreement": "disagreement", "kl": "KL", "verdict": "verdict"}
_COLUMN_WORDS = {"cases": "cases", "ranges": "kinds of range"}

FEW_LANES = 5
"""Runtimes of a study that a page shows by itself; of more, links name the lanes."""


def library_page(
    catalog: Catalog,
    view: LibraryView,
    summary_of: SummaryOf,
    folder: str,
    *,
    exists: bool,
    notices: tuple[str, ...] = (),
) -> LibraryPage:
    """Return the page of what a library holds."""
    rows = runtime_rows(catalog, summary_of)
    kept = matches(rows, view.facets)
    matrices = tuple(_Builder(catalog, view, part).matrix() for part in together(kept))
    studies = dict.fromkeys(row.study for part in together(rows) for row in part)
    return LibraryPage(
        folder=folder,
        exists=exists,
        studies=tuple(_head(study, rows) for study in studies),
        matrices=matrices,
        facets=facets_of(rows, view),
        cells=tuple(Choice(text, view.href(cells=name), view.cells == name) for name, text in _CELL_WORDS.items()),
        columns=tuple(
            Choice(text, view.href(columns=name), view.columns == name) for name, text in _COLUMN_WORDS.items()
        ),
        shown_cells=view.cells,
        shown_columns=view.columns,
        broken=catalog.broken,
        bundles=len(catalog.bundles),
        cases=len(catalog.cases),
        runs=sum(len(bundle.runs) for bundle in catalog.bundles),
        href=view.href(),
        pending=0,
        clear=view.href(facets={}) if view.facets else "",
        commands=("flipscope demo", f"flipscope capture STUDY.toml --library {folder}"),
        notices=notices,
    )


def _head(study: str, rows: Iterable[RuntimeRow]) -> StudyHead:
    own = [row for row in rows if row.study == study]
    facts = max((row.latest.bundle.facts for row in own), key=lambda facts: facts.created)
    cases = len({key for row in own for key in row.entries})
    return StudyHead(study, facts.study_title, facts.created, ChartsView(study).href(), cases, len(own))


class _Builder:
    """Makes one matrix."""

    def __init__(self, catalog: Catalog, view: LibraryView, rows: Sequence[RuntimeRow]) -> None:
        self._view = view
        self._rows = rows
        self._pooled: dict[tuple[str, str], Share | None] = {}
        keys = dict.fromkeys(key for row in rows for key in row.entries)
        self._cases = [catalog.cases[key] for key in sorted(keys)]
        self._found = [name for name in PROTOCOLS if any(name in entry.shares for entry in self._entries())]
        self._main = view.protocol or max(self._found, key=self._compared, default=next(iter(PROTOCOLS)))
        sizes = {row.study: sum(other.study == row.study for other in rows) for row in rows}
        self._many = {study for study, size in sizes.items() if size > FEW_LANES}

    def matrix(self) -> Matrix:
        """Return it."""
        raw = [self._row(row) for row in self._rows]
        floors = [] if self._view.cells == "verdict" else [floor for row in self._rows for floor in self._floors(row)]
        shares = [share for row in self._rows for share in self._measured(row)]
        scale = scale_of(self._view.cells, shares)
        groups: dict[str, list[Row]] = {}
        for row, made in zip(self._rows, raw, strict=True):
            groups.setdefault(row.group, []).append(made)
        ordered = sorted(groups, key=lambda name: (name != REFERENCE, group_order(name)))
        tables = [(name, groups[name]) for name in ordered] + ([(FLOOR, floors)] if floors else [])
        studies = dict.fromkeys(row.study for row in self._rows)
        return Matrix(
            studies=tuple(_head(study, self._rows) for study in studies),
            columns=self._columns(),
            groups=tuple(Group(name, tuple(_drawn(row, scale) for row in found)) for name, found in tables),
            protocol=self._main,
            protocols=tuple(
                Choice(PROTOCOL_WORDS[name], self._view.href(protocol=name), name == self._main) for name in self._found
            ),
            scale=("", "") if self._view.cells == "verdict" else scale.ends,
            advice=tuple(self._advice(study) for study in studies),
        )

    def _entries(self) -> Iterable[Entry]:
        return (entry for row in self._rows for entry in row.entries.values())

    def _compared(self, protocol: str) -> int:
        return sum(protocol in entry.shares for entry in self._entries())

    def _columns(self) -> tuple[Column, ...]:
        if self._view.columns == "ranges":
            return tuple(Column(kind.value, "", "", None) for kind in self._kinds())
        return tuple(
            Column(case.case_id, case.key, self._case_href(case.key), self._positions(case.key)) for case in self._cases
        )

    def _case_href(self, key: str) -> str:
        """Return the page of a case: its streams, or where only its prompt was probed its charts."""
        outputs = any(row.entries[key].positions for row in self._rows if key in row.entries)
        return CaseLink(key).format() if outputs else ChartsView(case=key).href()

    def _positions(self, key: str) -> int | None:
        found = (row.entries[key].positions for row in self._rows if row.is_reference and key in row.entries)
        return next(found, None)

    def _kinds(self) -> list[RangeKind]:
        pairs = [entry.summary.pairs.get(self._main) for entry in self._entries() if entry.summary]
        return [kind for kind in RangeKind if any(pair and kind in pair.kinds for pair in pairs)]

    def _row(self, row: RuntimeRow) -> Row:
        reference = row.reference
        entry = row.latest
        if self._view.columns == "ranges":
            cells = tuple(self._range_cell(row, kind) for kind in self._kinds())
        else:
            cells = tuple(self._case_cell(row.entries.get(case.key)) for case in self._cases)
        return Row(
            study=row.study,
            name=row.name,
            label=row.label,
            reference=reference.facts.runtime.name if reference and not row.is_reference else "",
            is_reference=row.is_reference,
            href=self._href(entry, self._main if entry.positions else PROBE, None),
            total=self._total(row),
            cells=cells,
        )

    def _case_cell(self, entry: Entry | None) -> Cell:
        if entry is None:
            return ABSENT
        if self._view.cells == "verdict":
            outcome = entry.summary.outcome if entry.summary else None
            if outcome is not None and (outcome.labelled or not entry.is_reference):
                return outcome_cell(outcome, self._href(entry, "free", None))
        if entry.is_reference:
            return _reference_cell(self._href(entry, "free" if entry.positions else PROBE, None), entry.positions)
        protocol = self._protocol(entry)
        if self._view.cells == "verdict" or protocol is None:
            return self._alone(entry)
        share = entry.shares[protocol]
        return share_cell(share, self._href(entry, protocol, share), protocol, self._main)

    def _protocol(self, entry: Entry) -> str | None:
        """Return by which protocol an entry is shown: the matrix's, else, where none was asked for, another."""
        if self._main in entry.shares:
            return self._main
        return None if self._view.protocol else next((name for name in PROTOCOLS if name in entry.shares), None)

    def _alone(self, entry: Entry) -> Cell:
        href = self._href(entry, "free" if entry.positions else PROBE, None)
        if entry.reference is None:
            note = "no reference here to compare with"
        else:
            note = "not read yet" if entry.summary is None else "not compared yet; opening it compares"
        return Cell("alone", href, text="open", title=note, note=note)

    def _range_cell(self, row: RuntimeRow, kind: RangeKind) -> Cell:
        found = []
        for entry in row.entries.values():
            pair = entry.summary.pairs.get(self._main) if entry.summary else None
            found += [(entry, pair.kinds[kind])] if pair and kind in pair.kinds else []
        share = pooled(share for _, share in found)
        if share is None:
            return Cell("reference", title="reference") if row.is_reference else ABSENT
        entry, first = next((one for one in found if one[1].first_decided), found[0])
        return share_cell(share, self._href(entry, self._main, first), self._main, self._main)

    def _total(self, row: RuntimeRow) -> Cell:
        if self._view.cells == "verdict":
            outcomes = [entry.summary.outcome for entry in row.entries.values() if entry.summary]
            kept = [one for one in outcomes if one is not None and (one.labelled or not row.is_reference)]
            return outcome_total(kept) if kept else _reference_cell("", 0) if row.is_reference else ABSENT
        if row.is_reference:
            return _reference_cell("", sum(entry.positions for entry in row.entries.values()))
        share = self._share(row)
        return ABSENT if share is None else share_cell(share, "", self._main, self._main)

    def _share(self, row: RuntimeRow) -> Share | None:
        place = row.study, row.name
        if place not in self._pooled:
            known = (entry.shares[self._main] for entry in row.entries.values() if self._main in entry.shares)
            self._pooled[place] = pooled(known)
        return self._pooled[place]

    def _measured(self, row: RuntimeRow) -> list[Share]:
        floors = [share for entry in row.entries.values() if entry.summary for share in entry.summary.floors.values()]
        return [entry.shares[self._main] for entry in row.entries.values() if self._main in entry.shares] + floors

    def _floors(self, row: RuntimeRow) -> Iterable[Row]:
        """Yield the row of each floor of a reference: itself again."""
        by_case = {key: entry.summary.floors if entry.summary else {} for key, entry in row.entries.items()}
        for name in dict.fromkeys(name for floors in by_case.values() for name in floors):
            shares = {key: floors[name] for key, floors in by_case.items() if name in floors}
            total = pooled(shares.values())
            if total is None:
                continue
            cells = [
                _floor_cell(shares[case.key], CaseLink(case.key).format(), name) if case.key in shares else ABSENT
                for case in self._cases
            ]
            shown = tuple(cells) if self._view.columns == "cases" else (ABSENT,) * len(self._kinds())
            yield Row(row.study, row.name, name, row.name, False, "", _floor_cell(total, "", name), shown)

    def _href(self, entry: Entry, protocol: str, share: Share | None) -> str:
        if protocol == PROBE:
            return ChartsView(entry.bundle.facts.study, entry.case.key, PROBE).href()
        link = CaseLink(entry.case.key, self._options(entry, protocol))
        flip = share.first_decided if share else None
        return link.fork(flip.position, flip.prefix_id).format() if flip else link.format()

    def _options(self, entry: Entry, protocol: str) -> ViewOptions:
        """Return how a page shows an entry; it names the lanes where the page would not show them by itself."""
        if entry.reference is None or entry.is_reference:
            return ViewOptions()
        mode = Mode.FREE if protocol == "free" else Mode.FORCED
        named = entry.bundle.facts.study in self._many or len(entry.case.studies) > 1
        lanes = page_runs(entry.reference, entry.bundle, mode) if named else ()
        return ViewOptions(mode if mode is Mode.FORCED else None, lanes)

    def _advice(self, study: str) -> AdviceTable:
        rows = [row for row in self._rows if row.study == study]
        return advice_table(study, [self._candidate(row) for row in rows], self._main)

    def _candidate(self, row: RuntimeRow) -> Candidate:
        entries = row.entries.values()
        return Candidate(
            name=row.name,
            label=row.label,
            is_reference=row.is_reference,
            share=self._share(row),
            bundles=tuple(entry.bundle for entry in entries),
            summaries=tuple(entry.summary for entry in entries if entry.summary),
        )


def _reference_cell(href: str, positions: int) -> Cell:
    detail = f"{positions:,}" if positions else ""
    title = f"reference, {count(positions, 'position')}" if positions else "reference"
    return Cell("reference", href, text="reference", detail=detail, title=title)


def _floor_cell(share: Share, href: str, name: str) -> Cell:
    """Return the cell of a reference against itself, where it is no warning that nothing differs."""
    return share_cell(share, href, name, name, "bit-identical" if share.identical else "")


def _drawn(row: Row, scale: Scale) -> Row:
    cells = tuple(drawn(cell, scale) for cell in row.cells)
    return replace(row, total=drawn(row.total, scale), cells=cells)
