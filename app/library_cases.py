"""Puts a case together from the runs that were chosen: lanes, branches, comparisons, tokens."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from app.cache import SizedCache
from app.catalog import BundleEntry, CaseEntry, Catalog
from app.labels import lane_labels
from app.lane_choice import Choice, Pick
from app.lanes import LETTERS, Branch, Lane, OpenCase
from app.library_comparisons import Comparer
from app.library_runs import MOST_TOKENS, RunReader
from capture.compare import Comparison
from capture.errors import BundleError, ComparisonError, FlipscopeError, VocabularyError
from capture.model import Json, Mode, Run, RunId, Steps, Token

MOST_BRANCHES = 4000
"""Branches on one page; the budget of a study is a small part of it."""

UNKNOWN_VOCABULARY = "No tokenizer is known for a lane here, so token ids are taken to mean the same in all lanes."


class UnusableBundleError(FlipscopeError):
    """A bundle that cannot be a lane of this page; the page is put together again without it."""

    def __init__(self, bundle_name: str, reason: object) -> None:
        super().__init__(f"{bundle_name} is left out: {reason}")
        self.bundle_name = bundle_name


@dataclass(frozen=True, slots=True)
class _Grown:
    """A branch that belongs on the page, its bundle, and the letter of its lane."""

    bundle: BundleEntry
    run: Run
    letter: str


class CaseOpener:
    """Reads what a choice of lanes needs."""

    def __init__(self, runs: RunReader, comparer: Comparer) -> None:
        self._runs = runs
        self._comparer = comparer
        # By the identity of the mappings, which are kept beside, so that it cannot pass to another one.
        self._vocabularies: SizedCache[tuple[int, ...], tuple[tuple[dict[int, Token], ...], dict[int, Token]]] = (
            SizedCache(2 * MOST_TOKENS, lambda kept: len(kept[1]))
        )

    def open(self, catalog: Catalog, case: CaseEntry, choice: Choice, notices: Sequence[str]) -> OpenCase:
        """Return the case with these lanes.

        Raises:
            UnusableBundleError: one of the bundles cannot be read, or must not be compared with the reference.
        """
        found = [*choice.notices, *notices]
        if not all(pick.bundle.facts.vocabulary_hash for pick in choice.picks):
            found.append(UNKNOWN_VOCABULARY)
        lanes = self._lanes(choice)
        comparisons = self._comparisons(catalog, choice, found)
        grown = _grown(case, choice)
        branches, tokens = self._branches(grown, found)
        tokens = [*(self._runs.tokens(pick.bundle) for pick in choice.picks), *tokens]
        with _usable(choice.reference.bundle):
            prompt = self._runs.prompt(choice.reference.bundle)
        return OpenCase(
            key=case.key,
            study=choice.reference.bundle.facts.study,
            mode=choice.mode,
            scoring_path=choice.reference.run.scoring_path,
            prompt=prompt,
            lanes=lanes,
            branches=branches,
            comparisons=comparisons,
            tokens=self._merged(tokens),
            available=tuple((pick.run, pick.bundle.facts) for pick in choice.others),
            notices=tuple(dict.fromkeys(found)),
            stamps=_stamps(catalog, choice, comparisons, grown),
        )

    def _merged(self, tokens: Sequence[dict[int, Token]]) -> Mapping[int, Token]:
        """Return the tokens of all bundles as one mapping, the first bundle's first; kept, since a page asks often."""
        key = tuple(map(id, tokens))
        kept = self._vocabularies.get(key)
        if kept is None:
            merged: dict[int, Token] = {}
            for known in reversed(tokens):
                merged.update(known)
            kept = (tuple(tokens), merged)
            self._vocabularies.put(key, kept)
        return kept[1]

    def _lanes(self, choice: Choice) -> tuple[Lane, ...]:
        read = [self._lane(pick) for pick in choice.picks]
        runtimes = [pick.bundle.facts.runtime for pick in choice.picks]
        labels = lane_labels(runtimes, [manifest for manifest, _ in read])
        return tuple(
            Lane(letter, pick.run, pick.bundle.facts, manifest, label, steps, pick is choice.reference)
            for letter, pick, label, (manifest, steps) in zip(LETTERS, choice.picks, labels, read, strict=False)
        )

    def _lane(self, pick: Pick) -> tuple[Json, Steps]:
        with _usable(pick.bundle):
            steps = self._runs.steps(pick.bundle, [pick.run])[pick.run.run_id]
            self._runs.tokens(pick.bundle)
            manifest = self._runs.manifest(pick.bundle, pick.run)
        if not len(steps):
            raise UnusableBundleError(pick.bundle.name, "its run has no position")
        return manifest, steps

    def _comparisons(self, catalog: Catalog, choice: Choice, notices: list[str]) -> Mapping[RunId, Comparison]:
        found: dict[RunId, Comparison] = {}
        for pick in choice.picks[1:]:
            name = pick.bundle.facts.runtime.name
            try:
                comparison = self._comparer.compare(catalog, choice.reference, pick)
            except (VocabularyError, ComparisonError) as error:
                raise UnusableBundleError(pick.bundle.name, error) from error
            except BundleError as error:
                notices.append(f"{name} could not be compared with the reference: {error}")
                continue
            if comparison is None:
                notices.append(f"{name} is being compared with the reference; load the page again in a moment.")
            else:
                found[pick.run.run_id] = comparison
        return found

    def _branches(
        self, grown: Sequence[_Grown], notices: list[str]
    ) -> tuple[tuple[Branch, ...], list[dict[int, Token]]]:
        """Return the branches that can be read, and the tokens of their bundles."""
        found: list[Branch] = []
        tokens: list[dict[int, Token]] = []
        for bundle in {branch.bundle.name: branch.bundle for branch in grown}.values():
            own = [branch for branch in grown if branch.bundle is bundle]
            try:
                steps = self._runs.steps(bundle, [branch.run for branch in own])
                tokens.append(self._runs.tokens(bundle))
            except BundleError as error:
                notices.append(f"The branches of {bundle.name} are left out: {error}")
                continue
            name = bundle.facts.runtime.name
            found += [Branch(branch.run, name, branch.letter, steps[branch.run.run_id]) for branch in own]
        return tuple(branch for branch in found if len(branch.steps)), tokens


