"""The JSON twins of a transcript and of a chunk of it. Pure."""

from __future__ import annotations

from typing import Any

from app.drawing import TokenView
from app.transcript_values import ChunkView, StretchView, TranscriptView


def chunk_json(chunk: ChunkView) -> dict[str, Any]:
    """Return a chunk as JSON values: its text by token, and the flips in it."""
    stretches = [item for item in chunk.items if isinstance(item, StretchView)]
    tokens = [token for stretch in stretches for row in stretch.rows for token in row.tokens]
    return {
        "chunk": chunk.index,
        "first": chunk.first,
        "stop": chunk.stop,
        "tokens": [_plain(token) for token in tokens],
        "flips": [{"position": token.position, "href": token.href} for token in tokens if token.href],
        "flip_before": chunk.earlier,
        "flip_after": chunk.later,
    }


def transcript_json(view: TranscriptView) -> dict[str, Any]:
    """Return the part of a transcript that a page holds as JSON values."""
    return {
        "positions": view.total,
        "chunks": view.count,
        "along": [head.letter for head in view.along],
        "earlier": view.earlier or None,
        "later": view.later or None,
        "shown": [chunk_json(chunk) for chunk in view.chunks],
    }


def _plain(token: TokenView) -> str:
    return token.lead + "".join(run.text for run in token.runs if run.part == 0)
