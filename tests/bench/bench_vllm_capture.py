"""What capture costs in vLLM: decoding speed, time a position, and memory while scoring a prompt.

Run in the interpreter that has vLLM, with the repository's root on its path:

    PYTHONPATH=. OMP_NUM_THREADS=1 VLLM_CPU_KVCACHE_SPACE=1 PYTHON tests/bench/bench_vllm_capture.py [MODEL]

MODEL is a folder with a small model. Without one, a model with random weights and a vocabulary of 151,936 is made in a
temporary folder and measured. Runs with and without capture alternate in one process, and every stream is removed
before the next run, since a growing page cache would be measured otherwise. The ratios are printed last.
"""

from __future__ import annotations

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
import tokenizers
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

        vars(tap).update(keep=timed_keep, settle=timed_settle)
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


@dataclass(frozen=True)
class Step:
    """Median seconds of a step: by the clock, and of the processor alone, which other programs disturb less."""

    clock: float
    processor: float


@dataclass
class Figures:
    """Steps without and with capture, pair by pair, and the seconds that the tap itself took at each step."""

    plain: list[Step] = field(default_factory=list)
    captured: list[Step] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)

    def ratios(self, name: str) -> list[float]:
        """Return the speed with capture over that without, of every pair."""
        pairs = zip(self.plain, self.captured, strict=True)
        return sorted(getattr(plain, name) / getattr(captured, name) for plain, captured in pairs)

    def seconds(self, name: str) -> float:
        """Return the median seconds of a step without capture."""
        return float(statistics.median(getattr(step, name) for step in self.plain))


class Bench:
    """One model in vLLM."""

    def __init__(self, model: Path, folder: Path) -> None:
        source = local_source(str(model))
        assert source is not None
        options = VllmOptions(max_model_len=4096)
        self.driver = load(engine_arguments(source, options, EXTENSION, tokenizer=True), source.name)
        runner = self.driver.ask("flipscope_install")[0]["runner"]
        columns = self.driver.config.model_config.get_vocab_size()
        self.checked: SelfTest = run_self_test(self.driver, runner, columns)
        self.driver.ask("flipscope_prepare")
        self.folder = folder / "stream"

    def decode(self, *, captured: bool, positions: int = POSITIONS, **sampling: Any) -> Step:
        """Return the median seconds of a step, the first ones left out."""
        self.driver.ask("flipscope_switch", captured)
        plan = StreamPlan(str(self.folder) if captured else None, len(PROMPT))
        clock: list[float] = []
        processor: list[float] = []

        def note(_: int) -> None:
            clock.append(time.perf_counter())
            processor.append(time.thread_time())

        self.driver.run([Request(PROMPT, positions, plan, "decode", Ending.LENGTH, sampling=sampling)], note)
        shutil.rmtree(self.folder, ignore_errors=True)
        first = WARM_UP if positions > 2 * WARM_UP else 0
        return Step(float(np.median(np.diff(clock)[first:])), float(np.median(np.diff(processor)[first:])))

    def compare(self) -> Figures:
        """Alternate runs with and without capture."""
        figures = Figures()
        for pair in range(PAIRS):
            order = (True, False) if pair % 2 else (False, True)
            found = {captured: self.decode(captured=captured) for captured in order}
            figures.plain.append(found[False])
            figures.captured.append(found[True])
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
    words = {f"w{token_id}": token_id for token_id in range(WIDE_VOCABULARY)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    return folder


def report(name: str, figures: Figures) -> float:
    """Tell what was measured of one model and return the ratio of speeds by the clock."""
    for clock in ("clock", "processor"):
        ratios = " ".join(f"{value:.3f}" for value in figures.ratios(clock))
        say(f"{name}, {clock}: {1000 * figures.seconds(clock):.2f} ms a position without capture; pairs {ratios}")
    say(f"{name}: the tap takes {1000 * statistics.median(figures.spent):.3f} ms a position")
    ratio: float = statistics.median(figures.ratios("clock"))
    return ratio


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def measure_small(model: Path, folder: Path) -> None:
    """Measure speed on a small model."""
    bench = Bench(model, folder)
    ratio = report(f"{bench.checked.vocabulary_size:,} tokens", bench.compare())
    bench.close()
    say(f"speed with capture / without, small model: {ratio:.3f} (target at least 0.97)")


def measure_wide(folder: Path) -> None:
    """Measure speed, time a position and memory at the wide vocabulary."""
    bench = Bench(wide_model(folder / "wide"), folder)
    figures = bench.compare()
    ratio = report(f"{WIDE_VOCABULARY:,} tokens", figures)
    added = statistics.median(figures.spent)
    ids = bench.decode(captured=False, positions=5, logprobs=-1).processor - figures.seconds("processor")
    told = bench.decode(captured=False, positions=5, logprobs=-1, detokenize=True).processor
    told -= figures.seconds("processor")
    say(f"logprobs=-1 adds {1000 * told:.0f} ms a position as vLLM gives it, {1000 * ids:.0f} ms with detokenize=False")
    scored, without = bench.score(captured=True), bench.score(captured=False)
    bench.close()
    say(f"a prompt of {SCORED:,}: {scored[0]:.1f} s with every row scored, {without[0]:.1f} s without")
    say(f"memory to score {SCORED:,} positions: {scored[1]:.0f} MiB (target at most 300); without {without[1]:.0f}")
    say(f"speed with capture / without, {WIDE_VOCABULARY:,} tokens: {ratio:.3f} (target at least 0.97)")
    say(f"time added by capture / by logprobs=-1: 1/{told / added:.0f} (target at most 1/1000)")


def main() -> None:
    """Measure the small model where one is named, else the one with the wide vocabulary."""
    with tempfile.TemporaryDirectory(prefix="flipscope-bench-") as folder:
        if len(sys.argv) > 1:
            measure_small(Path(sys.argv[1]), Path(folder))
        else:
            measure_wide(Path(folder))


if __name__ == "__main__":
    main()
