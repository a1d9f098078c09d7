"""What `flipscope serve` can be told: one value, from which its options and the documentation derive."""

from __future__ import annotations

import argparse
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

DEFAULT_LIBRARY = Path("library")


def _setting(default: Any, text: str, metavar: str, option: str = "", **argument: Any) -> Any:
    """Return a field with its help; `option` is its name on the command line, empty where it has none."""
    return field(default=default, metadata={"help": text, "metavar": metavar, "option": option, "argument": argument})


@dataclass(frozen=True, slots=True)
class Settings:
    """How a library is served; every field's help is in its metadata."""

    library: Path = _setting(DEFAULT_LIBRARY, "the folder of bundles that is shown", "LIBRARY")
    host: str = _setting(
        "127.0.0.1", "the address to listen on; others than this machine's are open to all", "ADDRESS", "--host"
    )
    port: int = _setting(8017, "the port to listen on; 0 takes a free one", "PORT", "--port", type=int)
    allow_hosts: tuple[str, ...] = _setting(
        (),
        "another name under which browsers may ask for the pages, may be repeated; "
        "localhost, 127.0.0.1, [::1] and --host are allowed",
        "NAME",
        "--allow-host",
        action="append",
    )

    grow: tuple[Path, ...] = _setting(
        (),
        "let the pages start the runtimes of this study to grow continuations, may be repeated; "
        "only where nobody else can reach the server",
        "STUDY.toml",
        "--grow",
        action="append",
        type=Path,
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add an option for every setting that has one."""
        for setting in fields(cls):
            option, argument = setting.metadata["option"], setting.metadata["argument"]
            if option:
                parser.add_argument(
                    option,
                    dest=setting.name,
                    metavar=setting.metadata["metavar"],
                    default=None if argument.get("action") == "append" else setting.default,
                    help=_help(setting),
                    **argument,
                )

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> Self:
        """Return the settings that parsed options hold; what they lack has its default."""
        found: dict[str, Any] = {}
        for setting in fields(cls):
            value = getattr(options, setting.name, None)
            if value is not None:
                found[setting.name] = tuple(value) if isinstance(value, list) else value
        return cls(**found)


def _help(setting: Field[Any]) -> str:
    text: str = setting.metadata["help"]
    return f"{text} (default {setting.default})" if setting.default else text
