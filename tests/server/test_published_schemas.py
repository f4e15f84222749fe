"""What is answered validates against the types that OpenAI and Anthropic publish."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import anthropic.types
import openai.types
import openai.types.chat
import openai.types.responses
import pytest
from pydantic import BaseModel, TypeAdapter

from baton.core.messages import Card, Chunk, Finish, Request, Text, Usage
from baton.routing import LearnedRouter
from baton.routing.scorer_process import ScorerLimits
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
    "/completions": {"prompt": "Hello", "stream_options": {"include_usage": True}},
}
WHOLE: dict[str, type[BaseModel]] = {
    "/chat/completions": openai.types.chat.ChatCompletion,
    "/responses": openai.types.responses.Response,
    "/messages": anthropic.types.Message,
    "/completions": openai.types.Completion,
}


class CompletionPiece(openai.types.Completion):
    """A piece of a legacy completion, which has no type of its own: it ends for no reason yet."""

    choices: list[CompletionPieceChoice]  # type: ignore[assignment]


class CompletionPieceChoice(openai.types.CompletionChoice):
    finish_reason: Literal["stop", "length", "content_filter"] | None  # type: ignore[assignment]


PIECES: dict[str, Any] = {
    "/chat/completions": openai.types.chat.ChatCompletionChunk,
    "/responses": openai.types.responses.ResponseStreamEvent,
    "/messages": anthropic.types.RawMessageStreamEvent,
    "/completions": CompletionPiece,
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
        whole = {**body, "stream_options": None} if "stream_options" in body else body
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


async def test_counts_and_vectors_validate_against_the_published_types(tmp_path: Path) -> None:
    router = LearnedRouter(limits=ScorerLimits(warm=10, cold=60))
    async with served_baton(tmp_path, router=router) as served, served.client() as client:
        body = {"model": "baton/auto", "messages": HELLO}
        counted = (await client.post("/messages/count_tokens", json=body)).json()
        anthropic.types.MessageTokensCount.model_validate(counted)
        body = {"model": "baton/auto", "input": "Hello"}
        counted = (await client.post("/responses/input_tokens", json=body)).json()
        openai.types.responses.InputTokenCountResponse.model_validate(counted)
        body = {"model": "baton/embedding", "input": "Hello"}
        vectors = (await client.post("/embeddings", json=body)).json()
        openai.types.CreateEmbeddingResponse.model_validate(vectors)
    await router.aclose()


async def test_models_validate_against_the_published_types(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        listed = (await client.get("/models")).json()["data"]
    for model in listed:
        openai.types.Model.model_validate(model)
