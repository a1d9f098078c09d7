"""Numbers and names as the pages write them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from app.text import Label
from capture.model import Certificate, Exactness

SHAPES = {"A": "circle", "B": "square", "C": "triangle", "D": "diamond", "E": "cross"}
"""The shape that goes with each letter, so that colour is never alone."""


def nats(value: float) -> str:
    """Return a number of nats: four digits, or an exponent where these say nothing."""
    if value == 0:
        return "0"
    if abs(value) < 0.0005:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def count(value: int, noun: str) -> str:
    """Return a number with its noun, in the plural where needed."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def letters_of(letters: Iterable[str]) -> str:
    """Return letters as a list: `A, B`."""
    return ", ".join(letters)


def quoted(label: Label) -> str:
    """Return a token in quotes, for a sentence."""
    return f"\u201c{label.text}\u201d"


def sentence(message: str) -> str:
    """Return an error's message, which a terminal shows after a colon, as a sentence of its own."""
    return f"{message[:1].upper()}{message[1:].rstrip('.')}."


def certificate_words(certificate: Certificate | None) -> str:
    """Return what a certificate says, in a few words."""
    if certificate is None or certificate.exactness is Exactness.UNVERIFIED:
        return "unverified"
    if certificate.exactness is Exactness.EXACT:
        return f"bit-identical \u2713, {count(certificate.rows_compared, 'row')}"
    if certificate.first_difference is None:
        return "approximate: the runtime has changed since"
    return f"approximate from position {certificate.first_difference}"
