"""Two compared runs in the numbers that the library shows: rates and divergences, by kind of range. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.catalog import ComparedPair, FirstFlip
from app.traits import Capture
from capture.compare import Comparison
from capture.flips import Flip
from capture.intervals import Interval, block_bootstrap, block_rate, case_bootstrap, case_rate
from capture.model import FlipClass, RangeKind
from capture.ranges import Range
from capture.summary import FEWEST_POSITIONS


@dataclass(frozen=True, slots=True)
class Share:
    """Some of the positions that two runs share.

    Attributes:
        positions, flips, decided: how many there are.
        kl_mean: mean KL(reference‖candidate) in nats, over positions known equally well: those of the whole vocabulary,
            or those of the top tokens alone where these are more; None where no position is shared.
        kl_positions: how many these are.
        lower_bound: whether it is of the latter, and so a lower bound.
        first_decided: the first decided flip among them; None without one.
        disagreement: interval of flips per position, 0..1; None where it is not known.
        kl: interval of `kl_mean`; None where it is not known, as of few positions or where one is infinite.
        identical: whether every shared row is the same, bit for bit.
    """

    positions: int
    flips: int
    decided: int
    kl_mean: float | None
    kl_positions: int
    lower_bound: bool
    first_decided: FirstFlip | None = None
    disagreement: Interval | None = None
    kl: Interval | None = None
    identical: bool = False

    @property
    def rate(self) -> float:
        """Flips per position, 0 where there is none."""
        return self.flips / self.positions if self.positions else 0.0


@dataclass(frozen=True, slots=True)
class PairSummary:
    """Two runs on all positions that they share, and on those of each kind of range."""

    whole: Share
    kinds: Mapping[RangeKind, Share]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a runtime's own free run came to.

    Attributes:
        text: in a few words.
        tone: how it is drawn, one of `capture.consequences.Tone`.
        wanted: whether its calls are those of the label, else of the reference; None where none was wanted or made.
        labelled: whether that is by a label.
    """

    text: str
    tone: str
    wanted: bool | None
    labelled: bool


@dataclass(frozen=True, slots=True)
class BundleSummary:
    """What reading a bundle beside its reference tells.

    Attributes:
        capture: from its manifest.
        reference: from its reference's manifest; None without a reference.
        pairs: by protocol, a key of `library_links.PROTOCOLS`.
        outcome: of its own free run; None where it has none.
        floors: of a reference: itself again, by name of the floor.
    """

    capture: Capture
    reference: Capture | None = None
    pairs: Mapping[str, PairSummary] = field(default_factory=dict)
    outcome: Outcome | None = None
    floors: Mapping[str, Share] = field(default_factory=dict)


def summarise(comparison: Comparison, ranges: Sequence[Range] = ()) -> PairSummary:
    """Return the summary of a comparison.

    Args:
        comparison: of two runs.
        ranges: of the reference's output.
    """
    kinds = kinds_at(ranges, comparison.position)
    return PairSummary(
        whole=_share(comparison, np.ones(len(comparison.position), np.bool_)),
        kinds={kind: _share(comparison, where) for kind, where in kinds.items() if where.any()},
    )


def kinds_at(ranges: Sequence[Range], positions: NDArray[np.int32]) -> dict[RangeKind, NDArray[np.bool_]]:
    """Return for each kind of range which of some positions lie in it, bool [n]."""
    found: dict[RangeKind, NDArray[np.bool_]] = {}
    for part in ranges:
        inside = (positions >= part.start) & (positions < part.stop)
        found[part.kind] = found[part.kind] | inside if part.kind in found else inside
    return found


def share_of_pair(pair: ComparedPair) -> Share:
    """Return what the catalog knows of two runs, without intervals."""
    decided = pair.flips.get(FlipClass.DECIDED, 0)
    return Share(
        positions=pair.positions,
        flips=pair.flip_count,
        decided=decided,
        kl_mean=pair.kl_mean,
        kl_positions=pair.positions,
        lower_bound=pair.lower_bound,
        first_decided=pair.first_decided,
        identical=pair.identical,
    )


def pooled(shares: Iterable[Share]) -> Share | None:
    """Return several cases together: flips over positions, KL over positions; intervals from ten cases on."""
    filled = [share for share in shares if share.positions]
    if not filled:
        return None
    positions = sum(share.positions for share in filled)
    known = _equally_known([share for share in filled if share.kl_mean is not None])
    weight = sum(share.kl_positions for share in known)
    total = sum((share.kl_mean or 0.0) * share.kl_positions for share in known)
    return Share(
        positions=positions,
        flips=sum(share.flips for share in filled),
        decided=sum(share.decided for share in filled),
        kl_mean=total / weight if weight else None,
        kl_positions=weight,
        lower_bound=any(share.lower_bound for share in known),
        disagreement=case_rate([np.full(share.positions, share.rate) for share in filled]),
        kl=case_bootstrap([np.full(share.kl_positions, share.kl_mean, np.float64) for share in known]),
        identical=all(share.identical for share in filled),
    )


def _equally_known(shares: Sequence[Share]) -> list[Share]:
    """Return the shares with lower bounds or those without, whichever have more positions."""
    groups = [[share for share in shares if share.lower_bound is bound] for bound in (False, True)]
    return max(groups, key=lambda group: sum(share.kl_positions for share in group))


def flips_at(comparison: Comparison) -> NDArray[np.bool_]:
    """Return at which of the compared positions the runs differ, bool [n]."""
    flipped = {flip.prefix_id for flip in comparison.flips}
    return np.fromiter((prefix_id in flipped for prefix_id in comparison.prefix_id), np.bool_, len(comparison.position))


def _share(comparison: Comparison, where: NDArray[np.bool_]) -> Share:
    inside = set(np.array(comparison.position)[where].tolist())
    flips = [flip for flip in comparison.flips if flip.position in inside]
    bound = comparison.metrics.lower_bound
    mostly = bool(2 * bound[where].sum() > where.sum())
    divergence = comparison.metrics.kl_forward[where & (bound == mostly)]
    some = len(divergence) > 0
    return Share(
        positions=int(where.sum()),
        flips=len(flips),
        decided=sum(flip.flip_class is FlipClass.DECIDED for flip in flips),
        kl_mean=float(divergence.mean()) if some else None,
        kl_positions=len(divergence),
        lower_bound=mostly,
        first_decided=_first(flips),
        disagreement=block_rate(flips_at(comparison)[where].astype(np.float64)) if some else None,
        kl=block_bootstrap(divergence) if len(divergence) >= FEWEST_POSITIONS else None,
        identical=comparison.identical,
    )


def _first(flips: Sequence[Flip]) -> FirstFlip | None:
    """Return the first decided flip, None without one."""
    found = next((flip for flip in flips if flip.flip_class is FlipClass.DECIDED), None)
    return None if found is None else FirstFlip(found.position, found.prefix_id)
