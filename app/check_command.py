"""The use case behind `flipscope check`: a command of the user's judges every output of a study, bundle by bundle."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from app.diff_text import aligned
from app.export_json import json_text
from capture.bundle import Bundle
from capture.checks import Checked, CheckRule, check_pair, checks_path, write_checks
from capture.errors import BundleError, CheckError, ComparisonError, NotFoundError, UsageError
from capture.pairs import study_pairs
from capture.study import Study, read_study

TIMEOUT_SECONDS = 60.0
"""How long a command of the command line may take."""


def add_check(commands: Any, say: Callable[[str], None], note: Callable[[str], None]) -> None:
    """Add the subcommand to a parser's; what it prints goes to `say`, what is left out to `note`."""
    parser = commands.add_parser("check", help="let a command of yours judge every output of a study")
    parser.add_argument("study", type=Path, metavar="STUDY.toml", help="the study file; its [check] names the command")
    parser.add_argument("--command", dest="check", default=None, metavar="TEXT", help="the command, in its place")
    parser.add_argument("--library", type=Path, default=Path("library"), metavar="DIR", help="where the bundles are")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")

    def check(options: argparse.Namespace) -> int:
        study = read_study(options.study)
        rule = check_rule(study, options.check)
        for line in check_lines(rule, options.library / study.name, options.json, note):
            say(line)
        return 0

    parser.set_defaults(command=check)


def check_rule(study: Study, command: str | None) -> CheckRule:
    """Return the check that is meant: the one of the command line, which runs in the current folder, or the study's.

    Raises:
        UsageError: there is neither, or the command has an open quote.
    """
    if command is None:
        if study.check is None:
            raise UsageError("the study has no [check]; add one with a command, or give --command")
        return study.check
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"--command cannot be read ({error}); close its quotes") from error
    if not words:
        raise UsageError("--command is empty; name a program")
    if study.check is not None:
        return replace(study.check, command=words, folder=Path.cwd())
    return CheckRule(words, TIMEOUT_SECONDS, Path.cwd())


def check_lines(rule: CheckRule, folder: Path, as_json: bool, note: Callable[[str], None]) -> Iterator[str]:
    """Check every pair of a study, keep what was said beside each bundle, and yield lines that tell it.

    Args:
        rule: the check.
        folder: of the study's bundles.
        as_json: one JSON object a line instead of words.
        note: is told of files that cannot be read.

    Raises:
        NotFoundError: the folder holds nothing to check.
        CheckError: some checks gave no verdict; the others are kept.
    """
    failed: list[Checked] = []
    pairs = list(study_pairs(folder, note)) if folder.is_dir() else []
    if not pairs:
        raise NotFoundError(f"{folder} holds nothing to check; capture the study, or name its library with --library")
    for reference_path, candidate_path in pairs:
        try:
            with Bundle(reference_path) as reference, Bundle(candidate_path) as candidate:
                checked = list(check_pair(rule, reference, candidate))
                lines = list(_lines(candidate, checked, as_json))
        except (BundleError, ComparisonError) as error:
            note(f"left out: {error}")
            continue
        write_checks(checks_path(candidate_path), rule.command, checked)
        yield from lines
        failed += [one for one in checked if one.error]
    if failed:
        raise CheckError(f"{len(failed)} of the checks gave no verdict; the last: {failed[-1].error}")


def _lines(candidate: Bundle, checked: list[Checked], as_json: bool) -> Iterator[str]:
    facts = candidate.facts
    if as_json:
        for one in checked:
            yield json_text({"case": facts.case.case_id, "runtime": facts.runtime.name, **asdict(one)}, indent=None)
        return
    table = []
    for one in checked:
        run = candidate.run(one.run_id)
        place = f"from {run.fork.position:,}" if run.fork else run.mode.value
        words = one.verdict or "no verdict"
        table.append((facts.case.case_id, facts.runtime.name, place, words, one.detail or one.error))
    yield from aligned(table)
