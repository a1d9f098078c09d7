"""One lane, one number: of the study that ships, every place says the same of the same positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from app.catalog import BundleEntry, CaseEntry
from app.library import Library
from app.library_links import PROTOCOLS, ChartsView, LibraryView
from app.matrix_rows import FLOOR
from app.pair_summary import Share, share_of_pair
from app.report_cells import NOTHING
from app.report_choices import ORDER, choices
from app.report_json import report_json
from app.run_pairs import reference_of, run_pair
from app.stats_text import statistics_json
from capture.floors import FloorKind
from capture.resources import bundled_library
from tests.report_samples import bundled_report, bundled_statistics

Key = tuple[str, str, str]
"""Runtime, case and protocol; no case for all of them together."""

DEPTHS = {"full": "whole", "bound": "bounded"}

FLOORS = {FloorKind.REPLICA: "replica", FloorKind.CONTROL: "prefill against decode"}
"""What the library page calls the report's floors."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What is said of a lane: the larger group's KL, and both groups as (n, mean KL)."""

    flips: int
    positions: int
    main: tuple[int, float] | None
    groups: Mapping[str, tuple[int, float]]


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    found = Library(bundled_library())
    yield found
    found.close()


@pytest.fixture(scope="module")
def reported() -> dict[Key, Numbers]:
    """Return what `report --json` says."""
    found: dict[Key, Numbers] = {}
    (study,) = report_json([bundled_report()])["studies"]
    for section in study["sections"]:
        protocol = next(name for name, both in PROTOCOLS.items() if both == (section["mode"], section["scoring_path"]))
        for lane in section["lanes"]:
            found[lane["runtime"], "", protocol] = of_summary(lane["summary"])
            for scope in lane["by_case"]:
                found[lane["runtime"], scope["name"], protocol] = of_summary(scope["summary"])
    return found


def of_summary(summary: Mapping[str, Any]) -> Numbers:
    names = [name for name in ("whole", "bounded") if summary[name] is not None]
    groups = {name: (summary[name]["positions"], summary[name]["kl_forward"]["mean"]) for name in names}
    main = None if summary["main"] is None else groups[summary["main"]]
    return Numbers(summary["flips"], summary["positions"], main, groups)


def of_share(share: Share) -> Numbers:
    both = (("whole", share.whole), ("bounded", share.bounded))
    groups = {name: (one.positions, one.mean) for name, one in both if one is not None}
    main = None if share.main is None else (share.main.positions, share.main.mean)
    return Numbers(share.flips, share.positions, main, groups)


def agree(found: Numbers, wanted: Numbers) -> None:
    assert (found.flips, found.positions) == (wanted.flips, wanted.positions)
    assert found.main == (None if wanted.main is None else pytest.approx(wanted.main, rel=1e-9))
    assert found.groups == {name: pytest.approx(pair, rel=1e-9) for name, pair in wanted.groups.items()}


def lanes(library: Library) -> Iterator[tuple[CaseEntry, BundleEntry, BundleEntry]]:
    for case in library.cases():
        for bundle in case.bundles:
            reference = reference_of(case, bundle)
            if reference is not None and not bundle.facts.is_reference:
                yield case, bundle, reference


def by_case(reported: Mapping[Key, Numbers]) -> dict[Key, Numbers]:
    return {key: numbers for key, numbers in reported.items() if key[1]}


def test_some_lanes_have_both_sorts_of_positions(reported: Mapping[Key, Numbers]) -> None:
    mixed = reported["kv-e4m3", "mac", "forced"]
    assert {name: n for name, (n, _) in mixed.groups.items()} == {"whole": 43, "bounded": 9}
    assert mixed.main == mixed.groups["whole"]
    assert mixed.main[1] != pytest.approx(mixed.groups["bounded"][1], rel=0.1)


def test_stats_say_what_the_report_says(reported: Mapping[Key, Numbers]) -> None:
    found = {}
    for row in statistics_json(bundled_statistics()):
        protocol = next(name for name, both in PROTOCOLS.items() if both == (row["mode"], row["scoring_path"]))
        groups = {name: (row[name]["positions"], row[name]["kl_mean"]) for name in DEPTHS.values() if row[name]}
        main = (row["kl_positions"], row["kl_mean"]) if row["kl_positions"] else None
        flips = row["ties"] + row["near_ties"] + row["decided"]
        found[row["runtime"], row["case"], protocol] = Numbers(flips, row["positions"], main, groups)
    wanted = by_case(reported)
    assert set(found) == set(wanted)
    for key, numbers in found.items():
        agree(numbers, wanted[key])


def test_the_librarys_first_view_and_its_summaries_say_what_the_report_says(
    library: Library, reported: Mapping[Key, Numbers]
) -> None:
    catalog = library.catalog()
    library.summaries.prepare(catalog)
    library.settle()
    told: dict[str, set[Key]] = {"first view": set(), "summaries": set()}
    for case, bundle, reference in lanes(library):
        summary = library.summaries.of(catalog, bundle, reference)
        assert summary is not None
        for protocol in PROTOCOLS:
            key = bundle.facts.runtime.name, case.case_id, protocol
            runs = run_pair(reference, bundle, protocol)
            stored = catalog.pairs.get((runs[0].run_id, runs[1].run_id)) if runs else None
            if stored is not None:
                agree(of_share(share_of_pair(stored[0].pairs[stored[1]])), reported[key])
                told["first view"].add(key)
            if protocol in summary.pairs:
                agree(of_share(summary.pairs[protocol].whole), reported[key])
                told["summaries"].add(key)
    assert told["summaries"] == set(by_case(reported))
    assert {key for key in told["summaries"] if key[2] != "prefill"} <= told["first view"]


@pytest.mark.parametrize("protocol", ["forced", "prefill", "free"])
def test_cells_of_a_case_and_of_all_cases_say_what_the_report_says(
    library: Library, reported: Mapping[Key, Numbers], protocol: str
) -> None:
    catalog = library.catalog()
    library.summaries.prepare(catalog)
    library.settle()
    (matrix,) = library.index.page(catalog, LibraryView("kl", protocol=protocol), "x", exists=True).matrices
    found = 0
    for row in (row for group in matrix.groups for row in group.rows if (row.name, "", protocol) in reported):
        for name, cell in [("", row.total), *zip((one.name for one in matrix.columns), row.cells, strict=True)]:
            wanted = reported[row.name, name, protocol]
            assert (cell.flips, cell.positions) == (wanted.flips, wanted.positions)
            assert wanted.main is not None
            assert cell.kl_positions == wanted.main[0]
            assert cell.kl == pytest.approx(wanted.main[1], rel=1e-9)
            assert cell.other_kl_positions == sum(n for n, _ in wanted.groups.values()) - wanted.main[0]
            found += 1
    assert found == sum(key[2] == protocol for key in reported)


def test_floors_say_what_the_report_says_and_are_no_warning(library: Library) -> None:
    catalog = library.catalog()
    library.summaries.prepare(catalog)
    library.settle()
    (matrix,) = library.index.page(catalog, LibraryView("kl", protocol="forced"), "x", exists=True).matrices
    (rows,) = [group.rows for group in matrix.groups if group.name == FLOOR]
    found = {row.label: row.total for row in rows}
    floors = bundled_report().sections[0].floors
    assert [FLOORS[floor.kind] for floor in floors] == list(found)
    for floor in floors:
        cell, main = found[FLOORS[floor.kind]], floor.summary.main
        assert main is not None
        assert (cell.flips, cell.positions) == (floor.summary.flips, floor.summary.positions)
        assert (cell.kl_positions, cell.lower_bound) == (main.positions, main.lower_bound)
        assert cell.kl == pytest.approx(main.kl_forward.mean, rel=1e-9)
        assert cell.note == ("bit-identical" if floor.identical else "")


@pytest.mark.parametrize("protocol", ["forced", "prefill", "free"])
def test_charts_of_the_depth_that_is_shown_say_what_the_report_says(
    library: Library, reported: Mapping[Key, Numbers], protocol: str
) -> None:
    catalog = library.catalog()
    names = {one.label: one.runtime for one in bundled_report().choices}
    seen = set()
    for case in library.cases():
        page = library.charts.page(catalog, ChartsView(case=case.key, protocol=protocol))
        charts = {chart.name: chart for chart in page.charts}
        wanted = {names[label]: key for label in names for key in [(names[label], case.case_id, protocol)]}
        for values in (line.values for line in charts["disagreement"].rows if line.values[0] in names):
            key = wanted[names[str(values[0])]]
            assert (values[2], values[1]) == (reported[key].flips, reported[key].positions)
            seen.add(key)
        depth = DEPTHS[page.view.depth]
        table = {str(line.values[0]): line.values[1:] for line in charts["kl"].rows}
        for label, n, mean in zip(charts["kl"].columns[1:], table["Positions"], table["Mean KLD"], strict=True):
            if label in names:
                group = reported[wanted[names[label]]].groups[depth]
                assert int(str(n).replace(",", "")) == group[0]
                assert float(str(mean).split()[0]) == pytest.approx(group[1], abs=5.1e-7)
    assert seen == {key for key in by_case(reported) if key[2] == protocol}


def test_which_to_use_is_one_table_on_the_page_and_in_the_report(library: Library) -> None:
    catalog = library.catalog()
    library.summaries.prepare(catalog)
    library.settle()
    (matrix,) = library.index.page(catalog, LibraryView(protocol="forced"), "x", exists=True).matrices
    (page,) = matrix.advice
    report = choices(bundled_report())
    assert report is not None
    assert [row.name for row in page.rows] == [one.runtime for one in bundled_report().choices]
    assert page.columns == tuple(" ".join(name.split()) for name in report.header)
    at = {name: page.columns.index(name) for name in ("KL n", "calls as reference", "calls as labelled")}
    for row, cells in zip(page.rows, report.rows, strict=True):
        told = (row.kl_positions, row.calls_as_reference, row.calls_as_labelled)
        assert tuple(cells[place] for place in at.values()) == tuple(text or NOTHING for text in told)
    assert ORDER in report.notes
    assert ORDER[1:] in page.note
