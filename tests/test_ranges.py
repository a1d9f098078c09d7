from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.model import Json, Prompt, RangeKind
from capture.range_hints import range_hints
from capture.ranges import Range, find_ranges, find_spans, token_at, token_offsets

PIECES = (
    *(b"<think>", b"</think>", b"<tool_call>", b"</tool_call>", b"<function=f>", b"</function>", b"<tool", b"_call>"),
    *(b"[TOOL_CALLS]", b"</s>", b"<|python_tag|>", b"<|eot_id|>", b"```", b"```json", b"~~~~", b"\n", b" text ", b""),
    *(b'{"a": [1,', b"]}", b"[", b"{", b'"', b"\\", b"\xff"),
)
outputs = st.lists(st.sampled_from(PIECES), max_size=25)


def split(text: bytes) -> list[bytes]:
    """Tokens that cut tags into pieces, as tokenizers do."""
    return re.findall(rb"[A-Za-z_]+|[^A-Za-z_]", text, re.DOTALL)


def kinds(text: bytes, *, in_thinking: bool = False) -> list[tuple[RangeKind, bytes]]:
    tokens = split(text)
    return [
        (part.kind, b"".join(tokens[part.start : part.stop])) for part in find_ranges(tokens, in_thinking=in_thinking)
    ]


@settings(deadline=None)
@given(outputs, st.booleans())
def test_every_token_is_in_exactly_one_range(tokens: list[bytes], in_thinking: bool) -> None:
    ranges = find_ranges(tokens, in_thinking=in_thinking)
    assert [token for part in ranges for token in range(part.start, part.stop)] == list(range(len(tokens)))


@settings(deadline=None)
@given(outputs)
def test_two_stretches_of_prose_are_never_neighbours(tokens: list[bytes]) -> None:
    ranges = find_ranges(tokens)
    assert all(
        RangeKind.PROSE not in (part.kind, after.kind) or part.kind != after.kind
        for part, after in zip(ranges, ranges[1:], strict=False)
    )


@settings(deadline=None)
@given(outputs)
def test_how_an_output_is_cut_into_tokens_moves_borders_by_one_token_at_most(tokens: list[bytes]) -> None:
    spans = find_spans(b"".join(tokens))
    single = find_ranges([bytes([byte]) for byte in b"".join(tokens)])
    assert [(part.kind, part.start, part.stop) for part in single if part.kind is not RangeKind.PROSE] == [
        (span.kind, span.start, span.stop) for span in spans
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b'<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', RangeKind.TOOL_CALL),
        (b"<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", RangeKind.TOOL_CALL),
        (b'<function=f>{"a": 1}</function>', RangeKind.TOOL_CALL),
        (b"<think>\nfirst\n</think>", RangeKind.THINKING),
        (b"[THINK]first[/THINK]", RangeKind.THINKING),
        (b"```python\nprint('```')\n```", RangeKind.CODE),
        (b"~~~~\n~~~\n~~~~", RangeKind.CODE),
        (b'```json\n{"a": 1}\n```', RangeKind.JSON),
        (b'{"a": "}", "b": [{}, "\\"]"]}', RangeKind.JSON),
        (b'[{"a": 1}, {"b": 2}]', RangeKind.JSON),
    ],
)
def test_a_stretch_has_its_kind_and_what_is_around_it_is_prose(text: bytes, kind: RangeKind) -> None:
    assert kinds(b"Before.\n" + text + b"\nAfter.") == [
        (RangeKind.PROSE, b"Before.\n"),
        (kind, text),
        (RangeKind.PROSE, b"\nAfter."),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b'<tool_call>\n{"name": "f"', RangeKind.TOOL_CALL),
        (b"<think>\nfirst", RangeKind.THINKING),
        (b"```python\nprint()", RangeKind.CODE),
        (b'{"a": [1', RangeKind.JSON),
        (b'{"a": "\\', RangeKind.JSON),
    ],
)
def test_what_is_never_closed_runs_to_the_end(text: bytes, kind: RangeKind) -> None:
    assert kinds(b"Before.\n" + text) == [(RangeKind.PROSE, b"Before.\n"), (kind, text)]


