"""Pages whose every token and name is a stranger's, for tests of exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.export_page import export_page
from app.lanes import OpenCase
from app.links import CaseLink, ForkLink
from app.scene import open_scene
from app.streams_values import StreamsPage
from capture.model import Token

NASTY: tuple[bytes, ...] = (
    b"<script>alert(1)</script>",
    b"</script><img src=x onerror=alert(2)>",
    b"]]></text><script>alert(3)</script><![CDATA[",
    b"\x1b[31mred\x1b[0m\x07",
    "\u202eevil\u202c\u2066x\u2069".encode(),
    b"\x00",
    b"x" * 10_000,
    b"\xff\xfe\xed\xa0\x80",
    b"```",
    b"``````````\n~~~\n",
    b"\n```\n",
    b"|a|b\\|",
    b"@somebody #1 https://evil.example [x](javascript:alert(4))",
    b"-->{{7*7}}{% raw %}&amp;&#0;",
    "\u4e2d\u6587 \u05d0\u05d1 e\u0301\u0302 \U0001f600 \ufffe\uffff".encode(),
    b" ",
    b"\r\n\t",
)
"""Token bytes that would break out of careless Markdown, HTML, XML, JSON or a terminal."""

EVIL_NAME = "<b>\u202e`|`\n```\n</title></script>\x00\x1b[0m@all ]]> \ud800"
"""A name as a file could hold it."""


def nasty_page(case: OpenCase, link: CaseLink, tokens: Sequence[bytes] = NASTY) -> StreamsPage:
    """Return a page with a fork open whose tokens all are replaced and whose names all are evil."""
    changed = with_tokens(case, tokens)
    return with_names(export_page(changed, fork_of(changed, link)), EVIL_NAME)


def with_tokens(case: OpenCase, tokens: Sequence[bytes]) -> OpenCase:
    """Return a case whose vocabulary says other things; special tokens stay special."""
    known = {
        token_id: Token(token_id, tokens[at % len(tokens)], token.special)
        for at, (token_id, token) in enumerate(sorted(case.tokens.items()))
    }
    return replace(case, tokens=known)


def with_names(page: StreamsPage, name: str) -> StreamsPage:
    """Return a page on which the study, the case, the question and every lane are called the same."""
    chips = tuple(replace(chip, label=name, title=name, warning=name) for chip in page.chips)
    return replace(
        page,
        title=name,
        description=name,
        study=name,
        case=name,
        question=name,
        prompt=name,
        notices=(name,),
        chips=chips,
    )


def fork_of(case: OpenCase, link: CaseLink, pick: int = 0) -> ForkLink:
    """Return the link to a fork of a case."""
    forks = open_scene(case, link).forks
    return link.fork(forks[pick].position, forks[pick].prefix_id)
