"""Loads a model and its tokenizer for the `torch` engine. Imports torch and transformers."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from capture.engines.hub import hub_source
from capture.engines.model_files import ModelSource, local_source
from capture.engines.torch_options import TorchOptions
from capture.errors import EngineError


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory: where it came from, the module and its fast tokenizer."""

    source: ModelSource
    model: Any
    tokenizer: Any


def load(model: str, options: TorchOptions) -> LoadedModel:
    """Load a model from a folder, a GGUF file or the local hub cache, in evaluation mode on its device.

    Raises:
        EngineError: it is missing, incomplete or of a kind that transformers cannot load.
    """
    if options.device != "cpu" and not torch.cuda.is_available():
        raise EngineError(f"option 'device' is '{options.device}' but torch sees no GPU; use 'cpu'")
    with _quiet_imports():
        transformers = importlib.import_module("transformers")
        transformers.utils.logging.disable_progress_bar()
        source = local_source(model) or hub_source(model)
        with _loading_errors(model):
            loaded = _load_model(transformers, source, model, options)
            tokenizer = transformers.AutoTokenizer.from_pretrained(source.directory, **_arguments(source))
    return LoadedModel(source, loaded, tokenizer)


def _load_model(transformers: Any, source: ModelSource, model: str, options: TorchOptions) -> Any:
    loaded, report = transformers.AutoModelForCausalLM.from_pretrained(
        source.directory,
        dtype=getattr(torch, options.dtype),
        attn_implementation=options.attention,
        output_loading_info=True,
        **_arguments(source),
    )
    missing = sorted(report["missing_keys"])
    if missing:
        raise EngineError(
            f"the model '{model}' lacks {len(missing)} of its weights, such as '{missing[0]}'; copy it again"
        )
    loaded.eval().requires_grad_(requires_grad=False)
    return loaded


def _arguments(source: ModelSource) -> dict[str, Any]:
    """A folder is loaded as it is: nothing is fetched and no code in it is run."""
    arguments: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    return arguments if source.gguf is None else {**arguments, "gguf_file": source.gguf}


@contextmanager
def _loading_errors(model: str) -> Iterator[None]:
    safetensors = importlib.import_module("safetensors")
    kinds = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)
    try:
        yield
    except (*kinds, safetensors.SafetensorError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise EngineError(f"the model '{model}' cannot be loaded: {reason}") from error


@contextmanager
def _quiet_imports() -> Iterator[None]:
    """Keep what libraries print while they are imported out of the worker's log.

    torchao reports every kernel library built for hardware that this machine lacks, and registers its enums with torch
    in a way that torch is about to drop. Neither says anything about the run.
    """
    logging.getLogger("torchao").setLevel(logging.ERROR)
    logging.getLogger("torch.utils._pytree").addFilter(_not_about_enums)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"(torch|torchao|optimum)\b.*")
        yield


def _not_about_enums(record: logging.LogRecord) -> bool:
    return "register_constant" not in record.getMessage()
