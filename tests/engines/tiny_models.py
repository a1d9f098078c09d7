"""Tiny random models with a tokenizer of their own, saved as folders that an engine can load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

PADDING = 12
"""How many ids the models have beyond the tokenizer's."""

TEMPLATE = (
    "{{ bos_token }}{{ strftime_now('%d %b %Y %H:%M') }}"
    "{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}"
    "{% for message in messages %}"
    "{% if message.role == 'forbidden' %}{{ raise_exception('no such role') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}{% if not enable_thinking %}<quiet>{% endif %}"
)

_TEXTS = ["show version", "show ip route", "the software version of the core switch", '{"name": "run", "device": 1}']

_SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}


def byte_level_tokenizer() -> Tokenizer:
    """Return a byte-level BPE tokenizer of about 300 tokens: `<s>` and `</s>` special, `<quiet>` added."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.add_tokens(["<quiet>"])
    return tokenizer


def save_tokenizer(directory: Path, *, template: str | None = TEMPLATE) -> int:
    """Save the tokenizer to a folder; return the number of its ids."""
    tokenizer = byte_level_tokenizer()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = template
    fast.save_pretrained(directory)
    return int(tokenizer.get_vocab_size(with_added_tokens=True))


def save_llama(directory: Path, change: Callable[[Any], object] | None = None, **config: Any) -> Path:
    """Save a random Llama; `change` may alter its weights before."""
    columns = save_tokenizer(directory) + PADDING
    settings = transformers.LlamaConfig(vocab_size=columns, **{**_SIZES, **config})
    return _save(directory, transformers.LlamaForCausalLM, settings, change)


def save_hybrid(directory: Path) -> Path:
    """Save a random Falcon-H1: every layer has a Mamba-2 state (convolution and recurrent) beside attention."""
    columns = save_tokenizer(directory) + PADDING
    mamba = {"mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 16, "mamba_n_groups": 1}
    settings = transformers.FalconH1Config(vocab_size=columns, mamba_chunk_size=16, **mamba, **_SIZES)
    return _save(directory, transformers.FalconH1ForCausalLM, settings, None)


def _save(directory: Path, kind: Any, settings: Any, change: Callable[[Any], object] | None) -> Path:
    torch.manual_seed(20)
    model = kind(settings).to(torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.16)  # a fresh model has nearly flat logits and soon repeats itself
        if change is not None:
            change(model)
    model.save_pretrained(directory)
    return directory
