from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from capture.progress import SilentReporter
from capture.record import Recorder
from capture.study import Study, read_study
from tests.engines.tiny_models import save_llama

CASES = [
    {"id": "one", "messages": [{"role": "user", "content": "show version"}]},
    {"id": "two", "messages": [{"role": "user", "content": "show ip route of the core switch"}]},
]

RUNTIMES: dict[str, dict[str, str | int]] = {
    "plain": {"attention": "eager"},
    "sdpa": {"attention": "sdpa"},
    "int4": {"attention": "eager", "weights": "int4", "group_size": 16},
}

WriteStudy = Callable[..., Path]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def write_study(model: Path) -> WriteStudy:
    """Write a study file of the tiny model into a folder."""
    return partial(write_study_of, model)


def write_study_of(
    model: Path,
    folder: Path,
    head: str = 'reference = "plain"',
    rest: str = "",
    runtimes: tuple[str, ...] = tuple(RUNTIMES),
) -> Path:
    """Write a study file of a model into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cases.json").write_text(json.dumps(CASES))
    tables = [
        f'[[runtime]]\nname = "{name}"\nengine = "torch"\nmodel = "{model}"\n[runtime.options]\nthreads = 1\n'
        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in RUNTIMES[name].items())
        for name in runtimes
    ]
    text = f'[study]\nname = "tiny"\ncases = "cases.json"\nmax_tokens = 24\n{head}\n{rest}\n' + "\n".join(tables)
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


SETTINGS = 'scoring_paths = ["decode", "prefill"]\nreplicas = 1\nreference = "plain"'
FORKS = "[forks]\nmost = 3\nmax_tokens = 10"


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory, write_study: WriteStudy) -> Study:
    return read_study(write_study(tmp_path_factory.mktemp("study"), SETTINGS, FORKS))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, study: Study) -> Path:
    """A library captured in one go."""
    folder = tmp_path_factory.mktemp("library")
    Recorder(study, folder, SilentReporter()).capture()
    return folder
