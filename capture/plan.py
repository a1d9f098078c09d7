"""What a study will take before anything starts: runs, positions, bytes and time."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from capture.errors import PlanError
from capture.messages import case_to_json, runtime_to_json
from capture.model import LOGIT_BYTES, Case, Keep, Runtime, ScoringPath
from capture.models import model_fingerprint, model_shape
from capture.study import Follow, KeepRule, Study

COMPRESSED = 0.62
"""Size of a stored row beside the raw one, as measured on real bf16 logits (9.1 to 10.5 of 16 bits)."""

PROBE = "probe"
"""Name of the stream of a prompt that is probed."""

_STEP_BYTES = 400
_CHARACTERS_A_TOKEN = 2
_ASSUMED_BYTES_A_SECOND = 3.5e9
_RANGES_SHARE = 0.5
_START_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class PlannedBundle:
    """One runtime on one case: what will be run and what it will take at most.

    Attributes:
        runs: names of the streams, such as `free-0` or `forced-decode`.
        positions: output positions at most, all runs and branches together.
        bundle_bytes: size of the sealed file, estimated.
        spool_bytes: raw rows on disk before sealing, estimated.
        seconds: estimated time; `measured` tells whether earlier runs of this runtime were measured.
        sealed: whether the bundle is there already, captured from the same definition.
    """

    runtime: str
    case_id: str
    path: Path
    runs: tuple[str, ...]
    positions: int
    bundle_bytes: int
    spool_bytes: int
    seconds: float
    measured: bool
    sealed: bool


def bundle_path(library: Path, study: Study, case_id: str, runtime: str) -> Path:
    """Return where the bundle of one runtime and case goes."""
    return library / study.name / f"{case_id}--{runtime}.duckdb"


def bundle_count(study: Study) -> int:
    """Return how many bundles a study has when it is captured, its reference's included."""
    return len(study.cases) * (len(study.runtimes) + bool(study.reference_bundles))


def free_streams(study: Study) -> tuple[str, ...]:
    """Return the names of a runtime's free run and its replicas; none where the study follows what is recorded."""
    if study.follow is Follow.RECORDED or study.probe is not None:
        return ()
    return tuple(f"free-{replica}" for replica in range(study.replicas + 1))


def forced_streams(study: Study, is_reference: bool) -> tuple[str, ...]:
    """Return the names of forced runs.

    Along itself the reference is scored by prefill only; along recorded turns every runtime is scored alike.
    """
    if study.probe is not None:
        return (PROBE,)
    alike = study.follow is Follow.RECORDED
    return tuple(
        f"forced-{path.value}"
        for path in study.scoring_paths
        if alike or not (is_reference and path is ScoringPath.DECODE)
    )


def expected_positions(study: Study, case: Case) -> int:
    """Return how many positions a run of a case has at most; guessed from its text where that is not yet tokenized."""
    if study.follow is not Follow.RECORDED and study.probe is None:
        return study.max_tokens
    written = len(json.dumps(list(case.messages), ensure_ascii=False))
    guess = written // _CHARACTERS_A_TOKEN + 1
    return guess if study.probe is None else guess // study.probe.stride + 1