@pytest.mark.parametrize(("tag", "end"), [(b"[TOOL_CALLS]", b"</s>"), (b"<|python_tag|>", b"<|eom_id|>")])
def test_a_call_that_the_end_of_the_output_closes_leaves_the_marker_outside(tag: bytes, end: bytes) -> None:
    tokens = [b"Hm. ", tag, b'{"name": "f"}', end]
    assert find_ranges(tokens) == (
        Range(RangeKind.PROSE, 0, 1),
        Range(RangeKind.TOOL_CALL, 1, 3),
        Range(RangeKind.PROSE, 3, 4),
    )


BARE = b'{"name": "f", "parameters": {"a": "};"}}'


@pytest.mark.parametrize("text", [BARE, b'{"type": "function", "name": "f", "arguments": {', BARE + b"; " + BARE])
def test_an_output_that_starts_with_a_bare_call_starts_with_a_range_of_calls(text: bytes) -> None:
    assert kinds(b"\n" + text) == [(RangeKind.PROSE, b"\n"), (RangeKind.TOOL_CALL, text)]


@pytest.mark.parametrize("text", [b"So:\n" + BARE, b'{"name": "f", "age": 3}'])
def test_json_elsewhere_or_of_another_form_is_no_call(text: bytes) -> None:
    assert RangeKind.TOOL_CALL not in {kind for kind, _ in kinds(text)}


def test_two_calls_are_two_ranges() -> None:
    assert [kind for kind, _ in kinds(b"<tool_call>{}</tool_call><tool_call>{}</tool_call>")] == [
        RangeKind.TOOL_CALL
    ] * 2


def test_a_token_across_a_border_goes_with_the_tag_it_holds() -> None:
    tokens = [b"Sure", b".\n<tool", b"_call>{}</tool_", b"call>\nBye", b" now"]
    assert find_ranges(tokens) == (
        Range(RangeKind.PROSE, 0, 1),
        Range(RangeKind.TOOL_CALL, 1, 4),
        Range(RangeKind.PROSE, 4, 5),
    )


def test_a_token_that_closes_one_call_and_opens_the_next_goes_with_the_opening_tag() -> None:
    tokens = [b"<tool_call>{}", b"</tool_call><tool_call>", b"{}</tool_call>"]
    assert find_ranges(tokens) == (Range(RangeKind.TOOL_CALL, 0, 1), Range(RangeKind.TOOL_CALL, 1, 3))


def test_thinking_that_the_template_opened_is_found_by_its_end() -> None:
    assert kinds(b"Let me see.\n</think>\nHello") == [
        (RangeKind.THINKING, b"Let me see.\n</think>"),
        (RangeKind.PROSE, b"\nHello"),
    ]


def test_thinking_that_the_template_opened_and_nothing_closes_has_to_be_told() -> None:
    assert kinds(b"Let me see.") == [(RangeKind.PROSE, b"Let me see.")]
    assert kinds(b"Let me see.", in_thinking=True) == [(RangeKind.THINKING, b"Let me see.")]


@pytest.mark.parametrize(
    "text", [b"", b"plain", b"see [1] and {x}", b"[1] a citation", b"a ```inline``` fence", b"```x``` y"]
)
def test_prose_stays_prose(text: bytes) -> None:
    assert {kind for kind, _ in kinds(text)} <= {RangeKind.PROSE}


def test_a_byte_is_found_in_its_token() -> None:
    offsets = token_offsets([b"ab", b"", b"c"])
    assert offsets.tolist() == [0, 2, 2, 3]
    assert [token_at(offsets, byte) for byte in range(5)] == [0, 0, 2, 2, 2]


def test_a_range_without_a_token_is_none() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        Range(RangeKind.PROSE, 3, 3)


GIVEN = st.lists(
    st.one_of(
        st.builds(
            lambda kind, start, size: {"kind": kind, "start": start, "stop": start + size},
            st.sampled_from([kind.value for kind in RangeKind]),
            st.integers(0, 30),
            st.integers(1, 9),
        ),
        st.builds(lambda a, b: {"kind": "code", "from": a, "to": b}, st.sampled_from(["<", " te", "{"]), st.just("}")),
    ),
    max_size=4,
)


