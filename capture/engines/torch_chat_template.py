"""Renders a case with a model's own chat template and a frozen date. Imports transformers when it is used."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from capture.errors import EngineError, UsageError
from capture.model import Case, Prompt, RecordedTurns


def render(tokenizer: Any, case: Case, date: str) -> Prompt:
    """Return a case's prompt as the model's chat template writes it.

    Args:
        tokenizer: a transformers tokenizer.
        case: its tools are passed to the template, its `thinking` as `enable_thinking`.
        date: what the template takes for today, YYYY-MM-DD (at midnight).

    Raises:
        EngineError: the model has no chat template, or its template refuses the case.
        UsageError: the date is no date.
    """
    if not tokenizer.chat_template:
        raise EngineError(
            "the model has no chat template; add chat_template.jinja to its folder or take an instruct model"
        )
    with _frozen_clock(date):
        text = _apply(tokenizer, case)
    return Prompt(text, tuple(tokenizer(text, add_special_tokens=False)["input_ids"]))


def render_turns(tokenizer: Any, case: Case, date: str) -> RecordedTurns:
    """Return a case with its recorded assistant turns, as the model's chat template writes the conversation.

    Prompt, turns and what stands between them are tokenized each for itself, since a turn is written token by token
    after what stands before it. A turn ends with the token that ends it; white space after that is no part of it.

    Args:
        tokenizer: a transformers tokenizer.
        case: as in `render`, with an assistant message at least.
        date: as in `render`.

    Raises:
        EngineError: as in `render`, or the template writes an earlier part differently once more follows.
        UsageError: the date is no date, or no assistant turn is recorded.
    """
    if not tokenizer.chat_template:
        return RecordedTurns(render(tokenizer, case, date), ())
    with _frozen_clock(date):
        borders = list(_borders(tokenizer, case))
        text = _apply(tokenizer, case, generation=False)[: borders[-1]] if borders else ""
    if not borders:
        raise UsageError(f"case '{case.case_id}' records no assistant turn to follow; add one, or follow the reference")
    parts = [text[start:stop] for start, stop in zip([0, *borders], borders, strict=False)]
    ids = [tuple(tokenizer(part, add_special_tokens=False)["input_ids"]) for part in parts]
    turns, path = [], list[int]()
    for number, part in enumerate(ids[1:]):
        if number % 2 == 0 and part:
            turns.append((len(path), len(path) + len(part)))
        path += part
    return RecordedTurns(Prompt(parts[0], ids[0], tuple(turns)), tuple(path))


def _borders(tokenizer: Any, case: Case) -> Iterator[int]:
    """Yield where each assistant turn starts and ends in the text of the whole conversation."""
    whole = _apply(tokenizer, case, generation=False)
    for index, message in enumerate(case.messages):
        if message.get("role") != "assistant":
            continue
        before = _apply(tokenizer, replace(case, messages=case.messages[:index]), generation=True)
        after = _apply(tokenizer, replace(case, messages=case.messages[: index + 1]), generation=False)
        if not whole.startswith(before) or not after.startswith(before) or not whole.startswith(after):
            raise EngineError(
                f"the model's chat template writes the start of case '{case.case_id}' differently once message "
                f"{index + 1} or a later one follows, so its recorded turns cannot be followed; follow the reference"
            )
        yield len(before)
        yield len(before) + len(after[len(before) :].rstrip())


def template_text(tokenizer: Any) -> str | None:
    """Return the chat template as one text (all of them as JSON where a model has several), or None."""
    template = tokenizer.chat_template
    return template if template is None or isinstance(template, str) else json.dumps(template, sort_keys=True)


def _apply(tokenizer: Any, case: Case, *, generation: bool = True) -> str:
    jinja2 = importlib.import_module("jinja2")
    try:
        text: str = tokenizer.apply_chat_template(
            _plain(case.messages),
            tools=_plain(case.tools) or None,
            add_generation_prompt=generation,
            tokenize=False,
            enable_thinking=case.thinking,
        )
    except (jinja2.TemplateError, TypeError, ValueError, KeyError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise EngineError(f"the model's chat template refuses case '{case.case_id}': {reason}") from error
    return text


def _plain(value: Any) -> Any:
    """Return lists and dicts that a template may index, whatever mappings and tuples a case holds."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return value
    return {key: _plain(item) for key, item in value.items()} if hasattr(value, "items") else [_plain(i) for i in value]


@contextmanager
def _frozen_clock(date: str) -> Iterator[None]:
    """Let `strftime_now` in a template see `date`.

    transformers gives templates that function itself and reads the clock of one of its modules; anything callable
    among the template's arguments is replaced by a placeholder, so the clock is what can be frozen.

    Raises:
        EngineError: transformers keeps its clock elsewhere.
    """
    module = importlib.import_module("transformers.utils.chat_template_utils")
    original = getattr(module, "datetime", None)
    if original is None:
        raise EngineError("this version of transformers hides the clock of its chat templates; install 5.24")
    setattr(module, "datetime", _Clock(_parse(date)))  # noqa: B010 - a module attribute of another package
    try:
        yield
    finally:
        setattr(module, "datetime", original)  # noqa: B010 - as above


class _Clock:
    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self) -> datetime:
        return self._moment


def _parse(date: str) -> datetime:
    try:
        return datetime.strptime(date, "%Y-%m-%d")
    except ValueError as error:
        raise UsageError(f"'{date}' is no date; write it as YYYY-MM-DD") from error
