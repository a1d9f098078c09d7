"""Where a model lies on disk, which files make it up, and their hashes. Standard library only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from capture.errors import EngineError

_SUFFIXES = frozenset({".safetensors", ".bin", ".json", ".jinja", ".model", ".txt", ".tiktoken"})


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model on disk.

    Attributes:
        name: what the model is called in messages and manifests, without the path to it.
        directory: the folder of the model.
        gguf: the name of the one GGUF file in it that holds the model; None for a folder of safetensors.
    """

    name: str
    directory: Path
    gguf: str | None = None

    def files(self) -> tuple[Path, ...]:
        """Return the files that can decide the output, by name."""
        if self.gguf is not None:
            return (self.directory / self.gguf,)
        found = (path for path in self.directory.iterdir() if path.suffix in _SUFFIXES and path.is_file())
        return tuple(sorted(found, key=lambda path: path.name))

    def size(self) -> int:
        """Return how many bytes the files take on disk."""
        return sum(path.stat().st_size for path in self.files())

    def hashes(self) -> Mapping[str, str]:
        """Return the SHA-256 of every file by its name, in hexadecimal digits."""
        return {path.name: _sha256(path, path.stat().st_size, path.stat().st_mtime_ns) for path in self.files()}


def local_source(model: str) -> ModelSource | None:
    """Return the model at a path, or None where there is neither a folder nor a GGUF file.

    Raises:
        EngineError: the folder holds no configuration or no weights.
    """
    path = Path(model).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return ModelSource(path.name, path.parent, path.name)
    if not path.is_dir():
        return None
    source = ModelSource(path.name or path.resolve().name, path)
    _check(source, model)
    return source


def text_hash(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check(source: ModelSource, model: str) -> None:
    names = [path.name for path in source.files()]
    if "config.json" not in names:
        raise EngineError(f"the model folder '{model}' has no config.json; name a folder that transformers can load")
    if not any(name.endswith(".safetensors") or name.startswith("pytorch_model") for name in names):
        raise EngineError(f"the model folder '{model}' has no weights; put its .safetensors files there")


@lru_cache(maxsize=256)
def _sha256(path: Path, size: int, modified: int) -> str:  # noqa: ARG001 - size and time belong to the cache's key
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
