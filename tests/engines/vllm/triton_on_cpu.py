"""Starts Python with Triton's kernels interpreted, so that vLLM's newer model runner runs on a processor.

Run as `PYTHON triton_on_cpu.py -m MODULE`. It tells vLLM that Triton has a backend for processors, which the
published package lacks, and has every kernel interpreted. Slow, and for tests only.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from types import SimpleNamespace


class _Driver:
    @staticmethod
    def is_active() -> bool:
        return True


def main() -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    backends = importlib.import_module("triton.backends").backends
    backends["cpu"] = SimpleNamespace(driver=_Driver, compiler=None)
    module = sys.argv[2]
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
