from __future__ import annotations

import numpy as np

from capture.model import Keep, RangeKind, Token
from capture.seal import kept_rows
from tests.factories import PROMPT, make_steps

CALL = (b"<tool_call>", b'{"name": "ping", ', b'"arguments": {}}', b"</tool_call>", b" done")
VOCABULARY = {token_id: Token(token_id, data) for token_id, data in enumerate(CALL)}


def kept(first: int) -> tuple[int, ...]:
    """Return the rows of tool calls that a run keeps which starts at a position of one output."""
    tokens = list(range(len(CALL)))
    before = (*PROMPT, *tokens[:first])
    logits = np.zeros((len(CALL) - first, 5), np.float32)
    steps = make_steps(logits, tokens[first:], before=before, first=first)
    return kept_rows(steps, Keep.RANGES, (RangeKind.TOOL_CALL,), VOCABULARY, before)


def test_a_run_keeps_the_rows_of_its_tool_call() -> None:
    assert kept(0) == (0, 1, 2, 3)


def test_a_branch_that_starts_inside_a_tool_call_keeps_the_rest_of_it() -> None:
    assert kept(2) == (0, 1)
