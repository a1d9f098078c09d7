"""Arrows point one way (DESIGN section 7): read from the source, so that a lazy import counts too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PURE = (
    "model", "errors", "prefix", "trie", "align", "stretches", "metrics", "rows", "flips", "ranges", "toolcalls",
    "callparser", "jsontext", "toolschema", "callplaces", "callgrammar", "given_ranges", "context_windows",
    "consequences", "identity", "manifests", "range_hints",
    "intervals", "divergence", "samples", "summary", "perplexity", "rounding", "ranking", "row_pair", "encoding",
)  # fmt: skip
INPUT_OUTPUT = {
    "os",
    "io",
    "pathlib",
    "shutil",
    "socket",
    "subprocess",
    "sqlite3",
    "tempfile",
    "urllib",
    "http",
    "asyncio",
}
HEAVY = {"duckdb", "fastapi", "starlette", "jinja2", "uvicorn", "torch", "transformers", "vllm", "rich"}

ONLY_IN = {
    "duckdb": ("capture/database.py", "app/library"),
    "fastapi": ("app/web/",),
    "starlette": ("app/web/",),
    "jinja2": ("app/web/",),
    "torch": ("capture/engines/torch", "capture/engines/vllm"),
    "transformers": ("capture/engines/torch", "capture/engines/vllm"),
    "vllm": ("capture/engines/vllm",),
    "zstandard": ("capture/codec.py",),
    "llguidance": ("capture/grammar.py",),
    "resvg_py": ("app/export_png.py",),
    "plotly": (),
}


def sources() -> list[str]:
    return [
        str(path.relative_to(ROOT)) for package in ("app", "capture") for path in sorted((ROOT / package).rglob("*.py"))
    ]


def imported(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / source).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def roots(source: str) -> set[str]:
    return {name.split(".")[0] for name in imported(source)}


@pytest.mark.parametrize("source", [source for source in sources() if source.startswith("capture/")])
def test_capture_never_imports_app(source: str) -> None:
    assert "app" not in roots(source)


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_do_no_input_or_output(name: str) -> None:
    assert not roots(f"capture/{name}.py") & (INPUT_OUTPUT | HEAVY)


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_import_pure_modules_only(name: str) -> None:
    own = {
        module.removeprefix("capture.").split(".")[0]
        for module in imported(f"capture/{name}.py")
        if module.startswith("capture.")
    }
    impure = {
        "bundle",
        "database",
        "spool",
        "record",
        "session",
        "worker",
        "worker_process",
        "engines",
        "study",
        "pairs",
    }
    assert not own & impure


@pytest.mark.parametrize(("library", "places"), ONLY_IN.items())
def test_a_library_is_known_in_one_place(library: str, places: tuple[str, ...]) -> None:
    users = [source for source in sources() if library in roots(source)]
    assert [source for source in users if not source.startswith(places)] == []


@pytest.mark.parametrize(
    "source", ["capture/worker.py", "capture/spool.py", "capture/messages.py", "capture/engines/base.py"]
)
def test_the_worker_needs_numpy_and_its_engine_only(source: str) -> None:
    assert not roots(source) & (HEAVY | {"pydantic", "zstandard", "jsonschema"})
