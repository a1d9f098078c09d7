"""Cells of the matrices: numbers as text, and strips on one scale."""

from __future__ import annotations

import pytest

from app.matrix_cells import Scale, bounded, drawn, kl_text, outcome_total, rate_text, scale_of, share_cell
from app.pair_summary import Outcome, Share
from capture.divergence import Divergence
from capture.intervals import Interval


@pytest.mark.parametrize(
    ("rate", "text"), [(0, "0 %"), (0.0012, "0.12 %"), (0.05, "5.0 %"), (0.999, "99.9 %"), (1.0, "100 %")]
)
def test_rates_are_percent(rate: float, text: str) -> None:
    assert rate_text(rate) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (3e-6, "3e-6"), (0.00123, "0.0012"), (0.0994, "0.0994"), (1.234, "1.23")]
)
def test_nats_have_the_digits_that_say_something(value: float, text: str) -> None:
    assert kl_text(value) == text
    assert bounded(value, lower_bound=True) == f"≥ {text}"


def share(flips: int, positions: int, kl: float, *, high: float = 0.5) -> Share:
    rate = flips / positions
    divergence = Divergence(kl, positions, lower_bound=False, interval=Interval(kl / 2, 2 * kl))
    return Share(positions, flips, 1, divergence, disagreement=Interval(0.0, max(high, rate)))


@pytest.mark.parametrize("cells", ["disagreement", "kl"])
def test_strips_keep_the_order_of_the_values_and_fit(cells: str) -> None:
    shares = [share(at, 100, 0.001 * at) for at in (1, 5, 20)]
    scale = scale_of(cells, shares)
    strips = [drawn(share_cell(one, "/", "forced", "forced"), scale).whisker for one in shares]
    places = [float(strip.at) for strip in strips if strip]
    assert places == sorted(places)
    assert all(0 <= float(strip.low) <= float(strip.at) <= float(strip.high) <= 100 for strip in strips if strip)


def test_what_is_off_the_scale_stands_at_its_end() -> None:
    assert Scale("disagreement", 0.1).at(0.5) == 1.0
    assert Scale("kl", 1.0).at(0.0) == 0.0


def test_an_infinite_divergence_leaves_the_scale_of_the_others() -> None:
    infinite = Share(9, 0, 0, Divergence(float("inf"), 9, lower_bound=False))
    assert scale_of("kl", [infinite, share(1, 9, 0.2)]) == scale_of("kl", [share(1, 9, 0.2)])


def test_a_cell_says_all_in_its_title() -> None:
    cell = drawn(share_cell(share(3, 200, 0.02), "/x", "free", "forced"), Scale("disagreement", 0.1))
    assert cell.title == (
        "3 flips of 200 positions, 1 decided; disagreement 1.5 % (95 %: 0 % to 50.0 %); "
        "mean KL 0.0200 nats (95 %: 0.0100 to 0.0400) over 200; free, decode"
    )
    assert (cell.text, cell.detail, cell.mark) == ("1.5 %", "3 / 200", "free")


def test_a_cell_tells_what_its_kl_is_of_and_what_the_other_positions_have() -> None:
    whole, bounded = Divergence(0.02, 43, lower_bound=False), Divergence(0.01, 9, lower_bound=True)
    cell = drawn(share_cell(Share(52, 3, 1, whole, bounded), "", "forced", "forced"), Scale("kl", 1.0))
    assert (cell.text, cell.detail, cell.lower_bound) == ("0.0200", "43 of 52", False)
    assert (cell.other_kl, cell.other_kl_positions) == (0.01, 9)
    assert "mean KL 0.0200 nats over 43 of 52" in cell.title
    assert "mean KL \u2265 0.0100 nats over 9 others, of which only the highest tokens were kept" in cell.title
    turned = Share(52, 3, 1, Divergence(0.02, 9, lower_bound=False), Divergence(0.01, 43, lower_bound=True))
    other = drawn(share_cell(turned, "", "forced", "forced"), Scale("kl", 1.0))
    assert (other.text, other.detail, other.other_kl) == ("\u2265 0.0100", "43 of 52", 0.02)
    assert "mean KL 0.0200 nats over 9 others, of which the whole vocabulary was kept" in other.title


def test_without_an_interval_there_is_no_strip() -> None:
    plain = Share(10, 1, 0, Divergence(0.1, 10, lower_bound=False))
    assert drawn(share_cell(plain, "", "forced", "forced"), Scale("kl", 1.0)).whisker is None


def test_what_is_identical_is_noted() -> None:
    same = Share(10, 0, 0, Divergence(0.0, 10, lower_bound=False), identical=True)
    assert "no effect" in share_cell(same, "", "forced", "forced").note


def test_verdicts_are_counted_where_a_call_was_wanted_or_made() -> None:
    outcomes = [Outcome("same call", "same", True, True), Outcome("no call", "neutral", None, True)]
    assert outcome_total(outcomes).text == "1 of 1"
    wrong = Outcome("missing call: x", "different", False, True)
    assert (outcome_total([*outcomes, wrong]).text, outcome_total([*outcomes, wrong]).tone) == ("1 of 2", "different")
    assert outcome_total(outcomes[1:]).text == "no call"
