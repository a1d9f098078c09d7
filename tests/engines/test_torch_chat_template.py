from __future__ import annotations

from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import pytest
import transformers
from transformers.utils import chat_template_utils

from capture.engines.torch_chat_template import render, render_turns, template_text
from capture.errors import EngineError, UsageError
from capture.model import Case
from tests.engines import tiny_models

pytestmark = pytest.mark.engine

TOOL = {"type": "function", "function": {"name": "run_command", "parameters": {}}}
CASE = Case("greeting", (MappingProxyType({"role": "user", "content": "show <quiet>"}),), (TOOL,))


def tokenizer(directory: Path, template: str | None = tiny_models.TEMPLATE) -> transformers.PreTrainedTokenizerFast:
    tiny_models.save_tokenizer(directory, template=template)
    return transformers.AutoTokenizer.from_pretrained(directory)


def test_text_and_ids(tmp_path: Path) -> None:
    fast = tokenizer(tmp_path)
    prompt = render(fast, CASE, "2025-03-09")
    assert prompt.text == "<s>09 Mar 2025 00:00[run_command]<user>show <quiet><assistant><quiet>"
    assert prompt.token_ids[0] == fast.bos_token_id
    assert prompt.token_ids.count(fast.bos_token_id) == 1
    assert fast.decode(prompt.token_ids) == prompt.text


def test_thinking_is_passed(tmp_path: Path) -> None:
    case = Case("thinker", CASE.messages, (), None, thinking=True)
    assert render(tokenizer(tmp_path), case, "2025-03-09").text.endswith("<assistant>")


def test_date_is_frozen_only_meanwhile(tmp_path: Path) -> None:
    fast = tokenizer(tmp_path)
    assert "31 Dec 1999" in render(fast, CASE, "1999-12-31").text
    assert chat_template_utils.datetime is datetime
    refused = Case("refused", ({"role": "forbidden", "content": ""},))
    with pytest.raises(EngineError):
        render(fast, refused, "1999-12-31")
    assert chat_template_utils.datetime is datetime


def test_model_without_a_template(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no chat template; add chat_template.jinja"):
        render(tokenizer(tmp_path, None), CASE, "2025-03-09")


def test_template_that_refuses_the_case(tmp_path: Path) -> None:
    case = Case("odd", ({"role": "forbidden", "content": "x"},))
    with pytest.raises(EngineError, match="refuses case 'odd': no such role"):
        render(tokenizer(tmp_path), case, "2025-03-09")


def test_template_that_is_broken(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="refuses case 'greeting'"):
        render(tokenizer(tmp_path, "{% if %}"), CASE, "2025-03-09")


def test_case_without_messages(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="refuses case 'empty'"):
        render(tokenizer(tmp_path), Case("empty", ()), "2025-03-09")


@pytest.mark.parametrize("date", ["today", "2025-13-01", "09.03.2025"])
def test_date_that_is_none(tmp_path: Path, date: str) -> None:
    with pytest.raises(UsageError, match="YYYY-MM-DD"):
        render(tokenizer(tmp_path), CASE, date)


def test_text_of_several_templates(tmp_path: Path) -> None:
    fast = tokenizer(tmp_path)
    assert template_text(fast) == tiny_models.TEMPLATE
    fast.chat_template = {"tool_use": "b", "default": "a"}
    assert template_text(fast) == '{"default": "a", "tool_use": "b"}'
    fast.chat_template = None
    assert template_text(fast) is None


TALK = (
    "{{ bos_token }}{% for message in messages %}<{{ message.role }}>{{ message.content }}"
    "{% if message.role == 'assistant' %}</s>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
FORGETS = TALK.replace("{{ message.content }}", "{{ message.content if loop.last else '' }}")
RECORDED = Case(
    "recorded",
    (
        {"role": "user", "content": "show"},
        {"role": "assistant", "content": "version"},
        {"role": "user", "content": "route"},
        {"role": "assistant", "content": "core"},
        {"role": "assistant", "content": "switch"},
        {"role": "user", "content": "thanks"},
    ),
)


def test_recorded_turns_are_cut_out_of_the_whole_conversation(tmp_path: Path) -> None:
    fast = tokenizer(tmp_path, TALK)
    found = render_turns(fast, RECORDED, "2025-03-09")
    turns = [fast.decode(found.path[first:stop]) for first, stop in found.prompt.turns]
    assert turns == ["version</s>", "core</s>", "switch</s>"]
    assert fast.decode(found.path) == "version</s>\n<user>route<assistant>core</s>\n<assistant>switch</s>"


def test_the_prompt_is_the_one_that_a_free_run_would_get(tmp_path: Path) -> None:
    fast = tokenizer(tmp_path, TALK)
    free = render(fast, Case("recorded", RECORDED.messages[:1]), "2025-03-09")
    prompt = render_turns(fast, RECORDED, "2025-03-09").prompt
    assert (prompt.text, prompt.token_ids) == (free.text, free.token_ids)


def test_a_template_that_rewrites_earlier_turns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="writes the start of case 'recorded' differently once message"):
        render_turns(tokenizer(tmp_path, FORGETS), RECORDED, "2025-03-09")


def test_a_case_without_recorded_turns_has_none_to_follow(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="case 'greeting' records no assistant turn"):
        render_turns(tokenizer(tmp_path, TALK), CASE, "2025-03-09")


def test_turns_need_a_template(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no chat template"):
        render_turns(tokenizer(tmp_path, None), RECORDED, "2025-03-09")
