"""Which runtime to use, as a table of a report; its columns and its order are the library page's too. Pure."""

from __future__ import annotations

from app.report_cells import NOTHING, of_all, percent, size, speed
from app.report_tables import KL_N, Table, kl_is_of_some, main_kl, told_columns
from capture.report import Choice, Share, StudyReport

COLUMNS = (
    "runtime",
    "top-1 changed",
    "KL",
    "KL n",
    "calls as reference",
    "calls as labelled",
    "on disk",
    "weights",
    "speed",
)
"""What the columns are called; `KL n` is left out where KL is of all positions."""

ORDER = (
    "nearest by mean KL first, then by top-1 changed, then by name; flipscope report has a table of paired differences "
    "too, with its own order"
)

MIXED = "a lower bound (\u2265) may be farther than its place"

_KL_AT = COLUMNS.index("KL n")
_NOTES = (
    (_KL_AT, KL_N),
    (
        COLUMNS.index("calls as reference"),
        "calls: free runs whose calls are the wanted ones, of those in which a call was made or wanted",
    ),
    (COLUMNS.index("weights"), "on disk and weights in memory: as the manifests tell"),
    (
        COLUMNS.index("speed"),
        "speed: median of the runs that took one token a step, prompt and recording included, as captured",
    ),
)


def choices(report: StudyReport) -> Table | None:
    """Return "which should I use": nearness beside calls and costs; None where nothing was compared.

    A column that tells nothing of any runtime is left out.
    """
    if not report.sections:
        return None
    section = report.sections[0]
    rows = [_row(choice) for choice in report.choices]
    apart = any(kl_is_of_some(choice.summary) for choice in report.choices)
    told = [at for at in told_columns(rows) if apart or at != _KL_AT]
    notes = [f"top-1 changed and KL: {section.mode.value}, {section.scoring_path.value}", ORDER]
    notes += [MIXED] if _is_mixed(report) else []
    notes += [note for at, note in _NOTES if at in told]
    return Table(
        "Which should I use",
        tuple("\n".join(COLUMNS[at].rsplit(" ", 1)) for at in told),
        tuple(tuple(row[at] for at in told) for row in rows),
        tuple(notes),
    )


def _is_mixed(report: StudyReport) -> bool:
    """Return whether the KL of some runtimes is a lower bound and that of others is not."""
    mains = [choice.summary.main for choice in report.choices if choice.summary is not None]
    return len({main.lower_bound for main in mains if main is not None}) > 1


def _row(choice: Choice) -> tuple[str, ...]:
    summary = choice.summary
    main = None if summary is None else summary.main
    return (
        f"{choice.label} (reference)" if choice.is_reference else choice.label,
        NOTHING if summary is None else percent(summary.disagreement.rate),
        main_kl(summary),
        NOTHING if main is None or summary is None else of_all(main.positions, summary.positions),
        NOTHING if choice.is_reference else _share(choice.calls_as_reference),
        _share(choice.calls_as_labelled),
        size(choice.cost.disk_bytes),
        size(choice.cost.weight_bytes),
        speed(choice.cost.positions_per_second),
    )


def _share(share: Share) -> str:
    return f"{share.count} of {share.of}" if share.of else NOTHING
