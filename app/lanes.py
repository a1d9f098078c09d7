"""What the pages of one case are drawn from: its lanes, branches and comparisons, read from a library. Pure values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from capture.bundle_facts import BundleFacts
from capture.compare import Comparison
from capture.model import Json, Mode, Prompt, Run, RunId, ScoringPath, Steps, Token

LETTERS = "ABCDE"

MOST_LANES = len(LETTERS)


@dataclass(frozen=True, slots=True)
class Lane:
    """One of the 2 to 5 streams on a page.

    Attributes:
        letter: `A` for the reference, then `B` to `E` in the order of the lanes.
        run: the run that is shown.
        facts: what its bundle says.
        manifest: what decided its bits.
        label: what differs between the lanes' runtimes, and nothing else.
        steps: its positions.
        is_reference: whether the other lanes are compared with it.
    """

    letter: str
    run: Run
    facts: BundleFacts
    manifest: Json
    label: str
    steps: Steps
    is_reference: bool


@dataclass(frozen=True, slots=True)
class Branch:
    """A recorded continuation after a fork.

    Attributes:
        run: the branch; `run.fork` says where it left which run.
        runtime: name of the runtime that went on.
        letter: letter of the lane of the same runtime.
        steps: its positions, the fork's own first.
    """

    run: Run
    runtime: str
    letter: str
    steps: Steps


@dataclass(frozen=True, slots=True)
class OpenCase:
    """A case with the lanes that a page shows.

    Attributes:
        key: the case in a link, `{case id}-{8 hex digits of the prompt's prefix id}`.
        study: name of the study of the reference lane.
        mode: `free` or `forced`; the two are never mixed. In `forced` the reference lane is its own free run.
        scoring_path: of every lane.
        prompt: the prompt that all lanes share.
        lanes: the reference first.
        branches: continuations grown from any of the lanes' runs (or from runs forced along the reference).
        comparisons: by candidate run id, against the reference lane.
        tokens: every token mentioned, by id.
        available: every other run that could be a lane here, as (run, facts).
        notices: what of it could not be shown.
        stamps: what it was read from; equal for two openings of the same files with the same lanes, empty if unknown.
    """

    key: str
    study: str
    mode: Mode
    scoring_path: ScoringPath
    prompt: Prompt
    lanes: tuple[Lane, ...]
    branches: tuple[Branch, ...]
    comparisons: Mapping[RunId, Comparison]
    tokens: Mapping[int, Token]
    available: tuple[tuple[Run, BundleFacts], ...]
    notices: tuple[str, ...] = ()
    stamps: tuple[Hashable, ...] = ()
