"""What any engine refuses before it runs a job. Imports the contract only."""

from __future__ import annotations

from collections.abc import Iterator

from capture.engines.base import BranchJob, ForcedJob, FreeJob, Job, ModelFacts
from capture.errors import EngineError


def check_job(job: Job, facts: ModelFacts) -> None:
    """Refuse a job that the model cannot run.

    Raises:
        EngineError: there is no prompt, an id is not in the vocabulary, a fork lies outside its path, or the job is
            longer than the model's context.
    """
    if not job.prompt_ids:
        raise EngineError("the prompt has no tokens; give the case at least one message")
    for token_id in _given_ids(job):
        if not 0 <= token_id < facts.vocabulary_size:
            raise EngineError(
                f"token id {token_id} is not one of the model's {facts.vocabulary_size}; "
                "compare only runtimes that share a vocabulary"
            )
    if isinstance(job, BranchJob):
        _check_forks(job)
    needed = len(job.prompt_ids) + _positions(job)
    if needed > facts.context_length:
        raise EngineError(f"the job needs {needed} positions but the model has {facts.context_length}; shorten it")


def _check_forks(job: BranchJob) -> None:
    for fork in job.forks:
        if not 0 <= fork.position <= len(job.path):
            raise EngineError(f"a fork at position {fork.position} lies outside its path of {len(job.path)} positions")


def _given_ids(job: Job) -> Iterator[int]:
    yield from job.prompt_ids
    if not isinstance(job, FreeJob):
        yield from job.path
    if isinstance(job, BranchJob):
        yield from (fork.token_id for fork in job.forks if fork.token_id is not None)


def _positions(job: Job) -> int:
    if isinstance(job, FreeJob):
        return job.max_tokens
    if isinstance(job, ForcedJob):
        return len(job.path)
    return max((fork.position + 1 + fork.max_tokens for fork in job.forks), default=0)
