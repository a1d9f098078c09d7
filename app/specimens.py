"""Every state that a component of the pages can be in, as small invented cases. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from app.digest import digest_of
from app.links import CaseLink, ForkLink, ViewOptions
from app.specimen_runs import Departure, Script, Stage, open_stage
from app.streams import streams_page
from app.streams_values import StreamsPage
from app.transcript_page import transcript_page
from capture.model import Case, Certificate, Ending, Exactness, Mode

COLUMNS = 84

_TOOL = {
    "type": "function",
    "function": {
        "name": "run",
        "parameters": {"type": "object", "required": ["command"], "properties": {"command": {"type": "string"}}},
    },
}
_CALLING = Case("specimen", ({"role": "user", "content": "Where is this MAC address?"},), (_TOOL,))

_EXACT = Certificate(Exactness.EXACT, 8, 5)
_APPROXIMATE = Certificate(Exactness.APPROXIMATE, 8, 7, 2, 0.125)
_UNVERIFIED = Certificate(Exactness.UNVERIFIED, 0, 0)


@dataclass(frozen=True, slots=True)
class Specimen:
    """One state.

    Attributes:
        name: in a few words.
        about: what to look at.
        anchor: where it is on the page.
        page: the values that the partials draw.
        parts: which of `ribbon`, `flips`, `fork`, `text`, `position` are drawn.
    """

    name: str
    about: str
    anchor: str
    page: StreamsPage
    parts: tuple[str, ...]


def specimens() -> tuple[Specimen, ...]:
    """Return every state, in the order of the page."""
    return (
        _specimen("Forks", "Four lanes, a fork within a fork, text that re-joins.", _forks(), opened=5),
        _specimen("Tie, near-tie, decided", "A stub a class; each certificate once.", _classes(), opened=2),
        _specimen("Not grown", "A flip whose continuation nobody recorded.", _not_grown(), opened=1),
        _specimen("Top tokens alone", "A token that a lane did not report has a bound.", _top_tokens(), opened=1),
        _specimen("Characters", "Long, right to left, emoji, split, controls, no bytes.", _characters(), opened=3),
        _specimen("Calls", "Verdicts at the ends: other arguments, another tool, broken, missing.", _calls(), opened=1),
        _specimen("Ended early", "Cut by length, in a loop, interrupted; a lane's warnings.", _ended_early()),
        _specimen("No flips", "Lanes that agree are one line; an option without effect.", _no_flips()),
        _specimen("One lane", "Nothing to compare with.", _one_lane()),
        _specimen("Empty", "A run that ended before its first token.", _empty()),
        _specimen("Transcript", "The text once, a rail of lanes, a fork open in place.", _forks(), 5, "transcript"),
    )


def _specimen(name: str, about: str, stage: Stage, opened: int | None = None, view: str = "streams") -> Specimen:
    case = open_stage(stage)
    digest = digest_of(case)
    link: CaseLink | ForkLink = CaseLink(case.key, ViewOptions(case.mode, view=view))
    if opened is not None and isinstance(link, CaseLink):
        link = link.fork(opened, case.lanes[0].steps.prefix_id[opened])
    is_text = view == "transcript"
    page = transcript_page(case, link, digest) if is_text else streams_page(case, link, COLUMNS, digest)
    parts = ("ribbon", "flips", *(("fork",) if page.panel and not is_text else ()), "text", "position")
    return Specimen(name, about, re.sub(r"\W+", "-", name.lower()), page, parts)


def _words(text: str) -> tuple[bytes, ...]:
    """Return a text cut before each space and sign."""
    return tuple(part.encode() for part in re.findall(r" ?\w+|\n|\s|[^\w\s]+", text))


def _forks() -> Stage:
    opening = "The switch is up and"
    first = _words(f"{opening} every port of it answers, so nothing needs to be done about the core today.")
    second = _words(f"{opening} one port fails: check the optic, then clear the counters of that port again.")
    third = _words(f"{opening} one port fails: check the cable and order another one for the store room.")
    fourth = _words("The switch is up, and every port of it answers, so nothing needs to be done about the core today.")
    return Stage(
        "forks",
        (
            Script(first, {3: 0.25, 4: 1.0, 5: 0.03125}),
            Script(second, {5: 0.5}),
            Script(third, {10: 0.125}),
            Script(fourth, {4: 0.0625}),
        ),
    )


def _classes() -> Stage:
    reference = _words("Port two is up. Port four is down. Nothing else was found on this switch today, so we stop.")
    later = _words(" was found there today, so we stop.")
    return Stage(
        "classes",
        (
            Script(reference, {2: 0.0625, 6: 0.03125}),
            Script(reference, departures=(Departure(2, b" two", 0.0, _words(" was up. Port four is down."), _EXACT),)),
            Script(reference, departures=(Departure(6, b" five", 0.03125, _words(" is down."), _UNVERIFIED),)),
            Script(reference, departures=(Departure(11, b" more", 1.5, later, _APPROXIMATE),)),
        ),
        Mode.FORCED,
    )


def _not_grown() -> Stage:
    reference = _words("Nothing to see here.")
    return Stage("not grown", (Script(reference), Script(reference, departures=(Departure(1, b" more"),))), Mode.FORCED)


def _top_tokens() -> Stage:
    ways = (" go left", " turn back", " stay here")
    scripts = tuple(Script(_words(f"We{way} at the fork."), {1: 5.0 + rank}) for rank, way in enumerate(ways))
    return Stage("top tokens", scripts, top_k=2)


def _characters() -> Stage:
    said = (
        *(b"I", b" say", b":"),
        *(b" short", b" " + b"long" * 40, " שלום עולם".encode(), b" ", "🦄".encode()[:2], "🦄".encode()[2:]),
        *(" é".encode()[:2], " é".encode()[2:], b"\t", b"\x1b[31m", b"\x00", "\u202eevil\u202c".encode(), b"\xff"),
        *(b"<script>alert(1)</script>", b" ", b" ", b"\n", b"\n", b"<|im_end|>", b"pad", "\u200b".encode()),
    )
    other = (*said[:3], b"<b>not bold</b>", *said[5:8], b"\xf0", *said[12:])
    return Stage(
        "characters",
        (Script(said), Script(other)),
        special=frozenset({b"<|im_end|>"}),
        without_bytes=frozenset({b"pad"}),
    )


def _calls() -> Stage:
    def call(command: str, name: str = "run", end: str = '"}}\n</tool_call>') -> tuple[bytes, ...]:
        opening = f'\n{{"name": "{name}", "arguments": {{"command": "'
        return (b"<tool_call>", *_words(opening), *_words(command), *_words(end))

    return Stage(
        "calls",
        (
            Script((b"Sure", b".", *call("show mac address"))),
            Script((b"Sure", b"!", *call("show arp"))),
            Script((b"Sure", b":", *call("show mac address", name="ask"))),
            Script((b"Sure", b",", *call("show mac address", end='"]}\n</tool_call>'))),
            Script((b"Sure", b" thing", b",", b" wait", b".")),
        ),
        case=_CALLING,
    )


def _ended_early() -> Stage:
    opening = _words("I count: one")
    return Stage(
        "ended early",
        (
            Script((*opening, *_words(", two, three and that is all.")), template_differs=True),
            Script((*opening, *_words(", two, three, four, five, six")), ending=Ending.LENGTH),
            Script((*opening, *_words(" one" * 24)), ending=Ending.LENGTH),
            Script((*opening, *_words(" and then")), ending=Ending.INTERRUPTED, complete=False),
        ),
    )


def _no_flips() -> Stage:
    said = _words("All of them say the very same thing.")
    return Stage("no flips", (Script(said, same=True), Script(said, same=True), Script(said)))


def _one_lane() -> Stage:
    return Stage("one lane", (Script(_words("Alone with itself.")),))


def _empty() -> Stage:
    return replace(_one_lane(), name="empty", scripts=(Script(()), Script(())))
