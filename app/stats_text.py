"""The numbers of `flipscope stats` as lines of text and as JSON values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from app.diff_text import aligned
from app.report_cells import NOTHING, nats
from capture.stats import GroupStatistics, RunStatistics

_HEADER = (
    "case",
    "runtime",
    "mode",
    "positions",
    "flips",
    "tie/near/decided",
    "top-1 off",
    "KL n",
    "KL",
    "KL back",
    "JSD",
)
_KL_POSITIONS = _HEADER.index("KL n")


def statistics_lines(rows: Sequence[RunStatistics]) -> Iterator[str]:
    """Yield a line a run, and what must be said of them; how many positions KL is of where these are not all."""
    apart = any(_kl_positions(row) != row.positions for row in rows)
    told = [at for at in range(len(_HEADER)) if apart or at != _KL_POSITIONS]
    yield from aligned([tuple(cells[at] for at in told) for cells in (_HEADER, *map(_cells, rows))])
    yield "KL(reference‖runtime), KL back the other way, JSD: means in nats over positions after the same prefix."
    if any(row.bounded is not None for row in rows):
        yield "≥ marks lower bounds: of these positions only the highest tokens were kept."
    if any(row.whole is not None and row.bounded is not None for row in rows):
        yield "Lower bounds are never pooled with whole vocabularies; the group with more positions is shown."
    yield "The reference is a yardstick, not the right answer."


def statistics_json(rows: Sequence[RunStatistics]) -> list[dict[str, Any]]:
    """Return runs as JSON values: the main group's numbers beside the counts, then both groups."""
    return [_run_json(row) for row in rows]


def _run_json(row: RunStatistics) -> dict[str, Any]:
    plain = asdict(row)
    groups = {name: plain.pop(name) for name in ("whole", "bounded")}
    main = row.main
    names = [name for name in GroupStatistics.__slots__ if name != "positions"]
    numbers = {name: None if main is None else getattr(main, name) for name in names}
    return {**plain, "kl_positions": _kl_positions(row), **numbers, **groups}


def _kl_positions(row: RunStatistics) -> int:
    return 0 if row.main is None else row.main.positions


def _cells(row: RunStatistics) -> tuple[str, ...]:
    main = row.main
    numbers = () if main is None else (main.kl_mean, main.kl_reverse_mean, main.jensen_shannon_mean)
    mode = row.mode if row.scoring_path == "decode" else f"{row.mode}, {row.scoring_path}"
    return (
        row.case,
        row.runtime,
        mode,
        f"{row.positions:,}",
        str(row.ties + row.near_ties + row.decided),
        f"{row.ties}/{row.near_ties}/{row.decided}",
        f"{100 * row.disagreement:.2f} %",
        f"{_kl_positions(row):,}",
        *((nats(number, bound=main.lower_bound) for number in numbers) if main else [NOTHING] * 3),
    )
