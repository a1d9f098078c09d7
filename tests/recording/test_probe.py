"""Prompts that are probed: every so many-th position, one context, the same positions in every lane."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup

from app.cli import main
from app.library import Library
from capture.bundle import Bundle, verify_bundle
from capture.errors import DamagedBundleError, StudyError
from capture.model import Mode, ScoringPath
from capture.pairs import bundle_paths, compare_bundles
from capture.prefix import prefix_of
from capture.probes import probed_windows
from capture.progress import SilentReporter
from capture.record import Recorder
from capture.rows import widen
from capture.study import read_study
from tests.engines.tiny_models import save_llama
from tests.recording.conftest import RUNTIMES
from tests.web.conftest import client_of

pytestmark = pytest.mark.engine

STRIDE = 7
WORDS = "show version of the core switch and its software, then show ip route " * 12


@pytest.fixture(scope="module")
def study_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe")
    model = save_llama(folder / "model", max_position_embeddings=2048)
    cases = [{"id": name, "messages": [{"role": "user", "content": text}]} for name, text in LONG.items()]
    (folder / "cases.json").write_text(json.dumps(cases))
    tables = [
        f'[[runtime]]\nname = "{name}"\nengine = "torch"\nmodel = "{model}"\n'
        f"options = {{ threads = 1, prefill_chunk = 32, {options(name)} }}\n"
        for name in ("plain", "int4")
    ]
    head = '[study]\nname = "probe"\ncases = "cases.json"\nreference = "plain"\n'
    head += f"[probe]\nstride = {STRIDE}\nwindow = 100\n"
    (folder / "study.toml").write_text(head + "\n".join(tables))
    return folder / "study.toml"


LONG = {"first": WORDS, "second": WORDS[::-1][:500]}


def options(name: str) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in RUNTIMES[name].items())


@pytest.fixture(scope="module")
def library(study_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    Recorder(read_study(study_file), folder, SilentReporter()).capture()
    return folder


def test_every_bundle_is_whole_and_holds_the_probe_alone(library: Path) -> None:
    paths = bundle_paths(library)
    assert len(paths) == 4
    for path in paths:
        verify_bundle(path)
        with Bundle(path) as bundle:
            (run,) = bundle.runs
            assert (run.mode, run.scoring_path, run.forced_along) == (Mode.FORCED, ScoringPath.PREFILL, None)
            assert run.probe_stride == STRIDE
            assert run.follows_text
            assert bundle.facts.runtime.options["prefill_chunk"] == 32


def test_positions_lie_in_the_prompt_at_the_stride_and_name_its_prefixes(library: Path) -> None:
    for path in bundle_paths(library):
        with Bundle(path) as bundle:
            ids, steps = bundle.prompt.token_ids, bundle.steps(bundle.runs[0].run_id)
        assert len(ids) > 200
        places = (steps.position + len(ids)).tolist()
        assert places == list(range(1, len(ids), STRIDE))
        assert steps.token_id.tolist() == [ids[place] for place in places]
        assert [steps.prefix_id[at] for at in (0, 5, -1)] == [prefix_of(ids[: places[at]]) for at in (0, 5, -1)]


def test_the_rows_are_those_of_one_continuous_context(library: Path, study_file: Path) -> None:
    """Against a forward pass over the whole prompt at once; chunks of a prefill move the last bits only."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    (path,) = [path for path in bundle_paths(library) if path.stem == "first--plain"]
    with Bundle(path) as bundle:
        ids, run = bundle.prompt.token_ids, bundle.runs[0]
        steps = bundle.steps(run.run_id)
        found = widen(bundle.rows(run.run_id, steps.position.tolist()), run.dtype)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        study_file.parent / "model", dtype=torch.bfloat16, attn_implementation="eager"
    )
    with torch.inference_mode():
        wanted = model(torch.tensor([ids])).logits[0].float().numpy()
    places = steps.position + len(ids)
    np.testing.assert_allclose(found, wanted[places - 1], atol=0.35)
    assert (found.argmax(axis=1) == wanted[places - 1].argmax(axis=1)).mean() > 0.9


def test_windows_pool_the_cases_and_hold_every_probe(library: Path) -> None:
    ((key, windows),) = probed_windows(library, print, 100).items()
    assert key == ("probe", "int4")
    lengths = {}
    for path in bundle_paths(library):
        with Bundle(path) as bundle:
            lengths[bundle.facts.case.case_id] = len(bundle.prompt.token_ids)
    places = [place for length in lengths.values() for place in range(1, length, STRIDE)]
    assert sum(window.probes for window in windows) == len(places)
    assert windows[0].probes == sum(place < 100 for place in places)
    assert windows[0].cases == 2
    assert sum(window.flips for window in windows) > 0
    assert all(window.interval.low <= window.disagreement <= window.interval.high for window in windows)


