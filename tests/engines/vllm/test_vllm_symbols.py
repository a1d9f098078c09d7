from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from capture.engines.vllm_symbols import SYMBOLS, missing_parts, missing_symbols
from tests.engines.vllm.real import PACKAGE, needs_vllm

_RUNNER = "v1/worker/gpu/model_runner.py"
_SAMPLE = """
class GPUModelRunner:
    def add_requests(self, scheduler_output):
        for request in scheduler_output.scheduled_new_reqs: ...
    def sample(self, hidden_states, input_batch, grammar_output):
        sample_hidden_states = hidden_states[input_batch.logits_indices]
        logits = self.model.compute_logits(sample_hidden_states)
        return sampler_output, 1, 2
    def sample_tokens(self, grammar_output):
        self.sample(1, 2, 3)
        sampler_output.sampled_token_ids
    def execute_model(self, scheduler_output):
        self.add_requests(scheduler_output)
"""


@needs_vllm
@pytest.mark.vllm
@pytest.mark.parametrize("name", sorted(SYMBOLS))
def test_the_installed_vllm_has_all_that_the_tap_stands_on(name: str) -> None:
    assert PACKAGE is not None
    assert missing_symbols(name, PACKAGE) == ()


def write_package(folder: Path, text: str) -> tuple[str, ...]:
    (folder / _RUNNER).parent.mkdir(parents=True)
    (folder / _RUNNER).write_text(text)
    return tuple(line for line in missing_symbols("v2", folder) if "GPUModelRunner" in line or _RUNNER in line)


def test_a_runner_that_is_as_known_lacks_nothing(tmp_path: Path) -> None:
    assert write_package(tmp_path, _SAMPLE) == ()


@pytest.mark.parametrize(
    ("known", "changed", "complaint"),
    [
        ("def add_requests", "def register_requests", "has no GPUModelRunner.add_requests"),
        ("class GPUModelRunner", "class Runner", "has no GPUModelRunner"),
        ("hidden_states, input_batch, grammar_output):", "hidden_states, batch):", "takes (hidden_states, batch)"),
        ("self.model.compute_logits(", "self.head(", "no longer has 'self.model.compute_logits('"),
        ("self.add_requests(scheduler_output)", "pass", "no longer has 'self.add_requests('"),
    ],
)
def test_a_change_is_named(tmp_path: Path, known: str, changed: str, complaint: str) -> None:
    assert known in _SAMPLE
    assert any(complaint in line for line in write_package(tmp_path, _SAMPLE.replace(known, changed)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "there is no v1/worker/gpu/model_runner.py" in missing_symbols("v2", tmp_path)


def test_a_field_that_is_gone_is_named(tmp_path: Path) -> None:
    place = tmp_path / "v1/worker/gpu/sample/output.py"
    place.parent.mkdir(parents=True)
    place.write_text("class SamplerOutput:\n    sampled: int\n")
    assert "SamplerOutput has no sampled_token_ids" in missing_symbols("v2", tmp_path)


def test_runners_are_told_apart_by_their_parts() -> None:
    model = SimpleNamespace(compute_logits=1)
    newer = SimpleNamespace(add_requests=1, sample=1, prompt_logprobs_worker=1, req_states=1, model=model, device=1)
    assert missing_parts("v2", newer) == ()
    assert "_sample" in missing_parts("v1", newer)
    assert "input_batch.req_ids" in missing_parts("v1", newer)
