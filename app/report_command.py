"""The use cases behind `flipscope report` and `determinism`: read a folder of bundles, give lines to print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.determinism_text import determinism_json, determinism_parts
from app.export_json import json_text
from app.report_csv import report_csv
from app.report_json import report_json
from app.report_pages import Part, parts_of
from app.report_text import markdown_lines, text_lines
from capture.determinism import determinism
from capture.errors import NotFoundError
from capture.evidence import Wanted, gather
from capture.report import StudyReport, study_report

Note = Callable[[str], None]


class Form(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What was asked for: the bundles below `folder`, those runs, in that form."""

    folder: Path
    wanted: Wanted
    form: Form = Form.TEXT


def report_lines(request: ReportRequest, note: Note) -> Iterator[str]:
    """Yield the lines of a report on every study below a folder.

    Raises:
        NotFoundError: the folder does not exist, or nothing of what is wanted can be compared.
    """
    reports = [study_report(evidence) for evidence in gather(request.folder, request.wanted, note)]
    told = [report for report in reports if report.sections]
    if not told:
        raise NotFoundError(
            f"{request.folder} holds no compared run of that mode and scoring path; leave out --mode or --scoring-path"
        )
    yield from _written(told, request.form)


def _written(reports: list[StudyReport], form: Form) -> Iterable[str]:
    if form is Form.JSON:
        return [json_text(report_json(reports))]
    if form is Form.CSV:
        return report_csv(reports)
    parts: Iterator[Part] = (part for report in reports for part in parts_of(report))
    return markdown_lines(parts) if form is Form.MARKDOWN else text_lines(parts)


def determinism_lines(folder: Path, note: Note, *, as_json: bool) -> Iterator[str]:
    """Yield the lines of the determinism report; raises what `capture.determinism.determinism` raises."""
    found = determinism(folder, note)
    if as_json:
        yield json_text(determinism_json(found))
    else:
        yield from text_lines(determinism_parts(found))
