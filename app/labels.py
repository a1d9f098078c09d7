"""What differs between runtimes, in a few words, and nothing else. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from capture.manifests import ABSENT, Difference, EntryPath, differences, entry_text, value_texts
from capture.model import Json, Runtime

LONGEST = 60
"""Characters of a label; longer ones are cut."""

LONGEST_VALUE = 32
"""Characters of a value in a sentence."""

_SHORT: Mapping[str, str] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float8_e4m3fn": "fp8 e4m3",
    "float8_e5m2": "fp8 e5m2",
}

_PHRASES: Mapping[str, str] = {
    "weights": "{} weights",
    "quantization": "{} weights",
    "kv_cache": "KV cache {}",
    "kv_cache_dtype": "KV cache {}",
    "tensor_parallel_size": "TP {}",
}

_PLAIN = ("engine", "model", "attention", "attention_backend", "dtype")
"""Keys whose values say by themselves what they are."""

_FEWEST_MANIFEST_WORDS = 3


def lane_labels(runtimes: Sequence[Runtime], manifests: Sequence[Json] = ()) -> tuple[str, ...]:
    """Return a label for each runtime: its own where it has one, else what it does not share with the others.

    Where two runtimes are the same, what differs between their manifests is added (versions, hardware), and where
    those are the same too, a number.
    """
    asked = [one for one in differences([_told(runtime) for runtime in runtimes]) if _can_be_seen(one)]
    labels = [
        runtime.label or _join(_phrase(one.path, one.values[index]) for one in asked)
        for index, runtime in enumerate(runtimes)
    ]
    if manifests:
        labels = _with_manifests(labels, manifests)
    named = [label or runtime.name for label, runtime in zip(labels, runtimes, strict=True)]
    return tuple(_cut(label) for label in _numbered(named))


def asked_to_differ(reference: Runtime, candidate: Runtime) -> str:
    """Return what a study asked of one runtime that it did not ask of the other, as a list for a sentence."""
    found = differences([_told(reference), _told(candidate)])
    phrases = [_instead(one) for one in found]
    return " and ".join([", ".join(phrases[:-1]), phrases[-1]] if len(phrases) > 1 else phrases)


def without_effect(reference: Runtime, candidate: Runtime) -> str:
    """Return what is to be said of two runtimes that gave the same throughout."""
    asked = asked_to_differ(reference, candidate)
    return f"{asked} may have had no effect" if asked else "the study asked for the same twice"


def _instead(found: Difference) -> str:
    reference, candidate = value_texts(
        ["not set" if value is ABSENT else value for value in found.values], LONGEST_VALUE
    )
    return f"{found.entry} ({candidate} instead of {reference})"


def _told(runtime: Runtime) -> dict[str, Any]:
    """Return what a runtime says of itself: engine, model, options, and variables by `$NAME`."""
    variables = {f"${name}": value for name, value in runtime.environment.items()}
    model = PurePath(runtime.model).name or runtime.model
    return {"engine": runtime.engine, "model": model, **runtime.options, **variables}


def _can_be_seen(found: Difference) -> bool:
    return len({_text(value) for value in found.values}) > 1


def _phrase(path: EntryPath, value: Any) -> str:
    if value is ABSENT or value is None:
        return ""
    name = entry_text(path)
    last = next((at for at in range(len(path) - 1, -1, -1) if isinstance(path[at], str)), 0)
    word = "".join([str(path[last]).replace("_", " "), *(f"[{step}]" for step in path[last + 1 :])])
    if isinstance(value, bool):
        return word if value else f"no {word}"
    text = _text(value)
    if word.startswith("$"):
        return f"{str(path[last]).removeprefix('$')}={text}"
    if name in _PHRASES:
        return _PHRASES[name].format(text)
    return text if name in _PLAIN else f"{word} {text}"


def short_value(value: Any) -> str:
    """Return the value of an option as labels write it."""
    return _SHORT.get(value, value) if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _text(value: Any) -> str:
    return "\0" if value is ABSENT else short_value(value)


def _join(phrases: Any) -> str:
    return " · ".join(phrase for phrase in phrases if phrase)


def _with_manifests(labels: Sequence[str], manifests: Sequence[Json]) -> list[str]:
    """Add what the manifests of lanes with the same label do not share."""
    found = list(labels)
    for label, count in Counter(labels).items():
        same = [index for index, other in enumerate(labels) if other == label]
        told = differences([manifests[index] for index in same])[:_FEWEST_MANIFEST_WORDS] if count > 1 else ()
        for at, index in enumerate(same):
            found[index] = _join([label, *(_phrase(one.path, one.values[at]) for one in told)])
    return found


def _numbered(labels: Sequence[str]) -> list[str]:
    """Add a number to labels that are still the same."""
    seen: Counter[str] = Counter()
    counts = Counter(labels)
    found = []
    for label in labels:
        seen[label] += 1
        found.append(f"{label} ({seen[label]})" if counts[label] > 1 else label)
    return found


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"
