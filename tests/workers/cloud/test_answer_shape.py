"""Answers in a given form from remote workers, each provider asked in its own way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from baton.core.errors import ContextTooLong, SettingRefused, WorkerError
from baton.core.ledger_types import Scope
from baton.core.messages import AnswerFormat, Declined, max_input_tokens
from baton.core.money import NANO
from baton.core.permissions import PromptLimits, RunTerms
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.money import Ledger
from baton.workers.cloud import CloudWorker, Gateway
from support.cloud_worker_calls import (
    MODELS,
    PRICE,
    RESPONSES,
    Log,
    cloud_worker,
    collect_answer,
    request,
    server_worker,
)
from support.fake_cloud import Cloud, Fault, Reply

STEP = {
    "type": "object",
    "properties": {
        "worker": {"type": "integer", "minimum": 1, "maximum": 3},
        "subtask": {"type": "string", "description": "was tun, in wörds"},
    },
    "required": ["worker", "subtask"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": STEP, "minItems": 1, "maxItems": 5}},
    "required": ["steps"],
    "additionalProperties": False,
}
SHAPE = AnswerFormat("", json.dumps(SCHEMA, ensure_ascii=False, separators=(",", ":")))
NAMED = {"name": "answer", "schema": SCHEMA, "strict": True}
CHAT = {"response_format": {"type": "json_schema", "json_schema": NAMED}}
ANSWER = '{"steps": [{"worker": 2, "subtask": "Übersetze 🙂."}]}'
ASKED = {
    "openai": CHAT,
    "openrouter": CHAT,
    "mistral": CHAT,
    "xai": CHAT,
    "server": CHAT,
    "responses": {"text": {"format": {"type": "json_schema", **NAMED}}},
}
PLACES = ("response_format", "text", "output_format", "tools", "generationConfig")


class CloudSetup:
    """A gateway and a cloud that bills, and answers with a plan."""

    def __init__(self, gateway: Gateway, cloud: Cloud) -> None:
        self.gateway = gateway
        self.cloud = cloud

    def worker(self, name: str, model: str = "") -> CloudWorker:
        if name == "server":
            return server_worker(self.gateway, self.cloud.base(name), PRICE)
        if name == "responses":
            return cloud_worker(self.gateway, self.cloud, "openai", RESPONSES)
        return cloud_worker(self.gateway, self.cloud, name, model)


@pytest.fixture
def cloud_setup(gateway: Gateway) -> Iterator[CloudSetup]:
    gateway.record = Log().record
    with Cloud(prices={"": PRICE}, reply=Reply(ANSWER, bytes_per_token=1)) as cloud:
        yield CloudSetup(gateway, cloud)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*MODELS, "responses", "server"])
async def test_the_answer_is_read_and_the_schema_was_held_for(
    cloud_setup: CloudSetup, name: str
) -> None:
    asked = request(shape=SHAPE)
    heard = await collect_answer(cloud_setup.worker(name), asked)
    assert (heard.text, heard.error) == (ANSWER, None)
    cloud_setup.cloud.quiet()
    [bill] = cloud_setup.cloud.bills
    assert heard.usage is not None
    assert heard.usage.tokens_in == bill.tokens_in <= max_input_tokens(asked.messages, SHAPE)


@pytest.mark.parametrize("name", ASKED)
async def test_each_is_asked_in_its_own_way(cloud_setup: CloudSetup, name: str) -> None:
    await collect_answer(cloud_setup.worker(name), request(shape=SHAPE))
    body = cloud_setup.cloud.calls[0].json
    assert {place: body[place] for place in PLACES if place in body} == ASKED[name]


async def test_gemini_is_asked_with_the_very_schema(cloud_setup: CloudSetup) -> None:
    await collect_answer(cloud_setup.worker("gemini"), request(shape=SHAPE))
    options = cloud_setup.cloud.calls[0].json["generationConfig"]
    assert options["response_json_schema"] == SCHEMA
    assert options["response_mime_type"] == "application/json"


async def test_anthropic_is_asked_for_text_and_not_for_a_tool(cloud_setup: CloudSetup) -> None:
    await collect_answer(cloud_setup.worker("anthropic"), request(shape=SHAPE))
    received = cloud_setup.cloud.calls[0]
    form = received.json["output_config"]["format"]
    assert form["type"] == "json_schema"
    assert form["schema"]["properties"]["steps"]["items"]["required"] == STEP["required"]
    assert "anthropic-beta" not in dict(received.headers)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("anthropic", "anthropic/claude-opus-4-1"),  # litellm would make a tool of it
        ("deepseek", ""),
        ("groq", ""),
        ("groq", "groq/llama-3.3-70b-versatile"),
        ("openai", "openai/gpt-4"),
        ("openai", "openai/nobody-knows-it"),
        ("openrouter", "openrouter/nobody/knows-it"),
    ],
)
async def test_who_does_not_know_how_gets_the_prompt_alone(
    cloud_setup: CloudSetup, name: str, model: str
) -> None:
    heard = await collect_answer(cloud_setup.worker(name, model), request(shape=SHAPE))
    assert (heard.text, heard.error) == (ANSWER, None)
    [received] = cloud_setup.cloud.calls
    assert not {*PLACES, "tool_choice"} & received.json.keys()
    assert "anthropic-beta" not in dict(received.headers)


@pytest.mark.parametrize("name", ["openai", "gemini", "responses", "server"])
async def test_no_form_is_asked_for_without_one(cloud_setup: CloudSetup, name: str) -> None:
    await collect_answer(cloud_setup.worker(name))
    body = cloud_setup.cloud.calls[0].json
    assert "json_schema" not in json.dumps(body)


@pytest.mark.parametrize("name", ["openai", "anthropic", "server"])
async def test_a_refusal_of_the_form_is_reported_and_costs_nothing(
    cloud_setup: CloudSetup, name: str
) -> None:
    cloud_setup.cloud.next(Fault.NO_FORM, None, Fault.NO_FORM)
    heard = await collect_answer(cloud_setup.worker(name), request(shape=SHAPE))
    assert type(heard.error) is SettingRefused
    assert "refused the form of the answer: This response_format" in str(heard.error)
    assert heard.has(Declined)
    again = await collect_answer(cloud_setup.worker(name), request(shape=SHAPE))
    assert (again.text, again.error) == (ANSWER, None)
    assert "json_schema" not in cloud_setup.cloud.calls[1].body.decode()
    plain = await collect_answer(cloud_setup.worker(name))
    assert "refused the request" in str(plain.error)
    assert cloud_setup.cloud.posts == 3, "nothing is tried twice"


async def test_a_schema_beyond_all_limits_is_refused(cloud_setup: CloudSetup) -> None:
    heard = await collect_answer(
        cloud_setup.worker("server"), request(shape=AnswerFormat("", '"a"' * 6_000_000))
    )
    assert isinstance(heard.error, ContextTooLong)
    assert cloud_setup.cloud.posts == 0


async def test_a_schema_that_is_none_is_reported(cloud_setup: CloudSetup) -> None:
    for name in ("server", "openai", "responses"):
        heard = await collect_answer(
            cloud_setup.worker(name), request(shape=AnswerFormat("", "{not json"))
        )
        assert isinstance(heard.error, WorkerError)
    assert cloud_setup.cloud.posts == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*MODELS, "responses", "server"])
async def test_an_answer_ends_before_a_stop_text_and_is_paid_for_whole(
    cloud_setup: CloudSetup, name: str
) -> None:
    async def record(tally: CallUsage) -> None:
        """Keep nothing."""

    ledger = Ledger(None)
    budget = RunBudget(ledger, None, RunTerms({Scope.DAY: NANO}), PromptLimits())
    metered = MeteredWorker(cloud_setup.worker(name), budget, record)
    asked = replace(request(), stop=("subtask",), top_p=0.9)
    heard = await collect_answer(metered, asked)
    await ledger.aclose()
    assert (heard.text, heard.error) == (ANSWER[: ANSWER.index("subtask")], None)
    cloud_setup.cloud.quiet()
    [bill] = cloud_setup.cloud.bills
    assert heard.usage is not None
    assert heard.usage.stop == "subtask"
    assert heard.usage.tokens_out == bill.tokens_out, "what it wrote is known, and all of it"


async def test_a_server_is_asked_to_stop_there(cloud_setup: CloudSetup) -> None:
    asked = replace(request(), stop=("subtask", "\n"), top_p=0.9)
    await collect_answer(cloud_setup.worker("server"), asked)
    body = cloud_setup.cloud.calls[0].json
    assert (body["stop"], body["top_p"]) == (["subtask", "\n"], 0.9)
