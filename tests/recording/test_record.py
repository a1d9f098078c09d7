from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from capture.bundle import Bundle, verify_bundle
from capture.compare import reference_run
from capture.engines.base import FreeJob
from capture.errors import PlanError, StudyError, VocabularyError
from capture.model import Ending, Exactness, Mode, Run, Runtime, ScoringPath
from capture.pairs import bundle_paths
from capture.plan import check_disk
from capture.prefix import output_prefixes
from capture.progress import SilentReporter
from capture.record import Recorder
from capture.study import Study, read_study
from capture.worker_process import WorkerProcess
from tests.engines.tiny_models import save_llama
from tests.recording.conftest import FORKS, SETTINGS, WriteStudy

pytestmark = pytest.mark.engine


def runs(bundle: Bundle, mode: Mode, scoring_path: ScoringPath = ScoringPath.DECODE) -> list[Run]:
    return [run for run in bundle.runs if run.mode is mode and run.scoring_path is scoring_path]


def stamp(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.duckdb")}


def test_a_bundle_for_each_runtime_and_case_and_a_comparison_for_each_candidate(library: Path) -> None:
    names = sorted(path.name for path in bundle_paths(library))
    assert names == [f"{case}--{runtime}.duckdb" for case in ("one", "two") for runtime in ("int4", "plain", "sdpa")]
    assert len(list(library.rglob("*.comparison.duckdb"))) == 4
    assert not list(library.rglob("*.partial"))


def test_every_bundle_verifies_and_its_prefixes_follow_from_prompt_and_tokens(library: Path) -> None:
    for path in bundle_paths(library):
        verify_bundle(path)
        with Bundle(path) as bundle:
            (free, replica) = runs(bundle, Mode.FREE)
            steps = bundle.steps(free.run_id)
            assert steps.prefix_id == output_prefixes(bundle.prompt.token_ids, steps.token_id.tolist())
            assert steps.row_hash == bundle.steps(replica.run_id).row_hash
            assert free.run_id != replica.run_id


def test_candidates_are_forced_along_the_reference_after_the_same_prefixes(library: Path) -> None:
    with (
        Bundle(library / "tiny/one--plain.duckdb") as reference,
        Bundle(library / "tiny/one--int4.duckdb") as candidate,
    ):
        own = reference_run(reference)
        for scoring_path in ScoringPath:
            (forced,) = runs(candidate, Mode.FORCED, scoring_path)
            assert forced.forced_along == own.run_id
            assert candidate.steps(forced.run_id).prefix_id == reference.steps(own.run_id).prefix_id


def test_every_branch_is_exact_and_starts_at_a_flip_of_the_forced_run(library: Path) -> None:
    branches = 0
    for path in bundle_paths(library):
        with Bundle(path) as bundle:
            for branch in runs(bundle, Mode.BRANCH):
                branches += 1
                assert branch.certificate is not None
                assert branch.fork is not None
                assert branch.certificate.exactness is Exactness.EXACT
                assert branch.certificate.rows_compared == branch.fork.position + 1
                parent, own = bundle.steps(branch.fork.parent_run), bundle.steps(branch.run_id)
                assert parent.prefix_id[branch.fork.position] == branch.fork.prefix_id == own.prefix_id[0]
                assert parent.top1[branch.fork.position] == branch.fork.token_id == own.token_id[0]
                assert parent.row_hash[branch.fork.position] == own.row_hash[0]
    assert branches > 0


def test_the_branch_at_the_first_fork_is_the_free_run_bit_for_bit(library: Path) -> None:
    found = 0
    for path in bundle_paths(library):
        with Bundle(path) as bundle:
            free = bundle.steps(runs(bundle, Mode.FREE)[0].run_id)
            for branch in runs(bundle, Mode.BRANCH):
                steps = bundle.steps(branch.run_id)
                if steps.prefix_id[0] in free.prefix_id and steps.token_id[0] == free.token_id[steps.position[0]]:
                    part = slice(int(steps.position[0]), int(steps.position[0]) + len(steps))
                    assert steps.token_id.tolist() == free.token_id[part].tolist()
                    assert steps.row_hash == free.row_hash[part]
                    found += 1
    assert found > 0


def test_stored_rows_are_those_of_the_model_called_directly(library: Path, model: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    with Bundle(library / "tiny/one--plain.duckdb") as bundle:
        run = reference_run(bundle)
        steps = bundle.steps(run.run_id)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        direct = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16, attn_implementation="eager").eval()
        cache, fed = None, list(bundle.prompt.token_ids)
        for position, token_id in enumerate(steps.token_id.tolist()):
            with torch.inference_mode():
                out = direct(torch.tensor([fed]), cache=cache, use_cache=True, logits_to_keep=1)
            row = out.logits[0, -1].view(torch.uint16).numpy().astype("<u2").tobytes()
            assert bundle.row(run.run_id, position) == row
            cache, fed = out.past_key_values, [token_id]
        torch.set_num_threads(threads)


def test_a_second_start_touches_nothing(library: Path, study: Study) -> None:
    before = stamp(library)
    summary = Recorder(study, library, SilentReporter()).capture()
    assert (summary.sealed, summary.present) == (0, 6)
    assert stamp(library) == before


def test_only_what_is_missing_is_recorded(library: Path, study: Study, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(library, copy)
    missing = copy / "tiny/two--int4.duckdb"
    with Bundle(missing) as bundle:
        ids = [run.run_id for run in bundle.runs]
    missing.unlink()
    before = stamp(copy)
    assert Recorder(study, copy, SilentReporter()).capture().sealed == 1
    after = stamp(copy)
    assert {name: when for name, when in after.items() if name != missing.name} == before
    with Bundle(missing) as bundle:
        assert [run.run_id for run in bundle.runs] == ids


def test_other_settings_never_overwrite_what_is_sealed(library: Path, write_study: WriteStudy, tmp_path: Path) -> None:
    changed = read_study(write_study(tmp_path, SETTINGS.replace("replicas = 1", "replicas = 0"), FORKS))
    before = stamp(library)
    with pytest.raises(StudyError, match="never overwritten"):
        Recorder(changed, library, SilentReporter()).capture()
    assert stamp(library) == before


def test_a_sealed_bundle_from_elsewhere_serves_as_reference(
    library: Path, write_study: WriteStudy, tmp_path: Path
) -> None:
    shutil.copy(library / "tiny/one--plain.duckdb", tmp_path / "one--plain.duckdb")
    path = write_study(tmp_path, 'reference_bundles = ["one--plain.duckdb"]\nonly = ["one"]', FORKS, ("int4",))
    path.write_text(path.read_text().replace('name = "tiny"', 'name = "elsewhere"'))
    Recorder(read_study(path), tmp_path / "library", SilentReporter()).capture()
    folder = tmp_path / "library/elsewhere"
    assert (folder / "one--plain.duckdb").read_bytes() == (tmp_path / "one--plain.duckdb").read_bytes()
    with Bundle(folder / "one--int4.duckdb") as again, Bundle(library / "tiny/one--int4.duckdb") as before:
        first, second = runs(again, Mode.FORCED)[0], runs(before, Mode.FORCED)[0]
        assert again.steps(first.run_id).row_hash == before.steps(second.run_id).row_hash
        assert first.forced_along == second.forced_along
    assert (folder / "one--int4.vs.plain.comparison.duckdb").is_file()


def test_top_k_only_keeps_no_rows(write_study: WriteStudy, tmp_path: Path) -> None:
    path = write_study(
        tmp_path, 'reference = "plain"\nonly = ["one"]', '[keep]\nlogits = "top-k"\ntop_k = 4', ("plain", "sdpa")
    )
    Recorder(read_study(path), tmp_path / "library", SilentReporter()).capture()
    for bundle_path in bundle_paths(tmp_path / "library"):
        with Bundle(bundle_path) as bundle:
            assert all(bundle.kept_positions(run.run_id) == () for run in bundle.runs)
            assert bundle.steps(bundle.runs[0].run_id).top_ids.shape[1] == 4


def test_a_prompt_longer_than_the_context_is_refused(write_study: WriteStudy, tmp_path: Path) -> None:
    path = write_study(tmp_path, 'reference = "plain"')
    path.write_text(path.read_text().replace("max_tokens = 24", "max_tokens = 250"))
    with pytest.raises(PlanError, match="case 'one' needs .* context of 256"):
        Recorder(read_study(path), tmp_path / "library", SilentReporter()).capture()
    assert bundle_paths(tmp_path / "library") == ()


def test_lanes_with_other_tokenizers_are_refused(write_study: WriteStudy, tmp_path: Path) -> None:
    import json

    path = write_study(tmp_path / "study", 'reference = "plain"', "", ("plain", "sdpa"))
    other = save_llama(tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first, second = "a", "b"
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    head, tail = path.read_text().rsplit("model = ", 1)
    path.write_text(f'{head}model = "{other}"\n' + tail.split("\n", 1)[1])
    with pytest.raises(VocabularyError, match="runtime 'sdpa' has a different tokenizer"):
        Recorder(read_study(path), tmp_path / "library", SilentReporter()).capture()
    assert len(bundle_paths(tmp_path / "library")) == 2


def test_what_will_not_fit_the_disk_is_refused(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import collections

    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**9, 10**9 - 1000, 1000))
    planned = Recorder(study, tmp_path, SilentReporter()).plan()
    with pytest.raises(PlanError, match="are free"):
        check_disk(planned, tmp_path)


def test_a_fork_replayed_in_a_fresh_process_is_equal_throughout(library: Path, model: Path, tmp_path: Path) -> None:
    """Free from the prompt plus the branch's tokens forced: every row of the branch comes out again."""
    from capture.engines.base import ForcedJob
    from capture.rows import row_hash
    from capture.spool import read_stream

    runtime = Runtime(
        "int4", "torch", str(model), {"threads": 1, "attention": "eager", "weights": "int4", "group_size": 16}
    )
    with Bundle(library / "tiny/one--int4.duckdb") as bundle, WorkerProcess(runtime, tmp_path / "log") as worker:
        for number, branch in enumerate(runs(bundle, Mode.BRANCH)):
            steps, parent = bundle.steps(branch.run_id), bundle.steps(branch.fork.parent_run)  # type: ignore[union-attr]
            path = (*parent.token_id[: steps.position[0]].tolist(), *steps.token_id.tolist())
            job = ForcedJob(bundle.prompt.token_ids, path, ScoringPath.DECODE)
            worker.generate(job, {"main": tmp_path / str(number)})
            stream = read_stream(tmp_path / str(number), branch.vocabulary_size * 2)
            again = [row_hash(stream.row(index)) for index in range(int(steps.position[0]), len(stream))]
            assert tuple(again) == steps.row_hash


def test_a_free_run_ends_at_a_stop_id_or_at_its_limit(model: Path, tmp_path: Path) -> None:
    from capture.spool import read_stream

    with WorkerProcess(Runtime("plain", "torch", str(model), {"threads": 1}), tmp_path / "log") as worker:
        row_bytes = worker.facts.vocabulary_size * 2
        worker.generate(FreeJob((0, 5, 6), (), 12), {"main": tmp_path / "a"})
        whole = read_stream(tmp_path / "a", row_bytes)
        assert (len(whole), whole.ending) == (12, Ending.LENGTH)
        stop = whole.token_ids[4]
        worker.generate(FreeJob((0, 5, 6), (stop,), 12), {"main": tmp_path / "b"})
        stopped = read_stream(tmp_path / "b", row_bytes)
        first = whole.token_ids.index(stop)
        assert stopped.ending is Ending.END_OF_SEQUENCE
        assert stopped.token_ids == whole.token_ids[: first + 1]
        assert np.array_equal(stopped.rows, whole.rows[: first + 1])
