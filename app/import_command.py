"""`flipscope import`: other tools' files become bundles."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from capture.importers.kld_study import KldImport, import_llama_kld
from capture.progress import ConsoleReporter

Say = Callable[[str], None]


def add_import(commands: Any, say: Say) -> None:
    """Add the subcommand to a parser's; what it prints goes to `say`."""
    formats = commands.add_parser("import", help="make bundles of another tool's files").add_subparsers(
        required=True, metavar="FORMAT"
    )
    parser = formats.add_parser("llama-kld", help="files of llama.cpp's --kl-divergence-base, each a lane")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="a file of logits; all of the same text")
    parser.add_argument("--library", type=Path, required=True, metavar="DIR", help="where bundles go")
    parser.add_argument("--study", default=None, metavar="NAME", help="the study's name (default: the reference's)")
    parser.add_argument("--reference", default=None, metavar="NAME", help="the reference's lane (default: first file)")
    parser.add_argument(
        "--add-bos", type=int, default=None, metavar="ID", help="the token that stood before every chunk when scored"
    )
    parser.add_argument(
        "--tokenizer", type=Path, default=None, metavar="FILE|DIR", help="the model's tokenizer.json, to show text"
    )
    parser.add_argument("--chunks", type=_positive, default=None, metavar="N", help="take the first N chunks only")
    parser.set_defaults(command=partial(_import_llama_kld, say))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("give a number above 0")
    return number


def _import_llama_kld(say: Say, options: argparse.Namespace) -> int:
    wanted = KldImport(
        files=tuple(options.files),
        library=options.library,
        study=options.study,
        reference=options.reference,
        add_bos=options.add_bos,
        tokenizer=options.tokenizer,
        chunks=options.chunks,
    )
    with ConsoleReporter() as reporter:
        summary = import_llama_kld(wanted, reporter)
    for note in summary.notes:
        say(f"note: {note}")
    plural = "" if summary.cases == 1 else "s"
    say(f"{summary.cases} case{plural}, {summary.bundles} new bundles in {summary.folder}")
    say(f"see them with: flipscope serve {options.library}")
    return 0
