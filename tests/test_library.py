"""What a library reads out of its folder, and how little it takes for granted."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

import app.library as library_module
import app.library_comparisons as comparisons_module
from app.catalog import AmbiguousCaseError
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink, parse
from capture.bundle import Bundle
from capture.compare import Comparison, Side, compare_runs
from capture.errors import NotFoundError
from capture.model import Mode, Steps
from tests.synthetic import interface_scripts, make_case, make_library
from tests.synthetic_text import PROMPT, encode


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_library(tmp_path_factory.mktemp("library"), lanes=5)


@pytest.fixture(scope="module")
def library(made: Path) -> Iterator[Library]:
    found = Library(made)
    yield found
    found.close()


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "copy")


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the folder at every call."""
    monkeypatch.setattr(library_module, "LOOK_SECONDS", 0.0)


def _key(case_id: str, text: str = PROMPT) -> str:
    """Compute a case's key from DESIGN section 2 alone."""
    current = hashlib.blake2b(b"flipscope prefix 1", digest_size=16).digest()
    for token_id in encode(text):
        current = hashlib.blake2b(current + token_id.to_bytes(4, "little"), digest_size=16).digest()
    return f"{case_id}-{current.hex()[:8]}"


def _same_steps(first: Steps, second: Steps) -> bool:
    pairs = [(getattr(first, name), getattr(second, name)) for name in Steps.__slots__]
    return all(a == b if isinstance(a, tuple) else np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def _same_comparison(first: Comparison, second: Comparison) -> bool:
    names = first.metrics.__slots__
    same = [np.allclose(getattr(first.metrics, name), getattr(second.metrics, name), rtol=1e-12) for name in names]
    return all(same) and first.flips == second.flips and first.prefix_id == second.prefix_id


def _edit(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)


def _reasons(library: Library) -> dict[str, str]:
    return {file.name: file.reason for file in library.broken()}


class TestCases:
    def test_a_key_is_the_name_and_the_start_of_the_prompts_prefix_id(self, library: Library) -> None:
        assert [case.key for case in library.cases() if case.case_id == "iface"] == [_key("iface")]

    def test_a_case_is_found_by_key_name_or_longer_digits(self, library: Library) -> None:
        key = _key("iface")
        prefix = next(case.prefix_id for case in library.cases() if case.key == key)
        for text in (key, "iface", f"iface-{prefix.hex()}", f"renamed-{key.split('-')[1]}"):
            assert library.find_case(text) == key

    @pytest.mark.parametrize("text", ["nothing", "iface-00000000", "", "iface-", "../iface"])
    def test_an_unknown_case_is_said_to_be_unknown(self, library: Library, text: str) -> None:
        with pytest.raises(NotFoundError):
            library.find_case(text)

    def test_one_name_for_two_prompts_gives_a_choice(self, copy: Path) -> None:
        make_case(copy / "other", "twin", interface_scripts(1, 60), study="other")
        _edit(
            copy / "other" / "twin--bf16-eager.duckdb",
            "UPDATE bundle SET facts = replace(facts, '\"twin\"', '\"iface\"')",
        )
        library = Library(copy)
        with pytest.raises(AmbiguousCaseError) as caught:
            library.find_case("iface")
        twin = _key("iface", PROMPT.replace("Is Giga", "twin: Is Giga"))
        assert set(caught.value.choices) == {_key("iface"), twin}
        assert library.find_case(twin) == twin

    def test_studies_and_machines_with_the_same_prompt_are_one_case(self, copy: Path) -> None:
        make_case(copy / "rig", "iface", interface_scripts(2, 90), study="rig")
        library = Library(copy)
        case = library.catalog().cases[_key("iface")]
        assert case.studies == ("rig", "synthetic")
        assert len(case.bundles) == 7
        own = {bundle.facts.study: bundle.runs[0].run_id for bundle in case.bundles if bundle.facts.is_reference}
        mixed = library.open_case(case.key, Mode.FREE, [own["synthetic"], own["rig"]])
        assert [lane.facts.study for lane in mixed.lanes] == ["synthetic", "rig"]
        assert set(mixed.comparisons) == {own["rig"]}


class TestLanes:
    def test_the_reference_comes_first_and_letters_follow(self, library: Library) -> None:
        opened = library.open_case("iface")
        assert [lane.letter for lane in opened.lanes] == list("ABCDE")
        assert [lane.is_reference for lane in opened.lanes] == [True, False, False, False, False]
        assert opened.lanes[0].facts.is_reference
        assert {lane.run.mode for lane in opened.lanes} == {Mode.FREE}

    def test_labels_say_what_differs(self, library: Library) -> None:
        labels = {lane.facts.runtime.name: lane.label for lane in library.open_case("iface").lanes}
        assert labels["bf16-sdpa"] == "sdpa"
        assert labels["int4"] == "eager · int4 weights"
        assert not any("bf16" in label for label in labels.values())

    def test_steps_tokens_and_manifest_are_those_of_the_bundle(self, library: Library, made: Path) -> None:
        for lane in library.open_case("iface", Mode.FORCED).lanes:
            with Bundle(made / "synthetic" / f"iface--{lane.facts.runtime.name}.duckdb") as bundle:
                assert _same_steps(lane.steps, bundle.steps(lane.run.run_id))
                assert lane.manifest == bundle.manifest(lane.run.run_id)
                assert library.open_case("iface").tokens.items() >= bundle.tokens().items()

    def test_forced_lanes_follow_the_reference_which_is_its_own_free_run(self, library: Library) -> None:
        opened = library.open_case("iface", Mode.FORCED)
        assert opened.mode is Mode.FORCED
        assert [lane.run.mode for lane in opened.lanes] == [Mode.FREE] + [Mode.FORCED] * 4
        assert {lane.run.forced_along for lane in opened.lanes[1:]} == {opened.lanes[0].run.run_id}
        assert all(np.array_equal(lane.steps.token_id, opened.lanes[0].steps.token_id) for lane in opened.lanes)

    def test_named_lanes_come_in_the_order_of_the_link(self, library: Library) -> None:
        ids = [lane.run.run_id for lane in library.open_case("iface").lanes]
        opened = library.open_case("iface", Mode.FREE, [ids[3][:12], ids[1][:14]])
        assert [lane.run.run_id for lane in opened.lanes] == [ids[3], ids[1]]
        assert opened.notices == ()
        assert {run.run_id for run, _ in opened.available} == set(ids) - {ids[3], ids[1]}

    def test_another_reference_comes_first_and_is_compared_with(self, library: Library) -> None:
        ids = [lane.run.run_id for lane in library.open_case("iface").lanes]
        opened = library.open_case("iface", Mode.FREE, ids[:3], ids[2])
        assert [lane.run.run_id for lane in opened.lanes] == [ids[2], ids[0], ids[1]]
        assert set(opened.comparisons) == {ids[0], ids[1]}
        assert {found.reference for found in opened.comparisons.values()} == {ids[2]}

    def test_lanes_of_one_mode_lead_to_their_siblings_in_the_other(self, library: Library) -> None:
        free = library.open_case("iface", Mode.FREE)
        forced = library.open_case("iface", Mode.FORCED, [lane.run.run_id for lane in free.lanes])
        back = library.open_case("iface", Mode.FREE, [lane.run.run_id for lane in forced.lanes])
        assert [lane.facts.runtime for lane in forced.lanes] == [lane.facts.runtime for lane in free.lanes]
        assert [lane.run.run_id for lane in back.lanes] == [lane.run.run_id for lane in free.lanes]
        assert forced.notices == back.notices == ()

    def test_an_unknown_lane_is_left_out_with_a_notice(self, library: Library) -> None:
        ids = [lane.run.run_id for lane in library.open_case("iface").lanes]
        opened = library.open_case("iface", Mode.FREE, ["0" * 12, ids[1]], "f" * 12)
        assert [lane.run.run_id for lane in opened.lanes] == [ids[1]]
        assert len(opened.notices) == 2

    def test_with_only_unknown_lanes_the_default_is_shown(self, library: Library) -> None:
        opened = library.open_case("iface", Mode.FREE, ["0" * 12])
        assert len(opened.lanes) == 5
        assert "000000000000" in opened.notices[0]

    def test_a_mode_with_nothing_to_show_gives_the_other_with_a_notice(self, library: Library) -> None:
        ids = [lane.run.run_id for lane in library.open_case("iface").lanes]
        opened = library.open_case("iface", Mode.FORCED, ids[1:3])
        assert opened.mode is Mode.FREE
        assert any("forced along" in notice for notice in opened.notices)


class TestBranchesAndComparisons:
    def test_branches_carry_the_letter_of_their_lane_and_start_at_their_fork(self, library: Library) -> None:
        opened = library.open_case("iface", Mode.FORCED)
        assert len(opened.branches) == 6
        letters = {lane.facts.runtime.name: lane.letter for lane in opened.lanes}
        for branch in opened.branches:
            fork = branch.run.fork
            assert fork is not None
            assert branch.letter == letters[branch.runtime]
            assert (branch.steps.position[0], branch.steps.prefix_id[0]) == (fork.position, fork.prefix_id)
            assert branch.steps.token_id[0] == fork.token_id

    def test_a_branch_at_the_first_fork_equals_the_free_run(self, library: Library) -> None:
        free = {lane.facts.runtime.name: lane.steps for lane in library.open_case("iface").lanes}
        branch = max(
            (b for b in library.open_case("iface").branches if b.runtime == "int4"), key=lambda b: len(b.steps)
        )
        first = int(branch.steps.position[0])
        assert branch.steps.row_hash == free["int4"].row_hash[first:]

    def test_branches_of_lanes_that_are_not_shown_are_left_out(self, library: Library) -> None:
        ids = {lane.facts.runtime.name: lane.run.run_id for lane in library.open_case("iface").lanes}
        opened = library.open_case("iface", Mode.FREE, [ids["bf16-eager"], ids["bf16-sdpa"]])
        assert {branch.runtime for branch in opened.branches} == {"bf16-eager", "bf16-sdpa"}

    def test_what_a_file_says_is_what_comparing_gives(self, library: Library, made: Path) -> None:
        opened = library.open_case("iface", Mode.FORCED)
        first = made / "synthetic" / "iface--bf16-eager.duckdb"
        for lane in opened.lanes[1:]:
            with Bundle(first) as a, Bundle(made / "synthetic" / f"iface--{lane.facts.runtime.name}.duckdb") as b:
                expected = compare_runs(Side.of(a, opened.lanes[0].run.run_id), Side.of(b, lane.run.run_id))
            assert _same_comparison(opened.comparisons[lane.run.run_id], expected)

    def test_without_files_comparisons_are_computed(self, library: Library, copy: Path) -> None:
        for path in copy.rglob("*.comparison.duckdb"):
            path.unlink()
        bare = Library(copy).open_case("iface", Mode.FORCED)
        stored = library.open_case("iface", Mode.FORCED)
        assert bare.comparisons.keys() == stored.comparisons.keys()
        assert all(
            _same_comparison(bare.comparisons[run_id], stored.comparisons[run_id]) for run_id in stored.comparisons
        )

    def test_a_long_comparison_is_made_in_the_background(self, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for path in copy.rglob("*.comparison.duckdb"):
            path.unlink()
        monkeypatch.setattr(comparisons_module, "AT_ONCE", 0)
        library = Library(copy)
        at_first = library.open_case("hostile")
        assert at_first.comparisons == {}
        assert any("being compared" in notice for notice in at_first.notices)
        library.settle()
        later = library.open_case("hostile")
        assert set(later.comparisons) == {later.lanes[1].run.run_id}
        assert later.notices == ()

    def test_a_strangers_comparison_of_other_runs_is_not_believed(self, copy: Path, library: Library) -> None:
        name = next((copy / "synthetic").glob("iface--int4.vs.*"))
        _edit(name, "UPDATE shared SET prefix_id = prefix_id[2:] || '\\x00'::BLOB WHERE position = 3")
        _edit(name, "DELETE FROM shared WHERE position = 5")
        opened = Library(copy).open_case("iface", Mode.FORCED)
        expected = library.open_case("iface", Mode.FORCED)
        assert all(_same_comparison(opened.comparisons[one], expected.comparisons[one]) for one in expected.comparisons)

    def test_comparing_by_id_refuses_unknown_runs(self, library: Library) -> None:
        ids = [lane.run.run_id for lane in library.open_case("iface").lanes]
        assert library.comparison(ids[0], ids[1]) is not None
        with pytest.raises(NotFoundError):
            library.comparison(ids[0], "0" * 32)


@pytest.mark.usefixtures("eager")
class TestTheFolder:
    def test_new_changed_and_removed_files_are_seen_without_a_restart(self, copy: Path) -> None:
        library = Library(copy)
        before = len(library.entries())
        make_case(copy / "later", "later", interface_scripts(1, 60), study="later")
        assert len(library.entries()) == before + 1
        assert library.find_case("later").startswith("later-")
        (copy / "later" / "later--bf16-eager.duckdb").write_bytes(b"gone bad")
        assert "later/later--bf16-eager.duckdb" in _reasons(library)
        shutil.rmtree(copy / "later")
        assert len(library.entries()) == before
        assert library.broken() == ()

    def test_nothing_changed_means_the_same_catalog(self, copy: Path) -> None:
        library = Library(copy)
        assert library.catalog() is library.catalog()

    def test_a_folder_that_appears_later_is_read(self, tmp_path: Path) -> None:
        library = Library(tmp_path / "none")
        assert library.cases() == ()
        make_case(tmp_path / "none" / "study", "iface", interface_scripts(1, 60))
        assert len(library.cases()) == 1

    def test_hidden_folders_and_partial_files_are_left_alone(self, copy: Path) -> None:
        whole = (copy / "synthetic" / "iface--int4.duckdb").read_bytes()
        (copy / ".spool").mkdir()
        (copy / ".spool" / "x.duckdb").write_bytes(b"half")
        (copy / "synthetic" / "y.duckdb.partial").write_bytes(whole[:1000])
        assert Library(copy).broken() == ()

    def test_a_replaced_bundle_is_read_anew(self, copy: Path) -> None:
        library = Library(copy)
        library.open_case("iface")
        make_case(copy / "synthetic", "iface", interface_scripts(2, 100))
        assert len(library.open_case("iface").lanes[0].steps) == 100

    def test_reading_writes_nothing(self, copy: Path) -> None:
        def listing() -> list[tuple[str, int]]:
            return sorted((str(path), path.stat().st_mtime_ns) for path in copy.rglob("*"))

        before = listing()
        for path in (copy, *copy.iterdir()):
            os.chmod(path, 0o555)
        try:
            library = Library(copy)
            assert len(library.open_case("iface", Mode.FORCED).lanes) == 5
            library.close()
        finally:
            for path in (copy, *copy.iterdir()):
                os.chmod(path, 0o755)
        assert listing() == before

    def test_links_mean_the_same_in_a_copy_with_other_bundles(self, made: Path, copy: Path) -> None:
        here = Library(made)
        opened = here.open_case("iface", Mode.FORCED)
        flip = next(iter(opened.comparisons.values())).flips or opened.comparisons[opened.lanes[-1].run.run_id].flips
        lanes = tuple(lane.run.run_id[:12] for lane in opened.lanes[::-1])
        link = CaseLink(opened.key).where(mode=Mode.FORCED, lanes=lanes, reference=lanes[-1])
        address = link.fork(flip[0].position, flip[0].prefix_id).format()
        moved = copy.rename(copy.with_name("elsewhere"))
        (moved / "synthetic").rename(moved / "renamed")
        make_case(moved / "aaa", "iface", interface_scripts(4, 70), study="aaa")
        there = Library(moved)
        parsed = parse(address).link
        assert parsed is not None
        first, second = here.open_link(parsed), there.open_link(parsed)
        assert _facts(first) == _facts(second)
        assert second.notices == ()


def _facts(case: OpenCase) -> tuple[object, ...]:
    lanes = [(lane.letter, lane.run.run_id, lane.label) for lane in case.lanes]
    branches = sorted((branch.run.run_id, branch.letter) for branch in case.branches)
    return case.key, case.mode, lanes, branches, {one: found.flips for one, found in case.comparisons.items()}


def test_many_threads_read_the_same_from_few_open_bundles(made: Path, library: Library) -> None:
    shared = Library(made)
    shared._shelf._most_open = 1
    expected = {mode: _facts(library.open_case("iface", mode)) for mode in (Mode.FREE, Mode.FORCED)}
    wrong: list[object] = []

    def read(mode: Mode) -> None:
        found = _facts(shared.open_case("iface", mode))
        if found != expected[mode]:
            wrong.append(found)

    threads = [threading.Thread(target=read, args=((Mode.FREE, Mode.FORCED)[number % 2],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(shared._shelf._places) <= 8
    shared.close()


def test_branches_grown_later_in_a_bundle_of_their_own_belong_to_their_lane(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    for path in (made / "synthetic").glob("iface--*.duckdb"):
        shutil.copy(path, folder)
    later = folder / "iface--int4-later.duckdb"
    shutil.copy(folder / "iface--int4.duckdb", later)
    for path, kind in ((later, "branch"), (folder / "iface--int4.duckdb", "free")):
        _edit(path, f'DELETE FROM run WHERE (facts LIKE \'%"mode": "branch"%\') = {kind == "free"}')
        _edit(path, "DELETE FROM step WHERE run NOT IN (SELECT run FROM run)")
    _edit(later, *(f"UPDATE {table} SET run = run - 2" for table in ("run", "step")))
    opened = Library(folder).open_case("iface", Mode.FORCED)
    whole = Library(made).open_case("iface", Mode.FORCED)
    assert opened.notices == ()
    assert len(opened.lanes) == 5
    letters = {lane.letter: lane.facts.runtime.name for lane in opened.lanes}
    found = [branch for branch in opened.branches if letters[branch.letter] == "int4"]
    assert {b.run.run_id for b in found} == {b.run.run_id for b in whole.branches if b.runtime == "int4"}


def test_branches_that_cannot_be_read_cost_only_themselves(copy: Path) -> None:
    path = copy / "synthetic" / "iface--int4.duckdb"
    _edit(path, "UPDATE step SET top1 = NULL WHERE run = 3")
    opened = Library(copy).open_case("iface", Mode.FORCED)
    assert len(opened.lanes) == 5
    assert "int4" not in {branch.runtime for branch in opened.branches}
    assert len(opened.branches) == 4
    assert any("branches of synthetic/iface--int4" in notice for notice in opened.notices)


def test_a_lane_whose_tokens_do_not_lead_to_its_prefixes_is_not_shown(copy: Path) -> None:
    path = copy / "synthetic" / "iface--int4.duckdb"
    _edit(path, "UPDATE step SET token_id = 7, top1 = 7 WHERE run = 0 AND position = 9")
    opened = Library(copy).open_case("iface")
    assert "int4" not in {lane.facts.runtime.name for lane in opened.lanes}
    assert any("contradict" in notice for notice in opened.notices)


def test_a_vocabulary_that_claims_to_be_the_same_and_is_not_is_not_compared(copy: Path) -> None:
    _edit(copy / "synthetic" / "iface--int4.duckdb", "UPDATE token SET bytes = '\\xFF\\xFE'::BLOB")
    opened = Library(copy).open_case("iface")
    assert "int4" not in {lane.facts.runtime.name for lane in opened.lanes}
    assert any("different tokenizers" in notice for notice in opened.notices)
