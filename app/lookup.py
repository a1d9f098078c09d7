"""One token looked up in every lane's distribution at a position: in the whole row where it was kept. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from app.lanes import Lane
from app.scene import Scene
from app.strands import Source
from app.tables import by_letter, percent, probabilities
from app.text import Label, token_label
from capture.model import Float64Array, Token
from capture.rows import widen

LONGEST_QUESTION = 200
"""Characters of a question that are read."""

_DRAWN = str.maketrans({"\u2423": " ", "\u23ce": "\n"})

RowOf = Callable[[str, int], bytes | None]
"""Gives the raw row of a run, by its id, at a position; None where it was not kept."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one lane says of the token.

    Attributes:
        percent: its probability in percent, or a bound such as `< 0.4`.
        rank: 1 for the most probable; `> 20` where it is not among those that were kept.
        logit: as the runtime gave it.
        bound: whether only the top tokens were kept and it is not among them.
        whole: whether it was read from the whole row.
    """

    percent: str
    rank: str
    logit: str
    bound: bool
    whole: bool


@dataclass(frozen=True, slots=True)
class Lookup:
    """The answer to a question.

    Attributes:
        asked: the question.
        token_id: the token; None where there is none.
        token: how it is drawn.
        letters: of every lane on the page.
        lanes: for each, what it says; None for one that was not after this prefix or has no such token.
        notice: why there is no answer, or what to know of it; mostly empty.
    """

    asked: str
    token_id: int | None
    token: Label | None
    letters: tuple[str, ...]
    lanes: tuple[Found | None, ...]
    notice: str


def look_up(scene: Scene, asked: str, row_of: RowOf) -> Lookup:
    """Return what each lane says of a token at the scene's place; the work is that of one pass over each row.

    Args:
        scene: its place is the position.
        asked: an id, or the token's text; text that is all digits is put in double quotes.
        row_of: where raw rows come from.
    """
    case = scene.story.case
    letters = tuple(lane.letter for lane in case.lanes)
    token_id, notice = find_token(asked[:LONGEST_QUESTION], case.tokens)
    if token_id is None:
        return Lookup(asked[:LONGEST_QUESTION], None, None, letters, (), notice)
    present = by_letter(scene.story.readings(scene.strand, scene.position))
    lanes = tuple(
        _found(source, _run_id(source, lane), scene.position, token_id, row_of)
        for lane in case.lanes
        for source in [present.get(lane.letter)]
    )
    if not any(lanes):
        return Lookup(asked[:LONGEST_QUESTION], None, None, letters, (), f"No lane has a token {token_id:,} here.")
    return Lookup(asked[:LONGEST_QUESTION], token_id, token_label(token_id, case.tokens), letters, lanes, notice)


def find_token(asked: str, tokens: Mapping[int, Token]) -> tuple[int | None, str]:
    """Return the id of the token that a question names, and what to say of it."""
    if asked.isascii() and asked.strip().isdigit():
        return (int(asked), "") if len(asked.strip()) < 10 else (None, "No vocabulary has so large an id.")
    quoted = len(asked) > 2 and asked[0] == asked[-1] == '"'
    text = asked[1:-1] if quoted else asked
    for tried in (text, text.translate(_DRAWN), f" {text.lstrip()}"):
        data = tried.encode(errors="replace")
        found = sorted(token.token_id for token in tokens.values() if token.data == data)
        if data and found:
            spaced = "" if tried == text else "Its text has a leading space or another blank."
            more = f" So does {', '.join(map(str, found[1:4]))}." if found[1:] else ""
            return found[0], (spaced + more).strip()
    return None, "No recorded token has this text; bundles name only tokens that came up, so ask by id."


def _found(source: Source | None, run_id: str, position: int, token_id: int, row_of: RowOf) -> Found | None:
    if source is None:
        return None
    raw = row_of(run_id, position)
    logits = widen([raw or b""], source.dtype)[0].astype(np.float64)
    if len(logits) and math.isfinite(logits.max()):  # a stranger's row may hold anything
        return _in_row(logits, token_id)
    return _in_top(source, position, token_id)


def _run_id(source: Source | None, lane: Lane) -> str:
    return lane.run.run_id if source is None or source.branch is None else source.branch.run.run_id


def _in_row(logits: Float64Array, token_id: int) -> Found | None:
    """Return what a whole row says, or None where its vocabulary has no such id."""
    if token_id >= len(logits):
        return None
    own, highest = float(logits[token_id]), float(logits.max())
    total = highest + math.log(float(np.exp(logits - highest).sum()))
    rank = int((logits > own).sum()) + 1
    return Found(percent(math.exp(own - total)), f"{rank:,}", f"{own:.4g}", False, True)


def _in_top(source: Source, position: int, token_id: int) -> Found:
    row = source.row(position)
    assert row is not None
    ids, values = probabilities(source, position)
    logits = source.steps.top_logits[row]
    if token_id in ids:
        at = ids.index(token_id)
        return Found(percent(float(values[at])), f"{at + 1:,}", f"{float(logits[at]):.4g}", False, False)
    if not ids:
        return Found("", "", "", True, False)
    return Found(f"< {percent(float(values[-1]))}", f"> {len(ids):,}", f"< {float(logits[-1]):.4g}", True, False)


def lookup_json(found: Lookup) -> dict[str, Any]:
    """Return an answer as JSON values."""
    return {
        "asked": found.asked,
        "token_id": found.token_id,
        "token": None if found.token is None else found.token.text,
        "notice": found.notice or None,
        "lanes": {
            letter: None if one is None else asdict(one)
            for letter, one in zip(found.letters, found.lanes, strict=False)
        },
    }
