"""What the recorder and a worker say to each other: one JSON object a line. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from capture.engines.base import BranchJob, ForcedJob, ForkRequest, FreeJob, Job
from capture.given_ranges import are_ranges
from capture.model import Case, Runtime, ScoringPath

_JOBS: dict[str, type[FreeJob] | type[ForcedJob] | type[BranchJob]] = {
    "free": FreeJob,
    "forced": ForcedJob,
    "branch": BranchJob,
}


def job_to_json(job: Job) -> dict[str, Any]:
    """Return the job as JSON values; `job_from_json` gives it back."""
    kind = next(name for name, job_type in _JOBS.items() if isinstance(job, job_type))
    return {"kind": kind, **asdict(job)}


def job_from_json(value: Mapping[str, Any]) -> Job:
    """Return the job that `job_to_json` wrote."""
    prompt_ids = tuple(value["prompt_ids"])
    if value["kind"] == "free":
        return FreeJob(prompt_ids, tuple(value["stop_ids"]), value["max_tokens"])
    path = tuple(value["path"])
    if value["kind"] == "forced":
        return ForcedJob(prompt_ids, path, ScoringPath(value["scoring_path"]), value.get("stride", 1))
    forks = tuple(ForkRequest(**fork) for fork in value["forks"])
    return BranchJob(prompt_ids, path, forks, tuple(value["stop_ids"]))


def runtime_to_json(runtime: Runtime) -> dict[str, Any]:
    """Return the runtime as JSON values; `runtime_from_json` gives it back."""
    return asdict(runtime)


def runtime_from_json(value: Mapping[str, Any]) -> Runtime:
    """Return the runtime that `runtime_to_json` wrote."""
    return Runtime(**{**value, "command": tuple(value["command"])})


def case_to_json(case: Case) -> dict[str, Any]:
    """Return the case as JSON values; `case_from_json` gives it back."""
    value = asdict(case)
    if not case.ranges:
        del value["ranges"]  # as in bundles captured before there were such ranges
    return value


def case_from_json(value: Mapping[str, Any]) -> Case:
    """Return the case that `case_to_json` wrote."""
    calls, ranges = value["expected_calls"], value.get("ranges", [])
    if not are_ranges(ranges):
        raise ValueError("a range of the case is none")
    return Case(
        case_id=value["case_id"],
        messages=tuple(value["messages"]),
        tools=tuple(value["tools"]),
        expected_calls=None if calls is None else tuple(calls),
        thinking=value["thinking"],
        ranges=tuple(ranges),
    )
