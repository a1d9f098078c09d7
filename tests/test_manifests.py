"""What two manifests tell apart is all of it, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.manifests import (
    ABSENT,
    EntryPath,
    between,
    differences,
    differences_json,
    entry_text,
    value_text,
    value_texts,
)

NAMES = st.sampled_from(["a", "b", "a.b", "", " ", '"', "kernels of a step"]) | st.text(max_size=3)
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-1, 1) | st.sampled_from(["", "1", "null", "a"])
JSONS = st.recursive(
    SCALARS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
MANIFESTS = st.dictionaries(NAMES, JSONS, max_size=4)


def found(*manifests: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {one.entry: one.values for one in differences(manifests)}


def at(value: Any, path: EntryPath) -> Any:
    for step in path:
        inside = isinstance(value, Mapping) and step in value
        if not inside and not (isinstance(value, list) and isinstance(step, int) and step < len(value)):
            return ABSENT
        value = value[step]
    return value


def leaves(value: Any, path: EntryPath = ()) -> dict[EntryPath, str]:
    """Return every scalar and every empty mapping or list, as JSON, by its path: an independent flattening."""
    if isinstance(value, Mapping) and value:
        return {where: leaf for key, item in value.items() for where, leaf in leaves(item, (*path, key)).items()}
    if isinstance(value, list) and value:
        return {where: leaf for key, item in enumerate(value) for where, leaf in leaves(item, (*path, key)).items()}
    return {path: json.dumps(value)}


def test_entries_that_differ_are_named_with_both_values() -> None:
    eager = {"engine": "torch", "options": {"attention": "eager", "dtype": "bf16"}, "ran": {"bmm": 60}}
    sdpa = {"engine": "torch", "options": {"attention": "sdpa", "dtype": "bf16"}, "ran": {}}
    assert found(eager, sdpa) == {"options.attention": ("eager", "sdpa"), "ran.bmm": (60, ABSENT)}


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, True), (1, 1.0), (1, "1"), (None, "null"), (None, {}), ({}, []), ([1], [1.0]), (0.0, -0.0), ([], [[]])],
)
def test_values_of_another_type_differ(left: Any, right: Any) -> None:
    assert found({"a": left}, {"a": right}) == {"a": (left, right)}


def test_absent_is_not_null() -> None:
    assert found({"a": None}, {}) == {"a": (None, ABSENT)}
    assert found({"a": {}}, {}, {"a": {"b": 1}}) == {"a": ({}, ABSENT, {"b": 1})}
    assert value_text(None) != value_text(ABSENT) != value_text("absent")


def test_a_part_that_one_side_lacks_is_told_entry_by_entry() -> None:
    assert found({}, {"weights": {"bits": 4, "method": {"name": "q"}}}) == {
        "weights.bits": (ABSENT, 4),
        "weights.method.name": (ABSENT, "q"),
    }


def test_lists_are_told_by_element_where_few_differ_and_whole_otherwise() -> None:
    layers, other = ["eager"] * 30, ["eager"] * 29 + ["sdpa"]
    assert found({"layers": layers}, {"layers": other}) == {"layers[29]": ("eager", "sdpa")}
    assert found({"layers": layers}, {"layers": ["sdpa"] * 30}) == {"layers": (layers, ["sdpa"] * 30)}
    assert found({"layers": layers}, {"layers": layers[1:]}) == {"layers": (layers, layers[1:])}
    gpus = ({"gpus": [{"name": "A", "units": 8}]}, {"gpus": [{"name": "B", "units": 8}]})
    assert found(*gpus) == {"gpus[0].name": ("A", "B")}


@given(st.lists(st.shared(MANIFESTS, key="one"), max_size=4))
def test_the_same_manifest_differs_in_nothing(manifests: list[dict[str, Any]]) -> None:
    assert differences(manifests) == ()


@given(MANIFESTS, MANIFESTS)
def test_nothing_is_told_only_of_manifests_that_are_the_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert (differences([left, right]) == ()) is same


@given(st.lists(MANIFESTS, min_size=2, max_size=4))
def test_what_is_told_is_what_the_manifests_hold(manifests: list[dict[str, Any]]) -> None:
    for one in differences(manifests):
        assert one.values == tuple(at(manifest, one.path) for manifest in manifests)
        assert len({"-" if value is ABSENT else json.dumps(value, sort_keys=True) for value in one.values}) > 1


@given(MANIFESTS, MANIFESTS)
def test_whatever_is_not_told_is_the_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    told = [one.path for one in differences([left, right])]
    for one, other in ((left, right), (right, left)):
        for path, leaf in leaves(one).items():
            if leaf != "{}" and not any(path[: len(start)] == start for start in told):
                assert json.dumps(at(other, path)) == leaf


@given(st.lists(MANIFESTS, min_size=2, max_size=4))
def test_entries_are_told_once_and_by_their_first_key(manifests: list[dict[str, Any]]) -> None:
    paths = [one.path for one in differences(manifests)]
    assert len(set(paths)) == len(paths)
    firsts = [path[0] for path in paths]
    assert [key for at, key in enumerate(firsts) if at == 0 or firsts[at - 1] != key] == list(dict.fromkeys(firsts))


@given(st.lists(MANIFESTS, min_size=2, max_size=4))
def test_pairs_are_found_among_the_differences_of_all(manifests: list[dict[str, Any]]) -> None:
    narrowed = {one.entry: one.values for one in between(differences(manifests), 0, len(manifests) - 1)}
    assert [*map(repr, sorted(narrowed.items()))] == [*map(repr, sorted(found(manifests[0], manifests[-1]).items()))]


def test_keys_with_points_and_spaces_are_quoted() -> None:
    assert entry_text(("ran", "kernels of a step", "aten.bmm", 3)) == 'ran."kernels of a step"."aten.bmm"[3]'
    assert entry_text(("versions", "optimum-quanto")) == "versions.optimum-quanto"


@given(st.lists(NAMES | st.integers(0, 99), min_size=1, max_size=5))
def test_the_text_of_a_path_can_be_read_back(path: list[str | int]) -> None:
    step = re.compile(r'\.?(?:\[(?P<index>\d+)\]|(?P<bare>[A-Za-z0-9_$-]+)|(?P<quoted>"(?:[^"\\]|\\.)*"))', re.DOTALL)
    text, read, offset = entry_text(tuple(path)), [], 0
    while offset < len(text):
        part = step.match(text, offset)
        assert part is not None
        index, bare, quoted = part["index"], part["bare"], part["quoted"]
        read.append(int(index) if index else bare if bare is not None else json.loads(quoted))
        offset = part.end()
    assert read == path


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as stored", "as stored"),
        ("2", '"2"'),
        (2, "2"),
        ("", '""'),
        (" a", '" a"'),
        ("a\nb", '"a\\nb"'),
        ("null", '"null"'),
        ("absent", '"absent"'),
        ("[1]", '"[1]"'),
        (None, "null"),
        (True, "true"),
        (["a", "a", "b"], '["a" × 2, "b"]'),
        ({"b": 1, "a": "é"}, '{"a": "é", "b": 1}'),
    ],
)
def test_values_are_written_so_that_they_cannot_be_mistaken(value: Any, text: str) -> None:
    assert value_text(value) == text


@given(JSONS, JSONS)
def test_values_that_differ_are_written_differently(left: Any, right: Any) -> None:
    same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert (value_text(left) == value_text(right)) is same


@given(st.text(max_size=90), st.text(max_size=90), st.text(max_size=90), st.integers(10, 40))
def test_cut_values_still_show_where_they_differ(start: str, left: str, right: str, longest: int) -> None:
    one, other = value_texts([start + left, start + right], longest)
    assert max(len(one), len(other)) <= longest
    assert (one == other) is (left == right)


def test_json_has_no_value_where_an_entry_is_absent() -> None:
    told = differences_json(differences([{"a b": None}, {}]), ("left", "right"))
    assert told == [{"entry": '"a b"', "path": ["a b"], "values": {"left": None}}]
