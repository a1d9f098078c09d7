from __future__ import annotations

import json
import lzma
import os
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from capture.bundle import Bundle
from capture.compare import Comparison
from capture.comparison import read_comparisons
from capture.errors import UsageError
from capture.importers.kld_study import ImportSummary, KldImport, import_llama_kld
from capture.model import Ending, FlipClass, Keep, Mode, ScoringPath
from capture.progress import SilentReporter
from tests.kld_files import random_logits, random_text, write_kld

CHUNKS, CONTEXT, SIZE = 2, 16, 60
ROWS = CONTEXT - 1 - CONTEXT // 2

REAL = os.environ.get("FLIPSCOPE_LLAMA_KLD")


@pytest.fixture
def text() -> NDArray[np.int32]:
    return random_text(CHUNKS, CONTEXT, SIZE)


@pytest.fixture
def files(tmp_path: Path, text: NDArray[np.int32]) -> tuple[Path, Path]:
    logits = random_logits(text, SIZE, scale=3.0)
    other = logits + random_logits(text, SIZE, seed=2, scale=0.3)
    return write_kld(tmp_path / "f16.kld", text, logits), write_kld(tmp_path / "q4.kld", text, other)


def imported(files: tuple[Path, ...], **more: object) -> ImportSummary:
    wanted = KldImport(files, files[0].parent / "library", **more)  # type: ignore[arg-type]
    return import_llama_kld(wanted, SilentReporter())


def comparisons(folder: Path) -> list[Comparison]:
    return [found for path in sorted(folder.glob("*.comparison.duckdb")) for found in read_comparisons(path)]


