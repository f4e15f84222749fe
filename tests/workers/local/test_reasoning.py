"""Models that write thoughts first: the real starter model, with templates that have it do so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.messages import Finish, Text, Thinking
from baton.workers.local import GenerationSettings, LocalWorker, Memory, starter
from support.adapter_files import write_with_template
from support.local_worker_calls import CAPITAL, CITY, Answer, ask, listen, local_worker, request

pytestmark = [pytest.mark.sampled(0.5), pytest.mark.local_model]

ALWAYS = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
<think>
"""
"""The model begins within its thoughts, and no word of it knows how to end them."""

SWITCH = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
{% if enable_thinking %}<think>
{% else %}<think>

</think>

{% endif %}"""

QUESTION = "Why is the sky blue?"
LONG = "Write a very long story about a river."


def thinker(folder: Path, template: str) -> LocalWorker:
    path = write_with_template(folder / "thinker.gguf", template)
    card = replace(starter().card, max_output=120)
    return local_worker(card, path, Memory(), settings=GenerationSettings(0.0))


@pytest.fixture(scope="module")
def always(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWorker]:
    worker = thinker(tmp_path_factory.mktemp("models"), ALWAYS)
    yield worker
    asyncio.run(worker.aclose())


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWorker]:
    worker = thinker(tmp_path_factory.mktemp("models"), SWITCH)
    yield worker
    asyncio.run(worker.aclose())


def which(worker: LocalWorker, thinking: bool | None) -> LocalWorker:
    return LocalWorker(worker.card, worker.model, GenerationSettings(0.0, thinking=thinking))


def thoughts(answer: Answer) -> int:
    return sum(chunk.tokens for chunk in answer.chunks if isinstance(chunk, Thinking))


async def test_one_that_always_thinks_still_answers_and_all_its_tokens_count(
    always: LocalWorker,
) -> None:
    answer = await ask(always, QUESTION)
    assert answer.text.strip()
    assert "think" not in answer.text
    assert thoughts(answer) > 0
    kinds = [type(c) for c in answer.chunks if isinstance(c, (Thinking, Text)) and c.tokens]
    assert kinds == sorted(kinds, key=[Thinking, Text].index)
    spoken = sum(c.tokens for c in answer.chunks if isinstance(c, Text))
    assert spoken + thoughts(answer) == answer.usage.tokens_out


async def test_thoughts_leave_room_for_the_answer(always: LocalWorker) -> None:
    card = replace(always.card, max_output=100)
    answer = await ask(LocalWorker(card, always.model, GenerationSettings(0.0)), LONG)
    assert answer.text.strip()
    assert 0 < thoughts(answer) < answer.usage.tokens_out <= 100


async def test_thoughts_that_are_cut_are_not_a_finished_answer(always: LocalWorker) -> None:
    card = replace(always.card, max_output=16)
    answer = await ask(LocalWorker(card, always.model, GenerationSettings(0.0)), LONG)
    assert (answer.text, answer.usage.finish) == ("", Finish.LENGTH)
    assert thoughts(answer) == answer.usage.tokens_out > 0


@pytest.mark.parametrize(("thinking", "thinks"), [(None, False), (False, False), (True, True)])
async def test_one_that_can_choose_thinks_only_if_asked_to(
    switch: LocalWorker, thinking: bool | None, thinks: bool
) -> None:
    answer = await ask(which(switch, thinking), CAPITAL)
    assert (thoughts(answer) > 0) == thinks
    assert thinks or "Paris" in answer.text


async def test_one_that_always_thinks_can_be_asked_not_to(always: LocalWorker) -> None:
    answer = await ask(which(always, False), CAPITAL)
    assert thoughts(answer) == 0
    assert "Paris" in answer.text


async def test_a_form_and_a_brief_text_leave_no_room_for_thoughts(always: LocalWorker) -> None:
    answer = await listen(always, replace(request(CAPITAL), shape=CITY))
    assert json.loads(answer.text).keys() == {"city"}
    brief = await ask(always, CAPITAL, max_tokens=20)
    assert thoughts(answer) == thoughts(brief) == 0
    assert "Paris" in brief.text


async def test_thinking_can_be_stopped(always: LocalWorker) -> None:
    process = always.process
    async with aclosing(always.stream(request(LONG))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Thinking):
                break
    assert "Paris" in (await ask(which(always, False), CAPITAL)).text
    assert process is None or always.process == process, "it was stopped, not killed"
