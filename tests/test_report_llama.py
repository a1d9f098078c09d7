"""A report on imported llama.cpp files gives what llama.cpp computes, by an independent reading of its formulas."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from statistics import correlation, fmean, stdev
from typing import Any

import numpy as np
import pytest

from app.cli import main
from capture.model import Float64Array, Int32Array

CONTEXT, VOCABULARY, CHUNKS = 64, 90, 4
ROWS = CONTEXT - 1 - CONTEXT // 2


@dataclass(frozen=True, slots=True)
class Written:
    """What a file holds: log-probabilities [chunks, rows, V], and which of them are below its window."""

    log_probabilities: Float64Array
    below: np.ndarray[Any, np.dtype[np.bool_]]


def write(path: Path, logits: Float64Array, tokens: Int32Array) -> Written:
    """Write logits [chunks, rows, V] as llama.cpp does, and return what its reader makes of them."""
    parts = [b"_logits_", struct.pack("<Iii", CONTEXT, VOCABULARY, CHUNKS), tokens.astype("<i4").tobytes()]
    decoded, below = np.empty(logits.shape), np.empty(logits.shape, np.bool_)
    for at in np.ndindex(logits.shape[:2]):
        row = logits[at]
        lowest = max(row.min(), row.max() - 16)
        scale = np.float32((row.max() - lowest) / 65535)
        minimum = np.float32(lowest - row.max() - math.log(np.exp(row - row.max()).sum()))
        codes = np.where(row > lowest, np.rint((row - lowest) / float(scale)), 0).astype("<u2")
        parts += [struct.pack("<ff", scale, minimum), codes.tobytes()]
        decoded[at] = float(scale) * codes + float(minimum)
        below[at] = codes == 0
    path.write_bytes(b"".join(parts))
    return Written(decoded, below)


def targets_of(tokens: Int32Array) -> Int32Array:
    return tokens[:, CONTEXT // 2 + 1 :]


@pytest.fixture
def text() -> tuple[Int32Array, Float64Array, Float64Array]:
    random = np.random.default_rng(12)
    logits = random.normal(0, 2.4, (CHUNKS, ROWS, VOCABULARY))
    other = logits + random.normal(0, 0.5, logits.shape)
    tokens = random.integers(0, VOCABULARY, (CHUNKS, CONTEXT)).astype(np.int32)
    likely = np.argsort(-logits, axis=2)[..., :20]
    picked = np.take_along_axis(likely, random.integers(0, 20, (CHUNKS, ROWS, 1)), axis=2)[..., 0]
    tokens[:, CONTEXT // 2 + 1 :] = picked
    return tokens, logits, other


def reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    files = [str(folder / "base.kld"), str(folder / "small.kld")]
    assert main(["import", "llama-kld", *files, "--library", str(folder / "library")]) == 0
    capsys.readouterr()
    assert main(["report", str(folder / "library"), "--json"]) == 0
    (study,) = json.loads(capsys.readouterr().out)["studies"]
    found: dict[str, Any] = study
    return found


def test_every_figure_of_llama_cpp(
    tmp_path: Path, text: tuple[Int32Array, Float64Array, Float64Array], capsys: pytest.CaptureFixture[str]
) -> None:
    tokens, logits, other = text
    base, small = write(tmp_path / "base.kld", logits, tokens), write(tmp_path / "small.kld", other, tokens)
    study = reported(tmp_path, capsys)
    (section,) = study["sections"]
    assert (section["mode"], section["scoring_path"]) == ("forced", "prefill")
    (lane,) = section["lanes"]
    first = base.log_probabilities.reshape(-1, VOCABULARY)
    second = small.log_probabilities.reshape(-1, VOCABULARY)
    wanted = targets_of(tokens).ravel()
    every = np.arange(len(first))
    divergence = np.where(first > -16, np.exp(first) * (first - second), 0.0).sum(axis=1)
    whole = lane["summary"]["whole"]
    assert whole["positions"] == len(first) == CHUNKS * ROWS
    spread = whole["kl_forward"]
    assert spread["mean"] == pytest.approx(divergence.mean(), abs=2e-6)
    assert spread["standard_error"] == pytest.approx(stdev(divergence.tolist()) / math.sqrt(len(first)), rel=1e-4)
    for at, value in spread["quantiles"].items():
        assert value == pytest.approx(percentile(divergence, float(at)), abs=5e-6)
    base_logs, small_logs = first[every, wanted], second[every, wanted]
    delta = np.exp(small_logs) - np.exp(base_logs)
    assert whole["delta_probability"]["mean"] == pytest.approx(delta.mean(), abs=2e-6)
    root = math.sqrt((delta**2).mean())
    assert whole["rms_delta_probability"]["value"] == pytest.approx(root, abs=2e-6)
    error = stdev((delta**2).tolist()) / math.sqrt(len(delta)) / (2 * root)
    assert whole["rms_delta_probability"]["standard_error"] == pytest.approx(error, rel=1e-3)
    same = float((first.argmax(axis=1) == second.argmax(axis=1)).mean())
    assert whole["same_top"]["rate"] == same
    assert whole["same_top"]["standard_error"] == pytest.approx(math.sqrt(same * (1 - same) / (len(first) - 1)))
    perplexity = lane["perplexity"]
    assert perplexity["reference"]["value"] == pytest.approx(math.exp(-fmean(base_logs.tolist())), rel=1e-5)
    assert perplexity["candidate"]["value"] == pytest.approx(math.exp(-fmean(small_logs.tolist())), rel=1e-5)
    assert perplexity["correlation"] == pytest.approx(correlation(base_logs.tolist(), small_logs.tolist()), rel=1e-5)


def percentile(values: Float64Array, fraction: float) -> float:
    """Return a percentile as llama.cpp does."""
    ordered = sorted(values.tolist())
    place = fraction * (len(ordered) - 1)
    low = int(place)
    share = place - low
    return float((1 - share) * ordered[low] + share * ordered[min(low + 1, len(ordered) - 1)])


def test_a_token_below_the_window_has_no_probability_and_so_the_text_no_perplexity(
    tmp_path: Path, text: tuple[Int32Array, Float64Array, Float64Array], capsys: pytest.CaptureFixture[str]
) -> None:
    tokens, logits, other = text
    place = CONTEXT // 2 + 1 + 5
    logits[2, 5, tokens[2, place]] = logits[2, 5].max() - 30
    base = write(tmp_path / "base.kld", logits, tokens)
    write(tmp_path / "small.kld", other, tokens)
    assert base.below[2, 5, tokens[2, place]]
    study = reported(tmp_path, capsys)
    (lane,) = study["sections"][0]["lanes"]
    assert lane["perplexity"] is None
    assert lane["unknown_tokens"] == 1
    assert lane["summary"]["whole"]["delta_unknown"] == 0


def test_people_are_told_what_the_files_do_not_say(
    tmp_path: Path, text: tuple[Int32Array, Float64Array, Float64Array], capsys: pytest.CaptureFixture[str]
) -> None:
    tokens, logits, other = text
    write(tmp_path / "base.kld", logits, tokens)
    write(tmp_path / "small.kld", other, tokens)
    reported(tmp_path, capsys)
    assert main(["report", str(tmp_path / "library")]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "the file names no model, tokenizer, options, versions or hardware" in words
    assert "imported as codes of 16 bits" in words
    assert "Under 10 cases no interval is claimed" in words
