"""The self-test at the start of a worker: what the tap captures against vLLM's own logits, bit for bit.

vLLM's `logprobs=-1` in the mode `raw_logits` gives every logit of a position, as float32, by a way of its own.
Imports numpy only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capture.engines.vllm_requests import Driver, Outcome, Request
from capture.engines.vllm_streams import StreamPlan
from capture.errors import EngineError
from capture.model import LOGIT_BYTES, Ending, Float32Array
from capture.rows import widen
from capture.spool import read_stream

_POSITIONS = 3
_PROMPT_LENGTH = 4


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What the self-test found.

    Attributes:
        dtype: native dtype of the logits.
        vocabulary_size: how many logits a position has.
        generated: generated positions that were compared, all equal.
        scored: prompt positions that were compared, all equal.
    """

    dtype: str
    vocabulary_size: int
    generated: int
    scored: int


def run_self_test(driver: Driver, runner: str, vocabulary_size: int) -> SelfTest:
    """Capture a few positions by decode and a few by prefill, and compare them with vLLM's own account of them.

    Args:
        driver: the running engine.
        runner: `v1` or `v2`.
        vocabulary_size: of the model's configuration.

    Raises:
        EngineError: they differ, or nothing was captured; the message names the first difference.
    """
    token_ids = tuple(min(token_id, vocabulary_size - 1) for token_id in range(1, _PROMPT_LENGTH + 1))
    with tempfile.TemporaryDirectory(prefix="flipscope-self-test-") as folder:
        decoded = driver.run([_decode_request(token_ids, folder + "/decode")], _no_progress)[0]
        scored = driver.run([_score_request(token_ids, folder + "/prefill", runner)], _no_progress)[0]
        dtype, columns = _shape(decoded)
        _compare("decode", _rows(Path(folder, "decode"), decoded), _sampled_logits(decoded, columns))
        rows = _rows(Path(folder, "prefill"), scored)
        _compare("prefill", rows, _prompt_logits(scored, columns))
    return SelfTest(dtype, columns, decoded.rows, _PROMPT_LENGTH - 1)


def first_difference(captured: Float32Array, expected: Float32Array) -> tuple[int, int] | None:
    """Return row and column of the first pair whose bits differ, or None; rows beyond the shorter are left out."""
    count = min(len(captured), len(expected))
    unequal = captured[:count].view(np.uint32) != expected[:count].view(np.uint32)
    if not unequal.any():
        return None
    row, column = np.unravel_index(int(unequal.argmax()), unequal.shape)
    return int(row), int(column)


def _decode_request(token_ids: tuple[int, ...], folder: str) -> Request:
    plan = StreamPlan(folder, len(token_ids))
    return Request(token_ids, _POSITIONS, plan, folder, Ending.LENGTH, sampling={"logprobs": -1})


def _score_request(token_ids: tuple[int, ...], folder: str, runner: str) -> Request:
    """Score the prompt after its first token.

    The rows are computed together with as many as vLLM itself computes together, since a matrix product may depend
    on that: v1 leaves the last position of the prompt out.
    """
    path = token_ids[1:] if runner == "v1" else (*token_ids[1:], token_ids[0])
    plan = StreamPlan(folder, 1, path=path, scored_every=1, scoring_chunk=len(path))
    return Request(token_ids, 1, plan, folder, Ending.PATH, sampling={"prompt_logprobs": -1})


def _no_progress(_: int) -> None:
    """Nobody waits for the self-test."""


def _shape(outcome: Outcome) -> tuple[str, int]:
    if outcome.shape is None:
        raise EngineError("the self-test captured nothing: vLLM never came by the tap; use a documented version")
    if outcome.shape[0] not in LOGIT_BYTES:
        raise EngineError(
            f"the model's logits are {outcome.shape[0]}, which cannot be stored; set 'dtype' to 'float32'"
        )
    return outcome.shape


def _rows(folder: Path, outcome: Outcome) -> Float32Array:
    dtype, columns = _shape(outcome)
    stream = read_stream(folder, columns * LOGIT_BYTES[dtype])
    return widen([stream.row(index) for index in range(len(stream))], dtype)


def _sampled_logits(outcome: Outcome, columns: int) -> Float32Array:
    """Return vLLM's own logits of the generated positions [rows, vocabulary]."""
    return _scattered((position for output in outcome.outputs for position in output.outputs[0].logprobs), columns)


def _prompt_logits(outcome: Outcome, columns: int) -> Float32Array:
    """Return vLLM's own logits of the prompt's positions, the first of which it does not predict."""
    told = (output.prompt_logprobs for output in outcome.outputs if output.prompt_logprobs)
    return _scattered((position for prompt in told for position in prompt if position), columns)


def _scattered(positions: Iterable[Any], columns: int) -> Float32Array:
    """Put each position's logits, which vLLM sorts by size, where their ids say; ids that are absent become NaN."""
    rows = []
    for position in positions:
        row = np.full(columns, np.nan, np.float32)
        ids = np.fromiter(position.keys(), np.int64, len(position))
        row[ids] = np.fromiter((entry.logprob for entry in position.values()), np.float64, len(position))
        rows.append(row)
    return np.array(rows, np.float32).reshape(len(rows), columns)


def _compare(path: str, captured: Float32Array, expected: Float32Array) -> None:
    if not len(expected):
        raise EngineError(f"the self-test got no logits from vLLM to hold against the {path} tap; report this version")
    found = first_difference(captured, expected)
    if found is None:
        return
    row, column = found
    raise EngineError(
        f"the self-test failed: at position {row} of a {path} run the tap captured {captured[row, column]!r} for token "
        f"{column} where vLLM itself says {expected[row, column]!r}; {_more(captured, expected)} - "
        "do not trust this version of vLLM, and report it"
    )


def _more(captured: Sequence[Float32Array] | Float32Array, expected: Float32Array) -> str:
    count = min(len(captured), len(expected))
    unequal = np.asarray(captured)[:count].view(np.uint32) != expected[:count].view(np.uint32)
    return f"{int(unequal.sum()):,} of {unequal.size:,} logits differ"
