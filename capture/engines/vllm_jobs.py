"""The jobs of the `vllm` engine as requests: free, forced and branch runs. Imports the contract only."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass

from capture.engines.base import BranchJob, ForcedJob, ForkRequest, FreeJob, Sinks
from capture.engines.vllm_options import VllmOptions
from capture.engines.vllm_requests import Driver, Outcome, Progress, Request
from capture.engines.vllm_streams import StreamPlan
from capture.errors import EngineError
from capture.model import Ending, ScoringPath


@dataclass(frozen=True, slots=True)
class _Filled:
    """A path whose positions decode steps have put into the prefix cache, under a salt of its own."""

    prompt_ids: tuple[int, ...]
    path: tuple[int, ...]
    salt: str

    def serves(self, job: BranchJob) -> bool:
        """Return whether the job's path is the beginning of this one."""
        return self.prompt_ids == job.prompt_ids and self.path[: len(job.path)] == job.path


class JobRunner:
    """Runs jobs one after the other on one driver; remembers which path lies in the prefix cache."""

    def __init__(self, driver: Driver, options: VllmOptions, cached_block: int | None) -> None:
        """Take over a driver.

        Args:
            driver: the running engine.
            options: of the runtime.
            cached_block: positions in a block that the prefix cache can serve; None where it serves none.
        """
        self._driver = driver
        self._options = options
        self._block = cached_block
        self._numbers = itertools.count()
        self._filled: _Filled | None = None

    def run_free(self, job: FreeJob, sinks: Sinks, progress: Progress) -> None:
        """Generate greedily; the stop token is a recorded position."""
        if job.max_tokens < 1:
            _finish_empty(sinks, "main", Ending.LENGTH)
            return
        plan = StreamPlan(sinks.folder("main"), len(job.prompt_ids), stop_ids=job.stop_ids)
        salt = self._salt("free", job.prompt_ids, ())
        self._run(Request(job.prompt_ids, job.max_tokens, plan, salt, Ending.LENGTH), progress)

    def run_forced(self, job: ForcedJob, sinks: Sinks, progress: Progress) -> None:
        """Record the logits along a path, whatever the model would have chosen."""
        if not job.path:
            _finish_empty(sinks, "main", Ending.PATH)
        elif job.scoring_path is ScoringPath.PREFILL:
            self._score(job, sinks, progress)
        elif job.stride != 1:
            raise EngineError("only scoring by prefill can leave positions out; set the scoring path to 'prefill'")
        else:
            filled = _Filled(job.prompt_ids, job.path, self._salt("decode", job.prompt_ids, job.path))
            self._force(filled, sinks.folder("main"), progress)

    def run_branch(self, job: BranchJob, sinks: Sinks, progress: Progress) -> None:
        """Grow every fork of a path; all rows go to the forks' own sinks, so the shared one stays empty."""
        forks = sorted(job.forks, key=lambda fork: fork.position)
        if self._options.batched_forks:
            self._grow_together(job, forks, sinks, progress)
        else:
            for fork in forks:
                self._grow(job, fork, sinks, progress)
        _finish_empty(sinks, "replay", Ending.PATH)

    def _score(self, job: ForcedJob, sinks: Sinks, progress: Progress) -> None:
        plan = StreamPlan(
            sinks.folder("main"),
            len(job.prompt_ids),
            path=job.path,
            scored_every=job.stride,
            scoring_chunk=self._options.scoring_chunk,
        )
        salt = self._salt("prefill", job.prompt_ids, job.path)
        token_ids = (*job.prompt_ids, *job.path[:-1])
        outcome = self._run(Request(token_ids, 1, plan, salt, Ending.PATH), lambda _: None)
        progress(outcome.rows)

    def _force(self, filled: _Filled, folder: str | None, progress: Progress) -> None:
        """Take the path step by step, which fills blocks of the prefix cache by decode."""
        plan = StreamPlan(folder, len(filled.prompt_ids), path=filled.path)
        self._filled = None
        self._run(Request(filled.prompt_ids, len(filled.path), plan, filled.salt, Ending.PATH), progress)
        self._filled = filled

    def _grow(self, job: BranchJob, fork: ForkRequest, sinks: Sinks, progress: Progress) -> None:
        """Grow one fork, from the block before it where the prefix cache serves that, else from the prompt."""
        folder = sinks.folder(fork.sink)
        if self._options.reprefill_forks:
            self._run(self._reprefilled(job, fork, folder), progress)
            return
        boundary = self._boundary(job, fork)
        if boundary is not None:
            for attempt in range(2):
                filled = self._fill(job, progress, anew=attempt > 0)
                outcome = self._run(_replayed(job, fork, folder, boundary, filled.salt), progress)
                if outcome.failure is None:
                    return
        self._run(self._replayed_whole(job, fork, folder), progress)

    def _grow_together(self, job: BranchJob, forks: list[ForkRequest], sinks: Sinks, progress: Progress) -> None:
        """Grow forks in one batch, from blocks that nobody reads afterwards, since the batch adds its own to them."""
        requests = []
        for fork in forks:
            folder, boundary = sinks.folder(fork.sink), self._boundary(job, fork)
            if boundary is None:
                requests.append(self._replayed_whole(job, fork, folder))
            else:
                requests.append(_replayed(job, fork, folder, boundary, self._fill(job, progress).salt))
        self._filled = None
        outcomes = self._driver.run(requests, progress)
        for fork, outcome in zip(forks, outcomes, strict=True):
            if outcome.failure is not None:
                self._run(self._replayed_whole(job, fork, sinks.folder(fork.sink)), progress)

    def _boundary(self, job: BranchJob, fork: ForkRequest) -> int | None:
        """Return the last block boundary before the fork that no prefill computed, counted from the first prompt token.

        The block before it has to be whole, and the position after it is computed again, so the boundary lies at
        least at the prompt's end and before the fork's own position.
        """
        if self._block is None:
            return None
        boundary = (len(job.prompt_ids) + fork.position - 1) // self._block * self._block
        return boundary if boundary >= len(job.prompt_ids) else None

    def _fill(self, job: BranchJob, progress: Progress, *, anew: bool = False) -> _Filled:
        """Return the path in the prefix cache, forced along once more where it is not there.

        One step is taken beyond the path, since a block may be served only after the step that filled it.
        """
        if self._filled is None or anew or not self._filled.serves(job):
            path = (*job.path, job.path[-1])
            filled = _Filled(job.prompt_ids, path, self._salt("decode", job.prompt_ids, path))
            self._force(filled, None, progress)
            return filled
        return self._filled

    def _replayed_whole(self, job: BranchJob, fork: ForkRequest, folder: str) -> Request:
        return _replayed(job, fork, folder, 0, self._salt("replay", job.prompt_ids, job.path))

    def _reprefilled(self, job: BranchJob, fork: ForkRequest, folder: str) -> Request:
        """Compute the whole prefix at once: the control that shows what a fork is worth when it is not replayed."""
        plan = _fork_plan(job, fork, folder, fork.position)
        token_ids = (*job.prompt_ids, *job.path[: fork.position])
        return Request(token_ids, 1 + fork.max_tokens, plan, self._salt("again", job.prompt_ids, ()), Ending.LENGTH)

    def _run(self, request: Request, progress: Progress) -> Outcome:
        return self._driver.run([request], progress)[0]

    def _salt(self, use: str, prompt_ids: tuple[int, ...], path: tuple[int, ...]) -> str:
        """Return a cache salt for one use of one path; never the same twice, so that no other use poisons it."""
        digest = hashlib.blake2b(f"{use} {next(self._numbers)}".encode(), digest_size=16)
        digest.update(repr((prompt_ids, path)).encode())
        return digest.hexdigest()


