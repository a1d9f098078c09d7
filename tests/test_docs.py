"""Fails when an option, a page or a key is not in the documentation."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from app.cli import build_parser
from app.settings import Settings
from app.web.main import create_app
from capture.checks import CheckRule
from capture.engines import ENGINE_NAMES
from capture.engines.torch_options import CHOICES, TorchOptions
from capture.engines.vllm_options import VllmOptions
from capture.model import Runtime
from capture.study import ForkBudget, KeepRule, ProbeRule, Study

ROOT = Path(__file__).resolve().parent.parent


def document(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def subcommands() -> dict[str, argparse.ArgumentParser]:
    (action,) = [found for found in build_parser()._actions if isinstance(found, argparse._SubParsersAction)]
    return dict(action.choices)


@pytest.mark.parametrize("name", subcommands())
def test_every_command_and_option_is_documented(name: str) -> None:
    sections = document("commands.md").split("\n## ")
    (section,) = [text for text in sections if text.startswith(f"`flipscope {name}")]
    serve = next(text for text in sections if text.startswith("`flipscope serve"))
    text = section + (serve if "options of `serve`" in section else "")
    options = [option for action in subcommands()[name]._actions for option in action.option_strings]
    assert [option for option in options if option not in ("-h", "--help") and f"`{option}" not in text] == []


def test_every_page_is_documented(tmp_path: Path) -> None:
    paths = [path for route in create_app(Settings(library=tmp_path)).routes if (path := getattr(route, "path", ""))]
    pages = document("pages.md")
    assert [path for path in paths if not path.startswith("/static") and f"`{path}`" not in pages] == []


def test_every_key_is_documented() -> None:
    sheet = BeautifulSoup((ROOT / "templates/_partials/help.html").read_text(encoding="utf-8"), "html.parser")
    keys = [key.get_text() for key in sheet.find_all("kbd")]
    assert len(keys) > 5
    assert [key for key in keys if f"`{key}`" not in document("pages.md")] == []


@pytest.mark.parametrize(
    "value",
    [Study, KeepRule, ForkBudget, ProbeRule, CheckRule, Runtime, TorchOptions, VllmOptions],
    ids=lambda value: value.__name__,
)
def test_every_key_of_a_study_is_documented(value: type) -> None:
    derived = {"runtimes", "keep", "forks", "probe", "check", "folder"}
    names = [found.name for found in fields(value) if found.name not in derived]
    assert [name for name in names if f"`{name}`" not in document("study.md")] == []


def test_every_choice_and_engine_is_documented() -> None:
    words = [word for choices in CHOICES.values() for word in choices] + list(ENGINE_NAMES)
    assert [word for word in words if f"`{word}`" not in document("study.md")] == []


def test_documents_link_to_what_exists() -> None:
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        links = re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8"))
        assert [link for link in links if not (path.parent / link).exists()] == []
