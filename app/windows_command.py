"""`flipscope windows`: where in long prompts runtimes disagree, as lines to print."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.diff_text import aligned
from app.export_json import json_text
from app.report_cells import percent, percent_interval
from capture.context_windows import WINDOW
from capture.errors import NotFoundError
from capture.probes import probed_windows
from capture.study import read_study

Say = Callable[[str], None]


def add_windows(
    commands: Any,
    add_what: Callable[[argparse.ArgumentParser], None],
    folder_of: Callable[[argparse.Namespace], Path],
    say: Say,
    note: Say,
) -> None:
    """Add the subcommand to a parser's; what it prints goes to `say`, what is left out to `note`."""
    parser = commands.add_parser("windows", help="print where in probed prompts runtimes disagree")
    add_what(parser)
    parser.add_argument("--width", type=_width, default=None, metavar="N", help="positions of a window")
    parser.add_argument("--json", action="store_true", help="print one JSON document")

    def windows(options: argparse.Namespace) -> int:
        for line in windows_lines(folder_of(options), options.width or _own_width(options.what), options.json, note):
            say(line)
        return 0

    parser.set_defaults(command=windows)


def _width(text: str) -> int:
    width = int(text)
    if width < 1:
        raise argparse.ArgumentTypeError("give a number above 0")
    return width


def _own_width(what: Path | None) -> int:
    """Return the width that a study asks for, where one is named."""
    study = read_study(what) if what is not None and what.suffix == ".toml" else None
    return WINDOW if study is None or study.probe is None else study.probe.window


def windows_lines(folder: Path, width: int, as_json: bool, note: Say) -> Iterator[str]:
    """Yield the windows of every probed runtime below a folder, cases pooled.

    Raises:
        NotFoundError: nothing there was probed.
    """
    found = probed_windows(folder, note, width) if folder.is_dir() else {}
    if not found:
        raise NotFoundError(f"{folder} holds no probed prompt; capture a study that has a [probe] table")
    if as_json:
        rows = [
            {"study": study, "runtime": runtime, **asdict(window), "disagreement": window.disagreement}
            for (study, runtime), windows in found.items()
            for window in windows
        ]
        yield json_text(rows)
        return
    table = [("study", "runtime", "positions", "cases", "probes", "flips", "top-1 off", "95 % interval")]
    for (study, runtime), windows in found.items():
        for one in windows:
            places = f"{one.start:,} to {one.stop - 1:,}"
            numbers = (f"{one.cases:,}", f"{one.probes:,}", f"{one.flips:,}")
            table.append((study, runtime, places, *numbers, percent(one.disagreement), percent_interval(one.interval)))
    yield from aligned(table)
    yield "Positions count from the first token of the prompt; intervals are wider where neighbours flip together."
    yield "The reference is a yardstick, not the right answer."