def test_a_second_capture_of_the_same_counts_once(library: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(library, tmp_path / name)
    assert probed_windows(tmp_path, print, 100) == probed_windows(library, print, 100)


def test_a_comparison_counts_the_flips_of_probed_positions(library: Path) -> None:
    folder = library / "probe"
    with Bundle(folder / "first--plain.duckdb") as reference, Bundle(folder / "first--int4.duckdb") as candidate:
        (comparison,) = compare_bundles(reference, candidate)
        left = reference.steps(comparison.reference).top1
        right = candidate.steps(comparison.candidate).top1
    assert len(comparison.flips) == int((left != right).sum()) > 0


def test_a_probe_outside_of_its_prompt_is_damaged(library: Path, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    copy = tmp_path / "copy.duckdb"
    copy.write_bytes((library / "probe" / "first--plain.duckdb").read_bytes())
    with duckdb.connect(str(copy)) as connection:
        connection.execute("UPDATE step SET position = position + 1")
    with pytest.raises(DamagedBundleError, match="does not lie in its prompt"):
        verify_bundle(copy)


def test_lanes_of_another_prefill_chunk_are_refused(study_file: Path, tmp_path: Path) -> None:
    text = study_file.read_text()
    (tmp_path / "cases.json").write_text((study_file.parent / "cases.json").read_text())
    (tmp_path / "study.toml").write_text(text.replace("prefill_chunk = 32", "prefill_chunk = 64", 1))
    with pytest.raises(StudyError, match="the same prefill chunk in all lanes, and these have 32, 64"):
        read_study(tmp_path / "study.toml")


def test_a_chunk_that_one_engine_chooses_is_not_the_one_that_another_lane_sets(
    study_file: Path, tmp_path: Path
) -> None:
    text = study_file.read_text()
    (tmp_path / "cases.json").write_text((study_file.parent / "cases.json").read_text())
    other = '[[runtime]]\nname = "other"\nengine = "vllm"\nmodel = "m"\n'
    (tmp_path / "study.toml").write_text(text + other)
    with pytest.raises(StudyError, match="and these have 32, what vllm chooses"):
        read_study(tmp_path / "study.toml")


def test_capturing_again_finds_everything_there(library: Path, study_file: Path) -> None:
    recorder = Recorder(read_study(study_file), library, SilentReporter())
    assert all(bundle.sealed and bundle.runs == ("probe",) for bundle in recorder.plan())
    assert recorder.capture().sealed == 0


def test_the_pages_go_on_without_an_output_to_show(library: Path) -> None:
    with client_of(library) as client:
        assert client.get("/").status_code == 200
        for key in Library(library).catalog().cases:
            page = client.get(f"/c/{key}")
            assert page.status_code == 404
            assert "no free run to show" in BeautifulSoup(page.text, "html.parser").get_text()


def test_the_command_tells_the_windows(
    library: Path, study_file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["windows", str(library), "--width", "50", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    wanted = probed_windows(library, print, 50)[("probe", "int4")]
    assert [(row["start"], row["probes"], row["flips"]) for row in rows] == [
        (window.start, window.probes, window.flips) for window in wanted
    ]
    assert main(["windows", str(study_file), "--library", str(library)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "0 to 99" in lines[1]  # the study's own width
    assert main(["windows", str(tmp_path)]) == 2
    assert "holds no probed prompt" in capsys.readouterr().err


def test_the_library_and_its_charts_show_probes_by_window_of_context(library: Path) -> None:
    with client_of(library) as client:
        client.get("/index.json")
        shown: Library = client.app.state.library  # type: ignore[attr-defined]
        shown.settle()
        (matrix,) = client.get("/index.json").json()["matrices"]
        cells = [cell for group in matrix["groups"] for row in group["rows"] for cell in row["cells"]]
        compared = [cell for cell in cells if cell["kind"] == "compared" and cell["protocol"] == "probe"]
        assert len(compared) == len(LONG)
        for cell in compared:
            assert client.get(cell["href"]).status_code == 200
        charts = client.get("/charts/windows.json?protocol=probe").json()
        assert sum(row[3] for row in charts["rows"]) == sum(cell["positions"] for cell in compared)
        assert sum(row[4] for row in charts["rows"]) == sum(cell["flips"] for cell in compared)
        names = {chart["name"] for chart in client.get("/charts.json?protocol=probe").json()["charts"]}
        assert "disagreement" in names
        assert not names & {"stream", "heat", "identical"}
