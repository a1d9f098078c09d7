from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from capture.engines.vllm_requests import Outcome, Progress, Request
from capture.engines.vllm_selftest import first_difference, run_self_test
from capture.engines.vllm_streams import Recorder
from capture.errors import EngineError
from capture.model import Ending, Float32Array

COLUMNS = 6


def as_told(row: Float32Array) -> dict[int, Any]:
    """Return a row as vLLM tells it: sorted by size, each value with its token."""
    order = np.argsort(-row, kind="stable")
    return {int(token_id): SimpleNamespace(logprob=float(row[token_id])) for token_id in order}


class FakeDriver:
    """Gives three generated and three prompt positions; `told` may differ from what the tap captures."""

    def __init__(
        self, *, wrong_at: tuple[int, int] | None = None, path: str = "decode", dtype: str = "float16"
    ) -> None:
        self.wrong_at = wrong_at
        self.path = path
        self.dtype = dtype
        self.scored: list[int] = []

    def run(self, requests: Sequence[Request], progress: Progress) -> list[Outcome]:
        (request,) = requests
        progress(3)
        rows = np.random.default_rng(3).normal(0, 5, (3, COLUMNS)).astype(np.float16)
        rows[1, 2] = -0.0
        recorder = Recorder(request.plan, writes=True)
        for position, row in enumerate(rows):
            recorder.append(position, memoryview(row.tobytes()), (self.dtype, COLUMNS), 1)
        recorder.finish(Ending.LENGTH, 0.0)
        told = rows.astype(np.float32)
        if self.wrong_at and (self.path == "prefill") == bool(request.plan.scored_every):
            told[self.wrong_at] = np.nextafter(told[self.wrong_at], np.float32(np.inf))
        positions = [as_told(row) for row in told]
        self.scored.append(len(request.plan.path))
        return [Outcome((1, 1, 1), Ending.LENGTH, 3, recorder.row_shape, None, self._outputs(request, positions))]

    def _outputs(self, request: Request, positions: list[dict[int, Any]]) -> tuple[Any, ...]:
        if request.plan.scored_every:
            return (SimpleNamespace(prompt_logprobs=[None, *positions], outputs=[]),)
        return tuple(
            SimpleNamespace(prompt_logprobs=None, outputs=[SimpleNamespace(logprobs=[position])])
            for position in positions
        )


def test_equal_rows_pass() -> None:
    found = run_self_test(FakeDriver(), "v1", COLUMNS)
    assert (found.dtype, found.vocabulary_size, found.generated, found.scored) == ("float16", COLUMNS, 3, 3)


@pytest.mark.parametrize(("runner", "together"), [("v1", 3), ("v2", 4)])
def test_prompt_rows_are_computed_as_many_at_once_as_vllm_does(runner: str, together: int) -> None:
    driver = FakeDriver()
    run_self_test(driver, runner, COLUMNS)
    assert driver.scored == [0, together]


@pytest.mark.parametrize("path", ["decode", "prefill"])
def test_one_bit_in_one_logit_stops_the_run_with_the_evidence(path: str) -> None:
    with pytest.raises(EngineError) as error:
        run_self_test(FakeDriver(wrong_at=(1, 4), path=path), "v1", COLUMNS)
    assert f"at position 1 of a {path} run" in str(error.value)
    assert "for token 4" in str(error.value)
    assert "1 of 18 logits differ" in str(error.value)


def test_a_dtype_that_cannot_be_stored_is_refused() -> None:
    with pytest.raises(EngineError, match="float8_e4m3fn"):
        run_self_test(FakeDriver(dtype="float8_e4m3fn"), "v1", COLUMNS)


def test_zeros_of_different_sign_differ() -> None:
    zeros = np.zeros((1, 3), np.float32)
    signed = zeros.copy()
    signed[0, 1] = -0.0
    assert first_difference(zeros, zeros) is None
    assert first_difference(zeros, signed) == (0, 1)


def test_equal_nans_do_not_differ() -> None:
    nans = np.full((1, 2), np.nan, np.float32)
    assert first_difference(nans, nans.copy()) is None
