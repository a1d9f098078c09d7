"""The pane of one position: its table and numbers, whether the context is the same, and the certificates. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from app.forks import Fork
from app.lanes import OpenCase
from app.strands import Source, Story
from app.tables import Table, by_letter, table_at
from app.text import Label, token_label
from app.words import certificate_words, nats
from capture.compare import Comparison
from capture.model import Certificate, Exactness

NUMBERS = {
    "margin": "margin: log-probability of the first token minus the second's, in nats",
    "entropy": "entropy, in nats",
    "KL(A\u2016\u00b7)": "Kullback\u2013Leibler divergence from the reference to this lane, in nats",
    "KL(\u00b7\u2016A)": "Kullback\u2013Leibler divergence from this lane to the reference, in nats",
    "JSD": "Jensen\u2013Shannon divergence to the reference, in nats, at most 0.693",
}


@dataclass(frozen=True, slots=True)
class NumberRow:
    """One quantity, with a text for each lane; empty where it is not defined."""

    name: str
    title: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CertificateLine:
    """What the replay of one lane's continuation gave."""

    letter: str
    token_id: int
    token: Label
    text: str
    exact: bool


@dataclass(frozen=True, slots=True)
class PositionPane:
    """What is known of one position.

    Attributes:
        position: output position.
        absolute: counted from the first prompt token.
        key: of the strand.
        token: what the strand goes on with.
        pinned: whether the link names it.
        table: the probabilities.
        numbers: margin, entropy and divergences.
        same_context: letters of the lanes that were after this very prefix.
        elsewhere: letters of those that had left before.
        certificates: of the continuations that lanes after this prefix grew here.
        prefix: the prefix id in hex.
        permalink: an address that opens the same view anywhere.
        lower_bound: whether the divergences are lower bounds, since only the top tokens were kept.
    """

    position: int
    absolute: int
    key: str
    token: Label
    pinned: bool
    table: Table
    numbers: tuple[NumberRow, ...]
    same_context: tuple[str, ...]
    elsewhere: tuple[str, ...]
    certificates: tuple[CertificateLine, ...]
    prefix: str
    permalink: str
    lower_bound: bool


def position_pane(story: Story, strand: int, position: int, permalink: str, pinned: bool) -> PositionPane:
    """Return the pane of a position of a strand."""
    case = story.case
    table = table_at(story, strand, position)
    own = story.strands[strand]
    present = by_letter(story.readings(strand, position))
    prefix_id = story.prefix_id(strand, position) or b""
    numbers, lower_bound = _numbers(case, present, position, prefix_id)
    return PositionPane(
        position=position,
        absolute=position + len(case.prompt.token_ids),
        key=own.key,
        token=token_label(int(own.token_ids[position - own.first_position]), case.tokens),
        pinned=pinned,
        table=table,
        numbers=numbers,
        same_context=tuple(letter for letter, here in zip(table.letters, table.present, strict=True) if here),
        elsewhere=tuple(letter for letter, here in zip(table.letters, table.present, strict=True) if not here),
        certificates=tuple(line for line in certificates_at(case, prefix_id) if line.letter in present),
        prefix=prefix_id.hex(),
        permalink=permalink,
        lower_bound=lower_bound,
    )


def certificates_at(case: OpenCase, prefix_id: bytes) -> Iterable[CertificateLine]:
    """Yield what is certified of the continuations that were grown after a prefix, one a lane and token."""
    seen: set[tuple[str, int]] = set()
    for branch in case.branches:
        fork, certificate = branch.run.fork, branch.run.certificate
        if fork is not None and fork.prefix_id == prefix_id and (branch.letter, fork.token_id) not in seen:
            seen.add((branch.letter, fork.token_id))
            token = token_label(fork.token_id, case.tokens, 12)
            words = certificate_words(certificate)
            yield CertificateLine(branch.letter, fork.token_id, token, words, _exact(certificate))


def _exact(certificate: Certificate | None) -> bool:
    return certificate is not None and certificate.exactness is Exactness.EXACT


def fork_at(forks: Iterable[Fork], strand: int, position: int) -> Fork | None:
    """Return the fork at a position of a strand; None where there is none."""
    return next((fork for fork in forks if (fork.strand, fork.position) == (strand, position)), None)


def _numbers(
    case: OpenCase, present: dict[str, Source], position: int, prefix_id: bytes
) -> tuple[tuple[NumberRow, ...], bool]:
    letters = [lane.letter for lane in case.lanes]
    own = {
        "margin": [_step(present.get(letter), position, "margin_nats") for letter in letters],
        "entropy": [_step(present.get(letter), position, "entropy") for letter in letters],
    }
    found = {lane.letter: _shared(case.comparisons.get(lane.run.run_id), position, prefix_id) for lane in case.lanes}
    pairs = {"KL(A\u2016\u00b7)": "kl_forward", "KL(\u00b7\u2016A)": "kl_reverse", "JSD": "jensen_shannon"}
    for name, metric in pairs.items():
        own[name] = [_metric(found[letter], metric) for letter in letters]
    rows = [NumberRow(name, NUMBERS[name], tuple(values)) for name, values in own.items() if any(values)]
    lower = any(shared is not None and bool(shared[0].metrics.lower_bound[shared[1]]) for shared in found.values())
    return tuple(rows), lower


def _step(source: Source | None, position: int, name: str) -> str:
    row = source.row(position) if source else None
    return "" if source is None or row is None else nats(float(getattr(source.steps, name)[row]))


def _shared(comparison: Comparison | None, position: int, prefix_id: bytes) -> tuple[Comparison, int] | None:
    """Return the row of a comparison at a position, where both had this very prefix."""
    if comparison is None:
        return None
    row = int(np.searchsorted(comparison.position, position))
    same = row < len(comparison.prefix_id) and comparison.prefix_id[row] == prefix_id
    return (comparison, row) if same else None


def _metric(shared: tuple[Comparison, int] | None, name: str) -> str:
    if shared is None:
        return ""
    comparison, row = shared
    bound = "\u2265 " if comparison.metrics.lower_bound[row] else ""
    return bound + nats(float(getattr(comparison.metrics, name)[row]))
