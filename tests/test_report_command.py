"""`flipscope report` on real captures: for people, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from app.report_pages import parts_of
from app.report_tables import KL_N, Table
from app.report_text import text_lines
from capture.bundle import Bundle
from capture.checks import Checked, checks_path, write_checks
from capture.comparison import read_comparisons, write_comparisons
from capture.model import Mode, Origin
from tests.factories import make_bundle, make_facts, make_run, make_steps
from tests.report_samples import FOLDER, bundled_report

WIDTH = 100


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Return a library with one case of the study that ships, through three runtimes."""
    folder = tmp_path / "library" / "network-automation"
    folder.mkdir(parents=True)
    for path in FOLDER.glob("mac--*.duckdb"):
        if any(path.name.startswith(f"mac--{name}.") for name in ("bf16", "kv-e4m3", "w8a8")):
            shutil.copy(path, folder)
    return folder.parent


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def test_people_read_the_direction_the_mode_and_that_the_reference_is_a_yardstick(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(capsys, "report", str(library))
    assert "KL(reference‖runtime)" in out
    assert "The reference is a yardstick, not the right answer." in out
    assert "Under 10 cases no interval is claimed for the study" in out
    headings = [line for line in out.splitlines() if line.startswith(("Forced,", "Free,"))]
    assert [heading.split(":")[0] for heading in headings] == ["Forced, decode", "Forced, prefill", "Free, decode"]


def test_lines_of_the_whole_study_fit_a_terminal() -> None:
    lines = list(text_lines(parts_of(bundled_report())))
    assert len(lines) > 150
    assert max(map(len, lines)) <= WIDTH


def test_a_table_that_is_too_wide_is_told_in_pieces_that_repeat_its_words() -> None:
    header = ("", *(f"a runtime with a name, number {at}" for at in range(5)))
    table = Table("Wide", header, (("Mean KLD", *(str(at) for at in range(5))),))
    lines = list(text_lines([table]))
    assert max(map(len, lines)) <= WIDTH
    assert [line.split() for line in lines if "Mean" in line] == [
        ["Mean", "KLD", "0", "1"],
        ["Mean", "KLD", "2", "3"],
        ["Mean", "KLD", "4"],
    ]


def test_columns_that_belong_together_stay_together_where_a_table_is_too_wide() -> None:
    header = ("", *("x" * 30 for _ in range(4)))
    table = Table("Wide", header, (("n", "0", "1", "2", "3"),), starts=(3,))
    lines = [line.split() for line in text_lines([table]) if line.strip().startswith("n ")]
    assert lines == [["n", "0", "1"], ["n", "2", "3"]]
    unbound = [line.split() for line in text_lines([replace(table, starts=())]) if line.strip().startswith("n ")]
    assert unbound == [["n", "0", "1", "2"], ["n", "3"]]


def test_kl_tells_what_it_is_of_where_that_is_not_every_position() -> None:
    whole = bundled_report().sections[0]
    tables = {table.title.split(",")[0]: table for table in parts_of(bundled_report()) if isinstance(table, Table)}
    runs, kinds, chosen = (tables[name] for name in ("By run", "By kind of range", "Which should I use"))
    at = runs.header.index("KL\nn")
    assert {row[:2]: row[at] for row in runs.rows}["KV fp8 e4m3", "mac"] == "43"
    assert ("", "KL n") in [row[:2] for row in kinds.rows]
    mixed = next(lane.summary for lane in whole.lanes if lane.runtime == "kv-e4m3")
    assert mixed.main is not None
    told = {row[0]: row[chosen.header.index("KL\nn")] for row in chosen.rows}
    assert told["KV fp8 e4m3"] == f"{mixed.main.positions} of {mixed.positions}"
    assert told["W8A8"] == str(mixed.positions)
    assert all(KL_N in table.notes for table in (runs, kinds, chosen))


def test_the_statistics_are_in_the_words_and_order_of_llama_cpp(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, "report", str(library)).splitlines()
    heading = lines.index("KL divergence statistics")
    start = next(at for at in range(heading, len(lines)) if lines[at].strip().startswith("Positions")) + 1
    names = [re.split(r"\s{2,}", line.strip())[0] for line in lines[start : start + 11]]
    assert names == [
        "Mean KLD", "Maximum KLD", "99.9% KLD", "99.0% KLD", "95.0% KLD", "90.0% KLD", "Median KLD", "10.0% KLD",
        "5.0% KLD", "1.0% KLD", "0.1% KLD",
    ]  # fmt: skip
    assert "0.018508 ± 0.004505" in lines[start]


def test_whole_vocabularies_and_lower_bounds_have_tables_of_their_own(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(capsys, "report", str(library))
    assert "KL divergence statistics\n" in out
    assert "KL divergence statistics, lower bounds from the 12 highest tokens\n" in out
    assert "of 43 positions; of 9 only the highest tokens were kept" in " ".join(out.split())


def test_json_holds_every_number(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "report", str(library), "--json"))
    (study,) = found["studies"]
    assert study["reference"] == "bf16"
    section = study["sections"][0]
    (lane,) = [lane for lane in section["lanes"] if lane["runtime"] == "kv-e4m3"]
    assert lane["summary"]["positions"] == 52
    assert lane["summary"]["whole"]["kl_forward"]["mean"] == pytest.approx(0.0185076, rel=1e-5)
    assert set(lane["summary"]["whole"]["kl_forward"]["quantiles"]) >= {"0.999", "0.5", "0.001"}
    (case,) = lane["by_case"]
    assert case["summary"]["disagreement"]["interval"]["low"] > 0
    assert lane["summary"]["disagreement"]["interval"] is None
    assert {one["runtime"] for one in study["outcomes"]} == {"bf16", "kv-e4m3", "w8a8"}


def test_csv_has_a_line_for_each_runtime_scope_and_statistic(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "report", str(library), "--csv"))))
    keys = [tuple(row[name] for name in list(row)[:9]) for row in rows]
    assert len(set(keys)) == len(keys)
    (mean,) = [
        row
        for row in rows
        if (row["runtime"], row["mode"], row["scoring_path"], row["scope"], row["known"], row["statistic"])
        == ("kv-e4m3", "forced", "decode", "study", "whole", "KL(reference||runtime) mean")
    ]
    assert float(mean["value"]) == pytest.approx(0.0185076, rel=1e-5)
    assert (mean["positions"], mean["low"]) == ("43", "")
    assert {row["scope"] for row in rows} == {"study", "case", "range kind", "confidence", "floor"}
    assert {row["known"] for row in rows} == {"whole", "top-k", "all"}


