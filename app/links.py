"""Every address of flipscope: the one place that builds and reads them (UI.md, Links). Pure.

The path says what, the query how. Reading is forgiving: what makes no sense is left out with a notice, so that an old,
mistyped or shortened link opens the nearest thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from app.flip_filter import CLASSES, SORTS, VERDICTS, FlipFilter, margin_bounds
from app.lanes import MOST_LANES
from capture.model import Mode

LIBRARY = "/"

HEALTH = "/healthz"

COMPONENTS = "/components"

LIVE = "/live"
PENDING = "/pending"

STATIC = "/static"

VIEWS = ("streams", "transcript", "charts")

FEWEST_COLUMNS, MOST_COLUMNS = 30, 400

MOST_NOTICES = 8
"""Of one link; a link may hold thousands of wrong parameters."""

SHORT_ID = 12
"""Hex digits of a run id in a link; longer ones are accepted."""

SHORT_PREFIX = 16
"""Hex digits of a prefix id in a link; longer ones are accepted."""

_RUN = re.compile(r"[0-9a-f]{12,32}")
_FORK = re.compile(r"(\d{1,9})(?:-([0-9a-f]*))?", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_UNSAFE = re.compile(r"[^\x20-\x7e]")


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """How a case is shown.

    Attributes:
        mode: `free` or `forced`; None for the page's own choice.
        lanes: ids of runs or their first 12 or more hex digits, in the order of the lanes; empty for the default.
        reference: id of the lane that the others are compared with; None for the first lane.
        columns: characters a line, for reading without JavaScript; None for the default.
        view: one of `VIEWS`; empty for the one that fits the length.
        follow: id of the lane whose text a transcript shows; None for the reference, or the pinned lane.
        at: the position at which a transcript is read; None for the pinned one, else the start.
        flips: how many entries of the list of flips come before its page; None for the page of the open fork.
        filter: which flips the list holds and the text marks, and the order of the list.
    """

    mode: Mode | None = None
    lanes: tuple[str, ...] = ()
    reference: str | None = None
    columns: int | None = None
    view: str = ""
    follow: str | None = None
    at: int | None = None
    flips: int | None = None
    filter: FlipFilter = FlipFilter()

    def query(self) -> str:
        """Return the query string with its question mark; empty where all is default."""
        given = self.items()
        return "?" + urlencode(given, safe=",") if given else ""

    def items(self) -> dict[str, str]:
        """Return what is not default, as names and values of a query."""
        return _items(self)


@lru_cache(maxsize=256)
def _items(options: ViewOptions) -> dict[str, str]:
    wanted = options.filter
    values = {
        "mode": options.mode.value if options.mode else "",
        "lanes": ",".join(lane[:SHORT_ID] for lane in options.lanes),
        "reference": (options.reference or "")[:SHORT_ID],
        "columns": str(options.columns or ""),
        "view": options.view,
        "follow": (options.follow or "")[:SHORT_ID],
        "at": "" if options.at is None else str(options.at),
        "flips": "" if options.flips is None else str(options.flips),
        "class": wanted.flip_class,
        "lane": (wanted.lane or "")[:SHORT_ID],
        "verdict": wanted.verdict,
        "margin": wanted.margin,
        "sort": wanted.sort,
    }
    return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class CaseLink:
    """The address of a case: `/c/{case}`."""

    case: str
    options: ViewOptions = field(default_factory=ViewOptions)

    @property
    def path(self) -> str:
        """The path alone, percent-encoded."""
        return f"/c/{quote(self.case, safe='')}"

    def format(self, suffix: str = "") -> str:
        """Return the address; `suffix` `.json` gives its twin's."""
        return self.path + suffix + self.options.query()

    def tables(self) -> str:
        """Return the address of the tables that hovering shows."""
        return self.path + "/tables.json" + replace(self.options, at=None, flips=None).query()

    def chunk(self, index: int, suffix: str = "") -> str:
        """Return the address of a part of a transcript; `suffix` `.json` gives its twin's."""
        return f"{self.path}/chunks/{index}{suffix}{replace(self.options, at=None, flips=None).query()}"

    def find(self, suffix: str = "") -> str:
        """Return the address that finds text in the output, without the text."""
        return f"{self.path}/find{suffix}"

    def fork(self, position: int, prefix_id: bytes | str) -> ForkLink:
        """Return the link to a fork of this case, with the same options but for where the reader was."""
        digits = prefix_id if isinstance(prefix_id, str) else prefix_id.hex()
        stays = self.options.at is None and self.options.flips is None
        options = self.options if stays else replace(self.options, at=None, flips=None)
        return ForkLink(self.case, position, digits[:SHORT_PREFIX], options)

    def where(self, **changes: object) -> CaseLink:
        """Return the same link with some options changed."""
        return replace(self, options=replace(self.options, **changes))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ForkLink:
    """The address of a fork: `/c/{case}/f/{position}-{hex digits of the prefix id}`.

    Attributes:
        case: key of the case.
        position: output position, for people; the prefix decides.
        prefix: the first hex digits of the prefix id; empty where the link had none.
        options: how it is shown.
    """

    case: str
    position: int
    prefix: str
    options: ViewOptions = field(default_factory=ViewOptions)

    @property
    def path(self) -> str:
        """The path alone, percent-encoded."""
        name = f"{self.position}-{self.prefix}" if self.prefix else str(self.position)
        return f"/c/{quote(self.case, safe='')}/f/{name}"

    def format(self, suffix: str = "") -> str:
        """Return the address; `suffix` `.json` gives its twin's."""
        return self.path + suffix + self.options.query()

    def up(self) -> CaseLink:
        """Return the link to the case with no fork open."""
        return CaseLink(self.case, self.options)

    def where(self, **changes: object) -> ForkLink:
        """Return the same link with some options changed."""
        return replace(self, options=replace(self.options, **changes))  # type: ignore[arg-type]


