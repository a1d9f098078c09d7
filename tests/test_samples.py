"""Samples: parts of them, and what two of them share."""

from __future__ import annotations

import numpy as np
import pytest

from capture.model import RangeKind
from capture.samples import Sample, in_common, of_bound, of_confidence, of_kind, prefix_column, some
from tests.report_samples import bundled_evidence, make_sample


def test_columns_have_one_length() -> None:
    sample = make_sample(np.zeros(3))
    with pytest.raises(ValueError, match="differ in length"):
        Sample(**{name: getattr(sample, name) for name in Sample.__slots__} | {"flip": np.zeros(2, np.int8)})


def test_the_last_bucket_holds_its_upper_edge_and_the_others_do_not() -> None:
    sample = make_sample(np.zeros(5))  # confidence 0, .25, .5, .75, 1
    assert [[part.confidence.tolist() for part in of_confidence([sample], at)] for at in range(5)] == [
        [[0.0]],
        [[0.25]],
        [[0.5]],
        [[0.75]],
        [[1.0]],
    ]


def test_cases_without_a_position_are_left_out() -> None:
    assert some([make_sample(np.zeros(0)), make_sample(np.zeros(1))])[0].position.tolist() == [0]
    assert of_bound([make_sample(np.zeros(4))], True) == ()


def test_only_positions_after_the_same_prefix_that_are_known_equally_well_are_shared() -> None:
    first = make_sample(np.array([1.0, 2.0, 3.0]))
    late = make_sample(np.array([9.0, 5.0, 4.0, 7.0])).where(np.array([False, True, True, True]))
    ((ours, theirs),) = in_common([first], [late])
    assert ours.kl_forward.tolist() == [2.0, 3.0]
    assert theirs.kl_forward.tolist() == [5.0, 4.0]
    assert in_common([first], [make_sample(np.zeros(3), lower_bound=True)]) == []
    assert in_common([first], [make_sample(np.zeros(3), "another case")]) == []


def test_real_lanes_of_a_case_share_the_prefixes_of_the_reference() -> None:
    lanes = [found.sample for found in bundled_evidence().lanes if found.runtime == "tp3"]
    others = [found.sample for found in bundled_evidence().lanes if found.runtime == "fp32"]
    for ours, theirs in in_common(lanes[:1], others[:1]):
        assert ours.prefix_id.tolist() == theirs.prefix_id.tolist()
        assert ours.position.tolist() == theirs.position.tolist()


def test_a_column_of_prefixes_keeps_every_byte() -> None:
    keys = [bytes(16), bytes(15) + b"\x01", b"\x01" + bytes(15)]
    assert prefix_column(keys).tolist() == keys
    assert len(prefix_column([])) == 0
    assert of_kind([make_sample(np.zeros(0))], RangeKind.PROSE) == ()
