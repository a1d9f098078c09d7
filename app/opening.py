"""Where a library opens: at the flip that tells most. Reads a library, draws nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from app.catalog import CaseEntry, Catalog
from app.lanes import OpenCase
from app.library import Library
from app.links import CaseLink, ViewOptions
from capture.model import FlipClass, Mode, RangeKind
from capture.range_hints import range_hints

_Rank = tuple[bool, float]


def telling_fork_path(folder: Path) -> str:
    """Return the path of the page at a decided flip; `/` where there is none.

    Free runs go first; of their flips those inside a tool call, then those where the two runtimes were surest.
    """
    library = Library(folder)
    try:
        free = list(_decided(library, Mode.FREE))
        ranked = free or list(_decided(library, Mode.FORCED))
    finally:
        library.close()
    return max(ranked, default=((False, 0.0), "/"))[1]


def _decided(library: Library, mode: Mode) -> Iterator[tuple[_Rank, str]]:
    for entry in _parting(library.catalog(), mode):
        case = library.open_case(entry.key, mode)
        link = CaseLink(entry.key, ViewOptions(None if mode is Mode.FREE else mode))
        calls = _inside_calls(case)
        for comparison in case.comparisons.values():
            for flip in comparison.flips:
                if flip.flip_class is FlipClass.DECIDED:
                    surest = min(flip.reference_margin_nats, flip.candidate_margin_nats)
                    yield (flip.position in calls, surest), link.fork(flip.position, flip.prefix_id).format()


def _parting(catalog: Catalog, mode: Mode) -> Iterator[CaseEntry]:
    """Yield the cases that hold a decided flip by what is known without opening them."""
    parting = {pair.candidate for found in catalog.comparisons for pair in found.pairs if pair.first_decided}
    for entry in catalog.cases.values():
        runs = (run for bundle in entry.bundles for run in bundle.runs)
        if any(run.mode is mode and run.run_id in parting for run in runs):
            yield entry


def _inside_calls(case: OpenCase) -> frozenset[int]:
    """Return the positions of the reference's output that lie in tool calls."""
    tokens = [case.tokens.get(token_id) for token_id in case.lanes[0].steps.token_id.tolist()]
    hints = range_hints(case.lanes[0].facts.case.ranges, case.prompt)
    ranges = hints.find([token.data if token else b"" for token in tokens])
    calls = [part for part in ranges if part.kind is RangeKind.TOOL_CALL]
    return frozenset(at for part in calls for at in range(part.start, part.stop))