def _replayed(job: BranchJob, fork: ForkRequest, folder: str, boundary: int, salt: str) -> Request:
    """Return the request that forces from a block boundary to a fork and lets go there.

    Exactly one token after the boundary is submitted, so that it alone is computed at first, by a step like any
    other. Boundary 0 submits the prompt and reads no cache.
    """
    prompt_length = len(job.prompt_ids)
    first = boundary + 1 - prompt_length if boundary else 0
    plan = _fork_plan(job, fork, folder, first, boundary)
    return Request(
        (*job.prompt_ids, *job.path[:first]),
        fork.position - first + 1 + fork.max_tokens,
        plan,
        salt,
        Ending.LENGTH,
        reads_cache=boundary > 0,
    )


def _fork_plan(job: BranchJob, fork: ForkRequest, folder: str, first: int, cached: int = 0) -> StreamPlan:
    own = () if fork.token_id is None else (fork.token_id,)
    return StreamPlan(
        folder,
        len(job.prompt_ids),
        first=first,
        path=(*job.path[: fork.position], *own),
        repeated=fork.position + 1,
        stop_ids=job.stop_ids,
        stop_from=fork.position,
        cached_tokens=cached,
    )


def _finish_empty(sinks: Sinks, name: str, ending: Ending) -> None:
    sinks.open(name)
    sinks.finish(name, ending)
