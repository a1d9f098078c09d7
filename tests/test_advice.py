"""Which runtime to use: the order of the rows."""

from __future__ import annotations

from app.advice import Candidate, advice_table
from app.pair_summary import Share


def candidate(name: str, share: Share | None, *, is_reference: bool = False) -> Candidate:
    return Candidate(name, name, is_reference, share, (), ())


def share(flips: int, kl: float | None) -> Share:
    return Share(100, flips, 0, kl, 0 if kl is None else 100, False)


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
    )
    assert [row.runtime for row in found.rows] == [
        "reference", "near", "few flips", "ruled out", "no divergence", "unknown",
    ]  # fmt: skip
