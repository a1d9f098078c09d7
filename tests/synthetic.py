"""Libraries of bundles with invented but valid logits, for tests and for looking at pages.

`python -m tests.synthetic FOLDER` writes one. Case `iface` has free runs that fork (B leaves A, C leaves B's text, D
leaves at a tie and re-joins, E never leaves), runs forced along the reference with decided flips, near-ties and ties,
and branches with certificates. Case `hostile` is made of tokens that a careless page would obey.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capture.bundle import Bundle, RecordedRun, write_bundle
from capture.bundle_facts import BundleFacts
from capture.compare import Side, comparable_runs, compare_runs
from capture.comparison import SUFFIX, write_comparisons
from capture.identity import id_spans, run_id, vocabulary_hash
from capture.model import (
    Case,
    Certificate,
    Ending,
    Exactness,
    Fork,
    Keep,
    Mode,
    Origin,
    Prompt,
    Run,
    RunId,
    Runtime,
    ScoringPath,
    Steps,
)
from capture.prefix import output_prefixes, prefix_of
from capture.rows import describe_rows, row_hash
from tests.synthetic_text import (
    CALL,
    END_ID,
    HOSTILE,
    OPENING,
    PROMPT,
    TOOL,
    VOCABULARY,
    call,
    encode,
    filler,
)

Path_ = tuple[int, ...]

DECIDED, NEAR_TIE, TIE = 1.0, 0.0625, 0.0
"""Margins in nats; 0.0625 is one step of bfloat16 between 8 and 16."""

RUNTIMES: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("bf16-eager", {"dtype": "bfloat16", "attention": "eager"}),
    ("int4", {"dtype": "bfloat16", "attention": "eager", "weights": "int4"}),
    ("int4-int8cache", {"dtype": "bfloat16", "attention": "eager", "weights": "int4", "kv_cache": "int8"}),
    ("bf16-sdpa", {"dtype": "bfloat16", "attention": "sdpa"}),
    ("bf16-again", {"dtype": "bfloat16", "attention": "eager", "threads": 2}),
)


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a lane, forced along the reference, wants another token; `grown` is what it says from there on."""

    position: int
    token_id: int
    margin_nats: float
    grown: Path_ | None = None
    exactness: Exactness = Exactness.EXACT


@dataclass(frozen=True, slots=True)
class Script:
    """What one lane says by itself, and where it departs when it is forced along the reference."""

    free: Path_
    departures: tuple[Departure, ...] = ()
    noise: float = 0.1
    early_margin_nats: float = DECIDED


@dataclass(slots=True)
class _World:
    """Which token every lane wants after which prefix, and how clearly: logits are a function of lane and prefix."""

    prompt: Path_
    wants: list[dict[bytes, int]] = field(default_factory=list)
    margins: dict[tuple[int, bytes], float] = field(default_factory=dict)
    noise: list[float] = field(default_factory=list)

    def learn(self, lane: int, path: Path_, head: Path_ = ()) -> None:
        prefixes = output_prefixes(self.prompt + head, path)
        for prefix_id, token_id in zip(prefixes, path, strict=True):
            self.wants[lane].setdefault(prefix_id, token_id)

    def logits(self, lane: int, prefix_id: bytes) -> NDArray[np.float32]:
        generator = np.random.default_rng(int.from_bytes(prefix_id[:8], "little"))
        height = 9.0 + 4.0 * generator.random()
        row = generator.normal(0.0, 2.0, len(VOCABULARY))
        own = np.random.default_rng(int.from_bytes(prefix_id[:8], "little") + lane + 1)
        row = np.minimum(row + self.noise[lane] * own.normal(0.0, 1.0, len(VOCABULARY)), height - 0.5)
        wanted = [known.get(prefix_id) for known in self.wants]
        chosen = next(token for token in (wanted[lane], *wanted, 0) if token is not None)
        height = round(height * 8) / 8  # a multiple of every step in use, so that margins stay exact
        row[[token for token in wanted if token is not None]] = height - self.margins.get((lane, prefix_id), DECIDED)
        row[chosen] = height
        return _round_to_bfloat16(row.astype(np.float32))

    def choice(self, lane: int, prefix_id: bytes) -> int:
        return self.wants[lane].get(prefix_id, -1)


