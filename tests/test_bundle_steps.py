"""The quick way to read steps gives what the plain way gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import numpy as np
import pytest

from capture.bundle import Bundle
from capture.bundle_steps import read_steps
from capture.errors import DamagedBundleError
from capture.model import Steps
from tests.synthetic import interface_scripts, make_case


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_case(tmp_path_factory.mktemp("bundles"), "iface", interface_scripts(2, 60), comparisons=False)[1]


def test_every_column_is_the_same_in_any_order_of_runs(path: Path) -> None:
    with Bundle(path) as bundle:
        order = list(range(len(bundle.runs)))[::-1]
        for number, quick in zip(order, read_steps(bundle.database, order), strict=True):
            plain = bundle.steps(bundle.runs[number].run_id)
            for name in Steps.__slots__:
                mine, theirs = getattr(quick, name), getattr(plain, name)
                assert np.array_equal(mine, theirs), name
                assert isinstance(mine, tuple) or mine.dtype == theirs.dtype, name


def test_no_runs_and_unknown_runs_have_no_steps(path: Path) -> None:
    with Bundle(path) as bundle:
        assert read_steps(bundle.database, []) == []
        assert [len(steps) for steps in read_steps(bundle.database, [77])] == [0]


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ("token_id = -5", "token_id"),
        ("margin_nats = -1e308", "margin_nats"),
        ("tie_count = 0", "tie_count"),
        ("emitted = -7", "emitted"),
        ("entropy = -1", "entropy"),
        ("top_ids = list_transform(top_ids, lambda one: -one - 1)", "top_ids"),
        ("top_logits = list_transform(top_logits, lambda one: 3e38::FLOAT)", "top_logits"),
        ("top_logits = list_transform(top_logits, lambda one: 'inf'::FLOAT)", "top_logits"),
        ("log_sum_exp = log_sum_exp - 1", "top_logits"),
    ],
)
def test_numbers_that_cannot_be_are_refused(path: Path, tmp_path: Path, change: str, column: str) -> None:
    copy = shutil.copy(path, tmp_path / path.name)
    database = duckdb.connect(str(copy))
    database.execute(f"UPDATE step SET {change} WHERE position = 20")
    database.close()
    with Bundle(Path(copy)) as bundle, pytest.raises(DamagedBundleError, match=column):
        read_steps(bundle.database, [0])
