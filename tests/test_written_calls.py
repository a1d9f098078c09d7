"""Outputs written by hand, each wrong in its own way, get their verdict and the place where they go wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capture.callparser import ToolCall, calls_of
from capture.consequences import AGREES
from capture.ranges import token_at, token_offsets
from capture.toolcalls import CallVerdict, Verdict, compare_calls, labelled_calls, verdict
from capture.toolschema import ToolSchemas
from tests.test_ranges import split

FILE = json.loads((Path(__file__).resolve().parent / "outputs" / "calls.json").read_text(encoding="utf-8"))
OUTPUTS: list[dict[str, Any]] = FILE["outputs"]
TOOLS = FILE["tools"]
WRITTEN = [output for output in OUTPUTS if "text" in output]
CARET = "\u2038".encode()


def name(output: dict[str, Any]) -> str:
    return f"{output['format']}-{output['id']}"


def written(output: dict[str, Any]) -> tuple[bytes, int | None]:
    """The bytes of an output, and where they go wrong."""
    marked: bytes = output["text"].encode("utf-8", "surrogateescape")
    before, caret, after = marked.partition(CARET)
    return before + after, len(before) if caret else None


def found(output: dict[str, Any]) -> CallVerdict:
    if "text" in output:
        return verdict(written(output)[0], TOOLS, output["label"])
    schemas = ToolSchemas(TOOLS)
    return compare_calls(calls_of(output["tool_calls"], schemas), labelled_calls(output["label"]), schemas)


def test_there_are_many_of_them_and_each_has_a_name_of_its_own() -> None:
    wrong = [output for output in OUTPUTS if Verdict(output["verdict"]) not in (*AGREES, Verdict.NO_CALL)]
    assert len(wrong) >= 40
    assert len({name(output) for output in OUTPUTS}) == len(OUTPUTS)
    assert {output["verdict"] for output in OUTPUTS} == set(Verdict)
    assert len({written(output)[0] for output in WRITTEN}) >= len(WRITTEN) - 6  # some texts are held against two labels


@pytest.mark.parametrize("output", OUTPUTS, ids=name)
def test_an_output_gets_its_verdict(output: dict[str, Any]) -> None:
    assert (found(output).verdict, found(output).detail) == (output["verdict"], output["detail"])


@pytest.mark.parametrize("output", WRITTEN, ids=name)
def test_the_place_where_it_goes_wrong_is_found(output: dict[str, Any]) -> None:
    text, place = written(output)
    at = found(output).wrong_at
    assert at == place, (text[:at], text[:place]) if at is not None else None


@pytest.mark.parametrize("output", WRITTEN, ids=name)
def test_the_token_there_is_the_one_that_holds_the_first_wrong_byte(output: dict[str, Any]) -> None:
    text, place = written(output)
    if place is not None:
        tokens = split(text)
        token = token_at(token_offsets(tokens), place)
        before = b"".join(tokens[:token])
        assert len(before) <= place
        assert place < len(before) + len(tokens[token]) or token == len(tokens) - 1


@pytest.mark.parametrize("output", WRITTEN, ids=name)
def test_the_reference_serves_as_well_as_the_label(output: dict[str, Any]) -> None:
    """The labelled calls, written as one of the formats writes them, are what the reference made."""
    calls = labelled_calls(output["label"])
    reference = "".join(map(hermes, calls)).encode()
    text, place = written(output)
    against = verdict(text, TOOLS, None, reference)
    assert (against.verdict, against.detail, against.wrong_at) == (output["verdict"], output["detail"], place)


def hermes(call: ToolCall) -> str:
    return f"<tool_call>\n{json.dumps({'name': call.name, 'arguments': call.arguments})}\n</tool_call>"


def test_calls_given_as_objects_have_no_place_in_a_text() -> None:
    given = [output for output in OUTPUTS if "tool_calls" in output]
    assert all(found(output).wrong_at is None for output in given if output["verdict"] != "malformed")
