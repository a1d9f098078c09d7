"""Stand-ins for vLLM's two model runners: a made-up model, and batches laid out as each of them lays them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from capture.engines import vllm_runner_v1, vllm_runner_v2
from capture.engines.vllm_streams import EXTRA_ARGUMENT
from capture.engines.vllm_tap import Tap

COLUMNS = 11


def logits_of(token_ids: Sequence[int]) -> torch.Tensor:
    """Return the made-up model's logits after some tokens [vocabulary], bfloat16; its choice is their sum."""
    row = torch.arange(COLUMNS, dtype=torch.float32) / 16 + len(token_ids)
    row[sum(token_ids) % COLUMNS] = 100.0
    return row.to(torch.bfloat16)


class FakeModel:
    """Its hidden state at a position is the list of tokens up to there, as a row of ids padded with -1."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(hidden_states))
        rows = [logits_of([int(token) for token in state if token >= 0]) for state in hidden_states]
        return torch.stack(rows) if rows else torch.zeros(0, COLUMNS, dtype=torch.bfloat16)


@dataclass
class FakeRequest:
    request_id: str
    token_ids: list[int]
    stream_id: str | None
    computed: int = 0
    cached: int = 0
    announced: bool = False

    @property
    def prompt_length(self) -> int:
        return self._prompt_length

    def __post_init__(self) -> None:
        self._prompt_length = len(self.token_ids)
        self.computed = self.cached


@dataclass
class FakeEngine:
    """Schedules requests step by step; `chunk` bounds how many positions of one request a step computes."""

    tap: Tap
    chunk: int = 100
    requests: list[FakeRequest] = field(default_factory=list)
    spoil: bool = False

    def runner(self) -> Any:
        """Return a model runner with the tap in it."""
        raise NotImplementedError

    def step(self, runner: Any, resumed: Sequence[str] = ()) -> None:
        """Compute one step of every request."""
        raise NotImplementedError

    def add(self, name: str, token_ids: Sequence[int], stream_id: str | None, cached: int = 0) -> FakeRequest:
        request = FakeRequest(name, list(token_ids), stream_id, cached=cached)
        self.requests.append(request)
        return request

    def scheduler_output(self, counts: dict[str, int], resumed: Sequence[str] = ()) -> Any:
        new = [request for request in self.requests if not request.announced]
        for request in new:
            request.announced = True
        return SimpleNamespace(
            scheduled_new_reqs=[
                SimpleNamespace(
                    req_id=request.request_id,
                    num_computed_tokens=request.cached,
                    sampling_params=SimpleNamespace(
                        extra_args=None if request.stream_id is None else {EXTRA_ARGUMENT: request.stream_id}
                    ),
                )
                for request in new
            ],
            scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=set(resumed)),
            preempted_req_ids=None,
            num_scheduled_tokens=counts,
        )

    def counts(self) -> dict[str, int]:
        return {
            request.request_id: min(self.chunk, len(request.token_ids) - request.computed) for request in self.requests
        }

    def hidden_states(self, counts: dict[str, int]) -> torch.Tensor:
        width = max(len(request.token_ids) for request in self.requests)
        states = []
        for request in self.requests:
            for index in range(request.computed, request.computed + counts[request.request_id]):
                known = request.token_ids[: index + 1]
                states.append(known + [-1] * (width - len(known)))
        return torch.tensor(states, dtype=torch.int64)

    def take(self, counts: dict[str, int], sampled: torch.Tensor) -> None:
        for index, request in enumerate(self.requests):
            request.computed += counts[request.request_id]
            if request.computed == len(request.token_ids):
                request.token_ids.append(int(sampled[index, 0]))

    def sampled(self, logits: torch.Tensor) -> Any:
        tokens = logits.float().argmax(dim=1, keepdim=True).to(torch.int32)
        if self.spoil:
            logits.zero_()  # as a sampler may do in place
        return SimpleNamespace(sampled_token_ids=tokens)


class OlderRunner(FakeEngine):
    """Lays out its batch as `vllm.v1.worker.gpu_model_runner` does."""

    def runner(self) -> Any:
        runner = SimpleNamespace(
            model=FakeModel(),
            input_batch=SimpleNamespace(req_ids=[], req_id_to_index={}, num_tokens_no_spec=np.zeros(0, np.int32)),
            discard_request_mask=SimpleNamespace(np=np.zeros(8, bool)),
            query_start_loc=SimpleNamespace(np=np.zeros(9, np.int32)),
            requests={},
            device=torch.device("cpu"),
            _update_states=lambda _: None,
            _sample=lambda logits, _: self.sampled(logits),
            _get_prompt_logprobs_dict=lambda *_: {},
        )
        vllm_runner_v1.install(runner, self.tap)
        return runner

    def step(self, runner: Any, resumed: Sequence[str] = ()) -> None:
        counts = self.counts()
        runner._update_states(self.scheduler_output(counts, resumed))
        self._lay_out(runner, counts)
        hidden = self.hidden_states(counts)
        ends = np.cumsum(list(counts.values())) - 1
        logits = runner.model.compute_logits(hidden[torch.from_numpy(ends)])
        output = runner._sample(logits, None)
        runner._get_prompt_logprobs_dict(hidden, counts)
        self.take(counts, output.sampled_token_ids)

    def _lay_out(self, runner: Any, counts: dict[str, int]) -> None:
        names = [request.request_id for request in self.requests]
        batch = runner.input_batch
        batch.req_ids, batch.req_id_to_index = names, {name: index for index, name in enumerate(names)}
        batch.num_tokens_no_spec = np.array([len(request.token_ids) for request in self.requests])
        for index, request in enumerate(self.requests):
            unfinished = request.computed + counts[request.request_id] < len(request.token_ids)
            runner.discard_request_mask.np[index] = unfinished
            runner.requests[request.request_id] = SimpleNamespace(num_computed_tokens=request.computed)
        runner.query_start_loc.np[1 : len(counts) + 1] = np.cumsum(list(counts.values()))


class NewerRunner(FakeEngine):
    """Lays out its batch as `vllm.v1.worker.gpu.model_runner` does."""

    def runner(self) -> Any:
        runner = SimpleNamespace(
            model=FakeModel(),
            device=torch.device("cpu"),
            prompt_logprobs_worker=object(),
            req_states=object(),
            add_requests=lambda _: None,
        )

        def sample(hidden_states: Any, input_batch: Any, _: Any) -> Any:
            logits = runner.model.compute_logits(hidden_states[input_batch.logits_indices])
            return self.sampled(logits), 1, 0

        runner.sample = sample
        vllm_runner_v2.install(runner, self.tap)
        return runner

    def step(self, runner: Any, resumed: Sequence[str] = ()) -> None:
        counts = self.counts()
        runner.add_requests(self.scheduler_output(counts, resumed))
        scheduled = np.array(list(counts.values()), np.int32)
        starts = np.concatenate([[0], np.cumsum(scheduled)]).astype(np.int32)
        computed = np.array([request.computed for request in self.requests], np.int32)
        prefill = np.array([request.prompt_length for request in self.requests], np.int32)
        batch = SimpleNamespace(
            req_ids=[request.request_id for request in self.requests],
            cu_num_logits_np=np.arange(len(counts) + 1),
            num_computed_tokens_np=computed,
            num_computed_prefill_tokens_np=np.minimum(computed, prefill),
            num_scheduled_tokens=scheduled,
            prefill_len_np=prefill,
            query_start_loc_np=starts,
            logits_indices=torch.from_numpy(starts[1:].astype(np.int64) - 1),
        )
        output = runner.sample(self.hidden_states(counts), batch, None)
        self.take(counts, output[0].sampled_token_ids)


RUNNERS: dict[str, Callable[[Tap], FakeEngine]] = {"v1": OlderRunner, "v2": NewerRunner}
