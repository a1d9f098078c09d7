"""Study files: which cases run through which runtimes, with which reference and limits. Reads TOML, starts nothing."""

from __future__ import annotations

import datetime
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from capture.cases import read_cases
from capture.checks import CheckRule
from capture.engines import validate_options
from capture.errors import StudyError, UsageError
from capture.model import Case, FlipClass, Keep, Mode, Origin, RangeKind, Runtime, ScoringPath
from capture.models import resolve_model
from capture.resources import data_folder

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

PACKAGED_CASES = "packaged:"

GROWN = ".grown-"
"""Stands in the name of a bundle that holds a branch grown after its parent's bundle was sealed."""


@dataclass(frozen=True, slots=True)
class KeepRule:
    """Which raw rows are kept: of runs, of branches, and how many top tokens of every position.

    `cases`, `runtimes` and `scoring_paths` name those whose rows are kept at all; empty names every one.
    """

    logits: Keep
    ranges: tuple[RangeKind, ...]
    top_k: int
    branches: Keep
    cases: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    scoring_paths: tuple[ScoringPath, ...] = ()

    def of(self, case_id: str, runtime: str) -> KeepRule:
        """Return the rule for one bundle: top-k only where its case or runtime is not among those that are kept."""
        kept = (not self.cases or case_id in self.cases) and (not self.runtimes or runtime in self.runtimes)
        return self if kept else replace(self, logits=Keep.TOP_K, branches=Keep.TOP_K)

    def kept(self, origin: Origin) -> Keep:
        """Return which rows of a run are kept in a bundle that this is the rule of."""
        if self.scoring_paths and origin.scoring_path not in self.scoring_paths:
            return Keep.TOP_K
        return self.branches if origin.mode is Mode.BRANCH else self.logits


@dataclass(frozen=True, slots=True)
class ForkBudget:
    """Which forks are grown, in which order, how many a run and for how long.

    Attributes:
        most: forks a run at most.
        max_tokens: free positions after a fork at most.
        classes: the classes that are grown, most wanted first.
    """

    most: int
    max_tokens: int
    classes: tuple[FlipClass, ...]


_PREFILL_CHUNK: Mapping[str, tuple[str, int | None]] = {
    "torch": ("prefill_chunk", 128),
    "vllm": ("max_num_batched_tokens", None),
}


class Follow(StrEnum):
    """Which tokens runs are forced along."""

    REFERENCE = "reference"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class ProbeRule:
    """How long prompts are probed: every `stride`-th position, told by windows of `window` positions."""

    stride: int
    window: int


@dataclass(frozen=True, slots=True)
class Study:
    """Cases and runtimes with one reference; see `docs/study.md` for the file.

    Attributes:
        reference: name of the reference runtime; empty where sealed bundles serve.
        reference_bundles: sealed bundles whose tokens are forced instead.
        date: what the chat template takes for today, YYYY-MM-DD.
        max_tokens: output positions of a free run at most.
        replicas: how often each runtime's free run is repeated.
        scoring_paths: the paths that runtimes are forced by.
        stop_ids: ids that end a free run; empty takes the reference model's own.
        follow: what runs are forced along: the reference's output, or the assistant turns recorded in a case.
        probe: how prompts are scored instead of running anything; None where outputs are recorded.
        check: the user's own check; None where there is none.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    runtimes: tuple[Runtime, ...]
    reference: str
    reference_bundles: tuple[Path, ...]
    date: str
    max_tokens: int
    replicas: int
    scoring_paths: tuple[ScoringPath, ...]
    stop_ids: tuple[int, ...]
    keep: KeepRule
    forks: ForkBudget
    follow: Follow = Follow.REFERENCE
    probe: ProbeRule | None = None
    check: CheckRule | None = None

    @property
    def candidates(self) -> tuple[Runtime, ...]:
        """The runtimes that are compared with the reference."""
        return tuple(runtime for runtime in self.runtimes if runtime.name != self.reference)

    def runtime(self, name: str) -> Runtime:
        """Return the runtime of that name; KeyError where the study names none."""
        return {runtime.name: runtime for runtime in self.runtimes}[name]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _StudyTable(_Strict):
    name: Name
    title: str = Field(default="", max_length=1000)
    cases: str = ""
    only: tuple[str, ...] = ()
    reference: str = ""
    reference_bundles: tuple[str, ...] = ()
    date: datetime.date = datetime.date(2026, 1, 1)
    max_tokens: int = Field(default=512, ge=1, le=1_000_000)
    replicas: int = Field(default=0, ge=0, le=100)
    scoring_paths: tuple[ScoringPath, ...] = (ScoringPath.DECODE,)
    stop_ids: tuple[int, ...] = ()
    follow: Follow = Follow.REFERENCE


class _ProbeTable(_Strict):
    stride: int = Field(default=32, ge=1, le=1_000_000)
    window: int = Field(default=8000, ge=1, le=100_000_000)


class _CheckTable(_Strict):
    command: tuple[str, ...] = Field(min_length=1)
    timeout_seconds: float = Field(default=60.0, gt=0, le=86_400)


class _KeepTable(_Strict):
    logits: Keep = Keep.ALL
    ranges: tuple[RangeKind, ...] = (RangeKind.TOOL_CALL,)
    top_k: int = Field(default=20, ge=2, le=1024)
    branches: Keep = Keep.TOP_K
    cases: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    scoring_paths: tuple[ScoringPath, ...] = ()


class _ForksTable(_Strict):
    most: int = Field(default=8, ge=0, le=10_000)
    max_tokens: int = Field(default=128, ge=1, le=1_000_000)
    classes: tuple[FlipClass, ...] = (FlipClass.DECIDED, FlipClass.NEAR_TIE, FlipClass.TIE)


class _RuntimeTable(_Strict):
    name: Name
    engine: str
    model: str
    label: str = Field(default="", max_length=200)
    command: tuple[str, ...] = ()
    options: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)


class _StudyFile(_Strict):
    study: _StudyTable
    keep: _KeepTable = _KeepTable()
    forks: _ForksTable = _ForksTable()
    probe: _ProbeTable | None = None
    check: _CheckTable | None = None
    runtime: tuple[_RuntimeTable, ...] = Field(min_length=1)


def read_study(path: Path) -> Study:
    """Read a study file and everything it names, except models.

    Raises:
        StudyError: the file is missing, is no TOML, or names an unknown engine, case, option or reference.
        CaseError: its case file is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        tables = _StudyFile.model_validate(tomllib.loads(text))
    except OSError as error:
        raise StudyError(f"cannot read the study {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is not UTF-8 text") from error
    except ValidationError as error:
        raise StudyError(f"{path}: {_first_mistake(error)}") from error
    except RecursionError as error:
        raise StudyError(f"{path} is nested too deeply; flatten it") from error
    except ValueError as error:  # a mistake of syntax, or a number of thousands of digits
        raise StudyError(f"{path} is no TOML file: {error}") from error
    return _study(path, tables)