Link = CaseLink | ForkLink


@dataclass(frozen=True, slots=True)
class Parsed:
    """A link that was read, and what of it was left out."""

    link: Link | None
    notices: tuple[str, ...] = ()


def parse(address: str) -> Parsed:
    """Read an address of a case or a fork, whole or from its path on; `link` is None for anything else."""
    try:
        parts = urlsplit(address)
    except ValueError:  # a malformed host; only the path would matter
        return Parsed(None)
    options, notices = parse_options(parse_qsl(parts.query, keep_blank_values=True))
    names = [unquote(name) for name in parts.path.removesuffix(".json").strip("/").split("/")]
    if len(names) == 2 and names[0] == "c" and names[1]:
        return Parsed(CaseLink(names[1], options), notices)
    if len(names) == 4 and (names[0], names[2]) == ("c", "f") and names[1]:
        found = parse_fork(names[1], names[3], options)
        return Parsed(found.link, notices + found.notices)
    return Parsed(None, notices)


def parse_fork(case: str, name: str, options: ViewOptions) -> Parsed:
    """Read the part of a path that names a fork; a wrong one gives the case's own link with a notice."""
    match = _FORK.fullmatch(name.lower())
    if match is None:
        return Parsed(
            CaseLink(case, options), (f"The link names no fork ({shown(name)}), so the whole case is shown.",)
        )
    prefix = match[2] or ""
    link = ForkLink(case, int(match[1]), prefix if len(prefix) >= SHORT_PREFIX else "", options)
    if link.prefix:
        return Parsed(link)
    said = "is cut short" if prefix else "is missing"
    return Parsed(link, (f"The link's prefix id {said}, so the fork was looked up by its position alone.",))


def parse_options(items: Iterable[tuple[str, str]]) -> tuple[ViewOptions, tuple[str, ...]]:
    """Read the items of a query; return the options, and a notice for each that makes no sense."""
    options, notices = ViewOptions(), []
    for name, value in items:
        reader = _READERS.get(name)
        if reader is None:
            notices.append(f"The link's parameter {shown(name)} is unknown and was left out.")
        elif value:
            options, notice = reader(options, value)
            notices.extend(notice)
    told = tuple(dict.fromkeys(notices))
    more = (f"And {len(told) - MOST_NOTICES:,} more such.",) if len(told) > MOST_NOTICES else ()
    return options, (*told[:MOST_NOTICES], *more)


def static_url(name: str, version: str = "") -> str:
    """Return the address of a static file; with a version it may be cached for ever."""
    return f"{STATIC}/{quote(name)}" + (f"?v={version}" if version else "")


def live_path(study: str, suffix: str = "") -> str:
    """Return the address at which the capture of a study is watched; `suffix` `.json` gives its twin's."""
    return f"{LIVE}/{quote(study, safe='')}{suffix}"


def shown(text: str) -> str:
    """Return a piece of a stranger's link for a notice: short, printable, in quotes."""
    clean = _UNSAFE.sub("?", text)
    return f"“{clean if len(clean) <= 40 else clean[:39] + '…'}”"


