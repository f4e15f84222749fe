"""OpenAI's legacy Completions are answered like a chat of one prompt."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import openai
import openai.types
import pytest

from baton.core.messages import Chunk, Finish, Request, Text, Usage
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import SMALL, served_baton


def script(request: Request) -> Iterable[Chunk]:
    yield from (Text("One, "), Text("two."))
    yield Usage(12, 2, Finish.LENGTH if request.max_tokens == 2 else Finish.STOP)


async def test_a_prompt_is_answered_whole_and_streamed(tmp_path: Path) -> None:
    async with (
        served_baton(tmp_path, [ScriptedWorker(script, SMALL)]) as served,
        served.openai_client() as client,
    ):
        whole = await client.completions.create(model="baton/mini", prompt="Count")
        openai.types.Completion.model_validate(whole.model_dump())
        assert (whole.object, whole.model) == ("text_completion", "baton/mini")
        assert whole.choices[0].text == "One, two."
        assert whole.choices[0].finish_reason == "stop"
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (12, 2)
        assert whole.id == f"cmpl-{served.runner.served[0].id}"

        cut = await client.completions.create(model="baton/mini", prompt=["Count"], max_tokens=2)
        assert cut.choices[0].finish_reason == "length"

        stream = await client.completions.create(
            model="baton/mini",
            prompt="Count",
            stream=True,
            stream_options={"include_usage": True},
        )
        pieces = [piece async for piece in stream]
        assert "".join(c.text for piece in pieces for c in piece.choices) == "One, two."
        assert [c.finish_reason for piece in pieces for c in piece.choices][-1] == "stop"
        assert pieces[-1].usage is not None
        assert {piece.id for piece in pieces} == {f"cmpl-{served.runner.served[-1].id}"}


async def test_wishes_reach_the_worker_and_sixteen_tokens_are_usual(tmp_path: Path) -> None:
    worker = ScriptedWorker(script, SMALL)
    async with served_baton(tmp_path, [worker]) as served, served.openai_client() as client:
        await client.completions.create(model="small", prompt="Count")
        await client.completions.create(
            model="small",
            prompt="Count",
            max_tokens=7,
            temperature=0.5,
            top_p=0.25,
            seed=3,
            stop=["x"],
            echo=False,
            n=1,
            best_of=1,
            logprobs=0,
            suffix="",
            user="me",
        )
    usual, asked = worker.requests
    assert usual.max_tokens == 16
    assert (asked.max_tokens, asked.temperature, asked.top_p) == (7, 0.5, 0.25)
    assert (asked.seed, asked.stop) == (3, ("x",))


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"prompt": ["a", "b"]}, "one text"),
        ({"prompt": [1, 2]}, "one text"),
        ({"prompt": [[1, 2]]}, "one text"),
        ({"prompt": []}, "one text"),
        ({"logprobs": 1}, "'logprobs'"),
        ({"echo": True}, "'echo'"),
        ({"suffix": "end"}, "'suffix'"),
        ({"n": 2}, "'n'"),
        ({"best_of": 2}, "'best_of'"),
        ({"max_tokens": 0}, "above 0"),
    ],
)
async def test_what_cannot_be_kept_to_is_refused(
    tmp_path: Path, field: dict[str, Any], said: str
) -> None:
    worker = ScriptedWorker(script, SMALL)
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        body = {"model": "small", "prompt": "Count", **field}
        for stream in False, True:
            answer = await client.post("/completions", json={**body, "stream": stream})
            assert answer.status_code == 400
            assert said in answer.json()["error"]["message"]
    assert worker.requests == []


async def test_a_stream_ends_as_such_streams_do(tmp_path: Path) -> None:
    body = {"model": "small", "prompt": "Count", "stream": True}
    async with (
        served_baton(tmp_path, [ScriptedWorker(script, SMALL)]) as served,
        served.client() as client,
    ):
        text = (await client.post("/completions", json=body)).text
    events = [line.removeprefix("data: ") for line in text.split("\n") if line]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["baton"]["run_id"]
