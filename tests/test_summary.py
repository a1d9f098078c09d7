"""Summaries against an independent float64 computation on real captures, and their invariants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from capture.bundle import Bundle
from capture.intervals import block_bootstrap, block_rate, wilson
from capture.model import Float64Array, Mode, RangeKind, ScoringPath
from capture.rows import widen
from capture.samples import CONFIDENCE_EDGES, KINDS, of_bound, of_confidence, of_kind
from capture.summary import QUANTILES, Divergences, Summary, quantiles, summarize
from tests.report_samples import bundled, bundled_evidence, lane, make_sample

VALUES = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 20))


def softmax(row: Float64Array) -> Float64Array:
    weights = np.exp(row - row.max())
    probability: Float64Array = weights / weights.sum()
    return probability


def kl(first: Float64Array, second: Float64Array) -> float:
    return math.fsum(p * math.log(p / q) for p, q in zip(first.tolist(), second.tolist(), strict=True) if p > 0)


def test_whole_vocabulary_numbers_of_a_real_run_are_what_plain_float64_gives() -> None:
    with Bundle(bundled("mac", "bf16")) as one, Bundle(bundled("mac", "kv-e4m3")) as other:
        reference = one.runs[0]
        (run,) = [run for run in other.runs if run.mode is Mode.FORCED and run.scoring_path is ScoringPath.DECODE]
        kept = [at for at in one.kept_positions(reference.run_id) if at in other.kept_positions(run.run_id)]
        first = [softmax(row.astype(np.float64)) for row in widen(one.rows(reference.run_id, kept), reference.dtype)]
        second = [softmax(row.astype(np.float64)) for row in widen(other.rows(run.run_id, kept), run.dtype)]
        tokens = one.steps(reference.run_id).token_id[kept].tolist()
    pairs = list(zip(first, second, strict=True))
    forward = np.array([kl(p, q) for p, q in pairs])
    shannon = np.array([(kl(p, (p + q) / 2) + kl(q, (p + q) / 2)) / 2 for p, q in pairs])
    delta = np.array([q[token] - p[token] for (p, q), token in zip(pairs, tokens, strict=True)])
    found = summarize([lane("mac", "kv-e4m3")], pooled=False).whole
    assert found is not None
    assert found.positions == len(kept) == 43
    assert found.kl_forward.mean == pytest.approx(forward.mean(), rel=1e-9)
    assert found.kl_forward.standard_error == pytest.approx(forward.std(ddof=1) / math.sqrt(43), rel=1e-9)
    assert found.kl_forward.quantiles == pytest.approx(np.quantile(forward, QUANTILES).tolist(), rel=1e-9, abs=1e-12)
    assert (found.kl_forward.minimum, found.kl_forward.maximum) == pytest.approx((forward.min(), forward.max()))
    assert found.kl_reverse.mean == pytest.approx(np.mean([kl(q, p) for p, q in pairs]), rel=1e-9)
    assert found.jensen_shannon.mean == pytest.approx(shannon.mean(), rel=1e-9)
    assert found.delta_probability is not None
    assert found.rms_delta_probability is not None
    assert found.delta_probability.mean == pytest.approx(delta.mean(), abs=1e-12)
    assert found.rms_delta_probability.value == pytest.approx(math.sqrt((delta**2).mean()), rel=1e-9)
    error = (delta**2).std(ddof=1) / math.sqrt(43) / (2 * math.sqrt((delta**2).mean()))
    assert found.rms_delta_probability.standard_error == pytest.approx(error, rel=1e-9)
    assert found.same_top.hits == sum(int(p.argmax() == q.argmax()) for p, q in pairs)


def test_lower_bounds_of_a_real_run_are_what_plain_float64_gives_with_one_bucket_for_the_rest() -> None:
    with Bundle(bundled("vlan", "bf16")) as one, Bundle(bundled("vlan", "w8a8")) as other:
        (run,) = [run for run in other.runs if run.mode is Mode.FORCED and run.scoring_path is ScoringPath.DECODE]
        left, right = one.steps(one.runs[0].run_id), other.steps(run.run_id)
    bounds = []
    for at in range(len(left)):
        first, second = (
            dict(
                zip(
                    steps.top_ids[at].tolist(),
                    np.exp(steps.top_logits[at].astype(np.float64) - steps.log_sum_exp[at]),
                    strict=True,
                )
            )
            for steps in (left, right)
        )
        common = sorted(set(first) & set(second))
        p, q = np.array([first[key] for key in common]), np.array([second[key] for key in common])
        bounds.append(kl(np.append(p, 1 - p.sum()), np.append(q, 1 - q.sum())))
    found = summarize([lane("vlan", "w8a8")], pooled=False)
    assert found.whole is None
    assert found.bounded is not None
    assert found.bounded.positions == len(left)
    assert found.bounded.kl_forward.mean == pytest.approx(np.mean(bounds), rel=1e-9)
    changed = (left.top1 != right.top1).sum()
    assert found.disagreement.hits == changed
    assert found.disagreement.rate == changed / len(left)


def test_whole_vocabularies_and_lower_bounds_are_never_pooled() -> None:
    found = summarize([lane("mac", "kv-e4m3")], pooled=False)
    assert found.whole is not None
    assert found.bounded is not None
    assert (found.whole.positions, found.bounded.positions, found.positions) == (43, 9, 52)
    assert not found.whole.lower_bound
    assert found.bounded.lower_bound
    assert found.main is found.whole


def test_kinds_and_buckets_part_the_positions_of_every_real_run() -> None:
    for found in bundled_evidence().lanes:
        sample = found.sample
        kinds = [summarize(of_kind([sample], kind)) for kind in KINDS]
        buckets = [summarize(of_confidence([sample], at)) for at in range(len(CONFIDENCE_EDGES) - 1)]
        for parts in (kinds, buckets):
            assert sum(part.positions for part in parts) == len(sample)
            assert sum(part.flips for part in parts) == int(sample.changed.sum())
    calls = summarize(of_kind([lane("mac", "kv-e4m3")], RangeKind.TOOL_CALL))
    assert calls.positions > 30


def test_every_flip_of_a_real_study_is_counted_in_its_class() -> None:
    samples = [found.sample for found in bundled_evidence().lanes if found.mode is Mode.FORCED]
    found = summarize(samples)
    assert found.flips == found.disagreement.hits == sum(int((sample.flip > 0).sum()) for sample in samples)
    assert min(found.ties, found.near_ties, found.decided) > 0


def test_confidence_is_the_references_probability_of_its_winner() -> None:
    sample = lane("vlan", "w8a8")
    with Bundle(bundled("vlan", "bf16")) as bundle:
        steps = bundle.steps(bundle.runs[0].run_id)
    assert sample.confidence == pytest.approx(np.exp(steps.top_logits[:, 0].astype(np.float64) - steps.log_sum_exp))


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_cases_merge_into_what_all_their_positions_give(parts: list[Float64Array]) -> None:
    samples = [make_sample(part, f"case-{at}") for at, part in enumerate(parts)]
    merged, together = summarize(samples), summarize([make_sample(np.concatenate(parts))])
    assert merged.cases == len(parts)
    assert merged.whole is not None
    assert together.whole is not None
    assert merged.whole.kl_forward.mean == pytest.approx(together.whole.kl_forward.mean)
    assert merged.whole.kl_forward.quantiles == together.whole.kl_forward.quantiles
    assert merged.whole.rms_delta_probability is not None
    assert merged.whole.rms_delta_probability.value == pytest.approx(math.sqrt((np.concatenate(parts) ** 2).mean()))


@given(VALUES)
def test_quantiles_are_linear_between_neighbours_and_rise(values: Float64Array) -> None:
    found = quantiles(values)
    assert found == pytest.approx(np.quantile(values, QUANTILES).tolist(), rel=1e-9, abs=1e-12)
    assert list(found) == sorted(found, reverse=True)


def test_quantiles_of_a_known_row() -> None:
    found = dict(zip(QUANTILES, quantiles(np.arange(11.0)), strict=True))
    assert (found[0.5], found[0.9], found[0.25]) == (5.0, 9.0, 2.5)
    assert found[0.999] == pytest.approx(9.99)


def test_an_infinite_divergence_leaves_the_rest_readable() -> None:
    found = summarize([make_sample(np.array([0.0, 1.0, np.inf] * 5), delta=np.zeros(15))], pooled=False).whole
    assert found is not None
    assert found.kl_forward.mean == math.inf
    assert found.kl_forward.quantile(0.5) == 1.0
    assert found.kl_forward.interval is None


def test_a_run_has_intervals_and_a_study_only_from_ten_cases_on() -> None:
    values = np.random.default_rng(0).random(50)
    flips = [0, 2] * 25
    run = summarize([make_sample(values, flips=flips)], pooled=False)
    assert run.whole is not None
    assert run.disagreement.interval == block_rate(np.array(flips, np.float64) / 2)
    assert run.whole.kl_forward.interval == block_bootstrap(values)
    for cases, claimed in ((9, False), (10, True)):
        study = summarize([make_sample(values * (1 + at), f"case-{at}", flips=flips) for at in range(cases)])
        assert study.whole is not None
        assert (study.whole.kl_forward.interval is not None) is claimed
        assert (study.disagreement.interval is not None) is claimed


def test_few_positions_have_no_standard_error_as_in_llama_cpp() -> None:
    few, enough = (summarize([make_sample(np.arange(size, dtype=np.float64))]).whole for size in (10, 11))
    assert few is not None
    assert enough is not None
    assert few.kl_forward.standard_error == 0
    assert enough.kl_forward.standard_error == pytest.approx(1.0)  # the variance of 0..10 is 11, over 11


def test_nothing_gives_an_empty_summary() -> None:
    found = summarize([make_sample(np.zeros(0))])
    assert (found.positions, found.flips, found.whole, found.bounded, found.main) == (0, 0, None, None, None)


def test_unknown_probabilities_are_left_out_and_counted() -> None:
    delta = np.array([0.5, np.nan, -0.5, np.nan])
    found = summarize([make_sample(np.ones(4), lower_bound=True, delta=delta)]).bounded
    assert found is not None
    assert found.delta_unknown == 2
    assert found.rms_delta_probability is not None
    assert found.rms_delta_probability.value == 0.5


def test_invariants_hold_on_every_real_lane() -> None:
    for found in bundled_evidence().lanes:
        for group in (part for part in groups(summarize([found.sample])) if part is not None):
            assert group.kl_forward.minimum >= 0
            assert group.kl_reverse.minimum >= 0
            assert 0 <= group.jensen_shannon.minimum <= group.jensen_shannon.maximum <= math.log(2)
            assert group.delta_probability is not None
            assert -1 <= group.delta_probability.minimum <= group.delta_probability.maximum <= 1
        assert sum(map(len, of_bound([found.sample], False))) + sum(map(len, of_bound([found.sample], True))) == len(
            found.sample
        )


def groups(summary: Summary) -> tuple[Divergences | None, ...]:
    return summary.whole, summary.bounded


def test_repeats_of_a_case_are_one_case() -> None:
    values = np.random.default_rng(1).random(40)
    flips = [0, 2] * 20
    twice = [make_sample(values * (1 + at), f"case-{at}", flips=flips) for at in range(5) for _ in range(2)]
    found = summarize(twice)
    assert (found.cases, found.positions, found.flips) == (5, 400, 200)
    assert found.disagreement.interval is None
    assert found.whole is not None
    assert found.whole.kl_forward.interval is None


def test_no_flip_in_ten_cases_leaves_room_for_some() -> None:
    found = summarize([make_sample(np.ones(20), f"case-{at}") for at in range(10)]).disagreement
    assert found.interval == wilson(0, 200)
