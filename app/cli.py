"""The command `flipscope`: reads arguments, calls one use case, turns errors into one sentence and an exit code."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.calls_command import add_calls
from app.check_command import add_check
from app.diff import diff_json, diff_runs
from app.diff_text import diff_lines
from app.export_json import json_text
from app.import_command import add_import
from app.settings import Settings
from app.stats_text import statistics_json, statistics_lines
from app.windows_command import add_windows
from capture.errors import FlipscopeError
from capture.evidence import Wanted
from capture.model import Exactness, Mode, ScoringPath
from capture.plan import PlannedBundle, check_disk
from capture.progress import ConsoleReporter, JsonReporter
from capture.record import CaptureSummary, Recorder
from capture.resources import bundled_library
from capture.stats import library_statistics
from capture.study import read_study
from capture.version import VERSION

DEFAULT_LIBRARY = Path("library")

EXPORT_FORMATS = ("md", "html", "svg", "png", "json")

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls, what turns text around, and halves of surrogate pairs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 2 refused or failed, 130 interrupted."""
    options = build_parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except FlipscopeError as error:
        _say(f"flipscope: {error}", sys.stderr)
        return 2
    except KeyboardInterrupt:
        _say("flipscope: interrupted; what was recorded is kept, start again to go on", sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        place = f" at {error.filename}" if error.filename else ""
        _say(
            f"flipscope: {error.strerror or error}{place}; see that it can be written and that the disk has space",
            sys.stderr,
        )
        return 2


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of every subcommand; its help is the reference of the options."""
    parser = argparse.ArgumentParser(
        prog="flipscope", description="See what a change of runtime does to a language model's output, token by token."
    )
    parser.add_argument("--version", action="version", version=f"flipscope {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_capture(commands)
    _add_stats(commands)
    _add_report(commands)
    _add_determinism(commands)
    _add_diff(commands)
    add_check(commands, _say, _note)
    add_calls(commands, _add_what, _folder, _say, _note)
    add_windows(commands, _add_what, _folder, _say, _note)
    add_import(commands, _say)
    _add_export(commands)
    _add_serve(commands)
    _add_demo(commands)
    return parser


def _add_capture(commands: Any) -> None:
    parser = commands.add_parser("capture", help="record a study's runtimes on its cases, with forks and comparisons")
    parser.add_argument("study", type=Path, metavar="STUDY.toml", help="the study file")
    parser.add_argument("--library", type=Path, default=DEFAULT_LIBRARY, metavar="DIR", help="where bundles go")
    parser.add_argument("--plan", action="store_true", help="print runs, positions, bytes and time; start nothing")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line while recording")
    parser.set_defaults(command=capture)


def _add_stats(commands: Any) -> None:
    parser = commands.add_parser("stats", help="print flips and divergences by run")
    _add_what(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=stats)


def _add_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        type=Path,
        nargs="?",
        default=None,
        metavar="STUDY|FOLDER",
        help="a study file, or a folder of bundles (default: the library that serve shows)",
    )
    parser.add_argument("--library", type=Path, default=None, metavar="DIR", help="where a study's bundles are")


def _add_report(commands: Any) -> None:
    parser = commands.add_parser("report", help="print how far runtimes are from the reference, with floors, in full")
    _add_what(parser)
    forms = parser.add_mutually_exclusive_group()
    for form, meaning in (("json", "one JSON document"), ("markdown", "tables for a post"), ("csv", "every number")):
        forms.add_argument(f"--{form}", action="store_true", help=f"print {meaning}")
    parser.add_argument("--mode", choices=("forced", "free"), default=None, help="only runs of this mode")
    parser.add_argument(
        "--scoring-path", choices=("decode", "prefill"), default=None, help="only runs of this scoring path"
    )
    parser.set_defaults(command=report)


def _add_determinism(commands: Any) -> None:
    parser = commands.add_parser("determinism", help="print whether runtimes repeat themselves, bit for bit")
    _add_what(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=determinism)


def _add_diff(commands: Any) -> None:
    parser = commands.add_parser("diff", help="print what two runs' manifests tell apart")
    for name in ("left", "right"):
        parser.add_argument(
            name, metavar="RUN", help="a run by the start of its id, as case/runtime, or by the path of its bundle"
        )
    parser.add_argument("--library", type=Path, default=None, metavar="DIR", help="where the bundles are")
    parser.add_argument("--json", action="store_true", help="print one JSON document, with every value in full")
    parser.set_defaults(command=diff)


def _add_export(commands: Any) -> None:
    parser = commands.add_parser("export", help="write what a link shows to a file, without a browser")
    parser.add_argument("link", metavar="LINK", help="the address of a case or a fork, whole or from its path on")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write; - for stdout")
    parser.add_argument(
        "--format", choices=EXPORT_FORMATS, default=None, help="the format (default: what the file's ending names)"
    )
    parser.add_argument("--library", type=Path, default=None, metavar="DIR", help="where the bundles are")
    parser.add_argument("--force", action="store_true", help="replace the file where it exists")
    parser.set_defaults(command=export)


def _add_serve(commands: Any) -> None:
    parser = commands.add_parser("serve", help="show a library in the browser")
    parser.add_argument(
        "library",
        type=Path,
        nargs="?",
        default=None,
        metavar="LIBRARY",
        help="a folder of bundles (default: library, or the study that ships with flipscope where there is none)",
    )
    _add_server_options(parser)
    parser.set_defaults(command=serve)


def _add_demo(commands: Any) -> None:
    parser = commands.add_parser("demo", help="capture a small real study on this machine, once, and show it")
    parser.add_argument("--library", type=Path, default=None, metavar="DIR", help="where the demo's bundles go")
    parser.add_argument("--no-serve", action="store_true", help="capture only")
    _add_server_options(parser)
    parser.set_defaults(command=demo)


def _add_server_options(parser: argparse.ArgumentParser) -> None:
    Settings.add_options(parser)
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def shown_library() -> Path:
    """Return the library that is meant where none is named: `library`, else the one that ships with flipscope."""
    return DEFAULT_LIBRARY if DEFAULT_LIBRARY.is_dir() else bundled_library()


def capture(options: argparse.Namespace) -> int:
    """Record a study, or print what recording it would take."""
    study = read_study(options.study)
    if options.plan:
        planned = Recorder(study, options.library, JsonReporter()).plan()
        _print_plan(planned, options.json)
        check_disk(planned, options.library)
        return 0
    _print_summary(_record(study, options.library, options.json), options.library, options.json)
    return 0


def _folder(options: argparse.Namespace) -> Path:
    """Return the folder of bundles that is meant: a study's, the one that is named, or the library that is shown."""
    if options.what is None:
        return options.library or shown_library()
    if options.what.suffix == ".toml":
        library: Path = options.library or DEFAULT_LIBRARY
        return library / read_study(options.what).name
    named: Path = options.what
    return named


def _note(text: str) -> None:
    _say(f"flipscope: {text}", sys.stderr)


def stats(options: argparse.Namespace) -> int:
    """Print the numbers of a study or a library."""
    rows = library_statistics(_folder(options), _note)
    for line in [json_text(statistics_json(rows))] if options.json else statistics_lines(rows):
        _say(line)
    return 0


def report(options: argparse.Namespace) -> int:
    """Print how far the runtimes of a study or a library are from their reference."""
    from app.report_command import Form, ReportRequest, report_lines

    form = next((form for form in Form if getattr(options, form.value, False)), Form.TEXT)
    wanted = Wanted(options.mode and Mode(options.mode), options.scoring_path and ScoringPath(options.scoring_path))
    for line in report_lines(ReportRequest(_folder(options), wanted, form), _note):
        _say(line)
    return 0


def determinism(options: argparse.Namespace) -> int:
    """Print whether the runtimes of a study or a library repeat themselves."""
    from app.report_command import determinism_lines

    for line in determinism_lines(_folder(options), _note, as_json=options.json):
        _say(line)
    return 0


def diff(options: argparse.Namespace) -> int:
    """Print what differs between two runs."""
    found = diff_runs(options.left, options.right, options.library or shown_library())
    for line in [json_text(diff_json(found))] if options.json else diff_lines(found):
        _say(line)
    return 0


def export(options: argparse.Namespace) -> int:
    """Write what a link shows to a file."""
    from app.export import Format  # what draws is loaded only where something is drawn
    from app.export_command import ExportRequest, export_link

    form = Format(options.format) if options.format else None
    request = ExportRequest(options.link, options.output, options.library or shown_library(), form, options.force)
    export_link(request, lambda text: _say(f"flipscope: {text}", sys.stderr))
    return 0


def serve(options: argparse.Namespace) -> int:
    """Serve a library until interrupted."""
    from app.opening import telling_fork_path
    from app.serve import serve as run_server  # the web stack is loaded only where it serves

    options.library = options.library or shown_library()
    path = telling_fork_path(options.library) if options.library == bundled_library() else "/"
    run_server(Settings.from_options(options), open_browser=options.open, path=path)
    return 0


def demo(options: argparse.Namespace) -> int:
    """Capture the demo study unless it is there, then serve it."""
    from app.demo import demo_library, demo_study
    from app.opening import telling_fork_path
    from app.serve import check_address
    from app.serve import serve as run_server

    options.library = options.library or demo_library()
    settings = Settings.from_options(options)
    if not options.no_serve:
        check_address(settings)
    summary = _record(demo_study(), options.library, as_json=False)
    _print_summary(summary, options.library, as_json=False)
    if not options.no_serve:
        run_server(settings, open_browser=options.open, path=telling_fork_path(options.library))
    return 0


def _record(study: Any, library: Path, as_json: bool) -> CaptureSummary:
    reporter = JsonReporter() if as_json else ConsoleReporter()
    with nullcontext() if isinstance(reporter, JsonReporter) else reporter:
        return Recorder(study, library, reporter).capture()


def _print_plan(planned: Sequence[PlannedBundle], as_json: bool) -> None:
    if as_json:
        _say(json_text([{**asdict(bundle), "path": str(bundle.path)} for bundle in planned]))
        return
    for bundle in planned:
        state = "sealed already" if bundle.sealed else _needs(bundle)
        _say(f"{bundle.case_id} · {bundle.runtime}: {', '.join(bundle.runs)}: {state}")
    todo = [bundle for bundle in planned if not bundle.sealed]
    _say(
        f"at most {sum(bundle.positions for bundle in todo):,} positions, "
        f"{_size(sum(bundle.bundle_bytes for bundle in todo))} of bundles, "
        f"{_size(max((bundle.spool_bytes for bundle in todo), default=0))} of spool at a time, "
        f"{_time(sum(bundle.seconds for bundle in todo))}; nothing was started"
    )


def _needs(bundle: PlannedBundle) -> str:
    basis = "measured pace" if bundle.measured else "pace assumed"
    return f"{bundle.positions:,} positions, {_size(bundle.bundle_bytes)}, {_time(bundle.seconds)} ({basis})"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _time(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _print_summary(summary: CaptureSummary, library: Path, as_json: bool) -> None:
    if as_json:
        forks = {exactness.value: count for exactness, count in summary.forks.items()}
        _say(json_text({"event": "end of capture", **asdict(summary), "forks": forks}, indent=None))
        return
    total = sum(summary.forks.values())
    _say(
        f"{summary.sealed} bundles sealed, {summary.present} were there; {total} forks, "
        f"{summary.forks[Exactness.EXACT]} of them exact; look at it with: flipscope serve {library}"
    )


def _say(text: str, stream: Any = None) -> None:
    """Print a line; names out of files cannot steer the terminal."""
    (stream or sys.stdout).write(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text) + "\n")


if __name__ == "__main__":
    sys.exit(main())
