"""The cells of the library's matrices: numbers as text, strips and tints. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from app.library_links import PROTOCOL_WORDS
from app.matrix_values import Cell, Whisker
from app.pair_summary import Outcome, Share
from app.report_cells import of_all
from app.words import count
from capture.intervals import Interval

RATE_LEVELS = (0.0, 0.005, 0.02, 0.05, 0.1)
"""Disagreement above which a cell is tinted one step darker."""

KL_LEVELS = (1e-3, 5e-3, 2e-2, 1e-1, 5e-1)
"""Mean KL in nats above which a cell is tinted one step darker."""

SMALLEST_KL = 1e-5
"""Where the strips of KL start; they are logarithmic."""

FEWEST = 0.02
"""Disagreement that the strips reach at least; they show its root."""

ABSENT = Cell("absent", title="not recorded")


@dataclass(frozen=True, slots=True)
class Scale:
    """What the strips of one matrix have in common: `cells` is what they show, `top` the value at their right end."""

    cells: str
    top: float

    def at(self, value: float) -> float:
        """Return where a value stands, 0..1."""
        if self.cells == "kl":
            span = math.log10(self.top / SMALLEST_KL)
            return min(max(math.log10(max(value, SMALLEST_KL) / SMALLEST_KL) / span, 0.0), 1.0)
        return min(math.sqrt(max(value, 0.0) / self.top), 1.0)

    @property
    def ends(self) -> tuple[str, str]:
        """What stands at both ends, in words."""
        if self.cells == "kl":
            return f"≤ {kl_text(SMALLEST_KL)}", f"{kl_text(self.top)} nats"
        return "0", rate_text(self.top)


def scale_of(cells: str, shares: Iterable[Share]) -> Scale:
    """Return a scale that all of these values, and their intervals, fit on; what is infinite stands at its end."""
    if cells == "kl":
        known = [share.main for share in shares if share.main is not None]
        tops = [max(one.mean, one.interval.high if one.interval else 0.0) for one in known]
        return Scale(cells, max([*filter(math.isfinite, tops), 10 * SMALLEST_KL]))
    tops = [max(share.rate, share.disagreement.high if share.disagreement else 0.0) for share in shares]
    return Scale(cells, min(max([*tops, FEWEST]), 1.0))


def share_cell(share: Share, href: str, protocol: str, main: str, note: str = "") -> Cell:
    """Return the cell of some positions, as yet without what is drawn.

    Args:
        share: the numbers.
        href: what it opens.
        protocol: by which they were measured.
        main: the matrix's own protocol.
        note: what else there is to say.
    """
    rate, kl, other = share.disagreement, share.main, share.other
    between = kl.interval if kl else None
    if share.identical and not note:
        note = "nothing differs: its options may have had no effect"
    return Cell(
        kind="compared",
        href=href,
        mark="" if protocol == main else protocol,
        flips=share.flips,
        positions=share.positions,
        decided=share.decided,
        disagreement=share.rate,
        disagreement_low=rate.low if rate else None,
        disagreement_high=rate.high if rate else None,
        kl=kl.mean if kl else None,
        kl_positions=kl.positions if kl else 0,
        kl_low=between.low if between else None,
        kl_high=between.high if between else None,
        lower_bound=kl.lower_bound if kl else False,
        other_kl=other.mean if other else None,
        other_kl_positions=other.positions if other else 0,
        protocol=protocol,
        note=note,
    )


def drawn(cell: Cell, scale: Scale) -> Cell:
    """Return a compared cell with its text, strip and tint."""
    if cell.kind != "compared":
        return cell
    title = cell_title(cell)
    if scale.cells == "kl":
        text = "" if cell.kl is None else bounded(cell.kl, cell.lower_bound)
        whisker = _whisker(scale, cell.kl, cell.kl_low, cell.kl_high)
        level = sum((cell.kl or 0.0) > edge for edge in KL_LEVELS)
        return replace(cell, text=text, detail=_positions(cell), whisker=whisker, level=level, title=title)
    rate = cell.disagreement or 0.0
    return replace(
        cell,
        text=rate_text(rate),
        detail=_of(cell),
        whisker=_whisker(scale, rate, cell.disagreement_low, cell.disagreement_high),
        level=sum(rate > edge for edge in RATE_LEVELS),
        title=title,
    )


def outcome_cell(outcome: Outcome, href: str) -> Cell:
    """Return the cell of a verdict."""
    against = "the label" if outcome.labelled else "the reference's call"
    return Cell(
        "outcome",
        href,
        text=outcome.text,
        tone=outcome.tone,
        verdict=outcome.text,
        title=f"{outcome.text}: its own free run, against {against}",
    )


def outcome_total(outcomes: Iterable[Outcome]) -> Cell:
    """Return the verdicts of all cases together: how many calls were wanted ones."""
    asked = [outcome for outcome in outcomes if outcome.wanted is not None]
    if not asked:
        return Cell("outcome", text="no call", tone="neutral", verdict="no call", title="no case of it asks for a call")
    right = sum(bool(outcome.wanted) for outcome in asked)
    text = f"{right} of {len(asked)}"
    tone = "same" if right == len(asked) else "different"
    return Cell("outcome", text=text, tone=tone, verdict=text, title=f"{text} outputs with calls have the wanted ones")


def cell_title(cell: Cell) -> str:
    """Return all that a compared cell knows, as a sentence."""
    flips, positions = cell.flips or 0, cell.positions or 0
    parts = [f"{count(flips, 'flip')} of {count(positions, 'position')}, {cell.decided} decided"]
    parts.append(f"disagreement {rate_text(cell.disagreement or 0.0)}{_range(cell)}")
    if cell.kl is not None:
        low, high = cell.kl_low, cell.kl_high
        between = "" if low is None or high is None else f" (95 %: {kl_text(low)} to {kl_text(high)})"
        parts.append(f"mean KL {bounded(cell.kl, cell.lower_bound)} nats{between} over {_positions(cell)}")
    if cell.other_kl is not None:
        kept = "the whole vocabulary was" if cell.lower_bound else "only the highest tokens were"
        other = f"mean KL {bounded(cell.other_kl, not cell.lower_bound)} nats"
        parts.append(f"{other} over {cell.other_kl_positions:,} others, of which {kept} kept, never pooled with these")
    parts.append(PROTOCOL_WORDS.get(cell.protocol, cell.protocol))
    return "; ".join([*parts, *([cell.note] if cell.note else [])])


def _range(cell: Cell) -> str:
    low, high = cell.disagreement_low, cell.disagreement_high
    return "" if low is None or high is None else f" (95 %: {rate_text(low)} to {rate_text(high)})"


def rate_text(rate: float) -> str:
    """Return a share in percent: two digits below one percent."""
    value = 100 * rate
    if value == 0:
        return "0 %"
    return f"{value:.2f} %" if value < 1 else f"{value:.1f} %" if value < 99.95 else "100 %"


def kl_text(value: float) -> str:
    """Return a number of nats with two significant digits or four decimals."""
    if value == 0:
        return "0"
    if value >= 0.0995:
        return f"{value:.2f}"
    return f"{value:.4f}" if value >= 5e-5 else f"{value:.0e}".replace("e-0", "e-")


def bounded(value: float, lower_bound: bool) -> str:
    """Return a KL, marked where it is a lower bound."""
    return ("≥ " if lower_bound else "") + kl_text(value)


def range_text(interval: Interval | None, write: Callable[[float], str]) -> str:
    """Return an interval as text, empty where none is claimed."""
    return "" if interval is None else f"{write(interval.low)} to {write(interval.high)}"


def _of(cell: Cell) -> str:
    return f"{cell.flips:,} / {cell.positions:,}"


def _positions(cell: Cell) -> str:
    """Return how many positions the KL is of, and of how many where these are more."""
    return of_all(cell.kl_positions, cell.positions or 0) if cell.kl_positions else ""


def _whisker(scale: Scale, value: float | None, low: float | None, high: float | None) -> Whisker | None:
    if value is None or low is None or high is None:
        return None
    return Whisker(*(f"{100 * scale.at(one):.1f}" for one in (low, high, value)))
