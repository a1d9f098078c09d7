"""Bundles are lent one thread at a time, closed when others are wanted, and never read for too long."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.library import Library
from app.shelf import Shelf
from capture.errors import DamagedBundleError
from tests.synthetic import interface_scripts, make_case, make_library


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_library(tmp_path_factory.mktemp("library"), lanes=3, positions=60, cases=("iface",), comparisons=False)


def test_few_bundles_stay_open(made: Path) -> None:
    shelf = Shelf(most_open=1)
    first, second, _ = Library(made).entries()
    with shelf.bundle(first) as one:
        pass
    with shelf.bundle(first) as again:
        assert again is one
    with shelf.bundle(second):
        pass
    with shelf.bundle(first) as anew:
        assert anew is not one
        assert anew.runs == one.runs
    shelf.close()


def test_the_same_bundle_can_be_lent_twice_to_one_thread(made: Path) -> None:
    first, second, _ = Library(made).entries()
    shelf = Shelf()
    for pair in ((first, first), (first, second), (second, first)):
        with shelf.bundles(*pair) as (one, other):
            assert (one.path, other.path) == (pair[0].path, pair[1].path)
    shelf.close()


def test_an_endless_query_is_stopped(made: Path) -> None:
    shelf = Shelf(seconds=0.1)
    with pytest.raises(DamagedBundleError, match="took longer"), shelf.bundle(Library(made).entries()[0]) as bundle:
        bundle.database.query("SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000000) b")


def test_a_replaced_file_is_not_read_as_the_old_one(tmp_path: Path) -> None:
    (path,) = make_case(tmp_path, "iface", interface_scripts(1, 60), comparisons=False)
    shelf = Shelf()
    old = Library(tmp_path).entries()[0]
    with shelf.bundle(old) as bundle:
        assert bundle.runs[0].positions == 60
    make_case(tmp_path, "iface", interface_scripts(1, 90), comparisons=False)
    new = Library(tmp_path).entries()[0]
    with shelf.bundle(new) as bundle:
        assert bundle.runs[0].positions == 90
    path.unlink()
    with pytest.raises(DamagedBundleError, match="gone"), Shelf().bundle(new):
        pass
    with pytest.raises(DamagedBundleError), shelf.bundle(old):
        pass
    shelf.close()
