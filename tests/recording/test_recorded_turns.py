"""Cases that are followed as they were recorded: every lane is forced along the same conversation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.library import Library
from capture.bundle import Bundle, verify_bundle
from capture.case_recorder import CaseRecorder
from capture.errors import EngineError, StudyError
from capture.model import Exactness, Mode, ScoringPath
from capture.pairs import bundle_paths, compare_bundles
from capture.progress import SilentReporter
from capture.record import Recorder
from capture.study import read_study
from tests.engines.tiny_models import save_llama, save_tokenizer
from tests.recording.conftest import RUNTIMES
from tests.web.conftest import client_of

pytestmark = pytest.mark.engine

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<{{ message.role }}>{{ message.content }}"
    "{% if message.role == 'assistant' %}</s>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
ANSWERS = ("show version", '{"name": "run", "device": 1}', "the core switch")
TALK = [
    {"role": "system", "content": "route"},
    {"role": "user", "content": "what is the software"},
    {"role": "assistant", "content": ANSWERS[0]},
    {"role": "tool", "content": "1.2"},
    {"role": "assistant", "content": ANSWERS[1]},
    {"role": "user", "content": "and of which switch"},
    {"role": "assistant", "content": ANSWERS[2]},
    {"role": "user", "content": "thanks"},
]
CASES = [{"id": "talk", "messages": TALK}, {"id": "short", "messages": TALK[1:3]}]


@pytest.fixture(scope="module")
def study_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    model = save_llama(folder / "model")
    save_tokenizer(model, template=TEMPLATE)
    return write(folder, model)


def write(folder: Path, model: Path) -> Path:
    (folder / "cases.json").write_text(json.dumps(CASES))
    tables = [
        f'[[runtime]]\nname = "{name}"\nengine = "torch"\nmodel = "{model}"\n[runtime.options]\nthreads = 1\n'
        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in RUNTIMES[name].items())
        for name in ("plain", "int4")
    ]
    head = (
        '[study]\nname = "recorded"\ncases = "cases.json"\nreference = "plain"\nfollow = "recorded"\nmax_tokens = 8\n'
    )
    rest = 'scoring_paths = ["prefill", "decode"]\n[forks]\nmost = 3\nmax_tokens = 6\n'
    (folder / "study.toml").write_text(head + rest + "\n".join(tables))
    return folder / "study.toml"


@pytest.fixture(scope="module")
def library(study_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    Recorder(read_study(study_file), folder, SilentReporter()).capture()
    return folder / "recorded"


def test_every_lane_is_forced_along_the_case_by_both_paths(library: Path) -> None:
    paths = bundle_paths(library)
    assert len(paths) == 4
    for path in paths:
        verify_bundle(path)
        with Bundle(path) as bundle:
            forced = [run for run in bundle.runs if run.mode is Mode.FORCED]
            assert [run.scoring_path for run in forced] == [ScoringPath.DECODE, ScoringPath.PREFILL]
            assert all(run.forced_along is None for run in forced)
            assert not any(run.mode is Mode.FREE for run in bundle.runs)


def test_the_turns_are_the_recorded_answers_with_the_token_that_ends_them(library: Path) -> None:
    with Bundle(library / "talk--plain.duckdb") as bundle:
        steps, tokens, prompt = bundle.steps(bundle.runs[0].run_id), bundle.tokens(), bundle.prompt
    data = [tokens[token_id].data for token_id in steps.token_id.tolist()]
    assert [b"".join(data[first:stop]).decode() for first, stop in prompt.turns] == [f"{one}</s>" for one in ANSWERS]
    assert b"".join(data[prompt.turns[0][1] : prompt.turns[1][0]]) == b"\n<tool>1.2<assistant>"
    assert prompt.turns[0][0] == 0
    assert prompt.turns[-1][1] == len(steps)
    assert prompt.text.endswith("<user>what is the software<assistant>")
    assert steps.forced.all()


def test_only_recorded_turns_are_scored(library: Path) -> None:
    for case in ("talk", "short"):
        names = f"{case}--plain.duckdb", f"{case}--int4.duckdb"
        with Bundle(library / names[0]) as reference, Bundle(library / names[1]) as candidate:
            comparisons = compare_bundles(reference, candidate)
            turns = reference.prompt.turns
            assert turns == candidate.prompt.turns
        assert len(comparisons) == 2
        for comparison in comparisons:
            assert comparison.position.tolist() == [at for first, stop in turns for at in range(first, stop)]
            assert {flip.position for flip in comparison.flips} <= set(comparison.position.tolist())
            assert len(comparison.metrics) == len(comparison.position)
            assert comparison.flips  # int4 weights of a random model flip somewhere


def test_decode_is_compared_with_decode_and_prefill_with_prefill(library: Path) -> None:
    with Bundle(library / "talk--plain.duckdb") as reference, Bundle(library / "talk--int4.duckdb") as candidate:
        paths = [
            (reference.run(one.reference).scoring_path, candidate.run(one.candidate).scoring_path)
            for one in compare_bundles(reference, candidate)
        ]
    assert paths == [(path, path) for path in (ScoringPath.DECODE, ScoringPath.PREFILL)]


def test_branches_grow_inside_recorded_turns_and_are_exact(library: Path) -> None:
    grown = 0
    for case in ("talk", "short"):
        with Bundle(library / f"{case}--int4.duckdb") as bundle:
            turns = bundle.prompt.turns
            for run in [run for run in bundle.runs if run.mode is Mode.BRANCH and run.fork is not None]:
                grown += 1
                assert run.fork is not None
                assert run.certificate is not None
                assert run.certificate.exactness is Exactness.EXACT
                assert any(first <= run.fork.position < stop for first, stop in turns)
    assert grown > 0


def test_a_forced_run_has_the_logits_of_the_conversation_so_far(library: Path) -> None:
    """The prompt of the short case is another, so nothing is shared; the talk's own prefix is one chain."""
    with Bundle(library / "talk--plain.duckdb") as bundle:
        decode, prefill = (bundle.steps(run.run_id) for run in bundle.runs)
    assert decode.prefix_id == prefill.prefix_id
    agree = (decode.top1 == prefill.top1).mean()
    assert agree > 0.9


