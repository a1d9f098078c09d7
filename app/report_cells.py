"""Numbers of a report as cells of a table. Pure."""

from __future__ import annotations

from capture.intervals import Interval

NOTHING = "-"

_GIGA = 1e9
_MEGA = 1e6


def nats(value: float | None, *, bound: bool = False) -> str:
    """Return nats with six digits, or an exponent where these say nothing; `≥` before a lower bound."""
    if value is None:
        return NOTHING
    text = f"{value:.0e}" if 0 < abs(value) < 5e-7 else f"{value:.6f}"
    return f"\u2265{text}" if bound else text


def percent(share: float | None, digits: int = 2) -> str:
    """Return a share as percent."""
    return NOTHING if share is None else f"{100 * share:.{digits}f} %"


def percent_interval(interval: Interval | None) -> str:
    """Return the ends of an interval of a share in percent; empty where none is claimed."""
    return "" if interval is None else f"[{100 * interval.low:.2f}, {100 * interval.high:.2f}]"


def nats_interval(interval: Interval | None) -> str:
    """Return the ends of an interval of nats; empty where none is claimed."""
    return "" if interval is None else f"[{nats(interval.low)}, {nats(interval.high)}]"


def of_all(part: int, whole: int) -> str:
    """Return how many positions a number is of, with all of them where these are more."""
    return f"{part:,}" if part == whole else f"{part:,} of {whole:,}"


def size(count: int | None) -> str:
    """Return a number of bytes in MB or GB."""
    if count is None:
        return NOTHING
    return f"{count / _GIGA:.2f} GB" if count >= _GIGA else f"{count / _MEGA:.0f} MB"


def speed(rate: float | None) -> str:
    """Return tokens per second."""
    return NOTHING if rate is None else f"{rate:.1f} tok/s"