_Read = tuple[ViewOptions, tuple[str, ...]]


def _mode(options: ViewOptions, value: str) -> _Read:
    if value in (Mode.FREE, Mode.FORCED):
        return replace(options, mode=Mode(value)), ()
    return options, (f"The link asks for the mode {shown(value)}; there are free and forced.",)


def _lanes(options: ViewOptions, value: str) -> _Read:
    asked = [name for name in value.lower().split(",") if name]
    lanes = tuple(dict.fromkeys(name for name in asked if _RUN.fullmatch(name)))
    notices = [
        f"The link's lane {shown(name)} is no id of a run and was left out."
        for name in asked
        if not _RUN.fullmatch(name)
    ]
    if len(lanes) > MOST_LANES:
        notices.append(f"The link names {len(lanes)} lanes; the first {MOST_LANES} are shown.")
    return replace(options, lanes=lanes[:MOST_LANES]), tuple(notices)


def _reference(options: ViewOptions, value: str) -> _Read:
    if _RUN.fullmatch(value.lower()):
        return replace(options, reference=value.lower()), ()
    return options, (f"The link's reference {shown(value)} is no id of a run and was left out.",)


def _columns(options: ViewOptions, value: str) -> _Read:
    if not _NUMBER.fullmatch(value):
        return options, (f"The link's number of columns {shown(value)} is no number and was left out.",)
    columns = min(max(int(value), FEWEST_COLUMNS), MOST_COLUMNS)
    changed = columns != int(value)
    notice = f"Lines have {FEWEST_COLUMNS} to {MOST_COLUMNS} columns, so {columns} are used."
    return replace(options, columns=columns), (notice,) if changed else ()


def _view(options: ViewOptions, value: str) -> _Read:
    if value in VIEWS:
        return replace(options, view=value), ()
    return options, (f"The link's view {shown(value)} is unknown; the one that fits the length is shown.",)


def _follow(options: ViewOptions, value: str) -> _Read:
    if _RUN.fullmatch(value.lower()):
        return replace(options, follow=value.lower()), ()
    return options, (f"The link's lane to follow {shown(value)} is no id of a run and was left out.",)


def _at(options: ViewOptions, value: str) -> _Read:
    if _NUMBER.fullmatch(value):
        return replace(options, at=int(value)), ()
    return options, (f"The link's place {shown(value)} is no position and was left out.",)


def _flips(options: ViewOptions, value: str) -> _Read:
    if _NUMBER.fullmatch(value):
        return replace(options, flips=int(value)), ()
    return options, (f"The link's page of flips {shown(value)} is no number and was left out.",)


def _class(options: ViewOptions, value: str) -> _Read:
    if value in CLASSES:
        return _filtered(options, flip_class=value), ()
    return options, (f"The link's class of flips {shown(value)} is unknown; there are {', '.join(CLASSES)}.",)


def _lane(options: ViewOptions, value: str) -> _Read:
    if _RUN.fullmatch(value.lower()):
        return _filtered(options, lane=value.lower()), ()
    return options, (f"The link's lane of flips {shown(value)} is no id of a run and was left out.",)


def _verdict(options: ViewOptions, value: str) -> _Read:
    if value in VERDICTS:
        return _filtered(options, verdict=value), ()
    return options, (f"The link's verdict {shown(value)} is unknown; there are {', '.join(VERDICTS)}.",)


def _margin(options: ViewOptions, value: str) -> _Read:
    if margin_bounds(value) is not None:
        return _filtered(options, margin=value), ()
    return options, (f"The link's margin {shown(value)} is no range of nats such as 0.1-0.5 and was left out.",)


def _sort(options: ViewOptions, value: str) -> _Read:
    if value in SORTS:
        return _filtered(options, sort="" if value == "position" else value), ()
    return options, (f"The link's order {shown(value)} of flips is unknown; there are {', '.join(SORTS)}.",)


def _filtered(options: ViewOptions, **changes: str) -> ViewOptions:
    return replace(options, filter=replace(options.filter, **changes))


_READERS = {
    "mode": _mode,
    "lanes": _lanes,
    "reference": _reference,
    "columns": _columns,
    "view": _view,
    "follow": _follow,
    "at": _at,
    "flips": _flips,
    "class": _class,
    "lane": _lane,
    "verdict": _verdict,
    "margin": _margin,
    "sort": _sort,
}
