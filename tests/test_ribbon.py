from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from app.forks import forks_of
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink
from app.ribbon import LEVELS, Cell, levels, ribbon_of
from app.strands import story_of
from capture.model import Mode
from tests.synthetic import make_library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    found = Library(make_library(tmp_path_factory.mktemp("library"), lanes=3, positions=60, cases=("iface",)))
    yield found
    found.close()


def span(cell: Cell) -> tuple[float, float]:
    start = float(cell.x.rstrip("%"))
    return start, start + float(cell.width.rstrip("%"))


def opened(library: Library, mode: Mode) -> OpenCase:
    return library.open_case("iface", mode)


def test_colour_is_0_for_no_difference_and_rises_with_the_logarithm() -> None:
    found = levels(np.array([0.0, 1e-9, 1e-6, 1e-4, 1e-2, 0.3, 0.69]))
    assert found[0] == 0
    assert found[1] == found[2] == 1
    assert found == sorted(found)
    assert found[-2:] == [LEVELS, LEVELS]
    tenfold = levels(np.array([1e-5, 1e-4, 1e-3]))
    assert tenfold[1] - tenfold[0] in (1, 2)


def test_a_band_is_coloured_while_the_prefix_is_shared_and_hatched_after(library: Library) -> None:
    case = opened(library, Mode.FREE)
    ribbon = ribbon_of(story_of(case), (), CaseLink(case.key), None)
    total = max(len(lane.steps) for lane in case.lanes)
    for lane, band in zip(case.lanes[1:], ribbon.bands[1:], strict=True):
        shared = len(case.comparisons[lane.run.run_id].position)
        assert span(band.cells[-1])[1] == pytest.approx(100 * shared / total, abs=0.01)
        if band.left is not None:
            assert span(band.left) == pytest.approx((100 * shared / total, 100 * len(lane.steps) / total), abs=0.01)
    assert any(band.left for band in ribbon.bands)


def test_forced_bands_are_never_hatched(library: Library) -> None:
    case = opened(library, Mode.FORCED)
    ribbon = ribbon_of(story_of(case), (), CaseLink(case.key), None)
    assert all(band.left is None for band in ribbon.bands)


def test_every_fork_has_a_tick_from_the_lane_that_stays_to_those_that_left(library: Library) -> None:
    case = opened(library, Mode.FORCED)
    story = story_of(case)
    forks = forks_of(story, {})
    ribbon = ribbon_of(story, forks, CaseLink(case.key), (forks[0].position,) * 2)
    assert len(ribbon.ticks) == len(forks)
    assert all(tick.y < tick.y_end <= ribbon.height for tick in ribbon.ticks)
    assert ribbon.window is not None
    start, stop = span(ribbon.window)
    assert start < 100 * (forks[0].position + 0.5) / len(case.lanes[0].steps) < stop
