"""Drives one vLLM engine in this process, request by request and step by step. Imports vLLM.

vLLM's engine core runs in this process; with one device so does its only worker. With more devices there is a
worker process for each, and the streams are written by one of those.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.llm_engine import LLMEngine

from capture.engines.vllm_requests import Outcome, Progress, Request
from capture.engines.vllm_start import reason_of
from capture.engines.vllm_streams import EXTRA_ARGUMENT, Failure, plan_to_json
from capture.errors import EngineError, StorageFullError
from capture.model import Ending

_STEPS_BETWEEN_CHECKS = 16
"""How often workers in other processes are asked whether a stream gave up; one in this process at every step."""


@dataclass(slots=True)
class _Live:
    request: Request
    stream_id: str
    token_ids: list[int] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    stopped: bool = False

    @property
    def ended(self) -> bool:
        """Whether the request went as far as was asked."""
        return self.stopped or len(self.token_ids) >= self.request.max_tokens


class VllmDriver:
    """One running vLLM engine."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """Load the model with vLLM's own engine arguments."""
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        self._engine = LLMEngine.from_engine_args(EngineArgs(**arguments), usage_context=UsageContext.LLM_CLASS)
        self._numbers = itertools.count()
        self._in_process = self.config.parallel_config.world_size == 1

    @property
    def config(self) -> Any:
        """The configuration as vLLM resolved it."""
        return self._engine.vllm_config

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of the extension in every worker and return their answers by rank."""
        answers: list[Any] = self._engine.collective_rpc(method, args=arguments)
        return answers

    def run(self, requests: Sequence[Request], progress: Progress) -> list[Outcome]:
        """Run requests together, in one batch where there is more than one; `progress` counts their tokens.

        Raises:
            StorageFullError: the disk is full.
            EngineError: vLLM failed, or recording gave up for any reason but a cache that did not serve.
        """
        running: dict[str, _Live] = {}
        try:
            for request in requests:
                name = f"flipscope-{next(self._numbers)}"
                running[name] = _Live(request, name)
                self._add(name, request)
            unfinished = self._loop(dict(running), progress)
        except Exception as error:
            self._abandon(running)
            raise EngineError(
                f"vLLM gave up in the middle of a run ({reason_of(error)}); start again, what it recorded is kept"
            ) from error
        outcomes = [self._finish(live, whole=name not in unfinished and live.ended) for name, live in running.items()]
        for live, outcome in zip(running.values(), outcomes, strict=True):
            _check(live, outcome.failure)
        return outcomes

    def close(self) -> None:
        """End the engine and its workers."""
        self._engine.engine_core.shutdown()

    def _add(self, name: str, request: Request) -> None:
        self.ask("flipscope_open", name, plan_to_json(request.plan))
        parameters = SamplingParams(
            temperature=0.0,
            max_tokens=request.max_tokens,
            ignore_eos=True,
            output_kind=RequestOutputKind.DELTA,
            skip_reading_prefix_cache=not request.reads_cache,
            extra_args={EXTRA_ARGUMENT: name},
            **{"detokenize": False, **request.sampling},
        )
        self._engine.add_request(name, self._prompt(request), parameters)

    def _prompt(self, request: Request) -> Any:
        """Return the prompt as this version of vLLM takes it: rendered, or as it is where there is no renderer."""
        prompt = {"prompt_token_ids": list(request.token_ids), "cache_salt": request.salt}
        renderer = getattr(self._engine, "renderer", None)
        return prompt if renderer is None else renderer.render_cmpl([prompt])[0]

    def _loop(self, unfinished: dict[str, _Live], progress: Progress) -> set[str]:
        """Step until every request has ended; return the names of those that gave up."""
        given_up: set[str] = set()
        for step in itertools.count():
            if not unfinished:
                break
            for output in self._engine.step():
                self._follow(unfinished, output, progress)
            if self._in_process or step % _STEPS_BETWEEN_CHECKS == 0:
                given_up |= self._drop_failed(unfinished)
        return given_up

    def _follow(self, unfinished: dict[str, _Live], output: Any, progress: Progress) -> None:
        live = unfinished.get(output.request_id)
        if live is None:
            return
        plan = live.request.plan
        if live.request.sampling:
            live.outputs.append(output)
        for token_id in output.outputs[0].token_ids:
            position = plan.first + len(live.token_ids)
            live.token_ids.append(token_id)
            if not plan.scored_every and plan.ends_with(position, token_id):
                live.stopped = True
                break
        progress(len(output.outputs[0].token_ids))
        if output.finished:
            unfinished.pop(output.request_id)
        elif live.stopped:
            unfinished.pop(output.request_id)
            self._engine.abort_request([output.request_id])

    def _drop_failed(self, unfinished: dict[str, _Live]) -> set[str]:
        failed = {name for answer in self.ask("flipscope_failures") for name in answer if name in unfinished}
        for name in failed:
            unfinished.pop(name)
            self._engine.abort_request([name])
        return failed

    def _abandon(self, running: Mapping[str, _Live]) -> None:
        """Close the streams of requests that an error ended, as far as their workers still answer."""
        with contextlib.suppress(Exception):  # the error that brought us here is the one to tell
            self._engine.abort_request(list(running))
            for name in running:
                self.ask("flipscope_finish", name, None)

    def _finish(self, live: _Live, *, whole: bool) -> Outcome:
        ending = Ending.END_OF_SEQUENCE if live.stopped else live.request.exhausted
        told = _recorded_tokens(live) if whole else None
        answers = self.ask("flipscope_finish", live.stream_id, ending.value if whole else None, told)
        shapes = [answer["shape"] for answer in answers if answer["shape"] is not None]
        failures = [Failure(*answer["failure"]) for answer in answers if answer["failure"] is not None]
        return Outcome(
            tuple(live.token_ids),
            ending,
            max(answer["rows"] for answer in answers),
            (shapes[0][0], int(shapes[0][1])) if shapes else None,
            failures[0] if failures else None,
            tuple(live.outputs),
        )


def _recorded_tokens(live: _Live) -> list[int]:
    """Return the tokens that the stream of a whole run must hold."""
    plan = live.request.plan
    if plan.scored_every:
        return [plan.path[position] for position in plan.scored_positions()]
    return live.token_ids


def _check(live: _Live, failure: Failure | None) -> None:
    """Raise what makes a request's stream useless; a cache that did not serve is the caller's to mend, if it asked."""
    if failure is None:
        if not live.ended:
            done, wanted = len(live.token_ids), live.request.max_tokens
            raise EngineError(f"vLLM ended a request after {done} of {wanted} tokens; start again")
    elif failure.kind != "cache" or not live.request.reads_cache:
        raise (StorageFullError if failure.kind == "storage" else EngineError)(failure.message)
