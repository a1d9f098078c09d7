"""Which entries of manifests (or of any nested JSON mappings) differ, and how an entry is written. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Any, Final

from capture.model import Json

EntryPath = tuple[str | int, ...]
"""Keys of mappings and indices of lists, outermost first."""

MOST_ELEMENTS = 4
"""Elements of lists that are shown one by one; where more differ, the lists are shown whole."""

_BARE = re.compile(r"[A-Za-z0-9_$-]+")

_AMBIGUOUS = re.compile(r'[\["{]|absent$')


class Absent(Enum):
    """What a manifest without an entry has there, which is not null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Difference:
    """An entry that is not the same everywhere.

    Attributes:
        path: where it is.
        values: what each of the mappings has there, in their order; `ABSENT` where it lacks the entry.
    """

    path: EntryPath
    values: tuple[Any, ...]

    @property
    def entry(self) -> str:
        """The path as text."""
        return entry_text(self.path)


def differences(manifests: Sequence[Json]) -> tuple[Difference, ...]:
    """Return the entries in which mappings differ, in their own order; nothing where all are the same.

    Mappings are compared key by key. Lists of the same length are compared element by element where few of their
    elements differ, else as a whole. Values are the same where their JSON is: 1, 1.0, "1" and true all differ.
    """
    found: list[Difference] = []
    _compare((), manifests, found)
    return tuple(found)


def between(found: Sequence[Difference], first: int, second: int) -> tuple[Difference, ...]:
    """Return in what two of several mappings differ, out of the `differences` of them all."""
    narrowed: list[Difference] = []
    for one in found:
        _compare(one.path, (one.values[first], one.values[second]), narrowed)
    return tuple(narrowed)


def entry_text(path: EntryPath) -> str:
    """Return a path as text: keys joined by points, in quotes where they hold more than `A-Za-z0-9_$-`; `[index]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (step if _BARE.fullmatch(step) else _encode(step))
    return text


def value_text(value: Any) -> str:
    """Return a value on one line: texts bare where nothing else is written so, lists with repeats counted, or JSON."""
    if value is ABSENT:
        return str(ABSENT.value)
    if isinstance(value, str):
        return value if _reads_as_itself(value) else _encode(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_repeated(text, len(list(same))) for text, same in groupby(map(_encode, value)))}]"
    return _encode(value)


def value_texts(values: Sequence[Any], longest: int) -> tuple[str, ...]:
    """Return values as text of at most `longest` characters each; of long ones the part in which they differ."""
    texts = [value_text(value) for value in values]
    common = _common_start([text for text, value in zip(texts, values, strict=True) if value is not ABSENT])
    start = common - longest // 3 if common >= longest - 1 else 0
    return tuple(
        text if value is ABSENT else _cut(text, start, longest) for text, value in zip(texts, values, strict=True)
    )


def differences_json(found: Sequence[Difference], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return differences as JSON values: path, text of the path, and values by name, without a name where absent."""
    return [
        {
            "entry": one.entry,
            "path": list(one.path),
            "values": {name: value for name, value in zip(names, one.values, strict=True) if value is not ABSENT},
        }
        for one in found
    ]


def _compare(path: EntryPath, values: Sequence[Any], found: list[Difference]) -> None:
    present = [value for value in values if value is not ABSENT]
    if _all_filled_mappings(values, present):
        for key in dict.fromkeys(key for value in present for key in value):
            column = [ABSENT if value is ABSENT else value.get(key, ABSENT) for value in values]
            if not _same_scalar(column):
                _compare((*path, key), column, found)
    elif not _same(values):
        if len(present) == len(values) and all(isinstance(value, (list, tuple)) for value in values):
            _compare_lists(path, values, found)
        else:
            found.append(Difference(path, tuple(values)))


def _all_filled_mappings(values: Sequence[Any], present: Sequence[Any]) -> bool:
    """Return whether values can be compared key by key: an empty mapping has no key to tell it from none at all."""
    if not present or not all(isinstance(value, Mapping) for value in present):
        return False
    return len(present) == len(values) or all(present)


def _compare_lists(path: EntryPath, values: Sequence[Sequence[Any]], found: list[Difference]) -> None:
    if len({len(value) for value in values}) == 1:
        columns = list(zip(*values, strict=True))
        changed = [at for at, column in enumerate(columns) if not _same(column)]
        scalars = not all(isinstance(one, Mapping) for at in changed for one in columns[at])
        if len(changed) <= MOST_ELEMENTS and not (scalars and len(changed) == len(columns)):
            for at in changed:
                _compare((*path, at), columns[at], found)
            return
    found.append(Difference(path, tuple(values)))


def _same_scalar(values: Sequence[Any]) -> bool:
    """Return whether values are one scalar; quick, and False where that takes a closer look."""
    kind = type(values[0])
    return kind in _SCALARS and all(type(value) is kind and value == values[0] for value in values)


def _same(values: Sequence[Any]) -> bool:
    """Return whether the JSON of values is the same."""
    return len(values) < 2 or _same_scalar(values) or len({_key(value) for value in values}) == 1


def _key(value: Any) -> tuple[bool, str]:
    return value is ABSENT, "" if value is ABSENT else _ENCODER.encode(value)


_SCALARS = (str, int, bool, type(None), Absent)

_ENCODER = json.JSONEncoder(sort_keys=True, default=str)

_WRITER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str)


def _encode(value: Any) -> str:
    return _WRITER.encode(value)


def _repeated(text: str, count: int) -> str:
    return f"{text} \N{MULTIPLICATION SIGN} {count}" if count > 1 else text


def _reads_as_itself(text: str) -> bool:
    """Return whether a text can stand without quotes: it is seen whole, and is no number, null, list or the like."""
    if not text.isprintable() or text != text.strip() or not text or _AMBIGUOUS.match(text):
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def _common_start(texts: Sequence[str]) -> int:
    """Return how many characters differing texts share at their start; 0 where there is only one."""
    if len(texts) < 2:
        return 0
    differing = (at for at, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1)
    return next(differing, min(map(len, texts)))


def _cut(text: str, start: int, longest: int) -> str:
    kept = f"\N{HORIZONTAL ELLIPSIS}{text[start + 1 :]}" if start else text
    return kept if len(kept) <= longest else kept[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"
