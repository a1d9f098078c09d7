"""Two compared runs in the numbers that the library shows: rates and divergences, by kind of range. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.catalog import ComparedPair, FirstFlip
from app.traits import Capture
from capture.compare import Comparison
from capture.divergence import Divergence, divergence_of, main_of, pool
from capture.flips import Flip
from capture.intervals import Interval, block_rate, case_rate
from capture.model import FlipClass, RangeKind
from capture.ranges import Range


@dataclass(frozen=True, slots=True)
class Share:
    """Some of the positions that two runs share.

    Attributes:
        positions, flips, decided: how many there are.
        whole: KL(reference‖candidate) over the positions whose whole vocabulary is known; None where there are none.
        bounded: over those of which only the highest tokens are known; None where there are none.
        first_decided: the first decided flip among them; None without one.
        disagreement: interval of flips per position, 0..1; None where it is not known.
        identical: whether every shared row is the same, bit for bit.
    """

    positions: int
    flips: int
    decided: int
    whole: Divergence | None = None
    bounded: Divergence | None = None
    first_decided: FirstFlip | None = None
    disagreement: Interval | None = None
    identical: bool = False

    @property
    def main(self) -> Divergence | None:
        """The group with the more positions, the whole vocabulary's where both have the same."""
        return main_of(self.whole, self.bounded)

    @property
    def other(self) -> Divergence | None:
        """The group that is not the main one; None where there is none."""
        return self.bounded if self.main is self.whole else self.whole

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
        as_reference: whether its calls are the reference's; None where none was wanted or made.
        as_labelled: whether they are the label's; None where there is no label, or none was wanted or made.
    """

    text: str
    tone: str
    wanted: bool | None
    labelled: bool
    as_reference: bool | None = None
    as_labelled: bool | None = None


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
    flipped = flips_at(comparison)
    return PairSummary(
        whole=_share(comparison, flipped, np.ones(len(comparison.position), np.bool_)),
        kinds={kind: _share(comparison, flipped, where) for kind, where in kinds.items() if where.any()},
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
        whole=pair.whole,
        bounded=pair.bounded,
        first_decided=pair.first_decided,
        identical=pair.identical,
    )


def pooled(shares: Iterable[Share]) -> Share | None:
    """Return several cases together: flips over positions, KL group by group; intervals from ten cases on."""
    filled = [share for share in shares if share.positions]
    if not filled:
        return None
    return Share(
        positions=sum(share.positions for share in filled),
        flips=sum(share.flips for share in filled),
        decided=sum(share.decided for share in filled),
        whole=pool(share.whole for share in filled),
        bounded=pool(share.bounded for share in filled),
        disagreement=case_rate([np.full(share.positions, share.rate) for share in filled]),
        identical=all(share.identical for share in filled),
    )


def flips_at(comparison: Comparison) -> NDArray[np.bool_]:
    """Return at which of the compared positions the runs differ, bool [n]."""
    flipped = {flip.prefix_id for flip in comparison.flips}
    return np.fromiter((prefix_id in flipped for prefix_id in comparison.prefix_id), np.bool_, len(comparison.position))


def _share(comparison: Comparison, flipped: NDArray[np.bool_], where: NDArray[np.bool_]) -> Share:
    inside = set(np.array(comparison.position)[where].tolist())
    flips = [flip for flip in comparison.flips if flip.position in inside]
    kl, bound = comparison.metrics.kl_forward, comparison.metrics.lower_bound
    return Share(
        positions=int(where.sum()),
        flips=len(flips),
        decided=sum(flip.flip_class is FlipClass.DECIDED for flip in flips),
        whole=divergence_of(kl[where & ~bound], lower_bound=False),
        bounded=divergence_of(kl[where & bound], lower_bound=True),
        first_decided=_first(flips),
        disagreement=block_rate(flipped[where].astype(np.float64)) if where.any() else None,
        identical=comparison.identical,
    )


def _first(flips: Sequence[Flip]) -> FirstFlip | None:
    """Return the first decided flip, None without one."""
    found = next((flip for flip in flips if flip.flip_class is FlipClass.DECIDED), None)
    return None if found is None else FirstFlip(found.position, found.prefix_id)
