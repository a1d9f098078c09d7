"""Makes lanes and branches out of tokens that are written down: the page of components shows them. Pure.

Nothing of it was captured. The logits are invented so that every lane chooses what its script says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from app.lanes import LETTERS, Branch, Lane, OpenCase
from capture.bundle_facts import BundleFacts
from capture.compare import Comparison
from capture.flips import find_flips, shared_rows
from capture.identity import run_id
from capture.metrics import PairMetrics, compare_top_k
from capture.model import (
    Case,
    Certificate,
    Ending,
    Exactness,
    Float32Array,
    Fork,
    Json,
    Keep,
    Mode,
    Origin,
    Prompt,
    Run,
    RunId,
    Runtime,
    ScoringPath,
    Steps,
    Token,
)
from capture.prefix import output_prefixes, prefix_of
from capture.rows import describe_rows, row_hash

Rows = NDArray[np.int64]

HEIGHT = 9.0
"""The winner's logit; a multiple of the steps of bfloat16 below it, so that margins are exact."""

USUAL_MARGIN_NATS = 2.5

PROMPT = Prompt("user: what is up?\nassistant:", (1, 2, 3))

DTYPE = "bfloat16"

_RUNTIMES: tuple[tuple[str, Json], ...] = (
    ("bf16", {"dtype": "bfloat16"}),
    ("int4", {"weights": "int4"}),
    ("fp8 cache", {"kv_cache": "fp8"}),
    ("eager", {"attention": "eager"}),
    ("tp 2", {"tensor_parallel_size": 2}),
)


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a lane that is forced chose otherwise, and how it went on; `says` is empty where that was not grown."""

    position: int
    token: bytes
    margin_nats: float = USUAL_MARGIN_NATS
    says: tuple[bytes, ...] = ()
    certificate: Certificate = Certificate(Exactness.EXACT, 6, 5)


@dataclass(frozen=True, slots=True)
class Script:
    """What a lane says.

    Attributes:
        says: its tokens, when it is free.
        margins: by position, where they are not the usual one.
        departures: when it is forced along the first lane.
        ending: why it has no further position.
        complete: False where its worker died.
        same: whether its logits are the first lane's, bit for bit.
        template_differs: whether its own template would give another prompt.
    """

    says: tuple[bytes, ...]
    margins: Mapping[int, float] = field(default_factory=dict)
    departures: tuple[Departure, ...] = ()
    ending: Ending = Ending.END_OF_SEQUENCE
    complete: bool = True
    same: bool = False
    template_differs: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """The scripts of a case, and the vocabulary that they need.

    Attributes:
        name: of the case.
        scripts: the reference's first.
        mode: in which they are shown.
        case: messages, tools and label.
        top_k: tokens of a row that were kept.
        special: which of the tokens are special.
        without_bytes: tokens that no vocabulary entry explains.
    """

    name: str
    scripts: tuple[Script, ...]
    mode: Mode = Mode.FREE
    case: Case = Case("specimen", ({"role": "user", "content": "what is up?"},))
    top_k: int = 100
    special: frozenset[bytes] = frozenset()
    without_bytes: frozenset[bytes] = frozenset()

    @property
    def words(self) -> tuple[bytes, ...]:
        """Every token, in the order in which they first come up, then some that nobody says."""
        grown = (token for one in self.scripts for part in one.departures for token in (part.token, *part.says))
        said = (token for script in self.scripts for token in script.says)
        return tuple(dict.fromkeys((*said, *grown, b" or", b" maybe", b" not", b" so", b"...", b" please")))


def open_stage(stage: Stage) -> OpenCase:
    """Return the case that a stage describes, as the library opens one."""
    lanes = tuple(_lane(stage, index) for index in range(len(stage.scripts)))
    words = stage.words
    tokens = {
        token_id: Token(token_id, data, data in stage.special)
        for token_id, data in enumerate(words)
        if data not in stage.without_bytes
    }
    branches = tuple(branch for index in range(len(lanes)) for branch in _branches(stage, lanes, index))
    return OpenCase(
        key=f"{stage.case.case_id}-00000000",
        study="components",
        mode=stage.mode,
        scoring_path=ScoringPath.DECODE,
        prompt=PROMPT,
        lanes=lanes,
        branches=branches if stage.mode is Mode.FORCED else (),
        comparisons={lane.run.run_id: _compare(stage, lanes[0], lane, index) for index, lane in _others(lanes)},
        tokens=tokens,
        available=(),
    )


def _others(lanes: Sequence[Lane]) -> list[tuple[int, Lane]]:
    return [(index, lane) for index, lane in enumerate(lanes) if index]


def _ids(stage: Stage, tokens: Sequence[bytes]) -> tuple[int, ...]:
    words = stage.words
    return tuple(words.index(token) for token in tokens)


def _lane(stage: Stage, index: int) -> Lane:
    script, (name, options) = stage.scripts[index], _RUNTIMES[index]
    forced = stage.mode is Mode.FORCED and index > 0
    path = _ids(stage, stage.scripts[0].says if forced else script.says)
    steps = _steps(stage, index, path, forced=forced)
    first = RunId("0" * 32)
    origin = Origin(Mode.FORCED, forced_along=first) if forced else Origin(Mode.FREE)
    runtime = Runtime(name, "invented", "none", options)
    ending = Ending.PATH if forced else script.ending
    run = _run(stage, name, steps, origin, ending, script.complete)
    facts = BundleFacts(
        "components", "Components", stage.case, runtime, index == 0, "", "", "", (), script.template_differs
    )
    return Lane(LETTERS[index], run, facts, {"options": dict(options)}, name, steps, index == 0)


def _run(stage: Stage, name: str, steps: Steps, origin: Origin, ending: Ending, complete: bool) -> Run:
    return Run(
        run_id=run_id(steps, {"specimen": f"{stage.name} {name}"}, origin),
        **{field_name: getattr(origin, field_name) for field_name in Origin.__slots__},
        ending=ending,
        complete=complete,
        logits_kept=Keep.TOP_K,
        dtype=DTYPE,
        vocabulary_size=len(stage.words),
        positions=len(steps),
        seconds=1.0,
    )


def _steps(
    stage: Stage, lane: int, path: tuple[int, ...], *, forced: bool = False, head: tuple[int, ...] = ()
) -> Steps:
    rows = _logits(stage, lane, path, len(head), forced)
    found = describe_rows(rows, stage.top_k)
    return Steps(
        position=np.arange(len(head), len(head) + len(path), dtype=np.int32),
        prefix_id=tuple(output_prefixes(PROMPT.token_ids + head, path)),
        token_id=np.array(path, np.int32),
        forced=np.full(len(path), forced),
        top1=found.top1,
        emitted=(np.full(len(path), -1) if forced else np.array(path)).astype(np.int32),
        tie_count=found.tie_count,
        log_sum_exp=found.log_sum_exp,
        entropy=found.entropy,
        margin_nats=found.margin_nats,
        top_ids=found.top_ids,
        top_logits=found.top_logits,
        row_hash=tuple(row_hash(row.tobytes()) for row in rows),
    )


def _logits(stage: Stage, lane: int, path: tuple[int, ...], first: int, forced: bool) -> Float32Array:
    """Return rows [n, V] in which the lane's own choice is highest, and what others say comes next."""
    script = stage.scripts[lane]
    rows = np.random.default_rng(7).normal(0.0, 1.5, (first + len(path), len(stage.words)))[first:]
    if not script.same:
        rows += 0.2 * np.random.default_rng(lane).normal(0.0, 1.0, rows.shape)
    rows = np.minimum(np.round(rows * 64) / 64, HEIGHT - 3.0)
    said = {part.position: part for part in script.departures} if forced else {}
    for row, token_id in enumerate(path):
        position = first + row
        departure = said.get(position)
        margin = departure.margin_nats if departure else script.margins.get(position, USUAL_MARGIN_NATS)
        rivals = [_ids(stage, one.says[position : position + 1]) for one in stage.scripts]
        rivals += [
            _ids(stage, (part.token,)) for one in stage.scripts for part in one.departures if part.position == position
        ]
        rows[row, [rival for found in rivals for rival in found]] = HEIGHT - max(margin, 0.0)
        rows[row, token_id] = HEIGHT - (margin if departure else 0.0)
        if departure:
            rows[row, _ids(stage, (departure.token,))[0]] = HEIGHT
    return rows.astype(np.float32)


