"""Where the parts of a tool call stand in an output, and where it departs from the call that was wanted. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from capture.model import Json
from capture.trie import common_length


@dataclass(frozen=True, slots=True)
class Place:
    """An argument in an output: byte offsets of the first byte of its key, after the quote, and of its value."""

    key: int
    value: int


@dataclass(frozen=True, slots=True)
class CallPlaces:
    """The parts of a call in an output, as byte offsets.

    Attributes:
        name: of the first byte of the tool's name.
        stop: where the arguments end: their closing bracket, or the tag after the last parameter.
        arguments: by name.
    """

    name: int
    stop: int
    arguments: Mapping[str, Place] = field(default_factory=dict)


def name_departure(text: bytes, places: CallPlaces, wanted: str) -> int:
    """Return the byte offset where a written name stops being the wanted one."""
    return places.name + _agreeing(text, places.name, _encoded(wanted))


def arguments_departure(text: bytes, places: CallPlaces, names: tuple[str, ...], wanted: Json) -> int:
    """Return the byte offset where written arguments first stop being the wanted ones.

    In a value that is the first byte after which it can no longer become the wanted one, as far as JSON is written in
    the usual ways (an object whose keys stand in another order counts as wrong where the order changes). An argument
    that is too many is wrong from its key on; one that is missing, where the arguments end.

    Args:
        text: the bytes of the output.
        places: of the call in it.
        names: the arguments that differ, at least one.
        wanted: the arguments as they should be.
    """
    return min(_departure(text, places, name, wanted) for name in names)


def _departure(text: bytes, places: CallPlaces, name: str, wanted: Json) -> int:
    place = places.arguments.get(name)
    if place is None:
        return places.stop
    if name not in wanted:
        return place.key
    return place.value + max(_agreeing(text, place.value, form) for form in _forms(wanted[name]))


def _forms(value: object) -> Iterator[bytes]:
    """Yield the ways in which a value is usually written."""
    if isinstance(value, str):
        yield _encoded(value)
    for separators in ((", ", ": "), (",", ":")):
        yield json.dumps(value, separators=separators).encode()
        yield _encoded(json.dumps(value, separators=separators, ensure_ascii=False))


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair that a model wrote as an escape
        return text.encode("utf-8", "surrogatepass")


def _agreeing(text: bytes, start: int, form: bytes) -> int:
    """Return how many bytes of `form` stand in the text from `start` on."""
    written = text[start : start + len(form)]
    return common_length(np.frombuffer(written, np.uint8), np.frombuffer(form, np.uint8))
