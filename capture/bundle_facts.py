"""What a bundle says of itself and of its runs, and the same as JSON. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from capture.messages import case_from_json, case_to_json, runtime_from_json, runtime_to_json
from capture.model import (
    LOGIT_BYTES,
    Case,
    Certificate,
    Ending,
    Exactness,
    Fork,
    Json,
    Keep,
    Mode,
    Prompt,
    Run,
    RunId,
    Runtime,
    ScoringPath,
)


@dataclass(frozen=True, slots=True)
class BundleFacts:
    """What a bundle says of itself.

    Attributes:
        study: name of the study it was captured in.
        study_title: the study's own words.
        case: the case that was run.
        runtime: the runtime that ran it.
        is_reference: whether it is the study's yardstick.
        created: UTC time of sealing, ISO 8601.
        version: of flipscope.
        vocabulary_hash: of the map from token id to bytes; empty where no tokenizer is known.
        id_spans: spans of ids that have bytes.
        template_differs: whether the runtime's own chat template gives other prompt tokens than those it was given.
        stop_ids: the ids that ended free runs.
        definition: hash of what the study asked for, by which a capture knows that nothing is missing.
    """

    study: str
    study_title: str
    case: Case
    runtime: Runtime
    is_reference: bool
    created: str
    version: str
    vocabulary_hash: str
    id_spans: tuple[tuple[int, int], ...]
    template_differs: bool = False
    stop_ids: tuple[int, ...] = ()
    definition: str = ""


def facts_to_json(facts: BundleFacts) -> Json:
    """Return what a bundle says of itself as JSON values."""
    return {
        **asdict(facts),
        "case": case_to_json(facts.case),
        "runtime": runtime_to_json(facts.runtime),
    }


def facts_from_json(value: dict[str, Any]) -> BundleFacts:
    """Return what `facts_to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
    return BundleFacts(
        **{
            **value,
            "case": case_from_json(value["case"]),
            "runtime": runtime_from_json(value["runtime"]),
            "stop_ids": tuple(int(token_id) for token_id in value["stop_ids"]),
            "id_spans": tuple((int(first), int(stop)) for first, stop in value["id_spans"]),
        }
    )


def prompt_facts(prompt: Prompt) -> Json:
    """Return what a bundle says of its prompt beside text and tokens."""
    return {"turns": prompt.turns} if prompt.turns else {}


def turns_from_json(value: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """Return the turns that `prompt_facts` wrote; raises TypeError or ValueError for anything else."""
    turns = tuple((first, stop) for first, stop in value.get("turns", ()))
    borders = [border for turn in turns for border in turn]
    if any(isinstance(border, bool) or not isinstance(border, int) or border < 0 for border in borders):
        raise ValueError("a turn is no pair of positions")
    if borders != sorted(borders) or any(first == stop for first, stop in turns):
        raise ValueError("turns are not in order")
    return turns


def run_to_json(run: Run) -> Json:
    """Return a run but for its id as JSON values."""
    facts = {name: getattr(run, name) for name in Run.__slots__ if name != "run_id"}
    if run.fork is not None:
        facts["fork"] = {**asdict(run.fork), "prefix_id": run.fork.prefix_id.hex()}
    if run.certificate is not None:
        facts["certificate"] = asdict(run.certificate)
    return facts


def run_from_json(run_id: str, value: dict[str, Any]) -> Run:
    """Return what `run_to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
    fork, certificate = value["fork"], value["certificate"]
    if value["dtype"] not in LOGIT_BYTES:
        raise ValueError(f"unknown dtype {value['dtype']!r}")
    return Run(
        **{
            **value,
            "run_id": RunId(run_id),
            "mode": Mode(value["mode"]),
            "scoring_path": ScoringPath(value["scoring_path"]),
            "fork": fork and Fork(**{**fork, "prefix_id": bytes.fromhex(fork["prefix_id"])}),
            "certificate": certificate
            and Certificate(**{**certificate, "exactness": Exactness(certificate["exactness"])}),
            "ending": Ending(value["ending"]),
            "logits_kept": Keep(value["logits_kept"]),
        }
    )