def test_each_file_is_a_lane_and_each_chunk_a_case(files: tuple[Path, Path], text: NDArray[np.int32]) -> None:
    summary = imported(files)
    assert (summary.cases, summary.bundles) == (CHUNKS, 2 * CHUNKS)
    with Bundle(summary.folder / "chunk-0002--q4.duckdb") as bundle:
        assert (bundle.facts.study, bundle.facts.runtime.name, bundle.facts.is_reference) == ("f16", "q4", False)
        assert bundle.facts.vocabulary_hash == ""
        assert bundle.prompt.token_ids == tuple(text[1, : CONTEXT // 2 + 1].tolist())
        (run,) = bundle.runs
        assert (run.mode, run.scoring_path, run.forced_along) == (Mode.FORCED, ScoringPath.PREFILL, None)
        assert (run.ending, run.logits_kept, run.positions, run.complete) == (Ending.PATH, Keep.ALL, ROWS, True)
        steps = bundle.steps(run.run_id)
        assert steps.token_id.tolist() == text[1, CONTEXT // 2 + 1 :].tolist()
        assert (steps.emitted == -1).all()
        assert bundle.manifest(run.run_id)["encoding"]["step_nats"] == pytest.approx(16 / 65535, rel=1e-3)
        bundle.verify()


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    found: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return found


def test_the_numbers_are_those_of_the_logits_within_the_codes_error(
    files: tuple[Path, Path], text: NDArray[np.int32]
) -> None:
    found = comparisons(imported(files).folder)
    logits = random_logits(text, SIZE, scale=3.0)
    base, other = log_softmax(logits), log_softmax(logits + random_logits(text, SIZE, seed=2, scale=0.3))
    kl = np.where(base > -16, np.exp(base) * (base - other), 0).sum(axis=-1)
    taken = text[:, CONTEXT // 2 + 1 :, None]
    change = (np.take_along_axis(np.exp(other), taken, -1) - np.take_along_axis(np.exp(base), taken, -1))[..., 0]
    np.testing.assert_allclose([one.metrics.kl_forward for one in found], kl, atol=5e-5)
    np.testing.assert_allclose([one.metrics.delta_probability for one in found], change, atol=1e-4)
    changed = [(base[at].argmax(-1) != other[at].argmax(-1)).sum() for at in range(CHUNKS)]
    assert [len(one.flips) for one in found] == changed
    assert sum(changed) > 0


def test_winners_closer_than_two_codes_are_not_decided(tmp_path: Path, text: NDArray[np.int32]) -> None:
    step = 16 / 65535
    base = np.full((CHUNKS, ROWS, SIZE), -40.0)
    base[..., 3], base[..., 4] = 5.0, 5.0 - 1.2 * step
    other = base.copy()
    other[..., 4] = 5.0 + 1.2 * step
    other[0, 0, 4] = 6.0
    base[0, 0, 3] = 6.0
    first, second = write_kld(tmp_path / "a.kld", text, base), write_kld(tmp_path / "b.kld", text, other)
    classes = [flip.flip_class for one in comparisons(imported((first, second)).folder) for flip in one.flips]
    assert classes[0] is FlipClass.DECIDED
    assert set(classes[1:]) == {FlipClass.NEAR_TIE}
    assert len(classes) == CHUNKS * ROWS


def test_importing_again_writes_nothing_and_other_contents_are_refused(
    files: tuple[Path, Path], text: NDArray[np.int32]
) -> None:
    imported(files)
    assert imported(files).bundles == 0
    write_kld(files[1], text, random_logits(text, SIZE, seed=9))
    with pytest.raises(UsageError, match="a sealed bundle is never overwritten"):
        imported(files)


def test_a_damaged_row_at_the_end_of_the_last_file_leaves_nothing_behind(files: tuple[Path, Path]) -> None:
    whole = files[1].read_bytes()
    files[1].write_bytes(whole[:-SIZE] + b"\xff" * SIZE)
    with pytest.raises(UsageError, match=f"q4.kld: row {ROWS} of chunk {CHUNKS} holds no log-probabilities"):
        imported(files)
    assert list(files[0].parent.glob("library/**/*.duckdb")) == []
    files[1].write_bytes(whole)
    assert imported(files).bundles == 2 * CHUNKS


def test_what_a_file_does_not_tell_is_in_its_bundles(
    files: tuple[Path, Path], tmp_path: Path, text: NDArray[np.int32]
) -> None:
    files[1].write_bytes(files[1].read_bytes()[: -ROWS * (2 * SIZE + 8)])  # its last chunk is missing
    wide = random_logits(text, SIZE, scale=20.0)
    cut = write_kld(tmp_path / "cut.kld", text, wide)
    folder = imported((*files, cut)).folder
    told = {}
    for name in ("f16", "q4", "cut"):
        with Bundle(folder / f"chunk-0001--{name}.duckdb") as bundle:
            told[name] = str(bundle.manifest(bundle.runs[0].run_id)["unknown"])
    assert all("names no model, tokenizer" in words for words in told.values())
    assert [name for name, words in told.items() if "q4.kld ends early: 1 of 2 chunks are whole" in words] == ["q4"]
    assert "of ids 16 nats or more below a row's highest it tells no more than that" in told["cut"]


def test_a_lane_that_could_not_have_its_file_s_name_is_told(tmp_path: Path, text: NDArray[np.int32]) -> None:
    odd = write_kld(tmp_path / "my model (q4).kld", text, random_logits(text, SIZE))
    assert "my model (q4).kld is the lane 'my-model-q4'" in " ".join(imported((odd,)).notes)


def test_the_reference_and_the_study_can_be_named(files: tuple[Path, Path]) -> None:
    summary = imported(files, reference="q4", study="quants")
    assert summary.folder.name == "quants"
    with Bundle(summary.folder / "chunk-0001--q4.duckdb") as bundle:
        assert bundle.facts.is_reference


def test_the_first_chunks_can_be_taken_and_the_rest_later(files: tuple[Path, Path]) -> None:
    first = imported(files, chunks=1)
    assert (first.cases, first.bundles) == (1, 2)
    rest = imported(files)
    assert (rest.cases, rest.bundles) == (2, 2)


def test_the_token_before_the_text_is_shown_where_it_was(files: tuple[Path, Path], text: NDArray[np.int32]) -> None:
    summary = imported(files, add_bos=1)
    with Bundle(summary.folder / "chunk-0001--f16.duckdb") as bundle:
        assert bundle.prompt.token_ids == (1, *text[0, 1 : CONTEXT // 2 + 1].tolist())


def test_a_tokenizer_gives_tokens_their_bytes(files: tuple[Path, Path], tmp_path: Path) -> None:
    vocabulary = {f"{letter}": at for at, letter in enumerate(map(chr, range(0x41, 0x41 + 57)))}
    description = {"model": {"type": "BPE", "vocab": vocabulary}, "decoder": {"type": "ByteLevel"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(description), encoding="utf-8")
    summary = imported(files, tokenizer=tmp_path)
    with Bundle(summary.folder / "chunk-0001--f16.duckdb") as bundle:
        assert bundle.facts.vocabulary_hash
        assert bundle.facts.id_spans == ((0, 57),)
        assert bundle.tokens()[0].data == b"A"
    assert not any("tokenizer" in note and "mean the same" in note for note in summary.notes)


def test_a_truncated_lane_gives_its_whole_chunks(files: tuple[Path, Path]) -> None:
    files[1].write_bytes(files[1].read_bytes()[:-10])
    summary = imported(files)
    assert summary.bundles == 3
    assert "q4.kld ends early: 1 of 2 chunks are whole" in summary.notes
    assert len(comparisons(summary.folder)) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"reference": "q8"}, "no file is the lane 'q8'; the lanes are f16, q4"),
        ({"study": "a/b"}, "cannot name a study"),
        ({"study": ".."}, "cannot name a study"),
        ({"add_bos": SIZE}, "is no token of the files"),
        ({"tokenizer": Path("none.json")}, "cannot be read as a tokenizer.json"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    files: tuple[Path, Path], more: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        imported(files, **more)


def test_other_texts_and_two_lanes_of_a_name_are_refused(files: tuple[Path, Path], text: NDArray[np.int32]) -> None:
    with pytest.raises(UsageError, match="two files would be the lane 'f16'"):
        imported((files[0], files[0]))
    other = write_kld(files[0].parent / "other.kld", text[::-1], random_logits(text, SIZE))
    with pytest.raises(UsageError, match="hold other tokens"):
        imported((files[0], other))


def expected(text: str) -> dict[str, float]:
    """The lines of llama.cpp's statistics from the KL block on, by their words."""
    block = text[text.index("KL divergence statistics") :]
    lines = re.findall(r"^(.*?)\s*:\s*(-?[\d.]+)", block, re.MULTILINE)
    return {" ".join(name.split()): float(value) for name, value in lines}


def measured(found: list[Comparison]) -> dict[str, float]:
    """The same from comparisons; quantiles by linear interpolation, changes of probability in percent."""
    kl = np.concatenate([one.metrics.kl_forward for one in found])
    change = 100 * np.concatenate([one.metrics.delta_probability for one in found])
    same = 1 - sum(len(one.flips) for one in found) / len(kl)
    values = {"RMS Δp": float(np.sqrt((change**2).mean())), "Same top p": 100 * same}
    for what, numbers in (("KLD", kl), ("Δp", change)):
        values |= {f"Mean {what}": numbers.mean(), f"Maximum {what}": numbers.max(), f"Minimum {what}": numbers.min()}
        values[f"Median {what}"] = float(np.quantile(numbers, 0.5))
        values |= {
            f"{at:.1f}% {what}": float(np.quantile(numbers, at / 100))
            for at in (0.1, 1, 5, 10, 25, 75, 90, 95, 99, 99.9)
        }
    return values


@pytest.mark.skipif(REAL is None, reason="FLIPSCOPE_LLAMA_KLD names no folder of real files")
def test_real_files_give_the_figures_of_llama_cpp(tmp_path: Path) -> None:
    paths = []
    for name in ("f16", "q4_0"):
        paths.append(tmp_path / f"{name}.kld")
        paths[-1].write_bytes(lzma.decompress((Path(REAL or "") / f"{name}.kld.xz").read_bytes()))
    wanted = expected((Path(REAL or "") / "expected_f16_vs_q4_0.txt").read_text(encoding="utf-8"))
    found = measured(comparisons(imported(tuple(paths)).folder))
    assert len(wanted) == 28
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, abs=5e-5 if "KLD" in name else 2e-3), name
