"""The HTML of tokens. A page holds thousands, so they are written here and not by a template; all text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from markupsafe import Markup, escape

from app.drawing import Run, TokenView

_SWAP = 'hx-target="#page" hx-select="#page" hx-swap="outerHTML show:none" hx-push-url="true"'
"""As the macro `go` writes it."""

_RETURN = "\N{RETURN SYMBOL}"
"""How a line break is drawn."""


def tokens_html(tokens: Iterable[TokenView], broken: bool = False) -> Markup:
    """Return tokens in their order; `broken` goes to a new line after every line break, within tokens too."""
    return Markup("".join([_token(token, broken and token.breaks) for token in tokens]))


def _token(token: TokenView, broken: bool) -> str:
    text = _broken(token.runs) if broken else _runs(token.runs)
    if token.href:
        return _flip(token, text)
    if token.marks:
        return (
            f'<span class="t {escape(token.marks)}" data-p="{token.position}">'
            f'{token.lead}<span class="m"{_over(token)}>{text}</span></span>'
        )
    return f'<span class="t" data-p="{token.position}">{token.lead}{text}</span>'


def _flip(token: TokenView, text: str) -> str:
    href = escape(token.href)
    lead = f"<span>{token.lead}</span>" if token.lead else ""
    return (
        f'<a class="t {escape(token.marks)}" data-p="{token.position}" href="{href}" hx-get="{href}" {_SWAP} '
        f'aria-label="{escape(token.words)}">{lead}<span class="m"{_over(token)}>{text}</span></a>'
    )


def _over(token: TokenView) -> str:
    return f' data-over="{escape(token.over)}"' if token.over else ""


def _runs(runs: Iterable[Run]) -> str:
    return "".join([str(escape(run.text)) if not run.look else _looking(run) for run in runs])


def _broken(runs: Iterable[Run]) -> str:
    """Return runs with a new line after every sign of a line break; after the last where a cut took the sign away."""
    parts = [part for run in runs for part in _lines(run)]
    text = "".join([_runs([part]) + "<br>" * part.text.endswith(_RETURN) for part in parts])
    return text if "<br>" in text else text + "<br>"


def _lines(run: Run) -> list[Run]:
    if run.look != "sym" or _RETURN not in run.text:
        return [run]
    return [replace(run, text=part) for part in re.findall(f"[^{_RETURN}]*{_RETURN}|[^{_RETURN}]+$", run.text)]


def _looking(run: Run) -> str:
    text = escape(run.text)
    if run.look != "part":
        return f'<span class="{escape(run.look)}">{text}</span>'
    hidden = ' aria-hidden="true"' if run.part else ""
    return f'<span class="part of-{run.parts}"{hidden}><span class="slice-{run.part}">{text}</span></span>'
