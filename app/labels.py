"""What differs between runtimes, in a few words, and nothing else. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from capture.model import Json, Runtime

LONGEST = 60
"""Characters of a label; longer ones are cut."""

_ABSENT = object()

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
    told = [_told(runtime) for runtime in runtimes]
    names = _differing(told)
    labels = [
        runtime.label or _join(_phrase(name, facts.get(name, _ABSENT)) for name in names)
        for runtime, facts in zip(runtimes, told, strict=True)
    ]
    if manifests:
        labels = _with_manifests(labels, [_flat(manifest) for manifest in manifests])
    named = [label or runtime.name for label, runtime in zip(labels, runtimes, strict=True)]
    return tuple(_cut(label) for label in _numbered(named))


def _told(runtime: Runtime) -> dict[str, Any]:
    """Return what a runtime says of itself, flat: engine, model, options, and variables by `$NAME`."""
    variables = {f"${name}": value for name, value in runtime.environment.items()}
    model = PurePath(runtime.model).name or runtime.model
    return {"engine": runtime.engine, "model": model, **_flat(runtime.options), **variables}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one, with keys joined by a point."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def _differing(told: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for facts in told for name in facts)
    return [name for name in names if len({_text(facts.get(name, _ABSENT)) for facts in told}) > 1]


def _phrase(name: str, value: Any) -> str:
    if value is _ABSENT or value is None:
        return ""
    word = name.rsplit(".", 1)[-1].replace("_", " ")
    if isinstance(value, bool):
        return word if value else f"no {word}"
    text = _text(value)
    if name.startswith("$"):
        return f"{name.removeprefix('$')}={text}"
    if name in _PHRASES:
        return _PHRASES[name].format(text)
    return text if name in _PLAIN else f"{word} {text}"


def _text(value: Any) -> str:
    if value is _ABSENT:
        return "\0"
    if isinstance(value, str):
        return _SHORT.get(value, value)
    return json.dumps(value, sort_keys=True, default=str)


def _join(phrases: Any) -> str:
    return " · ".join(phrase for phrase in phrases if phrase)


def _with_manifests(labels: Sequence[str], manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Add what the manifests of lanes with the same label do not share."""
    found = list(labels)
    for label, count in Counter(labels).items():
        same = [index for index, other in enumerate(labels) if other == label]
        names = _differing([manifests[index] for index in same])[:_FEWEST_MANIFEST_WORDS] if count > 1 else []
        for index in same:
            extra = [_phrase(name, manifests[index].get(name, _ABSENT)) for name in names]
            found[index] = _join([label, *extra])
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
