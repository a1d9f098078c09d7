"""vLLM's newer model runner (`vllm.v1.worker.gpu.model_runner`) in the terms of the tap. Imports the tap.

The methods that it stands on are listed in `vllm_symbols`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from capture.engines.vllm_runner_v1 import interrupted, new_requests
from capture.engines.vllm_tap import Kept, PromptStretch, SampledRow, Tap

NAME = "v2"


def install(runner: Any, tap: Tap) -> None:
    """Put the tap around two methods of a model runner and around its model's `compute_logits`.

    `sample` gets a batch's hidden states and computes its logits first of all; what it returns goes to every later
    step, so tokens are imposed there.
    """
    add_requests, sample, compute_logits = runner.add_requests, runner.sample, runner.model.compute_logits
    waiting: list[Any] = []
    kept: list[Kept] = []

    def tapped_add_requests(scheduler_output: Any) -> Any:
        tap.schedule(new_requests(scheduler_output), interrupted(scheduler_output))
        return add_requests(scheduler_output)

    def tapped_compute_logits(*arguments: Any, **named: Any) -> Any:
        logits = compute_logits(*arguments, **named)
        if waiting:
            kept.append(tap.keep(list(sampled_rows(waiting.pop())), logits))
        return logits

    def tapped_sample(hidden_states: Any, input_batch: Any, grammar_output: Any) -> Any:
        waiting[:], kept[:] = [input_batch], []
        output = sample(hidden_states, input_batch, grammar_output)
        for rows in kept:
            tap.settle(rows, output[0].sampled_token_ids)
        tap.score(prompt_stretches(input_batch), hidden_states, compute_logits)
        return output

    runner.add_requests = tapped_add_requests
    runner.model.compute_logits = tapped_compute_logits
    runner.sample = tapped_sample


def sampled_rows(batch: Any) -> Iterator[SampledRow]:
    """Yield the rows of the batch that yield a token; those of an unfinished prefill do not."""
    for index, request_id in enumerate(batch.req_ids):
        absolute = int(batch.num_computed_tokens_np[index] + batch.num_scheduled_tokens[index])
        if absolute >= batch.prefill_len_np[index]:
            yield SampledRow(request_id, int(batch.cu_num_logits_np[index]), absolute)


def prompt_stretches(batch: Any) -> Iterator[PromptStretch]:
    """Yield what the step computed for each request that is still in its prompt."""
    for index, request_id in enumerate(batch.req_ids):
        computed = int(batch.num_computed_prefill_tokens_np[index])
        if computed < batch.prefill_len_np[index]:
            offset = int(batch.query_start_loc_np[index])
            yield PromptStretch(request_id, offset, computed, int(batch.num_scheduled_tokens[index]))
