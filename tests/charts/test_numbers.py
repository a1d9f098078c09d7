"""The numbers of the charts, counted again."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from app.charts.agreement import kaplan_meier, matrix, survival
from app.charts.disagreement import by_margin, by_runtime
from app.charts.divergence import by_confidence, noise, tail
from app.charts.drawing import cividis, text
from app.charts.page import charts_of
from app.charts.prediction import precision
from app.charts.stream import along, bin_width, heat
from app.charts.values import Agreement
from app.charts.windows import by_window, window_width
from app.links import ForkLink, parse
from capture.intervals import wilson
from tests.charts.sources import case, lane, source, usual


def test_disagreement_counts_flips_and_shows_the_floor_last() -> None:
    rows = by_runtime(usual()).rows
    assert [(row.values[0], row.values[1], row.values[2]) for row in rows] == [
        ("int4", 128, 5), ("int8", 128, 2), ("replica: bf16", 64, 0),
    ]  # fmt: skip
    for row in rows:
        _, positions, flips, rate, *_ = row.values
        assert rate == pytest.approx(float(flips or 0) / float(positions or 1))
    assert [row.values[4:] for row in rows[:2]] == [(None, None, "too few cases")] * 2
    _, _, _, rate, low, high, how = rows[2].values
    assert (rate, low, how) == (0.0, 0.0, "blocks of the run")
    assert high == pytest.approx(wilson(0, 64).high)


def test_ten_cases_without_a_flip_leave_room_for_some() -> None:
    chart = by_runtime(source(lane("int8", *(case(f"case {at}", 20, at) for at in range(10)))))
    assert chart.rows[0].values[3:] == (0.0, 0.0, wilson(0, 200).high, "cases resampled")
    assert chart.figure is not None
    assert chart.figure["data"][0]["x"] == [pytest.approx(100 * wilson(0, 200).high)]


def test_without_a_flip_or_an_interval_the_triangle_stands_at_one_flip() -> None:
    chart = by_runtime(source(lane("int8", case("one", 20), case("two", 30, 1))))
    assert chart.figure is not None
    (trace,) = chart.figure["data"]
    assert (trace["x"], "error_x" in trace) == ([pytest.approx(100 / 50)], False)
    assert trace["hovertext"] == ["int8: 0 %"]


def test_repeats_of_a_case_are_one_run_of_blocks() -> None:
    repeated = lane("replica", *(case("one", 20, seed) for seed in range(12)))
    assert by_runtime(source(repeated)).rows[0].values[-1] == "blocks of the run"


def test_margins_and_confidence_of_few_cases_have_no_interval() -> None:
    several = source(lane("int8", case("one", 200, 1, (3, 9)), case("two", 200, 2)))
    assert {row.values[5:] for row in by_margin(several).rows} == {(None, None)}
    assert {row.values[5:7] for row in by_confidence(several).rows} == {(None, None)}


def test_flips_that_follow_each_other_widen_a_bin_of_margin() -> None:
    only = lane("int8", case("one", 400, 1, range(300, 320)))
    row = next(row.values for row in by_margin(source(only)).rows if row.values[1] == "2 to 4")
    plain = wilson(int(row[3] or 0), int(row[2] or 0))
    assert row[3] == 20
    assert float(row[6] or 0) - float(row[5] or 0) > 1.5 * (plain.high - plain.low)


def test_an_infinite_divergence_leaves_every_chart() -> None:
    plain = case("one", 64, 3, (3,))
    kl = plain.sample.kl_forward.copy()
    kl[[3, 9]] = np.inf
    only = lane("int8", replace(plain, sample=replace(plain.sample, kl_forward=kl)))
    charts = {chart.name: chart for chart in charts_of(source(only))}
    assert {"stream", "heat", "tail", "confidence", "disagreement"} <= set(charts)
    means = {row.values[1]: row.values[4:7] for row in charts["confidence"].rows}
    assert (np.inf, None, None) in means.values()
    assert not any(math.isnan(value) for chart in charts.values() for row in chart.rows for value in row.values
                   if isinstance(value, float))  # fmt: skip


def test_no_flip_is_drawn_at_the_upper_end_of_its_interval() -> None:
    figure = by_runtime(usual()).figure
    assert figure is not None
    floor = figure["data"][-1]
    high = by_runtime(usual()).rows[-1].values[5]
    assert floor["marker"]["symbol"] == "triangle-left-open"
    assert floor["x"] == [pytest.approx(100 * float(high or 0))]


def test_windows_are_over_the_context_and_lose_no_flip() -> None:
    chart = by_window(usual())
    assert {row.values[1] for row in chart.rows} == {100, 132}
    assert sum(int(row.values[4] or 0) for row in chart.rows) == 7
    assert sum(int(row.values[3] or 0) for row in chart.rows) == 256


def test_windows_that_do_not_touch_are_not_joined() -> None:
    apart = lane("int8", case("one", 32, prompt=0), case("two", 32, seed=1, prompt=320))
    figure = by_window(source(apart)).figure
    assert figure is not None
    *bands, line = figure["data"]
    assert None in line["x"]
    assert [len(band["x"]) for band in bands] == [2, 2, 2, 2]


@pytest.mark.parametrize(("span", "width"), [(10, 32), (512, 32), (513, 64), (100_000, 8192)])
def test_windows_are_powers_of_two(span: int, width: int) -> None:
    assert window_width(span) == width


def test_a_margin_bin_tells_how_many_of_it_flip() -> None:
    rows = [row.values for row in by_margin(usual()).rows if row.values[0] == "int4"]
    assert rows[0][1] == "0 (tie)"
    assert sum(int(row[2] or 0) for row in rows) == 128
    assert sum(int(row[3] or 0) for row in rows) == 5
    margin = np.linspace(0.0, 4.0, 64)
    expected = int(((margin > 2) & (margin <= 4)).sum()) * 2
    assert next(int(row[2] or 0) for row in rows if row[1] == "2 to 4") == expected


def test_a_gate_catches_what_it_says_by_hand() -> None:
    only = lane("int8", case("one", 64, 1, flips=(0, 9, 31)))
    rows = {row.values[1]: row.values[2:] for row in precision(source(only)).rows}
    margins = np.linspace(0.0, 4.0, 64)
    assert rows[1.0] == (margins[31], 32 / 64, 3 / 32, 3 / 64)
    assert rows[2 / 3] == (margins[9], 10 / 64, 2 / 10, 3 / 64)


def test_a_gate_fires_on_every_position_of_its_margin() -> None:
    """Margins of bfloat16 come in steps: the flip is the first of five positions with the same one."""
    one = case("one", 10, 1, flips=(2,))
    margin = np.array([0.0, 0.0, 0.125, 0.125, 0.125, 0.125, 0.125, 0.25, 0.25, 0.5])
    chart = precision(source(lane("int8", replace(one, margin=margin))))
    assert {row.values[1:] for row in chart.rows} == {(1.0, 0.125, 7 / 10, 1 / 7, 1 / 10)}
    assert chart.figure is not None
    curve = chart.figure["data"][0]
    assert (curve["x"], curve["y"]) == ([100.0], [pytest.approx(100 / 7)])


def test_without_a_flip_there_is_no_gate() -> None:
    assert precision(source(lane("int8", case("one", 64)))).rows == ()


def test_the_stream_holds_the_largest_positions_of_each_runtime() -> None:
    one = lane("int8", case("one", 1000, 3))
    two = lane("int4", case("one", 1000, 4))
    points = [row for row in along(source(one, two)).rows if row.values[1] == "point"]
    values = [float(row.values[5] or 0) for row in points]
    assert len(points) == 200
    assert values == sorted(values, reverse=True)
    kl = one.cases[0].sample.kl_forward
    mine = [row for row in points if row.values[0] == "int8"]
    assert {row.values[2] for row in mine} == set(np.argsort(-kl)[:100].tolist())
    link = parse(mine[0].href).link
    assert isinstance(link, ForkLink)
    assert link.position == mine[0].values[2]


def test_a_bin_has_its_quantiles() -> None:
    only = lane("int8", case("one", 2000, 3))
    row = next(row.values for row in along(source(only)).rows if row.values[1] == "bin")
    inside = only.cases[0].sample.kl_forward[int(row[2] or 0) : int(row[3] or 0)]
    assert row[4:7] == pytest.approx(tuple(np.quantile(inside, (0.1, 0.5, 0.9))))


def test_a_cell_of_the_heat_map_has_its_largest_position() -> None:
    only = lane("int8", case("one", 1000, 3))
    kl = only.cases[0].sample.kl_forward
    for row in heat(source(only)).rows:
        _, start, stop, value = row.values
        inside = kl[int(start or 0) : int(stop or 0)]
        assert value == inside.max()
        link = parse(row.href).link
        assert isinstance(link, ForkLink)
        assert link.position == int(start or 0) + int(inside.argmax())


def test_colours_of_the_heat_map_are_fixed() -> None:
    assert (cividis(0), cividis(1), cividis(-3), cividis(7)) == ("#00204c", "#ffea46", "#00204c", "#ffea46")
    small = lane("int8", case("one", 64, 3))
    figure = heat(source(small)).figure
    assert figure is not None
    value = small.cases[0].sample.kl_forward[0]
    assert figure["data"][0]["marker"]["color"][0] == cividis((math.log10(value) + 6) / 6)


@pytest.mark.parametrize(("span", "most", "width"), [(96, 96, 1), (97, 96, 2), (100_000, 256, 512)])
def test_bins_are_powers_of_two(span: int, most: int, width: int) -> None:
    assert bin_width(span, most) == width


def test_the_tail_marks_quantiles_and_the_maximum() -> None:
    only = lane("int8", case("one", 1000, 3))
    kl = np.sort(only.cases[0].sample.kl_forward)
    marked = {str(row.values[1]): row.values[2] for row in tail(source(only)).rows}
    assert marked["maximum"] == kl[-1]
    assert marked["median"] == kl[499]
    assert marked["99 %"] == kl[989]


def test_the_tail_shows_the_floor() -> None:
    rows = tail(usual()).rows
    assert "replica: bf16" in {row.values[0] for row in rows}


def test_confidence_loses_no_position() -> None:
    only = lane("int8", case("one", 500, 3, flips=range(20)))
    rows = [row.values for row in by_confidence(source(only)).rows]
    assert sum(int(row[2] or 0) for row in rows) == 500
    assert sum(float(row[3] or 0) for row in rows) == pytest.approx(1)
    assert sum(float(row[7] or 0) * int(row[2] or 0) for row in rows) == pytest.approx(20)
    for row in rows:
        assert float(row[5] or 0) <= float(row[4] or 0) <= float(row[6] or 0)


def test_noise_mirrors_quantiles() -> None:
    only = lane("int8", case("one", 999, 3))
    change = only.cases[0].sample.delta_probability
    row = next(row.values for row in noise(source(only)).rows if row.values[1] == "10 %")
    assert row[2] == pytest.approx(float(np.quantile(change, 0.1)))
    assert row[4] == pytest.approx(float(np.quantile(change, 0.9)))


def test_kaplan_meier_by_hand() -> None:
    times = [(3, True), (5, False), (7, True), (7, True), (9, False)]
    agreements = [Agreement("case", tokens, parted, "") for tokens, parted in times]
    found = kaplan_meier(agreements)
    assert [tokens for tokens, _ in found] == [0, 3, 7]
    assert [share for _, share in found] == pytest.approx([1.0, 4 / 5, 4 / 5 * 1 / 3])


def test_runs_that_never_part_stay_at_the_top() -> None:
    assert kaplan_meier([Agreement("case", 9, False, "")]) == [(0, 1.0)]


def test_survival_lists_every_case() -> None:
    rows = [row.values for row in survival(usual()).rows]
    assert rows == [("int8", "one", 5, "parted"), ("int8", "two", 64, "ended")]


def test_agreement_counts_the_same_top_1() -> None:
    rows = [row.values for row in matrix(usual()).rows]
    found = {(row[0], row[1]): (int(row[2] or 0), float(row[3] or 0)) for row in rows}
    positions, share = found["bf16", "int4"]
    assert (positions, share) == (128, 123 / 128)
    # Of the flips of both lanes only the one at position 3 of case one is at the same place, to the same token.
    assert found["int8", "int4"] == (128, 123 / 128)


def test_text_is_harmless() -> None:
    assert text("a <b>&amp;\u202e") == "a &lt;b&gt;&amp;amp;" + text("\u202e")
    assert "\u202e" not in text("\u202e")
