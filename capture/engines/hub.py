"""Finds a model by its hub name, in the local cache or on the hub. Imports huggingface_hub when it is used."""

from __future__ import annotations

import importlib

from capture.engines.model_files import ModelSource, local_source
from capture.errors import EngineError

_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken"]


def hub_source(model: str) -> ModelSource:
    """Return the model of that name; `HF_HUB_OFFLINE` keeps this to what was downloaded before.

    Raises:
        EngineError: there is none, or it has no weights.
    """
    hub = importlib.import_module("huggingface_hub")
    try:
        directory = hub.snapshot_download(model, allow_patterns=_FILES)
    except (hub.errors.HFValidationError, hub.errors.HfHubHTTPError, OSError) as error:
        raise EngineError(
            f"there is no model '{model}': no such folder, and no such name on the hub or in its cache"
        ) from error
    source = local_source(directory)
    if source is None:
        raise EngineError(f"the model '{model}' could not be downloaded; name a folder that holds it")
    return ModelSource(model, source.directory)
