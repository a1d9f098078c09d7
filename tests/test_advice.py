"""Which runtime to use: the order of the rows, and the columns that a report has too."""

from __future__ import annotations

from pathlib import Path

from app.advice import Candidate, advice_table
from app.catalog import BundleEntry, Stamp
from app.pair_summary import BundleSummary, Outcome, Share
from app.report_choices import COLUMNS, MIXED, ORDER
from app.traits import Capture
from capture.divergence import Divergence
from tests.factories import make_facts


def candidate(name: str, share: Share | None, *, is_reference: bool = False) -> Candidate:
    return Candidate(name, name, is_reference, share, (), ())


def share(flips: int, kl: float | None) -> Share:
    return Share(100, flips, 0, None if kl is None else Divergence(kl, 100, lower_bound=False))


def test_the_nearest_by_divergence_comes_first_as_in_a_report() -> None:
    found = advice_table(
        "study",
        [
            candidate("unknown", None),
            candidate("few flips", share(1, 0.5)),
            candidate("near", share(3, 0.1)),
            candidate("ruled out", share(0, float("inf"))),
            candidate("no divergence", share(0, None)),
            candidate("reference", None, is_reference=True),
        ],
        "forced",
    )
    assert [row.runtime for row in found.rows] == [
        "reference", "near", "few flips", "ruled out", "no divergence", "unknown",
    ]  # fmt: skip


def test_of_runtimes_as_near_the_one_that_flips_less_comes_first_and_then_the_label() -> None:
    found = advice_table(
        "study", [candidate("b", share(2, 0.1)), candidate("c", share(1, 0.1)), candidate("a", share(2, 0.1))], "forced"
    )
    assert [row.runtime for row in found.rows] == ["c", "a", "b"]


def test_the_columns_are_the_reports_and_the_note_tells_the_order_and_the_protocol() -> None:
    bundle = BundleEntry(Path("one"), "one", Stamp(0, 0, 0, 0), make_facts(), b"", 0, ())
    waiting = Candidate("one", "one", False, share(2, 0.1), (bundle,), ())
    found = advice_table("study", [waiting], "prefill")
    assert found.columns == tuple(name for name in COLUMNS if name != "KL n")
    known = advice_table("study", [candidate("one", share(2, 0.1))], "prefill")
    assert known.columns == ("runtime", "top-1 changed", "KL")
    assert ORDER[1:] in found.note
    assert "forced, prefill" in found.note
    assert MIXED[1:] not in found.note


def test_how_many_positions_kl_is_of_stands_there_where_these_are_not_all() -> None:
    whole, bounded = Divergence(0.1, 30, lower_bound=False), Divergence(0.01, 70, lower_bound=True)
    mixed = candidate("mixed", Share(100, 1, 0, whole, bounded))
    found = advice_table("study", [mixed, candidate("plain", share(1, 0.2))], "forced")
    assert found.columns == ("runtime", "top-1 changed", "KL", "KL n")
    assert [(row.kl, row.kl_positions) for row in found.rows] == [("\u2265 0.0100", "70 of 100"), ("0.20", "100")]
    assert MIXED[1:] in found.note


def test_calls_are_counted_against_the_reference_and_against_labels() -> None:
    told = [
        Outcome("same call", "same", True, True, as_reference=False, as_labelled=True),
        Outcome("same call", "same", True, False, as_reference=True),
        Outcome("no call", "neutral", None, False),
    ]
    summaries = tuple(BundleSummary(Capture(), outcome=one) for one in told)
    one, reference = Candidate("a", "a", False, None, (), summaries), Candidate("b", "b", True, None, (), summaries)
    yardstick, other = advice_table("study", [one, reference], "forced").rows
    assert (other.calls_as_reference, other.calls_as_labelled) == ("1 of 2", "1 of 1")
    assert (yardstick.calls_as_reference, yardstick.calls_as_labelled) == ("", "1 of 1")
