"""Turns a GGUF file into a folder of bf16 safetensors with its tokenizer. Its own program, since it needs torch."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def unpack(source: Path, target: Path) -> None:
    """Write the model in `source` (GGUF) to the folder `target`, which is whole or absent afterwards.

    A model read from GGUF refuses to be saved, so its dequantized weights go into a fresh one of the same shape.
    """
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    loaded = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    settings = loaded.config.to_dict()
    settings.pop("quantization_config", None)
    fresh = type(loaded)(type(loaded.config)(**settings))
    fresh.load_state_dict(loaded.state_dict())
    fresh.to(torch.bfloat16).save_pretrained(partial)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(partial)
    partial.rename(target)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
