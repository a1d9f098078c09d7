"""The JSON twin of the Streams page: what it shows, without how it is drawn. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.flip_list import FlipRow
from app.fork_panel import ForkPanel
from app.position import PositionPane
from app.streams_values import Chip, StreamsPage
from app.transcript_json import transcript_json
from capture.manifests import differences_json


def streams_json(page: StreamsPage) -> dict[str, Any]:
    """Return the page's facts as JSON values: what it shows, without how it is drawn."""
    return {
        "title": page.title,
        "description": page.description,
        "study": page.study,
        "case": page.case,
        "mode": page.mode,
        "scoring_path": page.scoring_path,
        "permalink": page.permalink,
        "notices": list(page.notices),
        "lanes": [_chip_json(chip) for chip in page.chips],
        "flips": [_row_json(row) for row in page.flips],
        "flips_first": page.list.first,
        "flips_total": page.list.total,
        "flips_unfiltered": page.list.every,
        "flips_filter": page.list.form.chosen,
        "flips_earlier": page.list.earlier or None,
        "flips_later": page.list.later or None,
        "streams": [asdict(strand) for strand in page.strands],
        "transcript": None if page.transcript is None else transcript_json(page.transcript),
        "position": None if page.pane is None else _pane_json(page.pane),
        "fork": None if page.panel is None else _panel_json(page.panel),
    }


def _chip_json(chip: Chip) -> dict[str, Any]:
    return {
        "letter": chip.letter,
        "label": chip.label,
        "runtime": chip.title,
        "reference": chip.is_reference,
        "warning": chip.warning or None,
        "differences": differences_json(chip.differences.found, chip.differences.letters),
    }


def _row_json(row: FlipRow) -> dict[str, Any]:
    return {
        "position": row.position,
        "href": row.href,
        "stayed": {"token": row.stayed.label.text, "lanes": [head.letter for head in row.stayed.heads]},
        "left": [{"token": side.label.text, "lanes": [head.letter for head in side.heads]} for side in row.left],
        "class": row.flip_class,
        "margin_nats": row.nats,
        "consequence": row.pill.text if row.pill else None,
    }


def _pane_json(pane: PositionPane) -> dict[str, Any]:
    return {
        "position": pane.position,
        "absolute_position": pane.absolute,
        "prefix_id": pane.prefix,
        "token": pane.token.text,
        "lanes": list(pane.table.letters),
        "tokens": [
            {
                "token_id": row.token_id,
                "token": row.label.text,
                "percent": [None if cell is None else cell.text for cell in row.cells],
            }
            for row in pane.table.rows
        ],
        "rest_percent": list(pane.table.rest),
        "numbers": {row.name: list(row.values) for row in pane.numbers},
        "lower_bound": pane.lower_bound,
        "certificates": [asdict(line) for line in pane.certificates],
    }


def _panel_json(panel: ForkPanel) -> dict[str, Any]:
    return {
        "position": panel.position,
        "class": panel.flip_class,
        "headline": panel.headline,
        "continuations": [
            {
                "lanes": [head.letter for head in one.heads],
                "token": one.token.text,
                "text": "".join(
                    token.lead + "".join(run.text for run in token.runs if run.part == 0)
                    for token in (*one.tokens, *one.more)
                ),
                "consequence": [pill.text for pill in one.pills],
                "certificate": one.certificate.text if one.certificate else None,
            }
            for one in panel.continuations
        ],
    }
