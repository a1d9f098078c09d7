"""`flipscope calls`: how near runtimes were to breaking the tool calls they wrote, as lines to print."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from app.diff_text import aligned
from app.export_json import json_text
from app.report_cells import percent
from capture.bundle import Bundle
from capture.errors import BundleError, NotFoundError
from capture.grammar import GrammarMass, call_grammar_mass
from capture.model import Run
from capture.pairs import bundle_paths

Say = Callable[[str], None]


def add_calls(
    commands: Any,
    add_what: Callable[[argparse.ArgumentParser], None],
    folder_of: Callable[[argparse.Namespace], Path],
    say: Say,
    note: Say,
) -> None:
    """Add the subcommand to a parser's; what it prints goes to `say`, what is left out to `note`."""
    parser = commands.add_parser("calls", help="print how near runtimes were to breaking their tool calls")
    add_what(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line, with every position")

    def calls(options: argparse.Namespace) -> int:
        for line in calls_lines(folder_of(options), options.json, note):
            say(line)
        return 0

    parser.set_defaults(command=calls)


def calls_lines(folder: Path, as_json: bool, note: Say) -> Iterator[str]:
    """Yield a line for each run below a folder that wrote a tool call.

    Raises:
        NotFoundError: no run wrote one.
        UsageError: llguidance is not installed.
    """
    header = ("case", "runtime", "run", "positions", "breaking", "at most", "largest", "at", "broke at")
    table: list[tuple[str, ...]] = [header]
    for path in bundle_paths(folder) if folder.is_dir() else ():
        try:
            with Bundle(path) as bundle:
                runs = [run for run in bundle.runs if not run.probe_stride and not run.replica]
                found = [(run, call_grammar_mass(bundle, run.run_id)) for run in runs]
        except BundleError as error:
            note(f"left out: {error}")
            continue
        case, runtime = bundle.facts.case.case_id, bundle.facts.runtime.name
        for run, mass in [pair for pair in found if len(pair[1])]:
            table.append((case, runtime, *_cells(run, mass)))
            if as_json:
                yield json_text({"case": case, "runtime": runtime, "run": run.run_id, **_values(mass)}, indent=None)
    if len(table) == 1:
        raise NotFoundError(f"{folder} holds no tool call; capture a study whose cases have tools")
    if not as_json:
        yield from aligned(table)
        yield "breaking: mean probability on tokens that break the call, at least; at most: with what is unknown added."


def _values(mass: GrammarMass) -> dict[str, Any]:
    return {name: getattr(mass, name).tolist() for name in GrammarMass.__slots__}


def _cells(run: Run, mass: GrammarMass) -> tuple[str, ...]:
    how = f"from {run.fork.position:,}" if run.fork else f"{run.mode.value}, {run.scoring_path.value}"
    broken = mass.position[mass.broken].tolist()
    worst = int(mass.breaking.argmax())
    return (
        how,
        f"{len(mass):,}",
        percent(float(mass.breaking.mean())),
        percent(float((mass.breaking + mass.unknown).mean())),
        percent(float(mass.breaking[worst])),
        f"{int(mass.position[worst]):,}",
        ", ".join(f"{position:,}" for position in broken) or "-",
    )