def _study(path: Path, tables: _StudyFile) -> Study:
    head = tables.study
    runtimes = tuple(_runtime(path, table) for table in tables.runtime)
    _refuse_repeated(path, [runtime.name for runtime in runtimes])
    _check_reference(path, head, {runtime.name for runtime in runtimes})
    cases = _cases(path, head)
    _check_mode(path, tables, cases, runtimes)
    _check_kept(path, tables.keep.runtimes, "runtimes", [runtime.name for runtime in runtimes])
    _check_kept(path, tables.keep.cases, "cases", [case.case_id for case in cases])
    return Study(
        name=head.name,
        title=head.title or head.name,
        cases=cases,
        runtimes=runtimes,
        reference=head.reference,
        reference_bundles=_reference_bundles(path, head),
        date=head.date.isoformat(),
        max_tokens=head.max_tokens,
        replicas=head.replicas,
        scoring_paths=tuple(dict.fromkeys(head.scoring_paths)),
        stop_ids=head.stop_ids,
        keep=KeepRule(**{name: getattr(tables.keep, name) for name in KeepRule.__slots__}),
        forks=ForkBudget(tables.forks.most, tables.forks.max_tokens, tables.forks.classes),
        follow=head.follow,
        probe=ProbeRule(tables.probe.stride, tables.probe.window) if tables.probe else None,
        check=_check(path, tables.check) if tables.check else None,
    )


def prefill_chunk(runtime: Runtime) -> int | None:
    """Return how many positions a runtime computes at once when it reads a prompt; None where its engine decides."""
    name, default = _PREFILL_CHUNK.get(runtime.engine, ("", None))
    chunk = runtime.options.get(name, default)
    return chunk if isinstance(chunk, int) else None


def _check_mode(path: Path, tables: _StudyFile, cases: tuple[Case, ...], runtimes: tuple[Runtime, ...]) -> None:
    """Refuse what cannot be had together, and cases without a turn to follow."""
    follows = tables.study.follow is Follow.RECORDED
    bare = next(
        (case.case_id for case in cases if not any(one.get("role") == "assistant" for one in case.messages)), ""
    )
    if follows and bare:
        raise StudyError(f"{path}: case '{bare}' records no assistant turn to follow; leave it out with 'only'")
    if tables.probe is not None and follows:
        raise StudyError(f"{path}: [probe] scores prompts and follows nothing; take out 'follow' or [probe]")
    chunks = {prefill_chunk(runtime) or f"what {runtime.engine} chooses" for runtime in runtimes}
    if tables.probe is not None and len(chunks) > 1:
        told = ", ".join(sorted(f"{chunk:,}" if isinstance(chunk, int) else chunk for chunk in chunks))
        raise StudyError(
            f"{path}: a probe needs the same prefill chunk in all lanes, and these have {told}; "
            "set 'prefill_chunk' (torch) or 'max_num_batched_tokens' (vllm) alike"
        )
    if (follows or tables.probe is not None) and tables.study.replicas:
        raise StudyError(f"{path}: replicas repeat free runs, and this study has none; take out 'replicas'")


