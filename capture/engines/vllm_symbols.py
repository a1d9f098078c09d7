"""The parts of vLLM that the tap stands on, and whether a model runner or an installed vLLM has them. Pure.

vLLM brings a minor version every two weeks and promises none of these. An installed package is read as text, so
that nothing of it has to be imported; a part that is gone is named before a model is loaded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Symbol:
    """A method with its parameters after `self`, or a class with the fields that it must have.

    Attributes:
        file: below the vllm package.
        name: `Class.method` or `Class`.
        needs: parameters of the method, in order, or fields of the class.
        calls: what the method's text must contain.
    """

    file: str
    name: str
    needs: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


_V1 = "v1/worker/gpu_model_runner.py"
_V2 = "v1/worker/gpu/model_runner.py"

_SHARED = (
    Symbol("sampling_params.py", "SamplingParams", ("extra_args", "skip_reading_prefix_cache", "detokenize")),
    Symbol("v1/core/sched/output.py", "NewRequestData", ("req_id", "sampling_params", "num_computed_tokens")),
    Symbol("v1/core/sched/output.py", "CachedRequestData", ("resumed_req_ids",)),
    Symbol(
        "v1/core/sched/output.py",
        "SchedulerOutput",
        ("scheduled_new_reqs", "scheduled_cached_reqs", "num_scheduled_tokens", "preempted_req_ids"),
    ),
    Symbol("v1/engine/llm_engine.py", "LLMEngine.from_engine_args"),
    Symbol("v1/engine/llm_engine.py", "LLMEngine.step"),
    Symbol("v1/engine/llm_engine.py", "LLMEngine.add_request"),
    Symbol("v1/engine/llm_engine.py", "LLMEngine.abort_request"),
    Symbol("v1/engine/llm_engine.py", "LLMEngine.collective_rpc"),
    Symbol("v1/worker/worker_base.py", "WorkerWrapperBase.init_worker", (), ("worker_extension_cls", "__bases__")),
)

SYMBOLS: Mapping[str, tuple[Symbol, ...]] = {
    "v1": (
        *_SHARED,
        Symbol(_V1, "GPUModelRunner._update_states", ("scheduler_output",), ("scheduled_new_reqs",)),
        Symbol(_V1, "GPUModelRunner._sample", ("logits", "spec_decode_metadata"), ("self.sampler(",)),
        Symbol(_V1, "GPUModelRunner.sample_tokens", (), ("self._sample(logits", "sampler_output.sampled_token_ids")),
        Symbol(_V1, "GPUModelRunner.execute_model", (), ("self._update_states(", "self.model.compute_logits(")),
        Symbol(
            _V1,
            "GPUModelRunner._get_prompt_logprobs_dict",
            ("hidden_states", "num_scheduled_tokens"),
            ("num_computed_tokens", "query_start_loc.np[", "self.model.compute_logits(", "input_batch.req_id_to_index"),
        ),
        Symbol(
            _V1,
            "GPUModelRunner._bookkeeping_sync",
            (),
            ("discard_request_mask.np[", "num_tokens_no_spec[", "self._get_prompt_logprobs_dict("),
        ),
    ),
    "v2": (
        *_SHARED,
        Symbol(_V2, "GPUModelRunner.add_requests", ("scheduler_output",), ("scheduled_new_reqs",)),
        Symbol(
            _V2,
            "GPUModelRunner.sample",
            ("hidden_states", "input_batch", "grammar_output"),
            ("self.model.compute_logits(", "hidden_states[input_batch.logits_indices]", "return sampler_output,"),
        ),
        Symbol(_V2, "GPUModelRunner.sample_tokens", (), ("self.sample(", "sampler_output.sampled_token_ids")),
        Symbol(_V2, "GPUModelRunner.execute_model", (), ("self.add_requests(",)),
        Symbol("v1/worker/gpu/sample/output.py", "SamplerOutput", ("sampled_token_ids",)),
        Symbol(
            "v1/worker/gpu/input_batch.py",
            "InputBatch",
            (
                "req_ids",
                "cu_num_logits_np",
                "num_computed_tokens_np",
                "num_scheduled_tokens",
                "prefill_len_np",
                "num_computed_prefill_tokens_np",
                "query_start_loc_np",
                "logits_indices",
            ),
        ),
    ),
}
"""By model runner."""

PARTS: Mapping[str, tuple[str, ...]] = {
    "v1": (
        "_update_states",
        "_sample",
        "_get_prompt_logprobs_dict",
        "discard_request_mask.np",
        "query_start_loc.np",
        "input_batch.req_ids",
        "input_batch.req_id_to_index",
        "input_batch.num_tokens_no_spec",
        "requests",
        "model.compute_logits",
        "device",
    ),
    "v2": ("add_requests", "sample", "prompt_logprobs_worker", "req_states", "model.compute_logits", "device"),
}
"""What a running model runner must have, by model runner."""


def missing_parts(name: str, runner: Any) -> tuple[str, ...]:
    """Return what a running model runner lacks to be the one of that name."""
    return tuple(part for part in PARTS[name] if not _has(runner, part.split(".")))


def missing_symbols(name: str, package: Path) -> tuple[str, ...]:
    """Return what the vllm package in a folder lacks for the model runner of that name, in words."""
    return tuple(complaint for symbol in SYMBOLS[name] for complaint in _complaints(symbol, package))


def _has(value: Any, attributes: Iterable[str]) -> bool:
    for attribute in attributes:
        if not hasattr(value, attribute):
            return False
        value = getattr(value, attribute)
    return True


def _complaints(symbol: Symbol, package: Path) -> Iterator[str]:
    path = package / symbol.file
    if not path.is_file():
        yield f"there is no {symbol.file}"
        return
    text = path.read_text(encoding="utf-8")
    node = _find(ast.parse(text).body, symbol.name.split("."))
    if node is None:
        yield f"{symbol.file} has no {symbol.name}"
        return
    if isinstance(node, ast.ClassDef):
        lacking = [name for name in symbol.needs if name not in _field_names(node)]
        yield from (f"{symbol.name} has no {name}" for name in lacking)
        return
    parameters = tuple(argument.arg for argument in node.args.args[1:])
    if symbol.needs and parameters != symbol.needs:
        yield f"{symbol.name} takes ({', '.join(parameters)}) where ({', '.join(symbol.needs)}) was known"
    source = ast.get_source_segment(text, node) or ""
    yield from (f"{symbol.name} no longer has '{call}'" for call in symbol.calls if call not in source)


def _find(body: list[ast.stmt], names: list[str]) -> ast.ClassDef | ast.FunctionDef | None:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == names[0]:
            return node if len(names) == 1 else _find(node.body, names[1:])
    return None


def _field_names(node: ast.ClassDef) -> set[str]:
    return {
        statement.target.id
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
