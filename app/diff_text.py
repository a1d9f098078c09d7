"""What `flipscope diff` prints for people, and tables with aligned columns. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from app.diff import SIDES, RunDiff
from app.run_names import DIGITS, NamedRun
from app.words import count
from capture.manifests import Difference, value_texts

LONGEST_VALUE = 48
"""Characters of a value in the table; `--json` has all of it."""


def diff_lines(diff: RunDiff) -> Iterator[str]:
    """Yield lines: what the two runs are, the entries that differ by their first key, and whether it had an effect."""
    for side, one in zip(SIDES, (diff.left, diff.right), strict=True):
        yield f"{side:5}  {_described(one)}"
    yield ""
    yield from _table(diff.differences) if diff.differences else ["Nothing that the manifest tells differs."]
    yield ""
    yield _outcome(diff)


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]


def _described(one: NamedRun) -> str:
    run = one.run
    how = run.mode.value if run.scoring_path == "decode" else f"{run.mode.value}, {run.scoring_path.value}"
    name = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in one.name)
    return f"{name}, run {run.run_id[:DIGITS]}, {how}, {count(run.positions, 'position')}"


def _table(found: Sequence[Difference]) -> Iterator[str]:
    rows = [(one.entry, *value_texts(one.values, LONGEST_VALUE)) for one in found]
    heading, *lines = aligned([("entry", *SIDES), *rows])
    yield heading
    for key, group in groupby(zip(found, lines, strict=True), lambda pair: pair[0].path[0]):
        if key != found[0].path[0]:
            yield ""
        yield from (line for _, line in group)


def _outcome(diff: RunDiff) -> str:
    if diff.left.run.run_id == diff.right.run.run_id:
        return "Both name the same run."
    if not diff.shared:
        return "No position has the same prefix in both, so their logits cannot be compared."
    positions = f"{count(diff.shared, 'position')} after the same prefix"
    if diff.identical:
        return f"Every logit of {positions} is the same, bit for bit: {diff.effect}."
    flips = f"; {count(diff.flips, 'flip')}" if diff.flips else "; no flip"
    return f"Of {positions}, {diff.equal:,} have the same logits, bit for bit{flips}."