def _check(path: Path, table: _CheckTable) -> CheckRule:
    return CheckRule(table.command, table.timeout_seconds, path.absolute().parent)


def _runtime(path: Path, table: _RuntimeTable) -> Runtime:
    try:
        validate_options(table.engine, table.options)
        _check_plain(table.options)
        model = resolve_model(_expand(table.model), path.parent)
        command = tuple(_expand(word) for word in table.command)
    except UsageError as error:
        raise StudyError(f"{path}: runtime '{table.name}': {error}") from error
    return Runtime(table.name, table.engine, model, table.options, table.environment, command, table.label)


def _check_plain(options: Mapping[str, Any]) -> None:
    """Refuse what TOML can say and a worker cannot be told, such as a date inside a table."""
    for name, value in options.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"option '{name}' holds a date, a time or NaN, which no engine takes; write it as text"
            ) from error


def _expand(text: str) -> str:
    """Fill in `$NAME` from the environment: where an engine is installed differs from machine to machine.

    Raises:
        UsageError: the variable is not set.
    """
    expanded = os.path.expandvars(os.path.expanduser(text))
    if "$" in expanded:
        raise UsageError(f"'{text}' names an environment variable that is not set; set it or write the path")
    return expanded


def _check_kept(path: Path, wanted: tuple[str, ...], key: str, known: list[str]) -> None:
    unknown = next((name for name in wanted if known and name not in known), None)
    if unknown is not None:
        raise StudyError(f"{path}: 'keep.{key}' names '{unknown}', which is none of {', '.join(known)}")


def _refuse_repeated(path: Path, names: list[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    parts = ("--", ".vs.", GROWN)
    odd = next((name for name in names if any(part in name for part in parts) or name.endswith(".comparison")), None)
    if odd is not None:
        raise StudyError(
            f"{path}: '{odd}' cannot name a runtime: '--', '.vs.', '{GROWN}' and '.comparison' part file names"
        )
    if repeated is not None:
        raise StudyError(f"{path}: two runtimes are called '{repeated}'; rename one")


def _check_reference(path: Path, head: _StudyTable, names: set[str]) -> None:
    if bool(head.reference) == bool(head.reference_bundles):
        raise StudyError(f"{path}: give either 'reference' (a runtime's name) or 'reference_bundles' (sealed files)")
    if head.reference and head.reference not in names:
        raise StudyError(
            f"{path}: the reference '{head.reference}' is none of its runtimes: {', '.join(sorted(names))}"
        )


def _cases(path: Path, head: _StudyTable) -> tuple[Case, ...]:
    if not head.cases:
        if head.only:
            raise StudyError(f"{path}: 'only' picks from 'cases', which is missing; name a case file")
        if head.reference_bundles:
            return ()
        raise StudyError(f"{path}: 'cases' is missing; name a case file")
    cases = read_cases(_case_path(path, head.cases)).cases
    known = {case.case_id: case for case in cases}
    unknown = next((case_id for case_id in head.only if case_id not in known), None)
    if unknown is not None:
        raise StudyError(f"{path}: unknown case '{unknown}' in 'only'; {head.cases} has {', '.join(known)}")
    return tuple(known[case_id] for case_id in dict.fromkeys(head.only)) if head.only else cases


def _case_path(path: Path, name: str) -> Path:
    if name.startswith(PACKAGED_CASES):
        return data_folder() / "cases" / f"{Path(name.removeprefix(PACKAGED_CASES)).name}.json"
    return path.parent / name


def _reference_bundles(path: Path, head: _StudyTable) -> tuple[Path, ...]:
    found: list[Path] = []
    for name in head.reference_bundles:
        place = path.parent / name
        files = sorted(place.glob("*.duckdb")) if place.is_dir() else [place]
        if not files or not all(file.is_file() for file in files):
            raise StudyError(f"{path}: the reference bundle {name} does not exist")
        found += [file for file in files if not file.name.endswith(".comparison.duckdb") and GROWN not in file.name]
    return tuple(found)


def _first_mistake(error: ValidationError) -> str:
    mistake = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in mistake["loc"])
    kinds = {"extra_forbidden": "is not known here", "missing": "is missing"}
    text = kinds.get(mistake["type"], re.sub(r"^Value error, ", "", mistake["msg"]))
    return f"'{where}' {text}" if mistake["type"] in kinds else f"'{where}': {text}"
