"""The vLLM that tests drive: an interpreter of its own, named by FLIPSCOPE_VLLM_PYTHON."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import pytest

INTERPRETER = os.environ.get("FLIPSCOPE_VLLM_PYTHON", "")

needs_vllm = pytest.mark.skipif(not INTERPRETER, reason="FLIPSCOPE_VLLM_PYTHON names no interpreter that has vllm")

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


@lru_cache(maxsize=1)
def _package() -> Path | None:
    folders = Path(INTERPRETER).parent.parent.glob("lib/python3*/site-packages/vllm") if INTERPRETER else ()
    return next(iter(sorted(folders)), None)


PACKAGE = _package()
"""The installed vllm package, to be read and never imported here."""
