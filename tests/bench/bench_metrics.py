"""Comparing rows of 151,936 logits: flipscope against the obvious torch float64 code, in turn, in one process.

    PYTHONPATH=. python tests/bench/bench_metrics.py [--rows N] [--rounds N]

Realistic rows are those of the bundled study's bf16 and fp8 KV-cache runs, widened to 151,936 ids by drawing from their
ids again, with noise, rounded to bfloat16. Flat rows are normal noise. Torch runs with its default threads and gets all
rows at once. Times are in ms a row. The figures are printed last, one a line; nothing is asserted.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import torch

from capture.accelerator import row_comparer
from capture.bundle import Bundle
from capture.metrics import PairMetrics, compare_rows
from capture.model import Float32Array, Int32Array, Mode
from capture.resources import bundled_library
from capture.rows import widen

WIDTH = 151_936

Rows = tuple[Float32Array, Float32Array, Int32Array]


def obvious(rows: Rows) -> dict[str, torch.Tensor]:
    """The numbers of `PairMetrics`, as anyone would write them with torch."""
    reference, candidate, tokens = (torch.from_numpy(array) for array in rows)
    first, second = torch.log_softmax(reference.double(), dim=-1), torch.log_softmax(candidate.double(), dim=-1)
    p, q = first.exp(), second.exp()
    middle = torch.logaddexp(first, second) - math.log(2)
    winner, other_winner = first.argmax(-1, keepdim=True), second.argmax(-1, keepdim=True)
    ids = torch.arange(first.shape[-1])

    def rank(logs: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        value = logs.gather(-1, token)
        return ((logs > value) | ((logs == value) & (ids < token))).sum(-1)

    top, other_top = first.topk(5).indices, second.topk(5).indices
    token = tokens.long()[:, None]
    return {
        "kl_forward": (p * (first - second)).sum(-1),
        "kl_reverse": (q * (second - first)).sum(-1),
        "jensen_shannon": ((p * (first - middle)).sum(-1) + (q * (second - middle)).sum(-1)) / 2,
        "reference_entropy": -(p * first).sum(-1),
        "candidate_entropy": -(q * second).sum(-1),
        "reference_rank": rank(second, winner),
        "candidate_rank": rank(first, other_winner),
        "reference_winner_probability": q.gather(-1, winner)[:, 0],
        "candidate_winner_probability": p.gather(-1, other_winner)[:, 0],
        "delta_probability": (q.gather(-1, token) - p.gather(-1, token))[:, 0],
        "top5_overlap": (top[:, :, None] == other_top[:, None, :]).any(-1).sum(-1),
    }


def as_bfloat16(values: np.ndarray) -> Float32Array:
    """Round to the nearest bfloat16, kept as float32."""
    rounded: Float32Array = torch.from_numpy(values).bfloat16().float().numpy()
    return rounded


def realistic(count: int) -> Rows:
    """Rows of two runtimes after the same prefixes, as wide as the vocabularies of today."""
    folder = bundled_library() / "network-automation"
    pair = []
    for name in ("mac--bf16", "mac--kv-e4m3"):
        with Bundle(folder / f"{name}.duckdb") as bundle:
            run = next(run for run in bundle.runs if run.mode is Mode.FREE)
            positions = bundle.kept_positions(run.run_id)
            pair.append(widen(bundle.rows(run.run_id, positions), run.dtype))
    length = min(len(side) for side in pair)
    random = np.random.default_rng(0)
    chosen = np.arange(count) % length
    width = pair[0].shape[1]
    drawn = np.append(np.arange(width), random.integers(0, width, WIDTH - width))
    noise = random.normal(scale=0.3, size=(count, WIDTH)).astype(np.float32)
    noise[:, :width] = 0.0
    sides = [side[chosen][:, drawn] + noise for side in pair]
    for side in sides:
        side[:, width:] = np.minimum(side[:, width:], side[:, :width].max(axis=1, keepdims=True) - 4.0)
    first, second = (as_bfloat16(side) for side in sides)
    return first, second, first.argmax(axis=1).astype(np.int32)


def flat(count: int) -> Rows:
    """Rows of normal noise, no two logits alike in any way: nothing to be saved on them."""
    random = np.random.default_rng(1)
    first = random.normal(scale=3.0, size=(count, WIDTH)).astype(np.float32)
    second = (first + random.normal(scale=0.2, size=first.shape)).astype(np.float32)
    return as_bfloat16(first), as_bfloat16(second), first.argmax(axis=1).astype(np.int32)


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def processor_ratio(rows: Rows, rounds: int) -> float:
    """How many times less processor time flipscope takes, one thread each: what a busy machine changes least."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pairs = [
        (timed(lambda: obvious(rows), time.process_time), timed(lambda: compare_rows(*rows), time.process_time))
        for _ in range(rounds)
    ]
    torch.set_num_threads(threads)
    return min(other for other, _ in pairs) / min(own for _, own in pairs)


def largest_difference(found: PairMetrics, wanted: dict[str, torch.Tensor]) -> float:
    """The overlap is left out: torch breaks ties at the fifth place as it likes."""
    names = [name for name in wanted if name != "top5_overlap"]
    return max(float(np.abs(getattr(found, name) - wanted[name].numpy()).max()) for name in names)


def peak_mib(count: int) -> float:
    """What comparing takes beside the rows, of which one pair stands for all."""
    first, second, tokens = realistic(1)
    tracemalloc.start()
    row_comparer()(
        np.broadcast_to(first[0], (count, WIDTH)),
        np.broadcast_to(second[0], (count, WIDTH)),
        np.repeat(tokens, count),
        None,
    )
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return peak


def measure(name: str, rows: Rows, rounds: int) -> float:
    """Print the times of one kind of rows; return how many times faster flipscope is, by the medians."""
    compare, count = row_comparer(), len(rows[2])
    difference = largest_difference(compare(*rows, None), obvious(rows))
    times = [(timed(lambda: obvious(rows)) / count, timed(lambda: compare(*rows, None)) / count) for _ in range(rounds)]
    ours = [own for _, own in times]
    theirs = [other for other, _ in times]
    ratio = statistics.median(other / own for other, own in times)
    print(f"{name}: torch {1e3 * statistics.median(theirs):.2f} (least {1e3 * min(theirs):.2f}), ", end="")
    print(f"flipscope {1e3 * statistics.median(ours):.2f} (least {1e3 * min(ours):.2f}) ms a row; ", end="")
    print(f"ratio {ratio:.1f} (of the least times {min(theirs) / min(ours):.1f}); largest difference {difference:.1e}")
    return ratio


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=32, help="positions compared in one call")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, numpy {np.__version__}")
    noise = measure("flat rows", flat(arguments.rows), arguments.rounds)
    ratio = measure("realistic rows", realistic(arguments.rows), arguments.rounds)
    print(f"memory beside the rows: {peak_mib(1_000):.1f} MiB for 1,000 rows, {peak_mib(10_000):.1f} MiB for 10,000")
    print(
        f"times less processor time than torch, one thread each: {processor_ratio(realistic(8), arguments.rounds):.1f}"
    )
    print(f"times faster than torch, flat rows: {noise:.1f}")
    print(f"times faster than torch: {ratio:.1f}")


if __name__ == "__main__":
    main()
