"""A label says what differs, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.labels import LONGEST, lane_labels
from capture.model import Runtime


def _runtime(name: str = "r", model: str = "models/a", label: str = "", **options: object) -> Runtime:
    return Runtime(name, "torch", model, options, label=label)


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ([{"attention": "eager"}, {"attention": "sdpa"}], ("eager", "sdpa")),
        ([{"weights": "as stored"}, {"weights": "int4"}], ("as stored weights", "int4 weights")),
        ([{"dtype": "bfloat16"}, {"dtype": "float32"}], ("bf16", "fp32")),
        ([{"kv_cache": "fp8"}, {"kv_cache": "int4"}], ("KV cache fp8", "KV cache int4")),
        ([{"tensor_parallel_size": 1}, {"tensor_parallel_size": 3}], ("TP 1", "TP 3")),
        ([{"flash": True}, {"flash": False}], ("flash", "no flash")),
        ([{"cache": {"bits": 4, "group": 64}}, {"cache": {"bits": 8, "group": 64}}], ("bits 4", "bits 8")),
        ([{"dtype": "bfloat16", "attention": "eager"}, {"dtype": "bfloat16", "attention": "sdpa"}], ("eager", "sdpa")),
    ],
)
def test_options_that_differ_are_named(options: list[Mapping[str, Any]], labels: tuple[str, ...]) -> None:
    assert lane_labels([_runtime(**values) for values in options]) == labels


def test_models_and_variables_that_differ_are_named() -> None:
    assert lane_labels([_runtime(model="/x/a"), _runtime(model="/y/b")]) == ("a", "b")
    runtimes = [Runtime("r", "torch", "m", environment={"OMP_NUM_THREADS": value}) for value in "12"]
    assert lane_labels(runtimes) == ("OMP_NUM_THREADS=1", "OMP_NUM_THREADS=2")


def test_a_runtime_that_lacks_the_option_has_its_name() -> None:
    assert lane_labels([_runtime("plain"), _runtime("other", weights="int4")]) == ("plain", "int4 weights")


def test_a_label_of_its_own_is_kept() -> None:
    assert lane_labels([_runtime(label="Q4_K_M"), _runtime(weights="int4")])[0] == "Q4_K_M"


def test_equal_runtimes_are_told_apart_by_what_really_ran() -> None:
    manifests = [{"hardware": {"gpu": "A"}, "batch": 1}, {"hardware": {"gpu": "B"}, "batch": 1}]
    assert lane_labels([_runtime(), _runtime()], manifests) == ("gpu A", "gpu B")


def test_the_same_run_twice_is_numbered() -> None:
    assert lane_labels([_runtime("r"), _runtime("r")], [{}, {}]) == ("r (1)", "r (2)")


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=9), st.none() | st.booleans() | st.integers() | st.text(max_size=90), max_size=4
        ),
        min_size=1,
        max_size=5,
    )
)
def test_labels_are_short_and_never_empty(options: list[dict[str, Any]]) -> None:
    labels = lane_labels([Runtime(f"runtime{index}", "e", "m", values) for index, values in enumerate(options)])
    assert len(labels) == len(options)
    assert all(label and len(label) <= LONGEST for label in labels)
