"""A refusal of a setting is learned: asked again without it, at no cost, and remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baton.core.errors import WorkerError
from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.messages import Chunk, Message, Request, Retrying, Role, Text, Usage
from baton.core.money import NANO
from baton.core.permissions import ANYTHING, RunTerms
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.money import Ledger
from baton.workers.cloud import CloudWorker, Gateway, LearnedSettings
from baton.workers.cloud.child.provider_errors import is_about_value, refused_option
from baton.workers.cloud.model_settings import OPTION_NAMES, REMEMBERED_DAYS
from support.cloud_worker_calls import PRICE, Log, cloud_worker, server_worker
from support.fake_cloud import Cloud, Fault, ReceivedRequest

HOT = "Unsupported parameter: 'temperature' is not supported with this model."

CHAT = {
    "model": "m",
    "messages": [{"role": "system"}, {"role": "user"}],
    "max_tokens": 5,
    "temperature": 0.3,
    "top_p": 0.9,
    "seed": 1,
    "reasoning_effort": "low",
    "response_format": {},
    "stream_options": {},
    "stop": ["x"],
}
RESPONSES = {"input": [{"role": "system"}], "top_p": 0.9, "reasoning": {"effort": "low"}}
MESSAGES = {"messages": [], "system": "S", "thinking": {}, "temperature": 0.1, "top_p": 0.4}
GEMINI = {
    "contents": [],
    "systemInstruction": {},
    "generationConfig": {"thinkingConfig": {}, "seed": 1, "temperature": 1},
}
CONVERSE = {
    "messages": [],
    "system": [{"text": "S"}],
    "inferenceConfig": {"maxTokens": 5, "temperature": 0.1, "topP": 0.4},
}
BODIES = {
    "chat": CHAT,
    "converse": CONVERSE,
    "gemini": GEMINI,
    "messages": MESSAGES,
    "responses": RESPONSES,
}
ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("setting_refusals.jsonl").read_text("utf-8").splitlines()
]
"""Refusals as providers and servers word them, and what each means."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["said"])[:60])
def test_a_refusal_names_the_setting_and_what_to_send(row: dict[str, Any]) -> None:
    body = BODIES[row["dialect"]] | row.get("sent", {})
    meant = row["means"] and tuple(row["means"])
    assert refused_option(row["error"], row["said"], body) == meant
    if meant:
        assert is_about_value(meant[0], row["said"]) is not row.get("lasts", True)


class RefusingCloud:
    """A cloud that refuses a setting whenever it is sent, and a worker of it behind the gate."""

    def __init__(self, gateway: Gateway, cloud: Cloud, learned: LearnedSettings) -> None:
        self.gateway, self.cloud = gateway, cloud
        gateway.record = Log().record
        gateway.learned = learned
        self.ledger = Ledger(None)
        self.calls: list[CallUsage] = []

    async def ask(self, worker: CloudWorker, **options: Any) -> list[Chunk]:
        async def record(tally: CallUsage) -> None:
            self.calls.append(tally)

        budget = RunBudget(self.ledger, None, RunTerms({Scope.DAY: NANO}), ANYTHING, run="run")
        self.gateway.record = self.ledger.sent
        messages = options.pop("messages", (Message(Role.USER, "Hello"),))
        asked = Request(messages, max_tokens=300, label=Label.CLOUD, **options)
        return [chunk async for chunk in MeteredWorker(worker, budget, record).stream(asked)]


def refuse_heat(received: ReceivedRequest) -> Fault | None:
    """Return the fault of a model that takes no temperature."""
    options = received.json.get("generationConfig", received.json)
    return Fault.NO_SETTING if "temperature" in options else None


@pytest.fixture
async def refusing(gateway: Gateway, tmp_path: Path) -> AsyncIterator[RefusingCloud]:
    before = gateway.learned
    with Cloud(prices={"": PRICE}, choose=refuse_heat) as cloud:
        setup = RefusingCloud(gateway, cloud, LearnedSettings(tmp_path / "learned.json"))
        yield setup
        await setup.ledger.aclose()
    gateway.learned = before