def test_killed_in_the_middle_it_goes_on(
    study_file: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = CaseRecorder.record_turns

    def dies(self: CaseRecorder, path: tuple[int, ...], reference: object) -> object:
        if reference is not None:
            raise EngineError("killed")
        return original(self, path, None)

    monkeypatch.setattr(CaseRecorder, "record_turns", dies)
    with pytest.raises(EngineError, match="killed"):
        Recorder(read_study(study_file), tmp_path, SilentReporter()).capture()
    monkeypatch.undo()
    Recorder(read_study(study_file), tmp_path, SilentReporter()).capture()
    with Bundle(tmp_path / "recorded" / "talk--int4.duckdb") as again, Bundle(library / "talk--int4.duckdb") as once:
        assert [run.run_id for run in again.runs] == [run.run_id for run in once.runs]


def test_a_sealed_reference_of_another_place_is_followed(study_file: Path, library: Path, tmp_path: Path) -> None:
    head, _, int4 = study_file.read_text().split("[[runtime]]")
    head = head.replace('reference = "plain"', f'reference_bundles = ["{library}/talk--plain.duckdb"]')
    head = head.replace('cases = "cases.json"\n', "").replace('name = "recorded"', 'name = "elsewhere"')
    text = f"{head}[[runtime]]{int4}"
    (tmp_path / "study.toml").write_text(text)
    Recorder(read_study(tmp_path / "study.toml"), tmp_path / "library", SilentReporter()).capture()
    with (
        Bundle(tmp_path / "library" / "elsewhere" / "talk--int4.duckdb") as bundle,
        Bundle(library / "talk--int4.duckdb") as own,
    ):
        assert bundle.steps(bundle.runs[0].run_id).row_hash == own.steps(own.runs[0].run_id).row_hash
        assert bundle.prompt == own.prompt


def test_a_case_without_a_recorded_turn_is_refused(study_file: Path, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(study_file.read_text())
    (tmp_path / "cases.json").write_text(json.dumps([*CASES, {"id": "bare", "messages": TALK[:2]}]))
    with pytest.raises(StudyError, match="case 'bare' records no assistant turn"):
        read_study(tmp_path / "study.toml")


def test_the_pages_show_what_was_followed(library: Path) -> None:
    with client_of(library.parent) as client:
        assert client.get("/").status_code == 200
        (case,) = [key for key in Library(library.parent).catalog().cases if key.startswith("talk-")]
        page = client.get(f"/c/{case}.json")
        assert page.status_code == 200, page.text
        shown = page.json()
        with Bundle(library / "talk--plain.duckdb") as reference, Bundle(library / "talk--int4.duckdb") as candidate:
            decode, _ = compare_bundles(reference, candidate)
        assert [lane["label"] for lane in shown["lanes"]]
        assert shown["mode"] == "forced"
        assert {flip["position"] for flip in shown["flips"]} == {flip.position for flip in decode.flips}
