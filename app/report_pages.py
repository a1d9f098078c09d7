"""A report in the order in which people read it: headings, sentences and tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.report_choices import choices
from app.report_llama import statistics
from app.report_tables import (
    Table,
    by_case,
    by_confidence,
    by_kind,
    overview,
    ranking,
    section_title,
)
from app.report_verdicts import verdict_tables
from app.words import count
from capture.encoding import Encoding
from capture.intervals import FEWEST_CASES
from capture.report import Section, StudyReport

YARDSTICK = "The reference is a yardstick, not the right answer."

DIRECTION = (
    "KL is KL(reference‖runtime), KL back is KL(runtime‖reference), both and JSD are means over positions in nats."
)

MOST_NAMES = 8
"""Cases that are named in the head."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a study (level 1) or of a section (level 2)."""

    text: str
    level: int


Part = Heading | Table | str
"""What a report is made of; a string is a sentence."""


def parts_of(report: StudyReport) -> Iterator[Part]:
    """Yield a study's report: its head, which to use, the first section in full, the others in short, the calls."""
    named = report.title in ("", report.study)
    yield Heading(report.study if named else f"{report.title} ({report.study})", 1)
    yield from _head(report)
    chosen = choices(report)
    if chosen is not None:
        yield chosen
    for number, section in enumerate(report.sections):
        yield Heading(section_title(section)[:1].upper() + section_title(section)[1:], 2)
        yield _about(section)
        yield overview(section)
        if number == 0:
            yield from _in_full(report, section)
        else:
            yield (
                f"In full: --mode {section.mode.value} --scoring-path {section.scoring_path.value}. "
                "Its numbers are never pooled with those of another mode or scoring path."
            )
    tables = list(verdict_tables(report))
    if tables:
        yield Heading("Tool calls", 2)
        yield from tables


def _head(report: StudyReport) -> Iterator[str]:
    lanes = {lane.runtime for section in report.sections for lane in section.lanes}
    cases = ", ".join(report.cases[:MOST_NAMES]) + (", …" if len(report.cases) > MOST_NAMES else "")
    yield (
        f"Reference: {report.reference_label}. {count(len(lanes), 'runtime')} compared with it on "
        f"{count(len(report.cases), 'case')}: {cases}."
    )
    yield f"{DIRECTION} {YARDSTICK}"
    yield from (f"Imported: {text}." for text in report.not_told)
    if len(report.cases) < FEWEST_CASES:
        yield f"Under {FEWEST_CASES} cases no interval is claimed for the study; those of single runs are below."


def _about(section: Section) -> str:
    bounded = any(lane.summary.bounded is not None for lane in section.lanes)
    listed = f", {section.listed} highest tokens of each position" if bounded else ""
    bound = " ≥ marks lower bounds: only the highest tokens were kept." if bounded else ""
    return f"Logits in {' and '.join(section.dtypes)}{listed}.{bound}{_coarse(section.encoding)}"


def _coarse(encoding: Encoding | None) -> str:
    """Return what rows cannot tell that were imported as codes."""
    if encoding is None:
        return ""
    return (
        f" They were imported as codes of {encoding.bits} bits, up to {encoding.step_nats:.2g} nats apart: a margin "
        f"below {encoding.resolution_nats:.2g} says nothing, and what lies more than {encoding.window_nats:.3g} nats "
        "below a row's highest is unknown. KL is over the ids to which the reference gives more than "
        f"e^{encoding.cut_log_probability:g}, as in llama.cpp."
    )


def _in_full(report: StudyReport, section: Section) -> Iterator[Table]:
    optional: Sequence[Table | None] = (
        ranking(section, len(report.cases)),
        by_case(section),
        by_kind(section),
        by_confidence(section),
        *statistics(section),
    )
    yield from (table for table in optional if table is not None and (table.rows or table.notes))
