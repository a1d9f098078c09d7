"""What a library holds, as far as its pages must know without opening bundles. Pure values; read by `library_files`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capture.bundle_facts import BundleFacts
from capture.divergence import Divergence
from capture.errors import NotFoundError
from capture.model import FlipClass, Mode, Run, RunId, ScoringPath

KEY_DIGITS = 8
"""Hex digits of the prompt's prefix id in the key of a case."""

_KEY = re.compile(rf"(?P<name>.*)-(?P<digits>[0-9a-f]{{{KEY_DIGITS},32}})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Stamp:
    """Tells whether a file is still the one that was read; a stranger's copy cannot set `changed_ns`."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """One bundle.

    Attributes:
        path: where it lies.
        name: its path inside the library, with slashes.
        stamp: of the file that was read.
        facts: what it says of itself.
        prompt_prefix: id of the prefix that is the prompt; the same prompt, the same case.
        prompt_length: tokens of the prompt.
        runs: its runs, in its own order.
    """

    path: Path
    name: str
    stamp: Stamp
    facts: BundleFacts
    prompt_prefix: bytes
    prompt_length: int
    runs: tuple[Run, ...]

    @property
    def only_branches(self) -> bool:
        """Whether it holds nothing but branches, which grew from the runs of another bundle."""
        return bool(self.runs) and all(run.mode is Mode.BRANCH for run in self.runs)


@dataclass(frozen=True, slots=True)
class FirstFlip:
    """Where two runs first differ clearly."""

    position: int
    prefix_id: bytes


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two compared runs in a few numbers.

    Attributes:
        positions: those with the same prefix in both.
        flips: by class.
        first_decided: the first decided flip; None without one.
        whole: mean KL(reference‖candidate) over positions whose whole vocabulary is known; None where there are none.
        bounded: over those of which only the highest tokens are known; None where there are none.
        identical: whether every shared row is the same, bit for bit.
    """

    reference: RunId
    candidate: RunId
    positions: int
    flips: Mapping[FlipClass, int]
    first_decided: FirstFlip | None
    whole: Divergence | None = None
    bounded: Divergence | None = None
    identical: bool = False

    @property
    def flip_count(self) -> int:
        """Flips of every class."""
        return sum(self.flips.values())

    @property
    def disagreement(self) -> float:
        """Top-1 disagreement: flips per position, 0 where none is shared."""
        return self.flip_count / self.positions if self.positions else 0.0


@dataclass(frozen=True, slots=True)
class ComparisonEntry:
    """One file of comparisons; `pairs` in its own order."""

    path: Path
    name: str
    stamp: Stamp
    pairs: tuple[ComparedPair, ...]


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A file that cannot be used, and why."""

    name: str
    reason: str


Entry = BundleEntry | ComparisonEntry | BrokenFile


@dataclass(frozen=True, slots=True)
class CaseEntry:
    """One prompt with every bundle on it, whatever study or machine it came from.

    Attributes:
        key: the case in a link.
        case_id: its name; where bundles call it differently, the first.
        prefix_id: of the prompt.
        bundles: by study, then in the order of their making; each run in one bundle only.
    """

    key: str
    case_id: str
    prefix_id: bytes
    bundles: tuple[BundleEntry, ...]

    @property
    def names(self) -> frozenset[str]:
        """Every name that a bundle has for it."""
        return frozenset(bundle.facts.case.case_id for bundle in self.bundles)

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies that ran it, each once."""
        return tuple(dict.fromkeys(bundle.facts.study for bundle in self.bundles))


class AmbiguousCaseError(NotFoundError):
    """A name that several cases have; `choices` are their keys."""

    def __init__(self, message: str, choices: tuple[str, ...]) -> None:
        super().__init__(message)
        self.choices = choices


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything below a library's folder at one moment.

    Attributes:
        bundles: by name.
        comparisons: by name.
        broken: by name.
        cases: by key, in the order of their names.
        pairs: every compared pair with its file and its number there, by (reference, candidate); the newest file's.
    """

    bundles: tuple[BundleEntry, ...] = ()
    comparisons: tuple[ComparisonEntry, ...] = ()
    broken: tuple[BrokenFile, ...] = ()
    cases: Mapping[str, CaseEntry] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], tuple[ComparisonEntry, int]] = field(default_factory=dict)

    def find_case(self, text: str) -> CaseEntry:
        """Return the case that a link names: by its key, by the digits of its key, or by a name that only it has.

        Raises:
            AmbiguousCaseError: several have that name.
            NotFoundError: none has.
        """
        if text in self.cases:
            return self.cases[text]
        found = [case for case in self.cases.values() if text in case.names] or self._by_digits(text)
        if not found:
            raise NotFoundError("this library holds no such case; choose one of those it has")
        if len(found) > 1:
            keys = tuple(case.key for case in found)
            raise AmbiguousCaseError(f"{len(keys)} cases have that name; choose one of them", keys)
        return found[0]

    def _by_digits(self, text: str) -> list[CaseEntry]:
        match = _KEY.fullmatch(text)
        if match is None:
            return []
        found = [case for case in self.cases.values() if case.prefix_id.hex().startswith(match["digits"])]
        return [case for case in found if match["name"] in case.names] or found


def build_catalog(entries: Iterable[Entry]) -> Catalog:
    """Return the catalog of what was read from files."""
    entries = sorted(entries, key=lambda entry: entry.name)
    bundles = tuple(entry for entry in entries if isinstance(entry, BundleEntry))
    comparisons = tuple(entry for entry in entries if isinstance(entry, ComparisonEntry))
    return Catalog(
        bundles=bundles,
        comparisons=comparisons,
        broken=tuple(entry for entry in entries if isinstance(entry, BrokenFile)),
        cases=_cases(bundles),
        pairs={
            (pair.reference, pair.candidate): (entry, number)
            for entry in sorted(comparisons, key=lambda entry: entry.stamp.modified_ns)
            for number, pair in enumerate(entry.pairs)
        },
    )


def _cases(bundles: Sequence[BundleEntry]) -> dict[str, CaseEntry]:
    groups: dict[bytes, list[BundleEntry]] = {}
    for bundle in sorted(bundles, key=lambda entry: (entry.facts.study, entry.facts.created, entry.name)):
        groups.setdefault(bundle.prompt_prefix, []).append(bundle)
    whole = [_case(prefix_id, _without_copies(group)) for prefix_id, group in groups.items()]
    keys = Counter(case.key for case in whole)
    unique = [case if keys[case.key] == 1 else _case(case.prefix_id, case.bundles, 32) for case in whole]
    return {case.key: case for case in sorted(unique, key=lambda case: (case.studies, case.key))}


def _case(prefix_id: bytes, bundles: Sequence[BundleEntry], digits: int = KEY_DIGITS) -> CaseEntry:
    case_id = bundles[0].facts.case.case_id
    return CaseEntry(f"{case_id}-{prefix_id.hex()[:digits]}", case_id, prefix_id, tuple(bundles))


def _without_copies(bundles: Sequence[BundleEntry]) -> list[BundleEntry]:
    """Return the bundles but for those whose runs all are in an earlier one."""
    seen: set[str] = set()
    found: list[BundleEntry] = []
    for bundle in bundles:
        ids = {run.run_id for run in bundle.runs}
        if ids - seen or not found:
            found.append(bundle)
        seen |= ids
    return found


def free_run(bundle: BundleEntry) -> Run | None:
    """Return the bundle's own run: free, no replica; None where it has none."""
    return next((run for run in bundle.runs if run.mode is Mode.FREE and run.replica == 0), None)


def own_run(bundle: BundleEntry) -> Run | None:
    """Return the bundle's free run, else the one along a text that no run produced; None where it has neither.

    A probe of a prompt is none: it has no output to show.
    """
    return free_run(bundle) or next((run for run in bundle.runs if run.follows_text and not run.probe_stride), None)


def forced_run(bundle: BundleEntry, reference: str, scoring_path: ScoringPath) -> Run | None:
    """Return the bundle's run forced along `reference`, scored that way; None where it has none.

    Where the bundle has no run of its own but one along a text, that is it: what two of them share, prefixes tell.
    """
    along = {reference} if free_run(bundle) else {reference, None}
    return next(
        (
            run
            for run in bundle.runs
            if run.mode is Mode.FORCED and run.forced_along in along and run.scoring_path is scoring_path
        ),
        None,
    )