@settings(deadline=None)
@given(outputs, GIVEN)
def test_with_given_ranges_every_token_is_still_in_exactly_one(tokens: list[bytes], ranges: list[Json]) -> None:
    found = find_ranges(tokens, given=ranges)
    assert [token for part in found for token in range(part.start, part.stop)] == list(range(len(tokens)))
    if ranges and "start" in ranges[0]:
        wanted = range(ranges[0]["start"], min(ranges[0]["stop"], len(tokens)))
        inside = {part.kind.value for part in found if part.start < wanted.stop and part.stop > wanted.start}
        assert inside <= {ranges[0]["kind"]}


def test_given_ranges_win_over_what_is_found() -> None:
    tokens = split(b'a b {"c": 1} d e')
    given_ones: list[Json] = [{"kind": "tool call", "start": 1, "stop": 6}, {"kind": "prose", "start": 0, "stop": 3}]
    found = find_ranges(tokens, given=given_ones)
    assert [(part.kind.value, b"".join(tokens[part.start : part.stop])) for part in found] == [
        ("prose", b"a"),
        ("tool call", b' b {"'),
        ("prose", b'c": 1} d e'),
    ]


def test_given_texts_name_every_stretch_between_them() -> None:
    tokens = split(b"<answer>1</answer> and <answer>2")
    found = find_ranges(tokens, given=[{"kind": "json", "from": "<answer>", "to": "</answer>"}])
    assert [(part.kind.value, b"".join(tokens[part.start : part.stop])) for part in found] == [
        ("json", b"<answer>1</answer>"),
        ("prose", b" and "),
        ("json", b"<answer>2"),
    ]


def test_what_a_given_range_leaves_of_another_is_of_its_kind() -> None:
    tokens = split(b"```\nabc\n```")
    found = find_ranges(tokens, given=[{"kind": "json", "from": "abc", "to": "\n"}])
    assert [part.kind.value for part in found] == ["code", "json", "code"]


def test_no_range_goes_beyond_a_recorded_turn() -> None:
    tokens = split(b'<tool_call>{"a": 1<user>x</tool_call>```<assistant>{"b": 2}')
    texts = [b"".join(tokens[:at]) for at in range(len(tokens) + 1)]
    first, second = (
        texts.index(b'<tool_call>{"a": 1'),
        texts.index(b'<tool_call>{"a": 1<user>x</tool_call>```<assistant>'),
    )
    found = find_ranges(tokens, turns=[(0, first), (second, len(tokens))])
    assert [(part.kind.value, part.start, part.stop) for part in found] == [
        ("tool call", 0, first),
        ("prose", first, second),
        ("json", second, len(tokens)),
    ]


@settings(deadline=None)
@given(outputs, st.lists(st.integers(0, 30), max_size=6, unique=True))
def test_with_turns_every_token_is_still_in_exactly_one_range(tokens: list[bytes], borders: list[int]) -> None:
    ordered = sorted(borders)
    turns = list(zip(ordered[::2], ordered[1::2], strict=False))
    found = find_ranges(tokens, turns=turns)
    assert [token for part in found for token in range(part.start, part.stop)] == list(range(len(tokens)))
    assert all(not part.start < border < part.stop for part in found for turn in turns for border in turn)


@pytest.mark.parametrize(
    ("prompt", "inside"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("[INST]add[/INST][THINK]", True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("<|im_start|>user\nwhat does <think> mean?<|im_end|>\n<|im_start|>assistant\n", False),
        ("", False),
    ],
)
def test_a_prompt_that_opens_a_thinking_part_is_known(prompt: str, inside: bool) -> None:
    tokens = [b"so", b" many", b" switches"]
    hints = range_hints((), Prompt(prompt, (1,)))
    assert hints.find(tokens) == (Range(RangeKind.THINKING if inside else RangeKind.PROSE, 0, 3),)


def test_what_a_case_gives_wins_over_an_open_thinking_part() -> None:
    hints = range_hints([{"kind": "code", "start": 1, "stop": 2}], Prompt("<think>", (1,)))
    kinds = [part.kind for part in hints.find([b"a", b"b", b"c"])]
    assert kinds == [RangeKind.THINKING, RangeKind.CODE, RangeKind.THINKING]
