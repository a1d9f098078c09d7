from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from capture.engines.base import BranchJob, ForcedJob, ForkRequest, FreeJob
from capture.engines.torch_decoder import read_row
from capture.engines.torch_engine import TorchEngine
from capture.errors import EngineError
from capture.model import Ending, ScoringPath
from tests.engines import tiny_models
from tests.engines.recorder import Recorded, record

pytestmark = pytest.mark.engine

Start = Callable[..., TorchEngine]

PROMPT = tuple(range(5, 27))
STEPS = 40

needs_compiler = pytest.mark.skipif(
    shutil.which("c++") is None or shutil.which("ninja") is None, reason="optimum-quanto compiles its CPU kernels"
)

OPTIONS: dict[str, dict[str, Any]] = {
    "sdpa": {},
    "eager": {"attention": "eager"},
    "float32": {"dtype": "float32"},
    "int4 weights": {"weights": "int4"},
    "w8a8": {"weights": "w8a8"},
    "fp8 cache": {"kv_cache": "fp8"},
    "int2 cache": {"kv_cache": "int2", "kv_group_size": 32},
    "int4 cache": {"kv_cache": "int4", "kv_group_size": 32, "kv_residual_length": 8},
    "no oneDNN": {"onednn_decode": False},
}

LANES = [
    pytest.param(options, id=name, marks=[needs_compiler] if "kv_group_size" in options else [])
    for name, options in OPTIONS.items()
]


def values(row: bytes) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The logits of a bfloat16 row."""
    return (np.frombuffer(row, "<u2").astype("<u4") << 16).view("<f4")


def free_run(engine: TorchEngine, steps: int = STEPS) -> list[Recorded]:
    return record(engine, FreeJob(PROMPT, (), steps))["main"].rows


def path_of(rows: list[Recorded]) -> tuple[int, ...]:
    return tuple(row.token_id for row in rows)


def direct_rows(model_path: Path, attention: str, tokens: tuple[int, ...]) -> list[bytes]:
    """The rows of plain transformers calls: the prompt at once, then one token a call."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        model_path, dtype=torch.bfloat16, attn_implementation=attention
    ).eval()
    rows, given, past = [], [list(PROMPT)], None
    for token_id in tokens:
        with torch.no_grad():
            output = model(torch.tensor(given), cache=past, use_cache=True)
        past = output.cache
        rows.append(output.logits[0, -1].view(torch.int16).numpy().tobytes())
        given = [[token_id]]
    return rows


class TestFree:
    def test_tokens_are_the_lowest_ids_among_the_maxima(self, llama: Path, start: Start) -> None:
        rows = free_run(start(llama))
        assert [row.position for row in rows] == list(range(STEPS))
        for row in rows:
            assert row.token_id == row.emitted == int(np.argmax(values(row.row)))
            assert not row.forced
            assert not row.recomputed

    def test_run_is_not_degenerate(self, llama: Path, start: Start) -> None:
        assert len(set(path_of(free_run(start(llama))))) > STEPS // 5

    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_rows_are_those_of_direct_calls(self, llama: Path, start: Start, attention: str) -> None:
        torch.set_num_threads(1)
        rows = free_run(start(llama, attention=attention))
        assert [row.row for row in rows] == direct_rows(llama, attention, path_of(rows))

    def test_stop_token_is_the_last_position(self, llama: Path, start: Start) -> None:
        engine = start(llama)
        tokens = path_of(free_run(engine))
        stop = tokens[7]
        sinks = record(engine, FreeJob(PROMPT, (stop,), STEPS))
        assert sinks["main"].tokens == tokens[: tokens.index(stop) + 1]
        assert sinks.endings["main"] is Ending.END_OF_SEQUENCE

    def test_limit_ends_a_run(self, llama: Path, start: Start) -> None:
        sinks = record(start(llama), FreeJob(PROMPT, (), 3))
        assert len(sinks["main"].rows) == 3
        assert sinks.endings["main"] is Ending.LENGTH

    def test_no_positions_asked_for(self, llama: Path, start: Start) -> None:
        sinks = record(start(llama), FreeJob(PROMPT, (), 0))
        assert sinks["main"].rows == []
        assert sinks.endings["main"] is Ending.LENGTH