def _stamps(
    catalog: Catalog, choice: Choice, comparisons: Mapping[RunId, Comparison], grown: Sequence[_Grown]
) -> tuple[Hashable, ...]:
    """Return what an open case was made of: the files with the runs in them, and which comparisons were ready."""
    reference = choice.reference.run.run_id
    stored = {run_id: catalog.pairs.get((reference, run_id)) for run_id in comparisons}
    return (
        choice.mode,
        tuple((pick.bundle.stamp, pick.run.run_id) for pick in choice.picks),
        tuple((run_id, pair[0].stamp if pair else None) for run_id, pair in stored.items()),
        tuple(dict.fromkeys(branch.bundle.stamp for branch in grown)),
    )


@contextmanager
def _usable(bundle: BundleEntry) -> Iterator[None]:
    """Turn what makes a bundle unreadable into `UnusableBundleError`."""
    try:
        yield
    except BundleError as error:
        raise UnusableBundleError(bundle.name, error) from error


def _grown(case: CaseEntry, choice: Choice) -> list[_Grown]:
    """Return the branches that grew from the lanes, from runs forced along the reference, or from such a branch."""
    letters = _parents(choice)
    waiting = [(bundle, run) for bundle in case.bundles for run in bundle.runs if run.mode is Mode.BRANCH]
    found: dict[RunId, _Grown] = {}
    added = True
    while added and len(found) < MOST_BRANCHES:
        added = False
        for bundle, run in waiting:
            letter = letters.get(run.fork.parent_run) if run.fork is not None else None
            if letter is not None and run.run_id not in found:
                found[run.run_id] = _Grown(bundle, run, letter)
                letters[run.run_id] = letter
                added = True
    return list(found.values())[:MOST_BRANCHES]


def _parents(choice: Choice) -> dict[RunId, str]:
    """Return the letters of the runs that branches of the page grow from, by id."""
    reference = choice.reference.run.run_id
    letters: dict[RunId, str] = {}
    for letter, pick in zip(LETTERS, choice.picks, strict=False):
        for run in pick.bundle.runs:
            if run is pick.run or run.mode is Mode.FREE or run.forced_along == reference:
                letters.setdefault(run.run_id, letter)
    return letters