def _branches(stage: Stage, lanes: Sequence[Lane], index: int) -> list[Branch]:
    before = _ids(stage, stage.scripts[0].says)
    found = []
    for part in stage.scripts[index].departures if stage.mode is Mode.FORCED else ():
        if not part.says:
            continue
        head = before[: part.position]
        steps = _steps(stage, index, _ids(stage, (part.token, *part.says)), head=head)
        parent = lanes[index].run.run_id
        fork = Fork(parent, part.position, prefix_of(PROMPT.token_ids + head), _ids(stage, (part.token,))[0])
        origin = Origin(Mode.BRANCH, fork=fork, certificate=part.certificate)
        name = _RUNTIMES[index][0]
        run = _run(stage, f"{name} {part.position}", steps, origin, Ending.END_OF_SEQUENCE, complete=True)
        found.append(Branch(run, name, lanes[index].letter, steps))
    return found


def _compare(stage: Stage, reference: Lane, lane: Lane, index: int) -> Comparison:
    left, right = shared_rows(reference.steps, lane.steps)
    flips = find_flips(reference.steps, lane.steps, (DTYPE, DTYPE))
    return Comparison(
        reference=reference.run.run_id,
        candidate=lane.run.run_id,
        position=reference.steps.position[left],
        prefix_id=tuple(reference.steps.prefix_id[row] for row in left),
        metrics=_metrics(reference.steps, lane.steps, left, right, lane.run.vocabulary_size),
        flips=flips,
        identical=stage.scripts[index].same and not flips,
    )


def _metrics(first: Steps, second: Steps, left: Rows, right: Rows, vocabulary_size: int) -> PairMetrics:
    pairs = ((first, left), (second, right))
    ids = tuple(steps.top_ids[rows] for steps, rows in pairs)
    logs = tuple(steps.top_logits[rows].astype(np.float64) - steps.log_sum_exp[rows][:, None] for steps, rows in pairs)
    found = compare_top_k((ids[0], ids[1]), (logs[0], logs[1]), first.token_id[left])
    return found if vocabulary_size > ids[0].shape[1] else replace(found, lower_bound=np.zeros(len(left), np.bool_))
