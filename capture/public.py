"""What of a runtime may leave this machine: no paths, only environment variables known to be harmless. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath

from capture.model import Runtime

_HARMLESS = re.compile(
    r"^(CUDA_VISIBLE_DEVICES|CUBLAS_WORKSPACE_CONFIG|ATEN_CPU_CAPABILITY|(OMP|MKL|ONEDNN|DNNL|KMP|NCCL|TORCH|PYTORCH)_.*"
    r"|VLLM_(?!.*(KEY|TOKEN|SECRET|PASSWORD)).*|HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE)$"
)


def public_runtime(runtime: Runtime) -> Runtime:
    """Return the runtime as a stranger may see it: a folder by its name, values of variables by allow-list."""
    environment = {
        name: value if _HARMLESS.match(name) else "(set)" for name, value in sorted(runtime.environment.items())
    }
    return replace(runtime, model=PurePath(runtime.model).name, environment=environment, command=())
