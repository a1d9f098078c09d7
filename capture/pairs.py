"""Compares every candidate bundle of a study with its reference, and keeps what it finds beside the bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from capture.bundle import Bundle
from capture.claims import can_be_true
from capture.compare import Comparison, Side, comparable_runs, compare_runs, reference_run
from capture.comparison import SUFFIX, read_comparisons, write_comparisons
from capture.control import control_margin_nats, yardsticks
from capture.errors import BundleError
from capture.model import Mode, Run, ScoringPath
from capture.progress import Reporter


def bundle_paths(folder: Path) -> tuple[Path, ...]:
    """Return the bundles below a folder, without comparisons and without what hidden folders hold."""
    return tuple(
        path
        for path in sorted(folder.rglob("*.duckdb"))
        if not path.name.endswith(SUFFIX) and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def comparison_path(reference: Path, candidate: Path) -> Path:
    """Return where the comparison of two bundles is kept: beside the candidate."""
    runtime = reference.name.removesuffix(".duckdb").split("--", 1)[-1]
    return candidate.with_name(f"{candidate.name.removesuffix('.duckdb')}.vs.{runtime}{SUFFIX}")


def write_missing_comparisons(folder: Path, reporter: Reporter) -> tuple[str, ...]:
    """Compare what has not been compared yet; return the runtimes that never differed from the reference."""
    unchanged: dict[str, bool] = {}
    for reference_path, candidate_path in study_pairs(folder, reporter.note):
        path = comparison_path(reference_path, candidate_path)
        with Bundle(reference_path) as reference, Bundle(candidate_path) as candidate:
            comparisons = stored_comparisons(path, reference, candidate)
            if comparisons is None:
                comparisons = compare_bundles(reference, candidate)
                write_comparisons(path, comparisons)
        runtime = candidate_path.name.removesuffix(".duckdb").split("--", 1)[-1]
        same = bool(comparisons) and all(comparison.identical for comparison in comparisons)
        unchanged[runtime] = unchanged.get(runtime, True) and same
    found = tuple(runtime for runtime, same in unchanged.items() if same)
    for runtime in found:
        reporter.note(f"{runtime}: every logit equals the reference's; its options may have had no effect")
    return found


def stored_comparisons(
    path: Path, reference: Bundle, candidate: Bundle, note: Callable[[str], None] | None = None
) -> tuple[Comparison, ...] | None:
    """Return what a file of comparisons says of two bundles; the file may be a stranger's.

    None where it is missing, and where it is damaged, of other runs or holds what cannot be, which `note` is told.
    """
    if not path.is_file():
        return None
    try:
        found = read_comparisons(path)
    except BundleError as error:
        told = str(error)
    else:
        if _are_about(found, reference, candidate):
            return found
        told = f"{path.name} does not fit {candidate.path.name}; delete it and compare again"
    if note is not None:
        note(f"compared without a file: {told}")
    return None


def _are_about(found: Sequence[Comparison], reference: Bundle, candidate: Bundle) -> bool:
    pairs = [(comparison.reference, comparison.candidate) for comparison in found]
    wanted = [(yardstick.run_id, run.run_id) for yardstick, run in _run_pairs(reference, candidate)]
    if pairs != wanted:
        return False
    sides = {run_id: Side.of(reference, run_id) for run_id in dict.fromkeys(one.reference for one in found)}
    return all(_fits(one, sides[one.reference], Side.of(candidate, one.candidate)) for one in found)


def _fits(found: Comparison, reference: Side, candidate: Side) -> bool:
    turns = reference.bundle.prompt.turns if reference.run.follows_text else ()
    return can_be_true(found, reference.steps, candidate.steps, (reference.run, candidate.run), turns)


def study_pairs(folder: Path, note: Callable[[str], None]) -> Iterator[tuple[Path, Path]]:
    """Yield (reference bundle, candidate bundle) for every case of every study below a folder.

    Of several captures of a reference, the newest serves those that do not name theirs. A file that cannot be read is
    told to `note` and hides nothing else.
    """
    references: dict[str, tuple[str, Path]] = {}
    candidates: list[tuple[Path, tuple[str, ...]]] = []
    for path in bundle_paths(folder):
        try:
            with Bundle(path) as bundle:
                (own, wanted), created = _keys(bundle), bundle.facts.created
        except BundleError as error:
            note(f"left out: {error}")
            continue
        references.update({key: max((created, path), references.get(key, ("", path))) for key in own})
        candidates += [(path, wanted)] if wanted else []
    for path, wanted in candidates:
        found = next((references[key] for key in wanted if key in references), None)
        if found is not None:
            yield found[1], path


def _keys(bundle: Bundle) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names under which a bundle is found as a reference, and those of the reference it looks for.

    A run forced along another names it, and that one may be a candidate in its own study; the study and case serve
    where nothing was forced. A bundle of branches alone is neither.
    """
    if all(run.mode is Mode.BRANCH for run in bundle.runs):
        return (), ()
    place = f"{bundle.facts.study}/{bundle.facts.case.case_id}"
    free = tuple(run.run_id for run in bundle.runs if run.mode is Mode.FREE)
    if bundle.facts.is_reference:
        return (*free, place), ()
    return free, (*(run.forced_along for run in bundle.runs if run.forced_along), place)


def compare_bundles(reference: Bundle, candidate: Bundle) -> tuple[Comparison, ...]:
    """Compare every run of a candidate with the reference's run of the same scoring path."""
    sides = {run.run_id: Side.of(reference, run.run_id) for run in yardsticks(reference)}
    control = control_margin_nats(list(sides.values()))
    return tuple(
        compare_runs(sides[yardstick.run_id], Side.of(candidate, run.run_id), control_margin_nats=control)
        for yardstick, run in _run_pairs(reference, candidate)
    )


def _run_pairs(reference: Bundle, candidate: Bundle) -> list[tuple[Run, Run]]:
    free = reference_run(reference)
    return [(yardstick, run) for yardstick in yardsticks(reference) for run in _candidates(candidate, yardstick, free)]


def _candidates(candidate: Bundle, yardstick: Run, free: Run) -> list[Run]:
    if yardstick.scoring_path is ScoringPath.DECODE:
        return [run for run in comparable_runs(candidate, yardstick) if run.replica == 0]
    along = None if free.follows_text else free.run_id
    return [
        run
        for run in candidate.runs
        if run.mode is Mode.FORCED and run.scoring_path is yardstick.scoring_path and run.forced_along == along
    ]
