"""A fork, or a case, as Markdown for an issue or a forum post. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.drawing import Head, TokenView
from app.fork_panel import ContinuationView, ForkPanel
from app.markdown_text import code, fenced, inline
from app.position import NumberRow, PositionPane
from app.streams_values import Chip, StreamsPage
from app.tables import Cell
from app.words import count, letters_of
from capture.manifests import ABSENT, Difference, value_texts

MOST_DIFFERENCES = 16
"""Entries of manifests that are listed; the JSON has all."""

LONGEST_VALUE = 28
"""Characters of a value of a manifest."""

MOST_FLIPS = 40
"""Flips that are listed where no fork is open."""

YARDSTICK = "The reference is a numerical yardstick, not the right answer."


def markdown_of(page: StreamsPage, address: str) -> str:
    """Return what a page shows as Markdown; tokens and names in it stay text whatever they hold.

    Args:
        page: the page.
        address: of the permalink, absolute where the server's name is known.
    """
    panel = page.panel
    parts = [f"### {_headline(page)}", _where(page), _question(page)]
    parts += _flips(page) if panel is None else [_continuation(one) for one in panel.continuations]
    parts += [] if page.pane is None else [_odds(page.pane), *_certificates(page.pane)]
    parts += [_lanes(page.chips), _differences(page.chips), f"{YARDSTICK} flipscope:\n\n{address}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(page: StreamsPage) -> str:
    if page.panel is None:
        return code(f"{page.study} / {page.case}")
    named = [f"{_letters(one.heads)}: {code(one.words) or 'nothing'}" for one in page.panel.continuations if one.heads]
    return " \u00b7 ".join(named)


def _letters(heads: Sequence[Head]) -> str:
    return letters_of(head.letter for head in heads)


def _where(page: StreamsPage) -> str:
    runs = f"{page.mode} runs ({page.scoring_path})"
    if page.panel is None:
        flips = count(page.list.total, "fork" if page.mode == "free" else "flip")
        return f"{flips} between {len(page.chips)} lanes; {runs} of one prompt."
    panel: ForkPanel = page.panel
    return (
        f"Position {panel.position:,} of {code(f'{page.study} / {page.case}')}: {panel.flip_class} flip, "
        f"smaller margin {panel.margin_nats:.3f} nats; {runs}."
    )


def _question(page: StreamsPage) -> str:
    return f"Prompt: {code(page.question)}" if page.question else ""


def _continuation(one: ContinuationView) -> str:
    who = f"**{_letters(one.heads)}**" if one.heads else "No lane here"
    facts = [fact for fact in (one.percent, *(inline(pill.text) for pill in one.pills), inline(one.note)) if fact]
    if one.certificate is not None:
        facts.append(f"replay {one.certificate.text}")
    title = f"{who} took {code(one.token.text)}{': ' if facts else ''}{', '.join(facts)}"
    text = plain((*one.tokens, *one.more))
    rest = f"and {one.rest:,} more tokens" if one.rest else ""
    return "\n\n".join(part for part in (title, fenced(text) if text else "", rest) if part)


def plain(tokens: Sequence[TokenView]) -> str:
    """Return tokens as text: as they are drawn, a new line after each that breaks one."""
    return "".join(_plain(token) for token in tokens)


def _plain(token: TokenView) -> str:
    text = token.lead + "".join(run.text for run in token.runs if run.part == 0)
    return text.replace("\u23ce", "\u23ce\n") if token.breaks else text


def _flips(page: StreamsPage) -> list[str]:
    if not page.flips:
        return ["No lane differs from the reference here."]
    rows = [
        [
            f"{row.position:,}",
            _side(row.stayed.label.text, row.stayed.heads),
            "; ".join(_side(side.label.text, side.heads) for side in row.left),
            row.flip_class,
            row.nats,
            inline(row.pill.text) if row.pill else "",
        ]
        for row in page.flips[:MOST_FLIPS]
    ]
    hidden = page.list.total - len(rows)
    more = [f"and {hidden:,} more" if hidden else ""]
    return [_table(["position", "stayed", "left", "class", "nats", "what became of it"], rows), *more]


def _side(text: str, heads: Sequence[Head]) -> str:
    return f"{code(text)} {_letters(heads)}".strip()


def _odds(pane: PositionPane) -> str:
    """Return the table of the position, percent first, then nats."""
    rows = [[code(row.label.text), *map(_cell, row.cells)] for row in pane.table.rows]
    rows.append(["the rest", *(text or "\u2013" for text in pane.table.rest)])
    rows += [[_number(row), *(text or "\u2013" for text in row.values)] for row in pane.numbers]
    bound = " \u2265: a lower bound, since only the top tokens were kept." if pane.lower_bound else ""
    gone = f" {letters_of(pane.elsewhere)} had left before: another context." if pane.elsewhere else ""
    title = f"Probabilities at position {pane.position:,} in percent, a lane's own choice in bold.{gone}{bound}"
    return f"{title}\n\n{_table([f'after prefix {code(pane.prefix[:16])}', *pane.table.letters], rows)}"


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "\u2013"
    text = cell.text.replace("<", "&lt;")
    return f"**{text}**" if cell.winner else text


def _number(row: NumberRow) -> str:
    return f"{row.name}, nats"


def _certificates(pane: PositionPane) -> list[str]:
    found = [f"{line.letter} {code(line.token.text)} {line.text}" for line in pane.certificates]
    return [f"Replay of what was grown here: {'; '.join(found)}."] if found else []


def _lanes(chips: Sequence[Chip]) -> str:
    rows = [
        [f"{chip.letter}{' (reference)' if chip.is_reference else ''}", *map(code, (chip.label, chip.title))]
        for chip in chips
    ]
    table = _table(["lane", "what differs", "runtime"], rows)
    warnings = [f"{chip.letter}: {inline(chip.warning)}" for chip in chips if chip.warning]
    return "\n\n".join([table, *warnings])


def _differences(chips: Sequence[Chip]) -> str:
    """Return the entries of manifests that not all lanes share, as the reference's chip lists them."""
    told = chips[0].differences
    rows = [_difference(one) for one in told.found[:MOST_DIFFERENCES]]
    if not rows:
        return ""
    hidden = len(told.found) - len(rows)
    more = [f"and {hidden:,} more, all of them in the JSON"] if hidden else []
    return "\n\n".join([_table(["manifest", *told.letters], rows), *more])


def _difference(found: Difference) -> list[str]:
    texts = value_texts(found.values, LONGEST_VALUE)
    values = [
        "absent" if value is ABSENT else code(text) or '`""`' for text, value in zip(texts, found.values, strict=True)
    ]
    return [code(found.entry), *values]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
