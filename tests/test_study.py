from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from capture.checks import CheckRule
from capture.errors import CaseError, StudyError
from capture.model import FlipClass, Keep, Mode, Origin, ScoringPath
from capture.plan import definition
from capture.resources import data_folder
from capture.study import Follow, ProbeRule, read_study

CASES = json.dumps([{"id": "one", "messages": [{"role": "user", "content": "hi"}]}])

GOOD = """
[study]
name = "mine"
cases = "cases.json"
reference = "a"

[[runtime]]
name = "a"
engine = "torch"
model = "packaged:smollm2-135m-instruct"

[[runtime]]
name = "b"
engine = "torch"
model = "packaged:smollm2-135m-instruct"
options = { attention = "eager" }
"""


def write(folder: Path, text: str) -> Path:
    (folder / "cases.json").write_text(CASES)
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


def test_a_small_study_has_sensible_defaults(tmp_path: Path) -> None:
    study = read_study(write(tmp_path, GOOD))
    assert [runtime.name for runtime in study.candidates] == ["b"]
    assert study.scoring_paths == (ScoringPath.DECODE,)
    assert study.keep.logits is Keep.ALL
    assert study.forks.classes == (FlipClass.DECIDED, FlipClass.NEAR_TIE, FlipClass.TIE)
    assert [case.case_id for case in study.cases] == ["one"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('engine = "torch"', 'engine = "tensorrt"', "unknown engine 'tensorrt'"),
        ('reference = "a"', "deep = " + "[" * 5000, "nested too deeply"),
        ('reference = "a"', "max_tokens = " + "9" * 5000, "no TOML file"),
        ('reference = "a"', 'reference = "a"\ntitle = "' + "x" * 1001 + '"', "study.title"),
        ('name = "b"', 'name = "b"\nlabel = "' + "x" * 201 + '"', "label"),
        ('model = "packaged:smollm2-135m-instruct"', 'model = "~nobody-here/model"', "home of a user"),
        ('cases = "cases.json"', 'cases = "cases.json"\nonly = ["two"]', "unknown case 'two'"),
        ('attention = "eager"', 'attenton = "eager"', "attenton"),
        ('attention = "eager"', 'attention = "flash"', "flash"),
        ('reference = "a"', 'reference = "c"', "the reference 'c'"),
        ('reference = "a"', "", "either 'reference'"),
        ('reference = "a"', 'reference = "a"\nreference_bundles = ["x.duckdb"]', "either 'reference'"),
        ('reference = "a"', 'reference_bundles = ["x.duckdb"]', "x.duckdb does not exist"),
        ('reference = "a"', 'reference = "a"\ntemperature = 0.7', "temperature"),
        ('reference = "a"', 'reference = "a"\nmax_tokens = 0', "max_tokens"),
        ('reference = "a"', 'reference = "a"\ndate = "9999-99-99"', "study.date"),
        ('name = "b"', 'name = "a"', "two runtimes are called 'a'"),
        ('name = "b"', 'name = "../b"', "runtime.1.name"),
        ('name = "mine"', 'name = "mi/ne"', "study.name"),
        ("packaged:smollm2-135m-instruct", "packaged:gpt-9", "unknown packaged model"),
        ("packaged:smollm2-135m-instruct", "./nowhere", "does not exist"),
        ("[study]", "[keep]\nruntimes = ['z']\n[study]", "'keep.runtimes' names 'z'"),
        ("[study]", "[keep]\ncases = ['z']\n[study]", "'keep.cases' names 'z'"),
        ("[study]", "[study", "no TOML file"),
        ("[study]", "[study]\n[studio]", "name"),
    ],
)
def test_what_is_wrong_is_named_in_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(StudyError) as caught:
        read_study(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value).strip()


def test_rows_can_be_kept_of_some_cases_and_runtimes_only(tmp_path: Path) -> None:
    keep = read_study(write(tmp_path, '[keep]\nruntimes = ["a"]\ncases = ["one"]\n' + GOOD)).keep
    assert keep.of("one", "a").logits is Keep.ALL
    assert keep.of("one", "b").logits is keep.of("two", "a").logits is Keep.TOP_K


def test_rows_can_be_kept_of_one_scoring_path_only(tmp_path: Path) -> None:
    keep = read_study(write(tmp_path, '[keep]\nbranches = "ranges"\nscoring_paths = ["decode"]\n' + GOOD)).keep
    assert keep.kept(Origin(Mode.FREE)) is keep.kept(Origin(Mode.FORCED, ScoringPath.DECODE)) is Keep.ALL
    assert keep.kept(Origin(Mode.BRANCH)) is Keep.RANGES
    assert keep.kept(Origin(Mode.FORCED, ScoringPath.PREFILL)) is Keep.TOP_K


