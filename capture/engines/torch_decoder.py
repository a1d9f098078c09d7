"""Runs a model one step at a time and hands out its logits. Imports torch."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from capture.engines.torch_options import TorchOptions
from capture.engines.torch_state import GenerationState, RotaryMemory, new_cache
from capture.errors import EngineError

_BIT_TYPES = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}


@dataclass(frozen=True, slots=True)
class Row:
    """The logits of one position.

    Attributes:
        data: the raw logits in their native dtype, little-endian, contiguous, as bytes.
        top1: the lowest id among the exact maxima.
    """

    data: memoryview
    top1: int


def read_row(logits: torch.Tensor, position: int) -> Row:
    """Take the logits [vocabulary] of a position off the device.

    Raises:
        EngineError: the logits hold NaN, or have no finite maximum.
    """
    row = logits.to("cpu").contiguous()
    peak = row.max()
    if not torch.isfinite(peak):
        raise EngineError(
            f"the logits at position {position} are not finite (maximum {peak.item()}); try dtype 'float32'"
        )
    bits = row.view(_BIT_TYPES[row.dtype]).numpy()
    data = memoryview(bits.astype(bits.dtype.newbyteorder("<"), copy=False)).cast("B")
    return Row(data, int((row == peak).nonzero()[0]))


class Decoder:
    """A model with the state of one generation. Every method returns logits on the model's device.

    The prompt is always computed in one piece, so that it has the same bits in every run.
    """

    def __init__(self, model: Any, options: TorchOptions) -> None:
        self.model = model
        self.options = options
        names = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in names else {}
        self._rotary = RotaryMemory(model)
        self._start = self._rotary.read()
        self.cache: Any = None
        self.reset()

    def reset(self) -> None:
        """Forget the generation: the state is that before the first prompt token."""
        self.cache = new_cache(self.model.config, self.options)
        self._rotary.write(self._start)

    def prefill(self, prompt_ids: Sequence[int]) -> torch.Tensor:
        """Start over with a prompt; return the logits [vocabulary] after it."""
        self.reset()
        return self._forward(prompt_ids, **self._last_only)[-1]

    def step(self, token_id: int) -> torch.Tensor:
        """Take in one token; return the logits [vocabulary] after it."""
        with _kernels_of_decode(self.options):
            return self._forward((token_id,))[-1]

    def score(self, token_ids: Sequence[int]) -> Iterator[torch.Tensor]:
        """Take in many tokens, `prefill_chunk` at once; yield the logits [vocabulary] after each."""
        size = self.options.prefill_chunk
        for start in range(0, len(token_ids), size):
            yield from self._forward(token_ids[start : start + size])

    def state(self) -> GenerationState:
        """Return the state as it is; it goes on changing with the next step, unless it is copied."""
        return GenerationState(self.cache, self._rotary.read())

    def resume(self, state: GenerationState) -> None:
        """Go on from a state; the state itself changes with the next step."""
        self.cache = state.cache
        self._rotary.write(state.rotary)

    def _forward(self, token_ids: Sequence[int], **arguments: Any) -> torch.Tensor:
        with torch.inference_mode():
            ids = torch.tensor([list(token_ids)], device=self.model.device)
            output = self.model(ids, use_cache=True, **{self._cache_name: self.cache}, **arguments)
            logits: torch.Tensor = output.logits[0]
            return logits


@contextmanager
def _kernels_of_decode(options: TorchOptions) -> Iterator[None]:
    if options.onednn_decode:
        yield
        return
    torch.backends.mkldnn.enabled = False
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = True