def definition(study: Study, case: Case, runtime: Runtime, reference: str) -> str:
    """Return the hash of everything that decides what a bundle holds.

    Args:
        study: limits, what to keep, forks.
        case: the case.
        runtime: the runtime.
        reference: what the tokens forced along come from: the reference's own definition or run id; empty for itself.
    """
    modes: dict[str, object] = {} if study.follow is Follow.REFERENCE else {"follow": study.follow.value}
    modes |= {} if study.probe is None else {"probe": study.probe.stride}
    rules = {name: getattr(study, name) for name in ("date", "max_tokens", "replicas", "scoring_paths", "stop_ids")}
    facts = {
        **rules,
        **modes,
        "keep": asdict(study.keep),
        "forks": asdict(study.forks) if reference else None,
        "case": case_to_json(case),
        "runtime": {**runtime_to_json(runtime), "model": model_fingerprint(runtime.model), "label": "", "command": ()},
        "reference": reference,
    }
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def plan_study(
    study: Study, library: Path, sealed: Mapping[Path, bool], pace: Mapping[str, float]
) -> list[PlannedBundle]:
    """Return what is to be done, in the order in which it will be.

    Args:
        study: the study; its cases are known.
        library: where bundles go.
        sealed: which bundle paths exist with the same definition.
        pace: seconds a position measured before, by runtime name.
    """
    runtimes = sorted(study.runtimes, key=lambda runtime: runtime.name != study.reference)
    return [_planned(study, library, case, runtime, sealed, pace) for runtime in runtimes for case in study.cases]


def _planned(
    study: Study, library: Path, case: Case, runtime: Runtime, sealed: Mapping[Path, bool], pace: Mapping[str, float]
) -> PlannedBundle:
    is_reference = runtime.name == study.reference
    path = bundle_path(library, study, case.case_id, runtime.name)
    runs = free_streams(study) + forced_streams(study, is_reference)
    branches = not is_reference and study.probe is None and ScoringPath.DECODE in study.scoring_paths
    branch_positions = study.forks.most * study.forks.max_tokens if branches else 0
    length = expected_positions(study, case)
    replay_positions = length if branch_positions else 0
    own = length * len(runs)
    seconds, measured = _seconds_a_position(runtime, pace)
    return PlannedBundle(
        runtime=runtime.name,
        case_id=case.case_id,
        path=path,
        runs=(*runs, f"up to {study.forks.most} branches") if branches else runs,
        positions=own + branch_positions,
        bundle_bytes=_bundle_bytes(study.keep.of(case.case_id, runtime.name), runtime, own, branch_positions),
        spool_bytes=_row_bytes(runtime) * (own + branch_positions + replay_positions),
        seconds=seconds * (own + branch_positions + replay_positions) + _START_SECONDS / max(len(study.cases), 1),
        measured=measured,
        sealed=sealed.get(path, False),
    )


def check_disk(planned: list[PlannedBundle], library: Path) -> None:
    """Refuse a capture that will not fit.

    Raises:
        PlanError: the bundles and the largest spool need more than is free.
    """
    todo = [bundle for bundle in planned if not bundle.sealed]
    needed = sum(bundle.bundle_bytes for bundle in todo) + max((bundle.spool_bytes for bundle in todo), default=0)
    place = next(folder for folder in (library, *library.absolute().parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise PlanError(
            f"the capture needs about {needed / 1e6:,.1f} MB in {library} and {free / 1e6:,.1f} MB are free; "
            "lower max_tokens or [keep] logits, or free some space"
        )


def _row_bytes(runtime: Runtime) -> int:
    shape = model_shape(runtime.model)
    if shape is None:
        return 0
    dtype = str(runtime.options.get("dtype", shape.dtype))
    return shape.vocabulary_size * LOGIT_BYTES.get(dtype, 4)


def _bundle_bytes(keep: KeepRule, runtime: Runtime, own: int, branched: int) -> int:
    share = {Keep.ALL: 1.0, Keep.RANGES: _RANGES_SHARE, Keep.TOP_K: 0.0}
    rows = own * share[keep.logits] + branched * share[keep.branches]
    step_bytes = _STEP_BYTES + 8 * keep.top_k
    return int(rows * _row_bytes(runtime) * COMPRESSED + (own + branched) * step_bytes + 100_000)


def _seconds_a_position(runtime: Runtime, pace: Mapping[str, float]) -> tuple[float, bool]:
    if runtime.name in pace:
        return pace[runtime.name], True
    shape = model_shape(runtime.model)
    return (0.0 if shape is None else shape.weight_bytes / _ASSUMED_BYTES_A_SECOND), False
