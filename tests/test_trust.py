"""A value is what its annotation says, or it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from capture.model import Certificate, Exactness, Fork, Mode, RunId
from capture.trust import is_plain, require_types


@dataclass(frozen=True)
class Inner:
    name: str


@dataclass(frozen=True)
class Sample:
    count: int = 1
    share: float = 0.5
    flag: bool = False
    mode: Mode = Mode.FREE
    pairs: tuple[tuple[int, int], ...] = ((1, 2),)
    extra: Mapping[str, Any] = ()  # type: ignore[assignment]
    inner: Inner | None = None
    run: RunId = RunId("a")

    @classmethod
    def of(cls, **values: Any) -> Sample:
        return cls(**{"extra": {}, **values})


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"share": 1},
        {"inner": Inner("x")},
        {"pairs": ()},
        {"extra": {"a": [1, None, {"b": "c"}]}},
        {"mode": Mode.FORCED},
    ],
)
def test_right_values_pass(values: dict[str, Any]) -> None:
    require_types(Sample.of(**values))


@pytest.mark.parametrize(
    "values",
    [
        {"count": "1"},
        {"count": True},
        {"count": 1.0},
        {"share": float("nan")},
        {"share": "0.5"},
        {"flag": 1},
        {"mode": "free"},
        {"pairs": ((1,),)},
        {"pairs": ((1, "2"),)},
        {"pairs": None},
        {"extra": {1: "a"}},
        {"extra": {"a": float("inf")}},
        {"extra": {"a": "\ud800"}},
        {"extra": []},
        {"inner": Inner(7)},  # type: ignore[arg-type]
        {"inner": "x"},
        {"run": None},
        {"run": "\udfff"},
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match="name" if "inner" in values and values["inner"] != "x" else next(iter(values))
    ):
        require_types(Sample.of(**values))


def test_values_of_the_domain_pass() -> None:
    require_types(Certificate(Exactness.EXACT, 5, 4))
    fork = Fork(RunId("0" * 32), 3, b"x" * 16, 7)
    require_types(fork)
    with pytest.raises(ValueError, match="prefix_id"):
        require_types(replace(fork, prefix_id="x"))  # type: ignore[arg-type]


def test_json_nested_without_end_is_not_plain() -> None:
    value: Any = []
    for _ in range(50):
        value = [value]
    assert is_plain(value)  # the schema of a tool can be that deep
    for _ in range(80):
        value = [value]
    assert not is_plain(value)
    assert is_plain({"a": [1, 2.5, "x", None, True]})