def _round_to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    bits = values.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32)


def _raw(row: NDArray[np.float32]) -> bytes:
    return (row.view(np.uint32) >> 16).astype("<u2").tobytes()


def interface_scripts(lanes: int, positions: int) -> list[Script]:
    """Return the scripts of case `iface`; see the module's docstring. `positions` is about the reference's length."""
    opening, answer = encode(OPENING), encode(" on the core switch")
    count = max(positions - len(opening) - len(answer) - len(call()), 8)
    middle = filler(count)
    reference = opening + answer + middle + call()
    start = len(opening) + len(answer) + len(middle)
    device = start + len(encode(CALL.split("{device}")[0].replace("{{", "{")))
    command = device + len(encode('core-sw1", "command": "'))
    fork = len(opening)
    tie = len(opening) + len(answer) - 1
    leaves = encode(" and then report the errors") + filler(count // 2, 3) + call(command="show counters")
    nested = encode(" and then reset the interface.") + encode(CALL.split("{device}")[0].replace("{{", "{"))
    nested += encode("core core core core core core")
    rejoins = encode(" device") + middle + call()
    clear = encode("clear") + encode(' interface"}}\n') + call()[-2:]
    malformed = encode("edge") + encode("-sw1 the interface") + encode("\n") + call()[-2:]
    word = filler(1, 20)[0]
    return [
        Script(reference, (Departure(command, reference[command], DECIDED),), noise=0.0),
        Script(
            opening + leaves,
            (
                Departure(fork, leaves[0], DECIDED, leaves),
                Departure(start - 4, word, NEAR_TIE),
                Departure(start - 3, word, NEAR_TIE),
                Departure(command, clear[0], DECIDED, clear),
            ),
            noise=0.3,
        ),
        Script(
            opening + nested,
            (
                Departure(fork, nested[0], DECIDED, nested, Exactness.APPROXIMATE),
                Departure(start - 6, word, NEAR_TIE),
                Departure(device, malformed[0], DECIDED, malformed, Exactness.UNVERIFIED),
            ),
            noise=0.4,
        ),
        Script(reference[:tie] + rejoins, (Departure(tie, rejoins[0], TIE, rejoins),), noise=0.05),
        Script(reference, noise=0.02),
    ][:lanes]


def hostile_scripts() -> list[Script]:
    """Return two lanes that say every hostile token; the second leaves from one hostile token to another."""
    emoji, accent = tuple("🦄".encode()), tuple("é".encode())
    tokens = tuple(encode(data)[0] for data in HOSTILE)
    reference = encode("I show") + tokens + emoji + accent + encode(" then") + (END_ID,)
    other = reference[:4] + (tokens[0], tokens[4], emoji[0], tokens[8]) + reference[-6:]
    return [Script(reference, noise=0.0), Script(other, (Departure(4, tokens[0], DECIDED, other[4:]),), noise=0.2)]


def make_library(
    folder: Path,
    lanes: int = 4,
    positions: int = 80,
    *,
    study: str = "synthetic",
    cases: Sequence[str] = ("iface", "hostile"),
    keep: Keep = Keep.ALL,
    comparisons: bool = True,
) -> Path:
    """Write a small library and return its folder; see the module's docstring for the cases."""
    for case_id in cases:
        scripts = hostile_scripts() if case_id == "hostile" else interface_scripts(lanes, positions)
        make_case(folder / study, case_id, scripts, keep=keep, study=study, comparisons=comparisons)
    return folder


def make_case(
    folder: Path,
    case_id: str,
    scripts: Sequence[Script],
    *,
    keep: Keep = Keep.ALL,
    study: str = "synthetic",
    comparisons: bool = True,
) -> list[Path]:
    """Write one bundle a script, and the comparisons with the first; return the bundles' paths."""
    text = PROMPT if case_id == "iface" else PROMPT.replace("Is Giga", f"{case_id}: Is Giga")
    prompt = Prompt(text, encode(text))
    world = _learn(prompt.token_ids, scripts)
    paths: list[Path] = []
    reference: RunId | None = None
    for lane in range(len(scripts)):
        runs = _runs(world, scripts, lane, reference, keep)
        reference = reference or runs[0].run.run_id
        path = folder / f"{case_id}--{RUNTIMES[lane][0]}.duckdb"
        write_bundle(path, _facts(study, case_id, lane), prompt, runs, VOCABULARY)
        paths.append(path)
    if comparisons:
        write_library_comparisons(paths)
    return paths


def write_library_comparisons(paths: Sequence[Path]) -> None:
    """Write the comparison file of each bundle with the first one."""
    with Bundle(paths[0]) as first:
        reference = Side.of(first, first.runs[0].run_id)
        for path in paths[1:]:
            with Bundle(path) as bundle:
                runs = comparable_runs(bundle, reference.run)
                found = [compare_runs(reference, Side.of(bundle, run.run_id)) for run in runs]
            name = f"{path.stem}.vs.{paths[0].stem.split('--')[1]}{SUFFIX}"
            write_comparisons(path.with_name(name), found)


def _learn(prompt: Path_, scripts: Sequence[Script]) -> _World:
    world = _World(prompt, [{} for _ in scripts], noise=[script.noise for script in scripts])
    reference = scripts[0].free
    for lane, script in enumerate(scripts):
        for departure in script.departures:
            head = reference[: departure.position]
            prefix_id = prefix_of(prompt + head)
            world.wants[lane][prefix_id] = departure.token_id
            for other in (0, lane):
                world.margins[other, prefix_id] = departure.margin_nats
            if departure.margin_nats == TIE:
                world.margins[0, prefix_id] = NEAR_TIE
            if departure.grown is not None:
                world.learn(lane, departure.grown, head)
        world.learn(lane, script.free)
        if lane:
            world.learn(lane, reference)
    return world


def _runs(
    world: _World, scripts: Sequence[Script], lane: int, reference: RunId | None, keep: Keep
) -> list[RecordedRun]:
    script = scripts[lane]
    free = _record(world, lane, Mode.FREE, script.free, keep)
    if reference is None:
        return [free, _reference_branch(world, scripts, free)] if len(scripts) > 1 else [free]
    forced = _record(world, lane, Mode.FORCED, scripts[0].free, keep, forced_along=reference)
    branches = [
        _branch(world, lane, forced, departure, scripts[0].free) for departure in script.departures if departure.grown
    ]
    return [free, forced, *branches]


def _reference_branch(world: _World, scripts: Sequence[Script], free: RecordedRun) -> RecordedRun:
    """Return the reference run on from the second lane's last decided token, which it would not have chosen."""
    departure = scripts[1].departures[-1]
    assert departure.grown is not None
    return _branch(world, 0, free, departure, scripts[0].free, imposed=True)


def _branch(
    world: _World, lane: int, parent: RecordedRun, departure: Departure, path: Path_, imposed: bool = False
) -> RecordedRun:
    assert departure.grown is not None
    fork = Fork(
        parent.run.run_id,
        departure.position,
        prefix_of(world.prompt + path[: departure.position]),
        departure.token_id,
    )
    return _record(
        world,
        lane,
        Mode.BRANCH,
        departure.grown,
        Keep.TOP_K,
        head=path[: departure.position],
        fork=fork,
        certificate=_certificate(departure),
        imposed=imposed,
    )


def _certificate(departure: Departure) -> Certificate:
    if departure.exactness is Exactness.UNVERIFIED:
        return Certificate(Exactness.UNVERIFIED, 0, 3)
    if departure.exactness is Exactness.APPROXIMATE:
        return Certificate(Exactness.APPROXIMATE, 4, 3, max(departure.position - 2, 0), 0.125)
    return Certificate(Exactness.EXACT, 5, 4)


def _record(
    world: _World,
    lane: int,
    mode: Mode,
    path: Path_,
    keep: Keep,
    *,
    head: Path_ = (),
    forced_along: RunId | None = None,
    fork: Fork | None = None,
    certificate: Certificate | None = None,
    imposed: bool = False,
) -> RecordedRun:
    prefixes = output_prefixes(world.prompt + head, path)
    rows = np.stack([world.logits(lane, prefix_id) for prefix_id in prefixes])
    raw = [_raw(row) for row in rows]
    steps = _steps(world, mode, path, rows, raw, head, imposed)
    manifest = {"engine": "synthetic", "runtime": RUNTIMES[lane][0], "options": dict(RUNTIMES[lane][1])}
    ending = Ending.PATH if mode is Mode.FORCED else Ending.END_OF_SEQUENCE if path[-1] == END_ID else Ending.LENGTH
    run = Run(
        run_id=run_id(steps, manifest, Origin(mode, ScoringPath.DECODE, 0, forced_along, fork)),
        mode=mode,
        scoring_path=ScoringPath.DECODE,
        replica=0,
        forced_along=forced_along,
        fork=fork,
        certificate=certificate,
        ending=ending,
        complete=True,
        logits_kept=keep,
        dtype="bfloat16",
        vocabulary_size=len(VOCABULARY),
        positions=len(path),
        seconds=0.5,
    )
    kept = range(len(path)) if keep is Keep.ALL else range(0)
    return RecordedRun(run, steps, manifest, kept, raw.__getitem__)


def _steps(
    world: _World,
    mode: Mode,
    path: Path_,
    rows: NDArray[np.float32],
    raw: Sequence[bytes],
    head: Path_,
    imposed: bool,
) -> Steps:
    statistics = describe_rows(rows, 10)
    forced = np.full(len(path), mode is Mode.FORCED)
    forced[0] |= imposed
    return Steps(
        position=np.arange(len(head), len(head) + len(path), dtype=np.int32),
        prefix_id=output_prefixes(world.prompt + head, path),
        token_id=np.array(path, np.int32),
        forced=forced,
        top1=statistics.top1,
        emitted=np.where(forced, -1, path).astype(np.int32),
        tie_count=statistics.tie_count,
        log_sum_exp=statistics.log_sum_exp,
        entropy=statistics.entropy,
        margin_nats=statistics.margin_nats,
        top_ids=statistics.top_ids,
        top_logits=statistics.top_logits,
        row_hash=tuple(row_hash(row) for row in raw),
    )


def _facts(study: str, case_id: str, lane: int) -> BundleFacts:
    name, options = RUNTIMES[lane]
    messages = ({"role": "user", "content": "Is GigabitEthernet0/1/4 up?"},)
    calls = ({"name": "run_command", "arguments": {"device": "core-sw1", "command": "show interface"}},)
    return BundleFacts(
        study=study,
        study_title="Synthetic lanes",
        case=Case(case_id, messages, (TOOL,), None if case_id == "hostile" else calls),
        runtime=Runtime(name, "synthetic", "words", options),
        is_reference=lane == 0,
        created="2026-11-30T12:00:00Z",
        version="0.1.0",
        vocabulary_hash=vocabulary_hash(VOCABULARY),
        id_spans=id_spans([token.token_id for token in VOCABULARY]),
        stop_ids=(END_ID,),
    )


if __name__ == "__main__":
    make_library(Path(sys.argv[1]), lanes=int(sys.argv[2]) if len(sys.argv) > 2 else 4)
