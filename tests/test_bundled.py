"""The study that ships with flipscope: real captures, whole, small, and opened at the fork that tells most."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.library import Library
from app.links import ForkLink, parse
from app.opening import telling_fork_path
from capture.bundle import Bundle, verify_bundle
from capture.comparison import read_comparisons
from capture.model import Exactness, FlipClass, Mode, Run
from capture.pairs import bundle_paths
from capture.resources import bundled_library, data_folder

FOLDER = bundled_library() / "network-automation"
RUNTIMES = {"bf16", "fp32", "kv-e4m3", "kv-e5m2", "w8a8", "tp3"}


def runs(mode: Mode) -> list[tuple[Path, Run]]:
    found = []
    for path in bundle_paths(FOLDER):
        with Bundle(path) as bundle:
            found += [(path, run) for run in bundle.runs if run.mode is mode]
    return found


def test_every_case_ran_through_every_runtime_and_was_compared() -> None:
    names = {tuple(path.stem.split("--")) for path in bundle_paths(FOLDER)}
    cases = {case for case, _ in names}
    assert len(cases) >= 3
    assert names == {(case, runtime) for case in cases for runtime in RUNTIMES}
    compared = {path.name for path in FOLDER.glob("*.comparison.duckdb")}
    wanted = {f"{case}--{runtime}.vs.bf16.comparison.duckdb" for case, runtime in names if runtime != "bf16"}
    assert compared == wanted


def test_all_that_ships_is_small() -> None:
    assert sum(path.stat().st_size for path in data_folder().rglob("*") if path.is_file()) < 10_000_000


@pytest.mark.parametrize("path", bundle_paths(FOLDER), ids=lambda path: path.stem)
def test_every_bundle_is_whole(path: Path) -> None:
    verify_bundle(path)


def test_every_fork_is_exact_by_at_most_one_block_of_forced_steps() -> None:
    branches = runs(Mode.BRANCH)
    assert len(branches) >= 20
    for path, run in branches:
        assert run.certificate is not None
        assert run.certificate.exactness is Exactness.EXACT, path.name
        assert run.certificate.forced_steps <= 128


def test_the_reference_gives_the_same_bits_wherever_it_ran() -> None:
    """A candidate that never flips on a case was forced along its own choices: free and forced must be one."""
    equal = 0
    for path in bundle_paths(FOLDER):
        with Bundle(path) as bundle:
            free, again = [bundle.steps(run.run_id) for run in bundle.runs if run.mode is Mode.FREE]
            forced = [
                bundle.steps(run.run_id)
                for run in bundle.runs
                if run.mode is Mode.FORCED and run.scoring_path.value == "decode"
            ]
            assert again.row_hash == free.row_hash
            for steps in forced:
                if steps.token_id.tolist() == free.token_id.tolist():
                    assert steps.row_hash == free.row_hash
                    equal += 1
    assert equal > 0


def test_manifests_tell_the_runtimes_apart_and_nothing_of_the_machine() -> None:
    told = {}
    for path, run in runs(Mode.FREE):
        with Bundle(path) as bundle:
            manifest = bundle.manifest(run.run_id)
        told[path.stem.split("--")[1]] = manifest
        text = json.dumps(manifest)
        assert not re.search(r"/(home|root|tmp|usr|work|opt)/|~/", text)
        assert manifest["engine"] == "vllm"
        assert manifest["self_test"]["generated"] > 0
    assert len({json.dumps(manifest, sort_keys=True) for manifest in told.values()}) == len(RUNTIMES)
    assert told["tp3"]["ran"]["workers"] == 3


def test_no_runtime_is_the_reference_again() -> None:
    for path in FOLDER.glob("*.comparison.duckdb"):
        assert not any(comparison.identical for comparison in read_comparisons(path)), path.name


def test_it_opens_at_a_decided_flip_of_a_tool_call() -> None:
    link = parse(telling_fork_path(bundled_library())).link
    assert isinstance(link, ForkLink)
    library = Library(bundled_library())
    try:
        case = library.open_link(link)
        flips = [flip for found in case.comparisons.values() for flip in found.flips if flip.position == link.position]
        before = case.lanes[0].steps.token_id.tolist()[: link.position]
        text = b"".join(case.tokens[token_id].data for token_id in before)
    finally:
        library.close()
    assert any(flip.flip_class is FlipClass.DECIDED for flip in flips)
    assert text.count(b"<tool_call>") == 1
    assert b"</tool_call>" not in text


def test_an_empty_library_opens_at_its_front_page(tmp_path: Path) -> None:
    assert telling_fork_path(tmp_path) == "/"
