"""The perplexity block against plain formulas, on numbers and on a real run."""

from __future__ import annotations

import math
from statistics import correlation, covariance, fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from capture.bundle import Bundle
from capture.model import Float64Array, Mode, ScoringPath
from capture.perplexity import perplexity, unknown_tokens
from capture.samples import Sample
from tests.report_samples import bundled, lane, make_sample

LOGS = hnp.arrays(np.float64, (2, 20), elements=st.floats(-12, -0.01))


def sample(reference: Float64Array, candidate: Float64Array, case_id: str = "case") -> Sample:
    return make_sample(np.zeros(len(reference)), case_id, logs=(reference, candidate))


def test_every_number_follows_from_the_log_probabilities() -> None:
    random = np.random.default_rng(0)
    reference = -random.gamma(2.0, 1.0, 60)
    candidate = reference - random.normal(0.1, 0.2, 60)
    found = perplexity([sample(reference[:25], candidate[:25]), sample(reference[25:], candidate[25:], "other")])
    assert found is not None
    base, other = (-reference).tolist(), (-candidate).tolist()
    base_error, other_error = stdev(base) / math.sqrt(60), stdev(other) / math.sqrt(60)
    shared = covariance(base, other) / 60
    assert found.positions == 60
    assert found.reference.value == pytest.approx(math.exp(fmean(base)))
    assert found.reference.standard_error == pytest.approx(math.exp(fmean(base)) * base_error)
    assert found.candidate.value == pytest.approx(math.exp(fmean(other)))
    assert found.correlation == pytest.approx(correlation(base, other))
    assert found.log_ratio.value == pytest.approx(fmean(other) - fmean(base))
    log_error = math.sqrt(base_error**2 + other_error**2 - 2 * shared)
    assert found.log_ratio.standard_error == pytest.approx(log_error)
    # The error of a mean of differences, which is the same thing.
    assert log_error == pytest.approx(stdev([one - two for one, two in zip(other, base, strict=True)]) / math.sqrt(60))
    assert found.ratio.value == pytest.approx(found.candidate.value / found.reference.value)
    assert found.ratio.standard_error == pytest.approx(found.ratio.value * log_error)
    assert found.difference.value == pytest.approx(found.candidate.value - found.reference.value)
    square = (
        found.candidate.standard_error**2
        + found.reference.standard_error**2
        - 2 * shared * found.candidate.value * found.reference.value
    )
    assert found.difference.standard_error == pytest.approx(math.sqrt(square))


@given(LOGS)
def test_exchanging_lanes_turns_ratio_and_difference_over(logs: Float64Array) -> None:
    there, back = perplexity([sample(logs[0], logs[1])]), perplexity([sample(logs[1], logs[0])])
    assert there is not None
    assert back is not None
    assert there.ratio.value == pytest.approx(1 / back.ratio.value)
    assert there.difference.value == pytest.approx(-back.difference.value, abs=1e-9)
    assert there.log_ratio.standard_error == pytest.approx(back.log_ratio.standard_error, abs=1e-9)


def test_equal_lanes_differ_by_nothing() -> None:
    logs = -np.arange(1.0, 21.0)
    found = perplexity([sample(logs, logs)])
    assert found is not None
    assert (found.ratio.value, found.difference.value, found.log_ratio.value) == (1.0, 0.0, 0.0)
    assert found.correlation == pytest.approx(1.0)
    assert found.log_ratio.standard_error == pytest.approx(0.0, abs=1e-8)


def test_no_number_from_the_known_tokens_alone() -> None:
    known, partly = np.full(3, -1.0), np.array([-1.0, np.nan, -1.0])
    assert perplexity([sample(known, known), sample(known, partly, "other")]) is None
    assert unknown_tokens([sample(known, known), sample(known, partly, "other")]) == 1
    assert perplexity([]) is None


def test_the_perplexity_of_a_real_run_is_that_of_its_own_records() -> None:
    with Bundle(bundled("vlan", "bf16")) as one, Bundle(bundled("vlan", "kv-e5m2")) as other:
        (run,) = [run for run in other.runs if run.mode is Mode.FORCED and run.scoring_path is ScoringPath.DECODE]
        left, right = one.steps(one.runs[0].run_id), other.steps(run.run_id)
    logs = []
    for steps in (left, right):
        rows = []
        for at, token in enumerate(left.token_id.tolist()):
            listed = dict(zip(steps.top_ids[at].tolist(), steps.top_logits[at].tolist(), strict=True))
            rows.append(listed[token] - steps.log_sum_exp[at])
        logs.append(rows)
    found = perplexity([lane("vlan", "kv-e5m2")])
    assert found is not None
    assert found.reference.value == pytest.approx(math.exp(-fmean(logs[0])))
    assert found.candidate.value == pytest.approx(math.exp(-fmean(logs[1])))
    assert found.candidate.value > found.reference.value
