"""What is answered validates against the types that OpenAI and Anthropic publish."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anthropic.types
import openai.types
import openai.types.chat
import openai.types.responses
import pytest
from pydantic import BaseModel, TypeAdapter

from baton.core.messages import Card, Chunk, Finish, Request, Text, Usage
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import served_baton

CALL = '<tool_call>{"name": "weather", "arguments": {"place": "Lisbon"}}</tool_call>'
PARAMETERS = {"type": "object", "properties": {"place": {"type": "string"}}}
HELLO = [{"role": "user", "content": "Hello"}]
FUNCTION = {"name": "weather", "parameters": PARAMETERS}

ASKED: dict[str, dict[str, Any]] = {
    "/chat/completions": {
        "messages": HELLO,
        "tools": [{"type": "function", "function": FUNCTION}],
        "stream_options": {"include_usage": True},
    },
    "/responses": {"input": "Hello", "tools": [{"type": "function", **FUNCTION}]},
    "/messages": {
        "messages": HELLO,
        "max_tokens": 50,
        "tools": [{"name": "weather", "input_schema": PARAMETERS}],
    },
}
WHOLE: dict[str, type[BaseModel]] = {
    "/chat/completions": openai.types.chat.ChatCompletion,
    "/responses": openai.types.responses.Response,
    "/messages": anthropic.types.Message,
}
PIECES: dict[str, Any] = {
    "/chat/completions": openai.types.chat.ChatCompletionChunk,
    "/responses": openai.types.responses.ResponseStreamEvent,
    "/messages": anthropic.types.RawMessageStreamEvent,
}


def answering(text: str, finish: Finish) -> ScriptedWorker:
    def script(request: Request) -> Iterable[Chunk]:
        yield from (Text(text[n : n + 9]) for n in range(0, len(text), 9))
        yield Usage(12, 5, finish, cached=4)

    return ScriptedWorker(script, Card("small", "local", "Small", context=8192))


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("Plain text.", Finish.STOP),
        ("Cut", Finish.LENGTH),
        ("Filtered", Finish.FILTER),
        (f"I look. {CALL} {CALL}", Finish.STOP),
        (CALL, Finish.STOP),
        ("", Finish.STOP),
    ],
)
async def test_answers_validate_against_the_published_types(
    tmp_path: Path, path: str, text: str, finish: Finish
) -> None:
    body = {"model": "baton/mini", **ASKED[path]}
    worker = answering(text, finish)
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        whole = body if path != "/chat/completions" else {**body, "stream_options": None}
        answer = await client.post(path, json=whole)
        assert answer.status_code == 200, answer.text
        WHOLE[path].model_validate(answer.json(), strict=False)

        streamed = (await client.post(path, json={**body, "stream": True})).text
    events = [line.removeprefix("data: ") for line in streamed.split("\n") if "data: " in line]
    pieces = [json.loads(event) for event in events if event != "[DONE]"]
    assert pieces
    adapter = TypeAdapter[Any](PIECES[path])
    for piece in pieces:
        adapter.validate_python(piece)


async def test_models_validate_against_the_published_types(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        listed = (await client.get("/models")).json()["data"]
    for model in listed:
        openai.types.Model.model_validate(model)
