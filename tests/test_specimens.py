from __future__ import annotations

import pytest

from app.specimens import Specimen, specimens
from capture.model import FlipClass

ALL = {one.name: one for one in specimens()}


def pills(one: Specimen) -> set[str]:
    streams = one.page.streams
    lines = [
        *(line for system in streams.systems for line in system),
        *(line for b in streams.blocks for line in b.lines),
    ]
    return {pill.text for line in lines for pill in line.pills}


def test_every_class_of_flip_is_shown() -> None:
    rows = ALL["Tie, near-tie, decided"].page.flips
    assert [row.flip_class for row in rows] == [one.value for one in FlipClass]


def test_a_fork_stands_within_a_fork() -> None:
    strands = ALL["Forks"].page.strands
    parents = [strand.parent for strand in strands]
    assert any(parent is not None and parents[parent] is not None for parent in parents)


def test_only_where_few_tokens_were_kept_are_numbers_bounds() -> None:
    bounds = {
        name: sum(cell is not None and cell.bound for row in one.page.pane.table.rows for cell in row.cells)
        for name, one in ALL.items()
        if one.page.pane
    }
    assert {name for name, count in bounds.items() if count} == {"Top tokens alone"}
    told = {name for name, one in ALL.items() if one.page.pane and one.page.pane.lower_bound}
    assert told == {"Top tokens alone"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Calls", {"reference call", "different arguments: command", "different tool: ask (not offered)"}),
        ("Calls", {"malformed: expected a comma or the end", "missing call: run"}),
        ("Ended early", {"ended by length", "in a loop of 1 token", "interrupted"}),
        ("Forks", {"re-joined"}),
    ],
)
def test_ends_say_what_became_of_a_line(name: str, expected: set[str]) -> None:
    assert expected <= pills(ALL[name])


def test_lanes_warn() -> None:
    warnings = [chip.warning for name in ("Ended early", "No flips") for chip in ALL[name].page.chips if chip.warning]
    assert [warning.split()[0] for warning in warnings] == ["its", "this", "bit-identical"]


def test_a_case_may_have_no_flip_no_second_lane_or_no_token() -> None:
    assert len(ALL["No flips"].page.strands) == 1
    assert len(ALL["One lane"].page.chips) == 1
    assert ALL["Empty"].page.pane is None
