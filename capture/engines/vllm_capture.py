"""What vLLM loads into each of its workers (`worker_extension_cls`). Imports torch and, where it runs, vLLM.

The engine calls these methods by name through `collective_rpc`; they take and return plain values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capture.engines import vllm_runner_v1, vllm_runner_v2
from capture.engines.vllm_pipe import make_pipe
from capture.engines.vllm_ran import describe_worker
from capture.engines.vllm_streams import plan_from_json
from capture.engines.vllm_symbols import missing_parts
from capture.engines.vllm_tap import Tap
from capture.errors import EngineError
from capture.model import Ending

EXTENSION = "capture.engines.vllm_capture.CaptureExtension"
"""What vLLM is told to load."""

_RUNNERS = {vllm_runner_v1.NAME: vllm_runner_v1, vllm_runner_v2.NAME: vllm_runner_v2}


class CaptureExtension:
    """Methods that a vLLM worker gains; vLLM refuses names that it has itself, hence the prefix."""

    model_runner: Any
    vllm_config: Any
    flipscope_tap: Tap | None = None

    def flipscope_install(self) -> dict[str, Any]:
        """Put the tap into this worker's model runner and tell which runner it is and whether this worker writes.

        Raises:
            EngineError: the model runner lacks a part that the tap stands on.
        """
        last_stage, rank = _place()
        name = runner_name(self.model_runner)
        if last_stage:
            tap = Tap(make_pipe(self.model_runner.device), writes=rank == 0)
            _RUNNERS[name].install(self.model_runner, tap)
            self.flipscope_tap = tap
        return {"runner": name, "writes": last_stage and rank == 0}

    def flipscope_describe(self) -> dict[str, Any]:
        """Tell what really runs in this worker."""
        return describe_worker(self.model_runner, self.vllm_config)

    def flipscope_open(self, stream_id: str, plan: Mapping[str, Any]) -> None:
        """Make a stream known before its request is added."""
        if self.flipscope_tap is not None:
            self.flipscope_tap.open(stream_id, plan_from_json(plan))

    def flipscope_failures(self) -> dict[str, list[str]]:
        """Return kind and message of every stream that gave up, by stream id."""
        if self.flipscope_tap is None:
            return {}
        return {name: [failure.kind, failure.message] for name, failure in self.flipscope_tap.failures().items()}

    def flipscope_finish(
        self, stream_id: str, ending: str | None, token_ids: Sequence[int] | None = None
    ) -> dict[str, Any]:
        """Close a stream, as ended where an ending is given, and return how many rows of which shape it got.

        Args:
            stream_id: of the stream.
            ending: why it ended; None where it did not.
            token_ids: what the engine says that it generated.
        """
        if self.flipscope_tap is None:
            return {"rows": 0, "shape": None, "failure": None}
        recorder = self.flipscope_tap.finish(stream_id, None if ending is None else Ending(ending), token_ids)
        failure = recorder.failure
        return {
            "rows": len(recorder.token_ids),
            "shape": None if recorder.row_shape is None else list(recorder.row_shape),
            "failure": None if failure is None else [failure.kind, failure.message],
        }


def runner_name(runner: Any) -> str:
    """Tell the two model runners apart by their parts, whatever the version of vLLM.

    Raises:
        EngineError: it is neither, or one whose parts have changed.
    """
    lacking = {name: missing_parts(name, runner) for name in _RUNNERS}
    for name in (vllm_runner_v2.NAME, vllm_runner_v1.NAME):
        if not lacking[name]:
            return name
    closest = min(lacking, key=lambda name: len(lacking[name]))
    raise EngineError(
        f"this vLLM's model runner lacks {', '.join(lacking[closest])}, which the recorder stands on; "
        "use a version of vLLM that the documentation lists"
    )


def _place() -> tuple[bool, int]:
    """Return whether this worker is in the last pipeline stage, and its rank among those that share a layer."""
    from vllm.distributed.parallel_state import get_pp_group, get_tensor_model_parallel_rank

    return bool(get_pp_group().is_last_rank), int(get_tensor_model_parallel_rank())