NAMES = ("openai", "anthropic", "gemini", "openrouter", "mistral", "groq", "server")


@pytest.mark.parametrize("name", NAMES)
async def test_it_is_asked_once_more_without_it_and_pays_once(
    refusing: RefusingCloud, name: str
) -> None:
    cloud = refusing.cloud
    worker = (
        server_worker(refusing.gateway, cloud.base(name), PRICE)
        if name == "server"
        else cloud_worker(refusing.gateway, cloud, name)
    )
    chunks = await refusing.ask(worker, temperature=0.3)
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, Text))
    [retried] = [chunk for chunk in chunks if isinstance(chunk, Retrying)]
    assert f"refused the temperature: {HOT} It is asked without it." in retried.reason
    cloud.quiet()
    first, second = await refusing.ledger.charges("run")
    assert sorted((first.charged, second.charged)) == [0, cloud.billed]
    assert first.call != second.call, "a hold of its own"
    [_, answered] = refusing.calls
    assert answered.event(0).left_out == "without its temperature"
    await refusing.ask(worker, temperature=0.3)
    assert cloud.posts == 3, "it is remembered"
    reread = LearnedSettings(refusing.gateway.learned._file)
    assert list(reread.of(f"{worker.card.model} at {cloud.base(name)}, effort low")) == [
        "temperature"
    ]


async def test_calls_side_by_side_learn_it_once(refusing: RefusingCloud) -> None:
    worker = server_worker(refusing.gateway, refusing.cloud.base("server"), PRICE)
    both = await asyncio.gather(*(refusing.ask(worker, temperature=0.3) for _ in range(4)))
    assert all(any(isinstance(chunk, Usage) for chunk in chunks) for chunks in both)
    assert not refusing.gateway.learned._tried
    refusing.cloud.quiet()
    charges = await refusing.ledger.charges("run")
    assert sum(charge.charged for charge in charges) == refusing.cloud.billed


async def test_two_settings_that_are_refused_are_left_out_in_turn(refusing: RefusingCloud) -> None:
    cloud = refusing.cloud

    def choose(received: ReceivedRequest) -> Fault | None:
        for name in ("temperature", "seed"):
            if name in received.json:
                said = f"Unsupported parameter: '{name}'."
                cloud.manner = replace(cloud.manner, setting=said)
                return Fault.NO_SETTING
        return None

    cloud.choose = choose
    worker = server_worker(refusing.gateway, cloud.base("server"), PRICE)
    chunks = await refusing.ask(worker, temperature=0.3, seed=7)
    assert len([chunk for chunk in chunks if isinstance(chunk, Retrying)]) == 2
    assert refusing.calls[-1].event(0).left_out == "without its temperature and without its seed"


async def test_a_strict_server_may_refuse_all_that_a_client_sets(refusing: RefusingCloud) -> None:
    cloud, names = refusing.cloud, ("temperature", "top_p", "seed", "stop", "stream_options")

    def choose(received: ReceivedRequest) -> Fault | None:
        name = next((name for name in names if name in received.json), "")
        cloud.manner = replace(cloud.manner, setting=f"Unsupported parameter: '{name}'.")
        return Fault.NO_SETTING if name else None

    cloud.choose = choose
    worker = server_worker(refusing.gateway, cloud.base("server"), PRICE)
    chunks = await refusing.ask(worker, temperature=0.3, top_p=0.9, seed=7, stop=("END",))
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, Text))
    assert cloud.posts == 1 + len(names)


async def test_what_was_not_the_reason_is_not_remembered(refusing: RefusingCloud) -> None:
    refusing.cloud.choose = lambda received: Fault.NO_SETTING
    worker = server_worker(refusing.gateway, refusing.cloud.base("server"), PRICE)
    with pytest.raises(WorkerError, match="refused the request"):
        await refusing.ask(worker, temperature=0.3)
    assert refusing.cloud.posts == 2
    assert not refusing.gateway.learned.of(
        f"{worker.card.model} at {refusing.cloud.base('server')}, effort low"
    )
    assert all(charge.charged == 0 for charge in await refusing.ledger.charges("run"))


