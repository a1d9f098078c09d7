"""What of a runtime may leave this machine: no paths, only environment variables known to be harmless. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from capture.model import Runtime

_HARMLESS = re.compile(
    r"^(?!.*(KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL))(CUDA_VISIBLE_DEVICES|CUBLAS_WORKSPACE_CONFIG|ATEN_CPU_CAPABILITY|HF_HUB_OFFLINE"
    r"|TRANSFORMERS_OFFLINE|(OMP|MKL|ONEDNN|DNNL|KMP|NCCL|TORCH|PYTORCH|VLLM)_.*)$"
)
_PATH = re.compile(r"[/\\~]")


def public_runtime(runtime: Runtime) -> Runtime:
    """Return the runtime as a stranger may see it: folders by their names, values of variables by allow-list."""
    environment = public_environment(runtime.environment)
    options = without_folders(dict(runtime.options))
    model = PurePath(runtime.model).name
    return replace(runtime, model=model, options=options, environment=environment, command=())


def public_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables by name; a value that is not known to be harmless, or has a path, as `(set)`."""
    return {
        name: value if _HARMLESS.match(name) and not _PATH.search(value) else "(set)"
        for name, value in sorted(variables.items())
    }


def without_folders(value: Any) -> Any:
    """Return an option's value, tables and lists included; of an absolute path only the name."""
    if isinstance(value, Mapping):
        return {name: without_folders(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(inner) for inner in value]
    is_path = isinstance(value, str) and (value.startswith("~") or PurePath(value).is_absolute())
    return PurePath(value).name if is_path else value
