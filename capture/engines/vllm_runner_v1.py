"""vLLM's older model runner (`vllm.v1.worker.gpu_model_runner`) in the terms of the tap. Imports the tap.

The methods that it stands on are listed in `vllm_symbols`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from capture.engines.vllm_tap import NewRequest, PromptStretch, SampledRow, Tap

NAME = "v1"


def install(runner: Any, tap: Tap) -> None:
    """Put the tap before and after three methods of a model runner.

    `_sample` gets the logits as the model gave them; `_get_prompt_logprobs_dict` gets every step's hidden states.
    """
    update_states, sample, prompt_logprobs = runner._update_states, runner._sample, runner._get_prompt_logprobs_dict

    def tapped_update_states(scheduler_output: Any) -> Any:
        tap.schedule(new_requests(scheduler_output), interrupted(scheduler_output))
        return update_states(scheduler_output)

    def tapped_sample(logits: Any, spec_decode_metadata: Any) -> Any:
        kept = tap.keep(list(sampled_rows(runner)), logits)
        output = sample(logits, spec_decode_metadata)
        tap.settle(kept, output.sampled_token_ids)
        return output

    def tapped_prompt_logprobs(hidden_states: Any, num_scheduled_tokens: Mapping[str, int]) -> Any:
        tap.score(prompt_stretches(runner, num_scheduled_tokens), hidden_states, runner.model.compute_logits)
        return prompt_logprobs(hidden_states, num_scheduled_tokens)

    runner._update_states = tapped_update_states
    runner._sample = tapped_sample
    runner._get_prompt_logprobs_dict = tapped_prompt_logprobs


def new_requests(scheduler_output: Any) -> Iterator[NewRequest]:
    """Yield the requests that a step starts with."""
    for request in scheduler_output.scheduled_new_reqs:
        if request.sampling_params is not None:
            yield NewRequest(request.req_id, request.sampling_params.extra_args, request.num_computed_tokens)


def interrupted(scheduler_output: Any) -> set[str]:
    """Return the requests that were preempted or come back from it."""
    return {*scheduler_output.scheduled_cached_reqs.resumed_req_ids, *(scheduler_output.preempted_req_ids or ())}


def sampled_rows(runner: Any) -> Iterator[SampledRow]:
    """Yield the rows of the batch that yield a token; those of an unfinished prefill do not."""
    batch = runner.input_batch
    discarded = runner.discard_request_mask.np
    for index, request_id in enumerate(batch.req_ids):
        if not discarded[index]:
            yield SampledRow(request_id, index, int(batch.num_tokens_no_spec[index]))


def prompt_stretches(runner: Any, num_scheduled_tokens: Mapping[str, int]) -> Iterator[PromptStretch]:
    """Yield what the step computed for each request."""
    for request_id, count in num_scheduled_tokens.items():
        index = runner.input_batch.req_id_to_index[request_id]
        offset = int(runner.query_start_loc.np[index])
        yield PromptStretch(request_id, offset, int(runner.requests[request_id].num_computed_tokens), int(count))
