"""Providers that sell others' models: exactly what they are sent, and what they charge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from baton.core.ledger_types import Status
from baton.core.messages import AnswerFormat
from baton.workers.cloud import Gateway
from baton.workers.cloud.child.stream_parsers import DIALECTS
from baton.workers.cloud.messages import TokenCount
from support.cloud_worker_calls import Log, cloud_worker, collect_answer, request
from support.fake_cloud import Cloud, Reply
from support.metered_calls import KEYS, PRICES, MeteredGateway

TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hello"},
]
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
CONVERSE = {
    "messages": [{"role": "user", "content": [{"text": "Hello"}]}],
    "inferenceConfig": {"maxTokens": 300},
    "system": [{"text": "Be kind."}],
}
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2"
SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "bedrock/amazon.nova-lite-v1:0": (
        "/bedrock/model/amazon.nova-lite-v1%3A0/converse-stream",
        CONVERSE,
    ),
    "bedrock/us.anthropic.claude-opus-4-7": (
        "/bedrock/model/us.anthropic.claude-opus-4-7/converse-stream",
        CONVERSE,
    ),
    "bedrock/mistral.mistral-7b-instruct-v0:2": (
        "/bedrock/model/mistral.mistral-7b-instruct-v0%3A2/converse-stream",
        CONVERSE,
    ),
    f"bedrock/{PROFILE}": (
        "/bedrock/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012"
        "%3Aapplication-inference-profile%2Fa1b2/converse-stream",
        CONVERSE,
    ),
    "huggingface/novita/deepseek-ai/DeepSeek-V3.1": (
        "/huggingface/v1/chat/completions",
        {
            "model": "novita/deepseek-ai/DeepSeek-V3.1",
            "messages": TALK,
            "max_tokens": 300,
            **STREAMED,
        },
    ),
    "perplexity/openai/gpt-5.2": (
        "/perplexity/v1/responses",
        {
            "model": "openai/gpt-5.2",
            "input": [{"type": "message", **said} for said in TALK],
            "max_output_tokens": 300,
            "stream": True,
        },
    ),
    "vercel_ai_gateway/meta/llama-3.3-70b": (
        "/vercel_ai_gateway/v1/chat/completions",
        {"model": "meta/llama-3.3-70b", "messages": TALK, "max_tokens": 300, **STREAMED},
    ),
}


@pytest.mark.parametrize("model", SENT)
async def test_nothing_is_asked_for_but_one_answer(gateway: Gateway, model: str) -> None:
    path, body = SENT[model]
    gateway.record = Log().record
    provider = model.partition("/")[0]
    with Cloud() as cloud:
        heard = await collect_answer(
            cloud_worker(gateway, cloud, provider, model), request("Hello")
        )
        [received] = cloud.calls
    assert (heard.text, heard.error) == (Reply().text, None)
    assert (received.path, received.json) == (path, body)
    headers = dict(received.headers)
    assert headers["authorization"].removeprefix("Bearer ") in KEYS.values()
    stream = "vnd.amazon.eventstream" if provider == "bedrock" else "event-stream"
    assert stream in headers["accept"]


@pytest.mark.parametrize("kind", ["perplexity", "vercel_ai_gateway"])
async def test_what_the_seller_says_it_cost_is_charged(
    gateway: Gateway, tmp_path: Path, kind: str
) -> None:
    """Thoughts stand beside Vercel's count, and fees beside Perplexity's."""
    cloud = Cloud(prices=PRICES, reply=Reply(tokens=40, reasoning=20))
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway) as metered:
        done = await metered.call(kind)
        await metered.quiet()
    assert done.charge is not None
    assert done.charge.status is Status.SETTLED
    assert done.charge.charged == cloud.billed > 0


def test_perplexitys_own_cost_is_read() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5, "cost": {"input_cost": 0, "total_cost": 0.02}}
    end = {"type": "response.completed", "response": {"usage": usage}}
    reader = DIALECTS["responses"]()
    reader.feed(f"data: {json.dumps(end)}\n\n".encode())
    assert reader.usage == TokenCount(10, 5, reported=20_000_000)


def test_an_error_outside_its_answer_is_read() -> None:
    error = {"type": "response.failed", "error": {"message": "Too busy", "code": "x"}}
    reader = DIALECTS["responses"]()
    reader.feed(f"data: {json.dumps(error)}\n\n".encode())
    assert (reader.error, reader.is_refusal) == ("Too busy", True)


async def test_no_schema_is_asked_of_those_that_take_it_otherwise(gateway: Gateway) -> None:
    gateway.record = Log().record
    schema = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}})
    with Cloud() as cloud:
        for model in ("bedrock/us.anthropic.claude-opus-4-7", "perplexity/openai/gpt-5.2"):
            worker = cloud_worker(gateway, cloud, model.partition("/")[0], model)
            await collect_answer(worker, request("Hello", shape=AnswerFormat("", schema)))
    assert [received.json for received in cloud.calls] == [
        SENT["bedrock/us.anthropic.claude-opus-4-7"][1],
        SENT["perplexity/openai/gpt-5.2"][1],
    ]
