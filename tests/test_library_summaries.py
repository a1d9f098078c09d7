"""Summaries of bundles: worked out once, told anew when a file changes, with the floor of the reference beside them."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import app.library_summaries as summaries_module
from app.catalog import BundleEntry
from app.library import Library
from app.library_links import LibraryView
from app.pair_summary import BundleSummary, PairSummary, summarise
from app.run_pairs import reference_of, run_pair
from capture.compare import Comparison
from capture.model import Mode, ScoringPath
from capture.ranges import Range
from capture.resources import bundled_library
from tests.synthetic import make_library


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    found = Library(make_library(tmp_path / "library", lanes=3, positions=60, cases=("iface",)))
    yield found
    found.close()


def entry(library: Library, runtime: str) -> tuple[BundleEntry, BundleEntry]:
    """Return the bundle of a runtime on the first case, and its reference."""
    (case, *_) = library.cases()
    bundle = next(one for one in case.bundles if one.facts.runtime.name == runtime)
    reference = reference_of(case, bundle)
    assert reference is not None
    return bundle, reference


def known(library: Library, runtime: str) -> BundleSummary:
    bundle, reference = entry(library, runtime)
    catalog = library.catalog()
    library.summaries.of(catalog, bundle, reference)
    library.summaries.settle()
    found = library.summaries.of(catalog, bundle, reference)
    assert found is not None
    return found


def test_a_summary_comes_in_the_background_and_stays(library: Library) -> None:
    bundle, reference = entry(library, "int4")
    assert library.summaries.of(library.catalog(), bundle, reference) is None
    first = known(library, "int4")
    version = library.summaries.version
    assert known(library, "int4") is first
    assert library.summaries.version == version
    assert library.summaries.busy == 0
    assert set(first.pairs) == {"forced", "free"}


def test_a_replaced_comparison_is_read_again(library: Library) -> None:
    before = known(library, "int4").pairs["forced"].whole
    folder = library.folder / "synthetic"
    path = folder / "iface--int4.vs.bf16-eager.comparison.duckdb"
    path.unlink()
    library.look()
    after = known(library, "int4").pairs["forced"].whole
    assert (after.flips, after.positions) == (before.flips, before.positions)
    assert after is not before


def test_a_bundle_that_went_away_leaves_the_others(library: Library, tmp_path: Path) -> None:
    bundle, reference = entry(library, "int4")
    catalog = library.catalog()
    os.replace(bundle.path, tmp_path / "elsewhere.duckdb")
    library.summaries.of(catalog, bundle, reference)
    library.summaries.settle()
    found = library.summaries.of(catalog, bundle, reference)
    assert found is not None
    assert (dict(found.pairs), found.outcome) == ({}, None)
    assert known(library, "int4-int8cache").pairs


def test_a_closed_library_works_out_nothing_more(library: Library) -> None:
    bundle, reference = entry(library, "int4")
    library.summaries.close()
    assert library.summaries.of(library.catalog(), bundle, reference) is None
    assert library.summaries.busy == 0


def test_the_page_is_made_again_only_for_something_new(library: Library) -> None:
    catalog = library.catalog()
    library.index.page(catalog, LibraryView(), "x", exists=True)
    library.summaries.settle()
    page = library.index.page(catalog, LibraryView(), "x", exists=True)
    assert page.pending == 0
    assert library.index.page(catalog, LibraryView(), "x", exists=True) is page
    assert library.index.page(catalog, LibraryView("kl"), "x", exists=True) is not page


def test_the_floors_of_the_bundled_study_are_its_repeat_and_its_prefill_against_its_decode(tmp_path: Path) -> None:
    source = bundled_library() / "network-automation"
    for name in ("vlan--bf16.duckdb", "vlan--kv-e5m2.duckdb", "vlan--kv-e5m2.vs.bf16.comparison.duckdb"):
        shutil.copyfile(source / name, tmp_path / name)
    library = Library(tmp_path)
    try:
        reference = known(library, "bf16")
        assert list(reference.floors) == ["replica", "prefill against decode"]
        assert [floor.positions for floor in reference.floors.values()] == [93, 93]
        assert [floor.identical for floor in reference.floors.values()] == [True, False]
        candidate = known(library, "kv-e5m2")
        assert {name: pair.whole.positions for name, pair in candidate.pairs.items()} == {
            "forced": 93, "prefill": 93, "free": 1,
        }  # fmt: skip
        assert candidate.outcome is not None
        assert candidate.outcome.labelled
        assert candidate.capture.version == reference.capture.version == "0.32.0"
        bundle, yardstick = entry(library, "kv-e5m2")
        runs = run_pair(yardstick, bundle, "prefill")
        assert runs is not None
        assert [(run.mode, run.scoring_path) for run in runs] == [(Mode.FORCED, ScoringPath.PREFILL)] * 2
    finally:
        library.close()


def test_values_that_cannot_be_summarised_cost_only_their_own_summary(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, broken = summarise, entry(library, "int4")[0].runs

    def damaged(comparison: Comparison, ranges: Sequence[Range] = ()) -> PairSummary:
        if comparison.candidate in {run.run_id for run in broken}:
            raise ValueError("quantiles of values that are not finite")
        return real(comparison, ranges)

    monkeypatch.setattr(summaries_module, "summarise", damaged)
    found = known(library, "int4")
    assert dict(found.pairs) == {}
    assert found.outcome is not None
    assert known(library, "int4-int8cache").pairs


def test_after_an_error_nobody_expected_the_others_are_still_worked_out(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries_module.Summaries, "_capture", _fails)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    found = known(library, "int4")
    assert found.pairs == {}
    monkeypatch.undo()
    assert known(library, "int4-int8cache").pairs
    assert library.summaries.busy == 0


def _fails(*_: object) -> None:
    raise KeyError("unexpected")
