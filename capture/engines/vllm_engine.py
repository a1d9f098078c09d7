"""The `vllm` engine behind the contract of `base`. Imports vLLM, torch and transformers, once it is started."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capture.engines.base import ForcedJob, FreeJob, Job, ModelFacts, Sinks
from capture.engines.hub import hub_source
from capture.engines.job_checks import check_job
from capture.engines.model_files import ModelSource, local_source
from capture.engines.vllm_options import validate_options
from capture.engines.vllm_start import (
    choose_model_runner,
    engine_arguments,
    load,
    refuse_unrecordable,
    set_threads,
    vllm_package,
)
from capture.engines.vocabulary import tokenizer_json, vocabulary_of
from capture.errors import EngineError
from capture.model import Case, Prompt, RecordedTurns, Runtime, Token


@dataclass(frozen=True, slots=True)
class _Started:
    driver: Any
    jobs: Any
    tokenizer: Any
    facts: ModelFacts
    manifest: Mapping[str, Any]


class VllmEngine:
    """vLLM in this process, one request at a time, greedy; rows are tapped in the worker that has them.

    Steps of the same tokens give the same bits, free, forced or from a cached block, so forks are exact.
    """

    def __init__(self) -> None:
        self._engine: _Started | None = None

    def start(self, runtime: Runtime) -> ModelFacts:
        """Load the model, put the tap in, and hold a few captured positions against vLLM's own logits.

        Raises:
            UsageError: an option is unknown or has a value that is not allowed.
            EngineError: vLLM or the model is missing or wrong, the model does not load, or the self-test failed.
        """
        options = validate_options(runtime.options)
        vllm_package()
        source = local_source(runtime.model) or hub_source(runtime.model)
        choice = choose_model_runner(options)
        set_threads(options)
        capture = importlib.import_module("capture.engines.vllm_capture")
        tokenizer = _tokenizer(source)
        arguments = engine_arguments(source, options, capture.EXTENSION, tokenizer=tokenizer is not None)
        driver = load(arguments, source.name)
        try:
            self._engine = _prepared(driver, source, tokenizer, options, choice)
        except BaseException:
            driver.close()
            raise
        return self._engine.facts

    def tokenize(self, case: Case, date: str) -> Prompt:
        """Render the case with the model's own chat template, with `date` (YYYY-MM-DD) as today.

        Raises:
            EngineError: the model has no chat template, or it refuses the case.
        """
        template = importlib.import_module("capture.engines.torch_chat_template")
        prompt: Prompt = template.render(self._tokenizer, case, date)
        return prompt

    def tokenize_turns(self, case: Case, date: str) -> RecordedTurns:
        """Render the case with its recorded assistant turns; raises what `torch_chat_template.render_turns` raises."""
        template = importlib.import_module("capture.engines.torch_chat_template")
        found: RecordedTurns = template.render_turns(self._tokenizer, case, date)
        return found

    def vocabulary(self) -> Sequence[Token]:
        """Return every token that has bytes, by rising id.

        Raises:
            EngineError: the tokenizer is not a fast one, or its tokens have no fixed bytes.
        """
        return vocabulary_of(json.loads(tokenizer_json(self._tokenizer)))

    def generate(self, job: Job, sinks: Sinks, progress: Callable[[int], None]) -> None:
        """Run one job; `progress` is called with the number of positions that a step gave.

        Raises:
            EngineError: an id is not in the vocabulary, the job is longer than the model's context, a fork lies
                outside its path, or vLLM did something that cannot be recorded.
            StorageFullError: the disk is full.
        """
        started = self._started
        check_job(job, started.facts)
        if isinstance(job, FreeJob):
            started.jobs.run_free(job, sinks, progress)
        elif isinstance(job, ForcedJob):
            started.jobs.run_forced(job, sinks, progress)
        else:
            started.jobs.run_branch(job, sinks, progress)

    def manifest(self) -> Mapping[str, Any]:
        """Return what decides the bits and what really ran; the same in every process on this machine."""
        return self._started.manifest

    def close(self) -> None:
        """End vLLM and its workers."""
        if self._engine is not None:
            self._engine.driver.close()
        self._engine = None

    @property
    def _tokenizer(self) -> Any:
        if self._started.tokenizer is None:
            raise EngineError("the model has no tokenizer; add its tokenizer.json to the folder")
        return self._started.tokenizer

    @property
    def _started(self) -> _Started:
        if self._engine is None:
            raise EngineError("the vllm engine is not started; call start first")
        return self._engine


def _prepared(driver: Any, source: ModelSource, tokenizer: Any, options: Any, choice: str) -> _Started:
    manifests = importlib.import_module("capture.engines.vllm_manifest")
    jobs = importlib.import_module("capture.engines.vllm_jobs")
    self_tests = importlib.import_module("capture.engines.vllm_selftest")
    config = driver.config
    refuse_unrecordable(config)
    runner = next(place["runner"] for place in driver.ask("flipscope_install"))
    self_test = self_tests.run_self_test(driver, runner, config.model_config.get_vocab_size())
    workers = tuple(driver.ask("flipscope_describe"))
    evidence = manifests.Evidence(source, tokenizer, options, config, workers, runner, choice, self_test)
    facts = ModelFacts(
        self_test.dtype, self_test.vocabulary_size, int(config.model_config.max_model_len), _stop_ids(source, config)
    )
    # JSON and back: what a manifest holds must read the same before and after it is written.
    manifest = json.loads(json.dumps(manifests.describe(evidence)))
    return _Started(driver, jobs.JobRunner(driver, options, _cached_block(config)), tokenizer, facts, manifest)


def _tokenizer(source: ModelSource) -> Any:
    """Return the model's tokenizer, or None where its folder has none."""
    if source.gguf is None and not any(path.name.startswith("tokenizer") for path in source.files()):
        return None
    transformers = importlib.import_module("transformers")
    arguments = {} if source.gguf is None else {"gguf_file": source.gguf}
    try:
        return transformers.AutoTokenizer.from_pretrained(
            source.directory, local_files_only=True, trust_remote_code=False, **arguments
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise EngineError(f"the tokenizer of '{source.name}' cannot be loaded: {reason}") from error


def _stop_ids(source: ModelSource, config: Any) -> tuple[int, ...]:
    """Return the end-of-sequence ids of the generation configuration, else of the model's own."""
    path = source.directory / "generation_config.json"
    found = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id") if path.is_file() else None
    if found is None:
        found = getattr(config.model_config.hf_text_config, "eos_token_id", None)
    ids = () if found is None else found if isinstance(found, list | tuple) else (found,)
    return tuple(sorted({int(token_id) for token_id in ids}))


def _cached_block(config: Any) -> int | None:
    """Return how many positions the prefix cache serves at once, or None where this model has none."""
    if not config.cache_config.enable_prefix_caching:
        return None
    return int(config.cache_config.block_size) * int(config.parallel_config.decode_context_parallel_size)
