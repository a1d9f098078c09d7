"""Ids that follow from contents: of runs and of vocabularies. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from capture.model import Json, Origin, RunId, Steps, Token


def run_id(steps: Steps, manifest: Json, origin: Origin) -> RunId:
    """Return the id of a run: the same on every machine that holds the same record, whatever its file is called."""
    digest = hashlib.blake2b(b"flipscope run 1", digest_size=16)
    fork = origin.fork
    facts = {
        "manifest": manifest,
        "mode": origin.mode.value,
        "scoring_path": origin.scoring_path.value,
        "replica": origin.replica,
        "forced_along": origin.forced_along,
        "fork": None if fork is None else [fork.parent_run, fork.position, fork.token_id],
    }
    digest.update(json.dumps(facts, sort_keys=True).encode())
    digest.update(steps.position.astype("<i4").tobytes())
    digest.update(steps.token_id.astype("<i4").tobytes())
    digest.update(b"".join(steps.prefix_id))
    digest.update(b"".join(steps.row_hash))
    return RunId(digest.hexdigest())


def vocabulary_hash(tokens: Iterable[Token]) -> str:
    """Return the hash of the map from token id to bytes; flags of special tokens do not count."""
    digest = hashlib.blake2b(b"flipscope vocabulary 1", digest_size=16)
    for token in tokens:
        digest.update(token.token_id.to_bytes(4, "little") + len(token.data).to_bytes(4, "little") + token.data)
    return digest.hexdigest()


def id_spans(token_ids: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return rising ids as spans (first, one past the last): the ids that have bytes, in a few numbers."""
    spans: list[tuple[int, int]] = []
    for token_id in token_ids:
        if spans and spans[-1][1] == token_id:
            spans[-1] = (spans[-1][0], token_id + 1)
        else:
            spans.append((token_id, token_id + 1))
    return tuple(spans)
