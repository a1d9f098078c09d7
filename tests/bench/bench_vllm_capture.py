"""What capture costs in vLLM: decoding speed, time a position, and memory while scoring a prompt.

Run in the interpreter that has vLLM, with the repository's root on its path:

    PYTHONPATH=. OMP_NUM_THREADS=1 VLLM_CPU_KVCACHE_SPACE=1 PYTHON tests/bench/bench_vllm_capture.py [MODEL]

MODEL is a folder with a small model. A model of the same shape with random weights and a vocabulary of 151,936 is made
in a temporary folder. Runs with and without capture alternate in one process, and every stream is removed before the
next run, since a growing page cache would be measured otherwise. The ratios are printed last.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from capture.engines.model_files import local_source
from capture.engines.vllm_capture import CaptureExtension
from capture.engines.vllm_options import VllmOptions
from capture.engines.vllm_requests import Request
from capture.engines.vllm_selftest import SelfTest, run_self_test
from capture.engines.vllm_start import engine_arguments, load
from capture.engines.vllm_streams import StreamPlan
from capture.model import Ending

EXTENSION = "bench_vllm_capture.TimedExtension"
WIDE_VOCABULARY = 151_936
PROMPT = tuple(range(3, 67))
POSITIONS = 120
PAIRS = 7
SCORED = 3000
WARM_UP = 10

_SHAPE: dict[str, Any] = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}


class TimedExtension(CaptureExtension):
    """The tap, with a switch and a clock."""

    flipscope_spent: list[float]
    flipscope_methods: dict[str, Any]

    def flipscope_prepare(self) -> None:
        """Time what the tap itself does, and remember its methods so that they can be taken out and put back."""
        tap = self.flipscope_tap
        assert tap is not None
        self.flipscope_spent = []
        keep, settle = tap.keep, tap.settle
        started = 0.0

        def timed_keep(*arguments: Any) -> Any:
            nonlocal started
            before = time.perf_counter()
            kept = keep(*arguments)
            started = time.perf_counter() - before
            return kept

        def timed_settle(*arguments: Any) -> None:
            before = time.perf_counter()
            settle(*arguments)
            self.flipscope_spent.append(started + time.perf_counter() - before)

        tap.keep, tap.settle = timed_keep, timed_settle  # type: ignore[method-assign]
        runner = vars(self.model_runner)
        names = ("_update_states", "_sample", "_get_prompt_logprobs_dict", "add_requests", "sample")
        self.flipscope_methods = {name: runner[name] for name in names if name in runner}

    def flipscope_switch(self, on: bool) -> None:
        """Put the tap's methods into the model runner, or uncover vLLM's own."""
        for name, method in self.flipscope_methods.items():
            if on:
                setattr(self.model_runner, name, method)
            else:
                vars(self.model_runner).pop(name, None)

    def flipscope_take_spent(self) -> list[float]:
        """Return the seconds that the tap took at each step since the last call."""
        spent, self.flipscope_spent = self.flipscope_spent, []
        return spent


@dataclass
class Figures:
    """Measured seconds a position, by kind of run."""

    plain: list[float] = field(default_factory=list)
    captured: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)


class Bench:
    """One model in vLLM."""

    def __init__(self, model: Path, folder: Path) -> None:
        source = local_source(str(model))
        assert source is not None
        options = VllmOptions(max_model_len=4096)
        self.driver = load(engine_arguments(source, options, EXTENSION, tokenizer=False), source.name)
        runner = self.driver.ask("flipscope_install")[0]["runner"]
        columns = self.driver.config.model_config.get_vocab_size()
        self.checked: SelfTest = run_self_test(self.driver, runner, columns)
        self.driver.ask("flipscope_prepare")
        self.folder = folder / "stream"

    def steps(self, request: Request) -> list[float]:
        """Run a request and return the seconds of each step after the first ones."""
        times: list[float] = []
        self.driver.run([request], lambda _: times.append(time.perf_counter()))
        return np.diff(times)[WARM_UP:].tolist() if len(times) > 2 * WARM_UP else np.diff(times).tolist()

    def decode(self, *, captured: bool, positions: int = POSITIONS, **sampling: Any) -> float:
        """Return the median seconds of a step."""
        self.driver.ask("flipscope_switch", captured)
        plan = StreamPlan(str(self.folder) if captured else None, len(PROMPT))
        times = self.steps(Request(PROMPT, positions, plan, "decode", Ending.LENGTH, sampling=sampling))
        shutil.rmtree(self.folder, ignore_errors=True)
        return statistics.median(times)

    def compare(self) -> Figures:
        """Alternate runs with and without capture."""
        figures = Figures()
        for pair in range(PAIRS):
            order = (True, False) if pair % 2 else (False, True)
            found = {captured: self.decode(captured=captured) for captured in order}
            figures.plain.append(found[False])
            figures.captured.append(found[True])
            figures.ratios.append(found[False] / found[True])
        self.driver.ask("flipscope_take_spent")
        self.decode(captured=True)
        figures.spent = self.driver.ask("flipscope_take_spent")[0][WARM_UP:]
        return figures

    def score(self, *, captured: bool) -> tuple[float, float]:
        """Return seconds and MiB of peak memory beyond what was there, for a prompt of `SCORED` positions."""
        self.driver.ask("flipscope_switch", captured)
        path = tuple(int(token) for token in np.random.default_rng(1).integers(3, 40_000, SCORED))
        plan = StreamPlan(str(self.folder), 1, path=path, scored_every=1) if captured else StreamPlan(None, 1)
        with peak_memory() as peak:
            started = time.perf_counter()
            self.driver.run([Request((2, *path[:-1]), 1, plan, "score", Ending.PATH)], lambda _: None)
            seconds = time.perf_counter() - started
        shutil.rmtree(self.folder, ignore_errors=True)
        return seconds, peak()

    def close(self) -> None:
        """End vLLM."""
        self.driver.close()


@contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """Yield a function that tells, afterwards, the peak of resident memory beyond the start, in MiB."""
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    after: list[float] = []
    yield lambda: after[0]
    after.append((status("VmHWM") - before) / 1024)


def status(name: str) -> int:
    """Return a figure of this process in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def wide_model(folder: Path) -> Path:
    """Save a model with random weights and the wide vocabulary."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=WIDE_VOCABULARY, **_SHAPE)
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def report(name: str, figures: Figures) -> float:
    """Print what was measured of one model and return the ratio of speeds."""
    ratio = statistics.median(figures.ratios)
    plain, captured = statistics.median(figures.plain), statistics.median(figures.captured)
    print(f"{name}: {1 / plain:.1f} tokens/s without capture, {1 / captured:.1f} with; ratios of the pairs ", end="")
    print(" ".join(f"{value:.3f}" for value in sorted(figures.ratios)))
    print(f"{name}: the tap takes {1000 * statistics.median(figures.spent):.3f} ms a position of {1000 * plain:.2f} ms")
    return ratio


def main() -> None:
    """Measure and print."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="flipscope-bench-") as name:
        folder = Path(name)
        last = []
        if len(sys.argv) > 1:
            bench = Bench(Path(sys.argv[1]), folder)
            ratio = report(f"{bench.checked.vocabulary_size:,} tokens", bench.compare())
            last.append(f"speed with capture / without, small model: {ratio:.3f} (target at least 0.97)")
            bench.close()
            print("\n".join(last))
            return
        bench = Bench(wide_model(folder / "wide"), folder)
        figures = bench.compare()
        ratio = report(f"{WIDE_VOCABULARY:,} tokens", figures)
        plain = statistics.median(figures.plain)
        added = statistics.median(figures.spent)
        told = bench.decode(captured=False, positions=5, logprobs=-1) - plain
        print(f"logprobs=-1 adds {1000 * told:.0f} ms a position")
        without, scored = bench.score(captured=False), bench.score(captured=True)
        print(f"a prompt of {SCORED:,}: {without[0]:.1f} s and {without[1]:.0f} MiB more at the peak without scoring")
        print(f"a prompt of {SCORED:,}: {scored[0]:.1f} s and {scored[1]:.0f} MiB more at the peak with every row")
        bench.close()
    print(f"memory to score {SCORED:,} positions: {scored[1]:.0f} MiB (target at most 300)")
    print(f"speed with capture / without, {WIDE_VOCABULARY:,} tokens: {ratio:.3f} (target at least 0.97)")
    print(f"time added by capture / by logprobs=-1: 1/{told / added:.0f} (target at most 1/1000)")


if __name__ == "__main__":
    main()
