"""What a stranger's file of comparisons may say and what it may not."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli import main
from capture.bundle import Bundle
from capture.claims import can_be_true, is_possible
from capture.compare import Comparison, Side
from capture.comparison import SUFFIX, read_comparisons, write_comparisons
from capture.flips import Flip
from capture.model import FlipClass
from capture.pairs import comparison_path, study_pairs
from capture.resources import bundled_library

FOLDER = bundled_library() / "network-automation"
PATH = FOLDER / "mac--w8a8.vs.bf16.comparison.duckdb"


def with_flip(found: Comparison, **changes: Any) -> Comparison:
    first, *others = found.flips
    return replace(found, flips=(replace(first, **changes), *others))


def with_metric(found: Comparison, name: str, value: float) -> Comparison:
    column = getattr(found.metrics, name).copy()
    column[-1] = value
    return replace(found, metrics=replace(found.metrics, **{name: column}))


def verdict(found: Comparison) -> bool:
    with Bundle(FOLDER / "mac--bf16.duckdb") as reference, Bundle(FOLDER / "mac--w8a8.duckdb") as candidate:
        first, second = Side.of(reference, found.reference), Side.of(candidate, found.candidate)
    return can_be_true(found, first.steps, second.steps, (first.run, second.run))


def forced() -> Comparison:
    return max(read_comparisons(PATH), key=lambda found: len(found.position))


def test_every_comparison_that_ships_can_be_true() -> None:
    checked = 0
    for one, other in study_pairs(FOLDER, pytest.fail):
        with Bundle(one) as reference, Bundle(other) as candidate:
            for found in read_comparisons(comparison_path(one, other)):
                first, second = Side.of(reference, found.reference), Side.of(candidate, found.candidate)
                assert can_be_true(found, first.steps, second.steps, (first.run, second.run))
                checked += 1
    assert checked > 30


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kl_forward", -0.01),
        ("kl_forward", math.nan),
        ("kl_reverse", -math.inf),
        ("kl_forward", 1e300),
        ("kl_forward", math.inf),
        ("jensen_shannon", math.log(2) + 1e-6),
        ("jensen_shannon", 0.69),
        ("reference_entropy", -1.0),
        ("candidate_rank", -1),
        ("reference_winner_probability", 1.01),
        ("candidate_winner_probability", math.nan),
        ("delta_probability", -1.5),
        ("top5_overlap", 6),
        ("candidate_outside", 2.0),
        ("lower_bound", False),
    ],
)
def test_a_value_that_cannot_be_is_found(name: str, value: float) -> None:
    found = forced()
    assert verdict(found)
    assert not verdict(with_metric(found, name, value))


@pytest.mark.parametrize(("name", "value"), [("kl_forward", math.inf), ("delta_probability", math.nan)])
def test_what_a_token_that_one_lane_rules_out_or_lacks_gives_can_be(name: str, value: float) -> None:
    found = with_metric(with_metric(forced(), name, value), "lower_bound", False)
    assert is_possible(found.metrics)


Change = Callable[[Comparison], Comparison]


def shifted(found: Comparison) -> Comparison:
    return replace(found, position=found.position + np.int32(1))


def cut(found: Comparison) -> Comparison:
    columns = {name: getattr(found.metrics, name)[:-1] for name in type(found.metrics).__slots__}
    return replace(
        found,
        position=found.position[:-1],
        prefix_id=found.prefix_id[:-1],
        metrics=replace(found.metrics, **columns),
        flips=tuple(flip for flip in found.flips if flip.position != found.position[-1]),
    )


@pytest.mark.parametrize(
    "change",
    [
        shifted,
        cut,
        lambda found: replace(found, flips=found.flips[1:]),
        lambda found: replace(found, flips=(*found.flips, found.flips[-1])),
        lambda found: replace(found, identical=True),
        lambda found: with_flip(found, candidate_choice=0),
        lambda found: with_flip(found, reference_margin_nats=9.0),
        lambda found: with_flip(found, flip_class=FlipClass.TIE),
        lambda found: replace(found, prefix_id=tuple(bytes(16) for _ in found.prefix_id)),
    ],
)
def test_a_comparison_of_something_else_is_found(change: Change) -> None:
    assert not verdict(change(forced()))


def test_a_control_may_make_a_near_tie_of_a_decided_flip_and_nothing_the_other_way_round() -> None:
    found = forced()
    classes = {flip.flip_class: at for at, flip in enumerate(found.flips)}
    decided = classes[FlipClass.DECIDED]
    widened = replace(found.flips[decided], flip_class=FlipClass.NEAR_TIE)
    assert verdict(replace(found, flips=(*found.flips[:decided], widened, *found.flips[decided + 1 :])))
    tie = Flip(0, bytes(16), 1, 2, FlipClass.TIE, 0.0, 0.0)
    assert not verdict(replace(found, flips=(*found.flips, tie)))


@pytest.mark.parametrize("command", [("stats", "--json"), ("report", "--json"), ("report", "--csv")])
def test_commands_compare_again_where_a_file_cannot_be_true(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, str]
) -> None:
    for path in FOLDER.glob("mac--*.duckdb"):
        if path.name.startswith(("mac--bf16.", "mac--w8a8.")):
            shutil.copyfile(path, tmp_path / path.name)
    name, form = command
    assert main([name, str(tmp_path), form]) == 0
    before = capsys.readouterr()
    (file,) = tmp_path.glob(f"*{SUFFIX}")
    wrong = [with_metric(one, "kl_forward", math.nan) for one in read_comparisons(file)]
    file.unlink()
    write_comparisons(file, [with_metric(one, "jensen_shannon", 0.9) for one in wrong])
    assert main([name, str(tmp_path), form]) == 0
    after = capsys.readouterr()
    assert after.out == before.out
    assert (file.name in before.err, file.name in after.err) == (False, True)
    if form == "--json":
        json.loads(after.out, parse_constant=pytest.fail)
