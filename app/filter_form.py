"""The form above the list of flips: what can be chosen, and what is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from app.flip_filter import CLASSES, MARGINS, SORTS, VERDICTS, FlipFilter
from app.lanes import OpenCase
from app.links import SHORT_ID, Link, ViewOptions


@dataclass(frozen=True, slots=True)
class Option:
    """One value of a select."""

    value: str
    text: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Select:
    """A select of the form; its first option leaves things open."""

    name: str
    label: str
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class FilterForm:
    """The form.

    Attributes:
        action: where it goes, a path.
        hidden: the other options of the link, as names and values.
        selects: what can be chosen.
        chosen: what is chosen, as names and values of a link; nothing where all is open.
        clear: address with nothing chosen.
    """

    action: str
    hidden: tuple[tuple[str, str], ...]
    selects: tuple[Select, ...]
    chosen: Mapping[str, str]
    clear: str


def filter_form(case: OpenCase, link: Link) -> FilterForm:
    """Return the form for a case as a link shows it."""
    open_filter = link.where(filter=FlipFilter(), flips=None)
    rest = open_filter.options.items()
    chosen = replace(ViewOptions(), filter=link.options.filter).items()
    lanes = {lane.run.run_id[:SHORT_ID]: f"{lane.letter} {lane.label}".strip() for lane in case.lanes[1:]}
    margins = dict(MARGINS)
    if link.options.filter.margin:
        margins.setdefault(link.options.filter.margin, link.options.filter.margin)
    return FilterForm(
        action=link.path,
        hidden=tuple(rest.items()),
        selects=(
            _select("class", "class", "every class", {name: name for name in CLASSES}.items(), chosen),
            _select("lane", "lane that left", "every lane", lanes.items(), chosen),
            _select("verdict", "consequence", "every consequence", VERDICTS.items(), chosen),
            _select("margin", "margin in nats", "every margin", margins.items(), chosen),
            _select("sort", "order", "by position", _orders(), chosen),
        ),
        chosen=chosen,
        clear=open_filter.format(),
    )


def _orders() -> Iterable[tuple[str, str]]:
    return ((name, f"by {text}") for name, text in SORTS.items() if name != "position")


def _select(name: str, label: str, every: str, options: Iterable[tuple[str, str]], chosen: Mapping[str, str]) -> Select:
    found = [("", every), *options]
    return Select(name, label, tuple(Option(value, text, chosen.get(name, "") == value) for value, text in found))
