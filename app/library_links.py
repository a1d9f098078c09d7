"""Addresses of the library and of the charts pages: what their queries mean, read as forgivingly as links. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlencode

from app.links import LIBRARY, shown
from app.traits import TRAITS
from capture.model import Mode, ScoringPath

CHARTS = "/charts"

CELLS = ("disagreement", "kl", "verdict")
COLUMNS = ("cases", "ranges")

FACETS = ("study", *TRAITS)

LONGEST_VALUE = 200

PROTOCOLS: Mapping[str, tuple[Mode, ScoringPath]] = {
    "forced": (Mode.FORCED, ScoringPath.DECODE),
    "prefill": (Mode.FORCED, ScoringPath.PREFILL),
    "free": (Mode.FREE, ScoringPath.DECODE),
    "probe": (Mode.FORCED, ScoringPath.PREFILL),
}
"""Ways in which numbers are measured, by their name in a link: never two of them in one total or on one axis."""

PROTOCOL_WORDS: Mapping[str, str] = {
    "forced": "forced, decode",
    "prefill": "forced, prefill",
    "free": "free, decode",
    "probe": "prompt probed, prefill",
}

PROBE = "probe"
"""The protocol of prompts that were scored at every so many positions; no page of streams shows them."""

DEPTHS: Mapping[str, str] = {"full": "full vocabulary", "bound": "top-k lower bounds"}


def parameter(trait: str) -> str:
    """Return the name of a facet in a link."""
    return trait.lower().replace(" ", "_")


_BY_PARAMETER = {parameter(name): name for name in FACETS}


@dataclass(frozen=True, slots=True)
class LibraryView:
    """How the library is shown.

    Attributes:
        cells: one of `CELLS`; what a cell of the matrix says.
        columns: one of `COLUMNS`.
        protocol: a key of `PROTOCOLS`; empty for the one that most of a matrix has.
        facets: values by facet that rows must have.
    """

    cells: str = CELLS[0]
    columns: str = COLUMNS[0]
    protocol: str = ""
    facets: Mapping[str, str] = field(default_factory=dict)

    def href(self, **changes: object) -> str:
        """Return the address of the library shown this way, with some of it changed."""
        return LIBRARY + _query(replace(self, **changes).items())  # type: ignore[arg-type]

    def facet(self, name: str, value: str) -> str:
        """Return the address with a facet set, or without it for an empty value."""
        kept = {known: old for known, old in self.facets.items() if known != name}
        return self.href(facets={**kept, name: value} if value else kept)

    def items(self) -> dict[str, str]:
        """Return what is not default, as names and values of a query."""
        values = {
            "cells": "" if self.cells == CELLS[0] else self.cells,
            "columns": "" if self.columns == COLUMNS[0] else self.columns,
            "protocol": self.protocol,
            **{parameter(name): self.facets.get(name, "") for name in FACETS},
        }
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class ChartsView:
    """Which charts are shown: of a study, or of a case.

    Attributes:
        study: name of the study; empty for the case's.
        case: key of the case; empty for all cases of the study.
        protocol: a key of `PROTOCOLS`; empty for the one that most runs have.
        depth: a key of `DEPTHS`; empty for the one that most positions have.
    """

    study: str = ""
    case: str = ""
    protocol: str = ""
    depth: str = ""

    def href(self, **changes: str) -> str:
        """Return the address of the page shown this way, with some of it changed."""
        wanted = replace(self, **changes)
        return wanted.path + _query(wanted.items())

    @property
    def path(self) -> str:
        """The path alone, percent-encoded."""
        return f"/c/{quote(self.case, safe='')}{CHARTS}" if self.case else CHARTS

    @property
    def twin(self) -> str:
        """The address of the page's twin."""
        return f"{self.path}.json" + _query(self.items())

    def data(self, name: str, suffix: str) -> str:
        """Return the address of the data of one chart; `suffix` is `.json` or `.csv`."""
        return f"{CHARTS}/{name}{suffix}" + _query({**self.items(), **({"case": self.case} if self.case else {})})

    def items(self) -> dict[str, str]:
        """Return what is not default, but for the case, which is in the path."""
        values = {"study": self.study, "protocol": self.protocol, "depth": self.depth}
        return {name: value for name, value in values.items() if value}


def parse_library_view(items: Iterable[tuple[str, str]]) -> tuple[LibraryView, tuple[str, ...]]:
    """Read the items of a query; return the view, and a notice for each that makes no sense."""
    view, notices = LibraryView(), []
    known = {"cells": CELLS, "columns": COLUMNS, "protocol": tuple(PROTOCOLS)}
    for name, value in items:
        if name in _BY_PARAMETER and value:
            view = replace(view, facets={**view.facets, _BY_PARAMETER[name]: value[:LONGEST_VALUE]})
        elif name in known and value in known[name]:
            view = replace(view, **{name: value})  # type: ignore[arg-type]
        elif value:
            notices.append(_notice(name, value, known))
    return view, tuple(dict.fromkeys(notices))


def parse_charts_view(items: Iterable[tuple[str, str]], case: str = "") -> tuple[ChartsView, tuple[str, ...]]:
    """Read the items of a query; return the view, and a notice for each that makes no sense."""
    view, notices = ChartsView(case=case), []
    known = {"protocol": tuple(PROTOCOLS), "depth": tuple(DEPTHS)}
    for name, value in items:
        if (name == "study" and value) or (name == "case" and value and not case):
            view = replace(view, **{name: value[:LONGEST_VALUE]})
        elif name in known and value in known[name]:
            view = replace(view, **{name: value})
        elif value:
            notices.append(_notice(name, value, known))
    return view, tuple(dict.fromkeys(notices))


def _notice(name: str, value: str, known: Mapping[str, tuple[str, ...]]) -> str:
    if name in known:
        return f"The link's {name} {shown(value)} is unknown; there are {', '.join(known[name])}."
    return f"The link's parameter {shown(name)} is unknown and was left out."


def _query(items: Mapping[str, str]) -> str:
    return "?" + urlencode(items) if items else ""