async def test_an_answer_to_another_request_confirms_nothing(refusing: RefusingCloud) -> None:
    learned = refusing.gateway.learned
    learned.try_instead("m", "temperature", "", {})
    learned.confirm("m", {})
    learned.give_up("m", {})
    assert list(learned.of("m")) == ["temperature"]
    learned.give_up("m", {"temperature": ""})
    assert not learned.of("m")


async def test_a_value_out_of_range_is_left_out_once(refusing: RefusingCloud) -> None:
    words = "temperature must be between 0 and 1"
    refusing.cloud.manner = replace(refusing.cloud.manner, setting=words)
    refusing.cloud.choose = lambda received: (
        Fault.NO_SETTING if received.json.get("temperature", 0) > 1 else None
    )
    worker = server_worker(refusing.gateway, refusing.cloud.base("server"), PRICE)
    await refusing.ask(worker, temperature=1.5)
    await refusing.ask(worker, temperature=0.7)
    assert refusing.cloud.posts == 3
    assert refusing.cloud.received[-1].json["temperature"] == 0.7


async def test_what_is_refused_at_one_effort_is_asked_at_another(
    refusing: RefusingCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, gateway = refusing.cloud, refusing.gateway
    worker = server_worker(gateway, cloud.base("server"), PRICE)
    await refusing.ask(worker, temperature=0.3)
    cloud.choose = lambda received: None
    monkeypatch.setattr(gateway, "effort", "none")
    await refusing.ask(worker, temperature=0.3)
    assert cloud.received[-1].json["temperature"] == 0.3


def test_it_is_forgotten_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "learned.json"
    learned = LearnedSettings(file)
    assert learned.try_instead("m", "effort", "high", {})
    assert learned.try_instead("m", "effort", "low", {"effort": "high"}), "not yet without it"
    assert not learned.try_instead("m", "effort", "low", {"effort": ""})
    learned.confirm("m", {"effort": ""})
    assert LearnedSettings(file).text("m") == "without its reasoning effort"
    later = LearnedSettings(file).of("m")["effort"].since + REMEMBERED_DAYS * 86400 + 1
    monkeypatch.setattr("time.time", lambda: later)
    assert LearnedSettings(file).of("m") == {}


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"m": 3}', b'{"m": {"evil": {"value": "", "since": 1}}}']
)
def test_a_damaged_file_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "learned.json"
    file.write_bytes(content)
    assert LearnedSettings(file).of("m") == {}
    learned = LearnedSettings(file)
    assert learned.try_instead("m", "seed", "", {})
    learned.confirm("m", {"seed": ""})
    assert list(LearnedSettings(file).of("m")) == ["seed"]


def test_all_that_can_be_learned_has_a_name() -> None:
    assert {row["means"][0] for row in ROWS if row["means"]} <= OPTION_NAMES.keys()


async def test_a_refused_system_text_stands_before_the_prompt(refusing: RefusingCloud) -> None:
    words = "System role not supported"
    refusing.cloud.manner = replace(refusing.cloud.manner, setting=words)
    roles: list[list[str]] = []

    def choose(received: ReceivedRequest) -> Fault | None:
        roles.append([said["role"] for said in received.json["messages"]])
        return Fault.NO_SETTING if roles[-1] != ["user", "assistant", "user"] else None

    refusing.cloud.choose = choose
    said = ((Role.SYSTEM, "S"), (Role.USER, "U"), (Role.ASSISTANT, "A"), (Role.USER, "V"))
    messages = tuple(Message(role, text) for role, text in said)
    worker = server_worker(refusing.gateway, refusing.cloud.base("server"), PRICE)
    await refusing.ask(worker, messages=messages)
    assert roles[0] == ["system", "user", "assistant", "user"]
    assert refusing.cloud.received[-1].json["messages"][0]["content"] == "S\n\nU"
