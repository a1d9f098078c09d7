"""Every setting has help, and the command's options are the settings."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from app.settings import Settings


def _parse(*words: str) -> Settings:
    parser = argparse.ArgumentParser()
    Settings.add_options(parser)
    return Settings.from_options(parser.parse_args(words))


def test_every_setting_has_help() -> None:
    assert all(setting.metadata["help"] for setting in fields(Settings))


def test_no_options_give_the_defaults() -> None:
    assert _parse() == Settings()
    assert Settings().host == "127.0.0.1"


def test_options_become_settings() -> None:
    found = _parse("--host", "::1", "--port", "9", "--allow-host", "a.example", "--allow-host", "b.example")
    assert found == Settings(host="::1", port=9, allow_hosts=("a.example", "b.example"))


def test_the_library_of_the_command_is_taken_over() -> None:
    assert Settings.from_options(argparse.Namespace(library=Path("x"))).library == Path("x")
    assert Settings.from_options(argparse.Namespace(library=None)).library == Settings().library


def test_the_help_names_defaults() -> None:
    parser = argparse.ArgumentParser()
    Settings.add_options(parser)
    text = " ".join(parser.format_help().split())
    assert "(default 8017)" in text
    assert "--allow-host NAME" in text