class TestForced:
    @pytest.mark.parametrize("options", LANES)
    def test_along_its_own_run_every_bit_is_the_same(self, llama: Path, start: Start, options: dict[str, Any]) -> None:
        engine = start(llama, **options)
        rows = free_run(engine)
        sinks = record(engine, ForcedJob(PROMPT, path_of(rows), ScoringPath.DECODE))
        assert sinks["main"].bits == [row.row for row in rows]
        assert sinks.endings["main"] is Ending.PATH
        assert all(row.forced and row.emitted is None and not row.recomputed for row in sinks["main"].rows)

    def test_imposed_tokens_are_recorded_and_stops_ignored(self, llama: Path, start: Start) -> None:
        path = (1, 1, 9, 1)
        sinks = record(start(llama), ForcedJob(PROMPT, path, ScoringPath.DECODE))
        assert sinks["main"].tokens == path

    def test_row_depends_on_what_was_imposed_before(self, llama: Path, start: Start) -> None:
        engine = start(llama)
        one = record(engine, ForcedJob(PROMPT, (30, 31, 32), ScoringPath.DECODE))["main"].bits
        other = record(engine, ForcedJob(PROMPT, (30, 40, 32), ScoringPath.DECODE))["main"].bits
        assert [a == b for a, b in zip(one, other, strict=True)] == [True, True, False]

    @pytest.mark.parametrize("model", ["llama", "hybrid"])
    def test_prefill_is_close_to_decode(self, model: str, start: Start, request: pytest.FixtureRequest) -> None:
        engine = start(request.getfixturevalue(model), prefill_chunk=16, dtype="float32")
        path = path_of(free_run(engine))
        decode = record(engine, ForcedJob(PROMPT, path, ScoringPath.DECODE))["main"].rows
        prefill = record(engine, ForcedJob(PROMPT, path, ScoringPath.PREFILL))["main"].rows
        assert len(prefill) == len(path)
        assert prefill[0].row == decode[0].row
        for one, other in zip(decode, prefill, strict=True):
            np.testing.assert_allclose(np.frombuffer(one.row, "<f4"), np.frombuffer(other.row, "<f4"), atol=1e-3)

    def test_prefill_goes_in_chunks(self, llama: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        engine = start(llama, prefill_chunk=16)
        decoder = engine._started.decoder
        sizes: list[int] = []
        forward = decoder._forward

        def watched(token_ids: tuple[int, ...], **arguments: Any) -> torch.Tensor:
            sizes.append(len(token_ids))
            return forward(token_ids, **arguments)

        monkeypatch.setattr(decoder, "_forward", watched)
        record(engine, ForcedJob(PROMPT, (9,) * 40, ScoringPath.PREFILL))
        assert sizes == [len(PROMPT), 16, 16, 7]

    def test_stride_leaves_positions_out_and_changes_no_row(self, llama: Path, start: Start) -> None:
        engine = start(llama, prefill_chunk=16)
        path = path_of(free_run(engine))
        whole = record(engine, ForcedJob(PROMPT, path, ScoringPath.PREFILL))["main"].rows
        some = record(engine, ForcedJob(PROMPT, path, ScoringPath.PREFILL, stride=7))["main"].rows
        assert some == whole[::7]

    def test_stride_by_decode(self, llama: Path, start: Start) -> None:
        with pytest.raises(EngineError, match="set the scoring path to 'prefill'"):
            record(start(llama), ForcedJob(PROMPT, (9, 9), ScoringPath.DECODE, stride=2))

    def test_empty_path(self, llama: Path, start: Start) -> None:
        sinks = record(start(llama), ForcedJob(PROMPT, (), ScoringPath.DECODE))
        assert sinks["main"].rows == []
        assert sinks.endings["main"] is Ending.PATH


class TestBranch:
    @pytest.mark.parametrize("options", LANES)
    def test_own_choice_goes_on_like_the_free_run(self, llama: Path, start: Start, options: dict[str, Any]) -> None:
        self.check_own_forks(start(llama, **options))

    def test_hybrid_model(self, hybrid: Path, start: Start) -> None:
        engine = start(hybrid)
        assert engine.manifest()["ran"]["cache"] == {"LinearAttentionAndFullAttentionLayer": 2}
        self.check_own_forks(engine)

    def test_rotary_embeddings_that_remember_the_longest_text(self, tmp_path: Path, start: Start) -> None:
        rotary = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
        model = tiny_models.save_llama(tmp_path, rope_parameters=rotary, max_position_embeddings=32)
        self.check_own_forks(start(model))

    def check_own_forks(self, engine: TorchEngine) -> None:
        """Forks all along a free run repeat the rest of it, and the replay goes on unharmed between them."""
        rows = free_run(engine)
        positions = (0, 1, 5, 12, 13, 21, 30)
        forks = tuple(ForkRequest(t, None, STEPS - 1 - t, f"fork {t}") for t in positions)
        sinks = record(engine, BranchJob(PROMPT, path_of(rows), forks, ()))
        assert sinks["replay"].bits == [row.row for row in rows[:30]]
        assert sinks["replay"].tokens == path_of(rows[:30])
        assert all(row.recomputed and row.forced for row in sinks["replay"].rows)
        for t in positions:
            grown = sinks[f"fork {t}"]
            assert grown.bits == [row.row for row in rows[t:]]
            assert grown.tokens == path_of(rows[t:])
            assert [row.position for row in grown.rows] == list(range(t, STEPS))
            assert [row.recomputed for row in grown.rows] == [True] + [False] * (STEPS - 1 - t)

    def test_first_divergence_from_another_runtime_equals_the_own_free_run(self, llama: Path, start: Start) -> None:
        engine = start(llama)
        own = free_run(engine)
        other = start(llama, weights="int3")
        shared = path_of(own[:6])
        grown = record(other, BranchJob(PROMPT, shared, (ForkRequest(6, None, STEPS - 7, "other"),), ()))["other"]
        reference = shared + grown.tokens
        forced = record(engine, ForcedJob(PROMPT, reference, ScoringPath.DECODE))["main"]
        choices = [int(np.argmax(values(row))) for row in forced.bits]
        t = next(position for position in range(STEPS) if choices[position] != reference[position])
        sinks = record(engine, BranchJob(PROMPT, reference, (ForkRequest(t, None, STEPS - 1 - t, "own"),), ()))
        assert t >= len(shared)
        assert sinks["own"].tokens == path_of(own[t:])
        assert sinks["own"].bits == [row.row for row in own[t:]]
        assert sinks["replay"].bits == forced.bits[:t]

    def test_imposed_token_is_followed_as_if_it_had_been_forced_from_the_prompt(
        self, llama: Path, start: Start
    ) -> None:
        engine = start(llama)
        path = path_of(free_run(engine))
        other = (path[9] + 1) % 200
        branch = record(engine, BranchJob(PROMPT, path, (ForkRequest(9, other, 12, "imposed"),), ()))["imposed"]
        whole = record(engine, ForcedJob(PROMPT, path[:9] + branch.tokens, ScoringPath.DECODE))["main"]
        assert branch.tokens[0] == other
        assert branch.bits == whole.bits[9:]
        first, *rest = branch.rows
        assert (first.forced, first.emitted, first.recomputed) == (True, None, True)
        assert len(rest) == 12
        assert all(row.emitted == row.token_id and not row.forced and not row.recomputed for row in rest)

    def test_forks_at_one_position_do_not_disturb_each_other(self, llama: Path, start: Start) -> None:
        engine = start(llama)
        path = path_of(free_run(engine))
        forks = (ForkRequest(6, None, 10, "own"), ForkRequest(6, 77, 10, "imposed"), ForkRequest(6, None, 10, "again"))
        sinks = record(engine, BranchJob(PROMPT, path, forks, ()))
        assert sinks["own"].bits == sinks["again"].bits
        assert sinks["own"].bits[0] == sinks["imposed"].bits[0]
        assert sinks["own"].bits[1:] != sinks["imposed"].bits[1:]

    def test_order_of_the_forks_does_not_matter(self, llama: Path, start: Start) -> None:
        engine = start(llama)
        path = path_of(free_run(engine))
        forks = (ForkRequest(11, None, 5, "late"), ForkRequest(3, 60, 5, "early"))
        one = record(engine, BranchJob(PROMPT, path, forks, ()))
        other = record(engine, BranchJob(PROMPT, path, forks[::-1], ()))
        assert all(one[name].bits == other[name].bits for name in ("late", "early", "replay"))

    def test_endings(self, llama: Path, start: Start) -> None:
        engine = start(llama)
        path = path_of(free_run(engine))
        new = next(t for t in range(6, 22) if path[t] not in path[:t])
        unused = next(token_id for token_id in range(2, 300) if token_id not in path)
        forks = (
            ForkRequest(2, None, 0, "only its own position"),
            ForkRequest(2, unused, 9, "stop imposed"),
            ForkRequest(2, None, 3, "length"),
            ForkRequest(2, None, 20, "stop chosen"),
        )
        sinks = record(engine, BranchJob(PROMPT, path, forks, (unused, path[new])))
        assert sinks.endings == {
            "replay": Ending.PATH,
            "only its own position": Ending.LENGTH,
            "stop imposed": Ending.END_OF_SEQUENCE,
            "length": Ending.LENGTH,
            "stop chosen": Ending.END_OF_SEQUENCE,
        }
        assert len(sinks["stop imposed"].rows) == 1
        assert len(sinks["length"].rows) == 4
        assert sinks["stop chosen"].tokens == path[2 : new + 1]

    def test_fork_at_the_end_of_the_path(self, llama: Path, start: Start) -> None:
        engine = start(llama)
        rows = free_run(engine)
        path = path_of(rows[:10])
        sinks = record(engine, BranchJob(PROMPT, path, (ForkRequest(10, None, 5, "on"),), ()))
        assert sinks["on"].bits == [row.row for row in rows[10:16]]

    def test_no_forks(self, llama: Path, start: Start) -> None:
        sinks = record(start(llama), BranchJob(PROMPT, (9, 9), (), ()))
        assert sinks["replay"].rows == []
        assert sinks.endings == {"replay": Ending.PATH}


def test_onednn_is_off_for_steps_of_one_token_only(llama: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = start(llama, onednn_decode=False)
    decoder = engine._started.decoder
    seen: list[tuple[int, bool]] = []
    forward = decoder._forward

    def watched(token_ids: tuple[int, ...], **arguments: Any) -> torch.Tensor:
        seen.append((len(token_ids), torch.backends.mkldnn.enabled))
        return forward(token_ids, **arguments)

    monkeypatch.setattr(decoder, "_forward", watched)
    record(engine, FreeJob(PROMPT, (), 3))
    assert seen == [(len(PROMPT), True), (1, False), (1, False)]
    assert torch.backends.mkldnn.enabled


class TestRefusals:
    def test_row_with_nan_names_the_position(self, tmp_path: Path, start: Start) -> None:
        model = tiny_models.save_llama(tmp_path, lambda m: m.model.embed_tokens.weight[50].fill_(float("nan")))
        engine = start(model)
        with pytest.raises(EngineError, match="position 2 are not finite"):
            record(engine, ForcedJob(PROMPT[:3], (9, 50, 9, 9), ScoringPath.DECODE))

    def test_id_outside_the_vocabulary(self, llama: Path, start: Start) -> None:
        with pytest.raises(EngineError, match="token id 9999"):
            record(start(llama), ForcedJob(PROMPT, (9, 9999), ScoringPath.DECODE))

    @pytest.mark.parametrize(
        "job",
        [
            FreeJob(PROMPT, (), 235),
            ForcedJob(PROMPT, (9,) * 235, ScoringPath.DECODE),
            BranchJob(PROMPT, (9,), (ForkRequest(0, None, 234, "x"),), ()),
        ],
    )
    def test_job_longer_than_the_context(self, llama: Path, start: Start, job: FreeJob) -> None:
        with pytest.raises(EngineError, match="needs 257 positions but the model has 256"):
            record(start(llama), job)

    def test_fork_outside_its_path(self, llama: Path, start: Start) -> None:
        with pytest.raises(EngineError, match="fork at position 3 lies outside its path of 2"):
            record(start(llama), BranchJob(PROMPT, (9, 9), (ForkRequest(3, None, 1, "x"),), ()))

    def test_empty_prompt(self, llama: Path, start: Start) -> None:
        with pytest.raises(EngineError, match="prompt has no tokens"):
            record(start(llama), FreeJob((), (), 1))


class TestReadRow:
    def test_tie_takes_the_lowest_id(self) -> None:
        for size in (5, 300, 50_000):
            logits = torch.zeros(size, dtype=torch.bfloat16)
            logits[[3, 2, size - 1]] = 7.5
            assert read_row(logits, 0).top1 == 2

    @pytest.mark.parametrize(("dtype", "size"), [(torch.bfloat16, 2), (torch.float16, 2), (torch.float32, 4)])
    def test_bytes_are_little_endian_and_native(self, dtype: torch.dtype, size: int) -> None:
        data = bytes(read_row(torch.tensor([1.0, -2.0], dtype=dtype), 0).data)
        one = {torch.bfloat16: "803f", torch.float16: "003c", torch.float32: "0000803f"}[dtype]
        assert len(data) == 2 * size
        assert data[:size].hex() == one

    def test_row_out_of_a_wider_tensor(self) -> None:
        table = torch.arange(12, dtype=torch.float32).reshape(3, 4).t()
        assert np.frombuffer(read_row(table[1], 0).data, "<f4").tolist() == [1.0, 5.0, 9.0]

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_not_finite(self, bad: float) -> None:
        with pytest.raises(EngineError, match="position 8"):
            read_row(torch.tensor([1.0, bad, 2.0]), 8)

    def test_masked_logits_are_allowed(self) -> None:
        assert read_row(torch.tensor([float("-inf"), 2.0]), 0).top1 == 1
