"""The `torch` engine: transformers models behind the contract of `base`. Imports torch and transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from capture.engines.base import ForcedJob, FreeJob, Job, ModelFacts, Sinks
from capture.engines.job_checks import check_job
from capture.engines.torch_chat_template import render, render_turns
from capture.engines.torch_decoder import Decoder
from capture.engines.torch_jobs import run_branch, run_forced, run_free
from capture.engines.torch_manifest import describe
from capture.engines.torch_model import LoadedModel, load
from capture.engines.torch_options import validate_options
from capture.engines.torch_probe import Probe, probe
from capture.engines.torch_quantization import quantize_weights
from capture.engines.vocabulary import tokenizer_json, vocabulary_of
from capture.errors import EngineError
from capture.model import LOGIT_BYTES, Case, Prompt, RecordedTurns, Runtime, Token

UNLIMITED = 2**31 - 1
"""The context length of a model whose configuration names none."""


@dataclass(frozen=True, slots=True)
class _Started:
    loaded: LoadedModel
    decoder: Decoder
    facts: ModelFacts
    manifest: Mapping[str, Any]


class TorchEngine:
    """A transformers model in this process, run alone (a batch of one), greedy.

    Steps of the same tokens give the same bits, free, forced or from a copied state, so forks are exact.
    """

    def __init__(self) -> None:
        self._engine: _Started | None = None

    def start(self, runtime: Runtime) -> ModelFacts:
        """Load the model, quantize it if asked, and take one step to see what runs.

        Raises:
            UsageError: an option is unknown or has a value that is not allowed.
            EngineError: the model or a library is missing or wrong, or the model does not run with the options.
        """
        options = validate_options(runtime.options)
        torch.set_num_threads(options.threads)
        loaded = load(runtime.model, options)
        quantization = quantize_weights(loaded.model, options)
        loaded.model.to(options.device)
        decoder = Decoder(loaded.model, options)
        seen = probe(decoder)
        facts = _facts(loaded.model, seen)
        self._engine = _Started(loaded, decoder, facts, describe(loaded, options, quantization, seen))
        return facts

    def tokenize(self, case: Case, date: str) -> Prompt:
        """Render the case with the model's own chat template, with `date` (YYYY-MM-DD) as today.

        Raises:
            EngineError: the model has no chat template, or it refuses the case.
        """
        return render(self._started.loaded.tokenizer, case, date)

    def tokenize_turns(self, case: Case, date: str) -> RecordedTurns:
        """Render the case with its recorded assistant turns; raises what `torch_chat_template.render_turns` raises."""
        return render_turns(self._started.loaded.tokenizer, case, date)

    def vocabulary(self) -> Sequence[Token]:
        """Return every token that has bytes, by rising id.

        Raises:
            EngineError: the tokenizer is not a fast one, or its tokens have no fixed bytes.
        """
        return vocabulary_of(json.loads(tokenizer_json(self._started.loaded.tokenizer)))

    def generate(self, job: Job, sinks: Sinks, progress: Callable[[int], None]) -> None:
        """Run one job; `progress` is called with 1 for each position written.

        Raises:
            EngineError: an id is not in the vocabulary, the job is longer than the model's context, a fork lies
                outside its path, positions are to be left out by decode, or the logits are not finite.
        """
        started = self._started
        check_job(job, started.facts)
        if isinstance(job, FreeJob):
            run_free(started.decoder, job, sinks, progress)
        elif isinstance(job, ForcedJob):
            run_forced(started.decoder, job, sinks, progress)
        else:
            run_branch(started.decoder, job, sinks, progress)

    def manifest(self) -> Mapping[str, Any]:
        """Return what decides the bits and what really ran; the same in every process on this machine."""
        return self._started.manifest

    def close(self) -> None:
        """Free the model."""
        self._engine = None

    @property
    def _started(self) -> _Started:
        if self._engine is None:
            raise EngineError("the torch engine is not started; call start first")
        return self._engine


def _facts(model: Any, seen: Probe) -> ModelFacts:
    if seen.dtype not in LOGIT_BYTES:
        raise EngineError(f"the model's logits are {seen.dtype}, which cannot be stored; set 'dtype' to 'float32'")
    text_config = model.config.get_text_config(decoder=True)
    return ModelFacts(seen.dtype, seen.vocabulary_size, _context_length(text_config), _stop_ids(model, text_config))


def _context_length(text_config: Any) -> int:
    """Return the configuration's positions; rotary embeddings of type `dynamic` stretch them by their factor."""
    positions = getattr(text_config, "max_position_embeddings", None) or UNLIMITED
    rotary = getattr(text_config, "rope_parameters", None) or {}
    factor = rotary.get("factor", 1) if rotary.get("rope_type") == "dynamic" else 1
    return int(positions * factor)


def _stop_ids(model: Any, text_config: Any) -> tuple[int, ...]:
    """Return the end-of-sequence ids of the generation configuration, else of the model's own."""
    generation = getattr(model, "generation_config", None)
    found = getattr(generation, "eos_token_id", None)
    if found is None:
        found = getattr(text_config, "eos_token_id", None)
    ids = () if found is None else found if isinstance(found, list | tuple) else (found,)
    return tuple(sorted({int(token_id) for token_id in ids}))