def test_an_option_that_a_worker_cannot_be_told_is_refused(tmp_path: Path) -> None:
    vllm = GOOD.replace('engine = "torch"', 'engine = "vllm"').replace(
        'options = { attention = "eager" }', "options = { engine_arguments = { hf_overrides = { when = 2026-01-01 } } }"
    )
    with pytest.raises(StudyError, match="option 'engine_arguments' holds a date"):
        read_study(write(tmp_path, vllm))


def test_a_missing_study_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="nowhere.toml"):
        read_study(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"cases": []}'])
def test_a_bad_case_file_is_named(tmp_path: Path, content: str) -> None:
    path = write(tmp_path, GOOD)
    (tmp_path / "cases.json").write_text(content)
    with pytest.raises(CaseError, match=r"cases\.json"):
        read_study(path)


@pytest.mark.parametrize("path", sorted(data_folder().glob("studies/*.toml")), ids=lambda path: path.stem)
def test_the_studies_that_ship_are_valid(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLIPSCOPE_VLLM_PYTHON", "/usr/bin/python3")
    monkeypatch.setenv("FLIPSCOPE_W8A8_MODEL", str(tmp_path))
    assert len(read_study(path).runtimes) >= 4


def test_a_variable_that_is_not_set_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    path = write(tmp_path, GOOD.replace('name = "a"\nengine', 'name = "a"\ncommand = ["$NOWHERE/python"]\nengine'))
    with pytest.raises(StudyError, match=r"'\$NOWHERE/python' names an environment variable that is not set"):
        read_study(path)


def test_only_needs_cases_and_takes_each_once(tmp_path: Path) -> None:
    twice = GOOD.replace('reference = "a"', 'reference = "a"\nonly = ["one", "one"]')
    assert [case.case_id for case in read_study(write(tmp_path, twice)).cases] == ["one"]
    (tmp_path / "sealed.duckdb").touch()
    text = twice.replace('cases = "cases.json"\n', "").replace(
        'reference = "a"', 'reference_bundles = ["sealed.duckdb"]'
    )
    with pytest.raises(StudyError, match="'only' picks from 'cases'"):
        read_study(write(tmp_path, text))


def test_a_study_may_start_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert read_study(write(tmp_path, f"\ufeff{GOOD}")).name == "mine"


def test_a_case_file_whose_name_holds_a_nul_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="null byte"):
        read_study(write(tmp_path, GOOD.replace('"cases.json"', '"a\\u0000b"')))


def test_a_study_may_probe_prompts_and_name_a_check(tmp_path: Path) -> None:
    study = read_study(write(tmp_path, GOOD + '[probe]\nstride = 16\n[check]\ncommand = ["python", "check.py"]\n'))
    assert study.probe == ProbeRule(16, 8000)
    assert study.check == CheckRule(("python", "check.py"), 60.0, tmp_path)
    assert study.follow is Follow.REFERENCE
    plain = read_study(write(tmp_path, GOOD))
    assert plain.probe is None
    assert plain.check is None


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("[probe]\nstride = 0\n", "probe.stride"),
        ("[probe]\nwindows = 5\n", "probe.windows"),
        ("[check]\ncommand = []\n", "check.command"),
        ("[check]\n", "check.command"),
        ('[check]\ncommand = ["x"]\ntimeout_seconds = 0\n', "check.timeout_seconds"),
    ],
)
def test_wrong_tables_are_told(tmp_path: Path, extra: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        read_study(write(tmp_path, GOOD + extra))


def test_nothing_is_repeated_where_nothing_runs_free(tmp_path: Path) -> None:
    text = GOOD.replace('reference = "a"', 'reference = "a"\nreplicas = 2', 1)
    with pytest.raises(StudyError, match="replicas repeat free runs, and this study has none"):
        read_study(write(tmp_path, text + "[probe]\n"))
    with pytest.raises(StudyError, match="records no assistant turn to follow"):
        read_study(write(tmp_path, GOOD.replace('reference = "a"', 'reference = "a"\nfollow = "recorded"', 1)))


def test_a_study_without_new_keys_asks_for_what_it_always_did(tmp_path: Path) -> None:
    """The hash names sealed bundles: what is off must not change it."""
    study = read_study(write(tmp_path, GOOD))
    asked = definition(study, study.cases[0], study.runtimes[0], "")
    assert (
        definition(replace(study, check=CheckRule(("x",), 1.0, tmp_path)), study.cases[0], study.runtimes[0], "")
        == asked
    )
    others = [
        definition(replace(study, probe=ProbeRule(32, 8000)), study.cases[0], study.runtimes[0], ""),
        definition(replace(study, follow=Follow.RECORDED), study.cases[0], study.runtimes[0], ""),
        definition(
            study, replace(study.cases[0], ranges=({"kind": "code", "start": 0, "stop": 1},)), study.runtimes[0], ""
        ),
    ]
    assert len({asked, *others}) == 4