def test_markdown_has_tables_of_equal_rows(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "report", str(library), "--markdown").splitlines()
    tables: list[list[int]] = [[]]
    for line in lines:
        if line.startswith("|"):
            assert line.endswith(" |")
            tables[-1].append(line.count("|"))
        elif tables[-1]:
            tables.append([])
    found = [table for table in tables if table]
    assert len(found) > 8
    assert all(len(set(table)) == 1 and len(table) > 2 for table in found)
    assert not any("`" in line for line in lines if line.startswith("#"))


def test_one_mode_and_scoring_path_may_be_picked(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("report", str(library), "--json", "--mode", "forced", "--scoring-path", "prefill")
    (study,) = json.loads(printed(capsys, *arguments))["studies"]
    assert [(section["mode"], section["scoring_path"]) for section in study["sections"]] == [("forced", "prefill")]


def test_nothing_of_that_mode_is_one_sentence(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(library), "--mode", "free", "--scoring-path", "prefill"]) == 2
    assert "no compared run of that mode" in capsys.readouterr().err


def test_a_missing_comparison_is_made_and_a_broken_bundle_told(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads(printed(capsys, "report", str(library), "--json"))
    for path in library.rglob("*.comparison.duckdb"):
        path.unlink()
    (library / "network-automation/mac--broken.duckdb").write_bytes(b"nothing")
    assert main(["report", str(library), "--json"]) == 0
    said = capsys.readouterr()
    assert "mac--broken.duckdb" in said.err
    after = json.loads(said.out)
    assert [lane["summary"]["flips"] for lane in after["studies"][0]["sections"][0]["lanes"]] == [
        lane["summary"]["flips"] for lane in before["studies"][0]["sections"][0]["lanes"]
    ]


def test_a_pair_that_cannot_be_compared_is_told_and_hides_nothing_else(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = library / "network-automation"
    with Bundle(folder / "mac--bf16.duckdb") as bundle:
        reference = bundle.runs[0]
    logits = np.zeros((3, 16), np.float32)
    origin = Origin(Mode.FORCED, forced_along=reference.run_id)
    run = make_run(logits, make_steps(logits, [1, 2, 3], forced=True), origin)
    facts = replace(make_facts("foreign", is_reference=False, case_id="mac"), study="network-automation")
    make_bundle(folder / "mac--foreign.duckdb", [run], facts)
    assert main(["report", str(library), "--json"]) == 0
    said = capsys.readouterr()
    assert "different tokenizers" in said.err
    (study,) = json.loads(said.out)["studies"]
    assert [lane["runtime"] for lane in study["sections"][0]["lanes"]] == ["kv-e4m3", "w8a8"]


def test_a_comparison_of_other_prefixes_is_told_and_made_again(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = library / "network-automation/mac--w8a8.vs.bf16.comparison.duckdb"
    before = printed(capsys, "report", str(library), "--json")
    wrong = [replace(one, prefix_id=tuple(bytes(16) for _ in one.prefix_id)) for one in read_comparisons(path)]
    write_comparisons(path, wrong)
    assert main(["report", str(library), "--json"]) == 0
    said = capsys.readouterr()
    assert f"{path.name} does not fit mac--w8a8.duckdb; delete it and compare again" in said.err
    assert json.loads(said.out) == json.loads(before)


def test_a_runtime_that_rules_tokens_out_is_told_without_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logits = np.random.default_rng(0).normal(0, 3, (15, 16)).astype(np.float32)
    free = make_run(logits, make_steps(logits))
    make_bundle(tmp_path / "case--plain.duckdb", [free])
    for name, first in (("masked", 0), ("shifted", 15)):
        other = logits + np.float32(0.25) * np.arange(16, dtype=np.float32)
        other[first:, ::2] = -np.inf
        steps = make_steps(other, free.steps.token_id.tolist(), forced=True)
        run = make_run(other, steps, Origin(Mode.FORCED, forced_along=free.run.run_id))
        make_bundle(tmp_path / f"case--{name}.duckdb", [run], make_facts(name, is_reference=False))
    lanes = json.loads(printed(capsys, "report", str(tmp_path), "--json"))["studies"][0]["sections"][0]["lanes"]
    assert [lane["summary"]["whole"]["kl_forward"]["mean"] is None for lane in lanes] == [True, False]
    assert "inf" in printed(capsys, "report", str(tmp_path))


def test_what_the_users_own_check_said_is_counted_by_its_words(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = library / "network-automation/mac--w8a8.duckdb"
    with Bundle(path) as bundle:
        runs = [run.run_id for run in bundle.runs if run.mode is not Mode.FORCED and not run.replica]
    said = [Checked(run, "0" * 32, "commands valid" if run == runs[0] else "wrong command", "") for run in runs]
    write_checks(checks_path(path), ["check"], said)
    (study,) = json.loads(printed(capsys, "report", str(library), "--json"))["studies"]
    found = {one["run_id"]: one["check"] for one in study["outcomes"] if one["check"]}
    assert found == {one.run_id: one.verdict for one in said}
    lines = printed(capsys, "report", str(library)).splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("Verdicts of the user's check"))
    assert [re.split(r"\s{2,}", line.strip()) for line in lines[start + 1 : start + 3]] == [
        ["runtime", "commands valid", "wrong command"],
        ["W8A8", "1", str(len(runs) - 1)],
    ]
    checks_path(path).write_text("nothing", encoding="utf-8")
    assert main(["report", str(library), "--json"]) == 0
    assert "check again" in capsys.readouterr().err


def test_replicas_of_the_reference_stand_beside_the_lanes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits = np.random.default_rng(0).normal(0, 3, (12, 16)).astype(np.float32)
    steps = make_steps(logits)
    free = make_run(logits, steps)
    replica = make_run(logits, steps, Origin(Mode.FREE, replica=1))
    make_bundle(tmp_path / "case--plain.duckdb", [free, replica])
    other = logits + np.random.default_rng(1).normal(0, 1, logits.shape).astype(np.float32)
    forced = make_steps(other, steps.token_id.tolist(), forced=True)
    run = make_run(other, forced, Origin(Mode.FORCED, forced_along=free.run.run_id))
    make_bundle(tmp_path / "case--other.duckdb", [run], make_facts("other", is_reference=False))
    (study,) = json.loads(printed(capsys, "report", str(tmp_path), "--json"))["studies"]
    (floor,) = study["sections"][0]["floors"]
    assert (floor["kind"], floor["identical"], floor["summary"]["flips"]) == ("replica", True, 0)
    out = printed(capsys, "report", str(tmp_path))
    assert "bit-identical throughout: replica" in out
    assert "there is no benign control" in out
    (row,) = [line for line in out.splitlines() if line.strip().startswith("floor: replica")]
    assert row.split()[2:5] == ["12", "0/0/0", "0.00"]


@pytest.mark.parametrize("command", ["report", "stats", "determinism"])
def test_without_an_argument_the_library_that_is_shown_is_meant(
    command: str, library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(library.parent)
    assert json.loads(printed(capsys, command, "--json"))
    with pytest.raises(SystemExit):
        main(["report", "--json", "--csv"])


def test_names_out_of_files_are_text_in_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    label = "=1+1|<b>\x1b[31m\n`x`"
    logits = np.random.default_rng(0).normal(0, 3, (12, 16)).astype(np.float32)
    free = make_run(logits, make_steps(logits))
    make_bundle(tmp_path / "case--plain.duckdb", [free])
    forced = make_steps(logits + np.float32(0.01), free.steps.token_id.tolist(), forced=True)
    run = make_run(logits + np.float32(0.01), forced, Origin(Mode.FORCED, forced_along=free.run.run_id))
    make_bundle(tmp_path / "case--other.duckdb", [run], make_facts(label, is_reference=False))
    text = printed(capsys, "report", str(tmp_path))
    assert "\x1b" not in text
    markdown = printed(capsys, "report", str(tmp_path), "--markdown")
    assert "<b>" not in markdown
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "report", str(tmp_path), "--csv"))))
    assert {row["runtime"][0] for row in rows} == {"'"}
    found = json.loads(printed(capsys, "report", str(tmp_path), "--json"))
    assert found["studies"][0]["sections"][0]["lanes"][0]["runtime"] == label
