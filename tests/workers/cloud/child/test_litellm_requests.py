"""What litellm writes: the requests of its own client, and nothing that it keeps or says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from baton.platform.secrets import PROVIDERS
from baton.workers.cloud.child.request_guard import ALLOWED_HEADERS
from baton.workers.cloud.provider_models import provider_refusals
from support.metered_calls import MODELS

FROZEN = Path(__file__).with_name("requests.jsonl")
"""Requests as litellm 1.106's own client posted them, caught on loopback.

The client writes the fields of a body in another order, which means nothing to a provider.
"""

SCHEMA = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "worker": {"type": "integer", "minimum": 1, "maximum": 3},
                    "subtask": {"type": "string", "description": "was tun, in wörds"},
                },
                "required": ["worker", "subtask"],
                "additionalProperties": False,
            },
            "minItems": 1,
            "maxItems": 5,
        }
    },
    "required": ["steps"],
    "additionalProperties": False,
}
SYSTEM = {"role": "system", "content": "You are brief."}
FIRST = {"role": "user", "content": 'Naïve question 🙂\n"quoted"'}
TALK = [
    SYSTEM,
    FIRST,
    {"role": "assistant", "content": "An answer."},
    {"role": "user", "content": "Another  question \u2028 end "},
]
ODD = [
    {"role": "user", "content": ""},
    {"role": "user", "content": "again"},
    {"role": "assistant", "content": "  "},
    {"role": "assistant", "content": "x\ud7ff\x00\x7f"},
]
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"messages": [FIRST]},
    "all": {"messages": TALK, "temperature": 0.3, "seed": 7, "schema": SCHEMA, "cap": 3000},
    "think": {"effort": "high", "messages": TALK, "temperature": 0.0, "cap": 6000},
    "quick": {"effort": "none", "messages": TALK, "schema": SCHEMA},
    "odd": {"effort": "medium", "messages": ODD, "seed": 0, "cap": 4096},
    "own": {"messages": TALK, "seed": 1, "base_url": "https://example.com/v1"},
}

WRITE = """
import asyncio, builtins, json, logging, os, sys
from baton.workers.cloud.child.cloud_call import KEY_PLACEHOLDER
from baton.workers.cloud.child.litellm_requests import LitellmRequests
from baton.workers.cloud.child.request_writer import RequestWriter
from baton.workers.cloud.child.request_guard import check_request, check_url
from workers.cloud.child.test_cloud_call import call

seen, watching = [], False

def note(what):
    if watching:
        seen.append(what)

def heard(event, given):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn")):
        note([event, str(given)])

def trapped(*given, **more):
    note(["print", given])

def set_traps():
    global watching
    import litellm
    from litellm.litellm_core_utils import litellm_logging
    _ = litellm.supports_reasoning("openai/gpt-5-mini")
    sys.addaudithook(heard)
    logging.Logger.handle = lambda self, record: note(["log", record.getMessage()])
    plain = type(os.environ).__getitem__
    type(os.environ).__getitem__ = lambda self, name: (
        note(["read", name, self.encodekey(name) in self._data]), plain(self, name)
    )[1]
    os.environ.clear()
    os.environ["OPENAI_API_KEY"] = os.environ["LITELLM_LOG"] = "sk-canary"
    litellm_logging.Logging.__init__ = lambda *_, **__: note("logging object")
    litellm.print_verbose = builtins.print = trapped
    watching = True

def parser_of(name):
    from litellm.llms.anthropic.chat.handler import ModelResponseIterator
    from litellm.types.utils import LlmProviders
    from litellm.utils import ProviderConfigManager
    provider, _, model = name.partition("/")
    if provider == "handler":
        return ModelResponseIterator(streaming_response=iter(()), sync_stream=True)
    config = ProviderConfigManager.get_provider_chat_config(model, LlmProviders(provider))
    return config.get_model_response_iterator(streaming_response=iter(()), sync_stream=True)

def parse(parser, event):
    try:
        chunk = parser.chunk_parser(event)
    except Exception as error:
        return type(error).__name__
    if isinstance(chunk, dict):
        return [chunk["text"], chunk["finish_reason"] or None, chunk["usage"]]
    [choice], usage = chunk.choices, getattr(chunk, "usage", None)
    count = usage and [usage.prompt_tokens, usage.completion_tokens]
    return [choice.delta.content, choice.finish_reason or None, count]

async def main(show):
    events = json.loads(sys.stdin.readline())
    await LitellmRequests().ready()
    parsers = {name: parser_of(name) for name in events}
    show(json.dumps({
        name: parser and [parse(parser, event) for event in events[name]]
        for name, parser in parsers.items()
    }))
    writers = {}
    for line in sys.stdin:
        asked = json.loads(line)
        effort = asked.pop("effort", "low")
        one = call(bound=10**6, **asked)
        writer = writers.setdefault(effort, RequestWriter(effort))
        if not watching:
            set_traps()
        request = await writer.write(one)
        check_url(request.url, one.base_url)
        check_request(request.body, one.dialect, one.model, one.cap, one.bound,
                      has_schema=bool(one.schema), must_not_store=one.must_not_store)
        show(json.dumps([
            one.dialect, one.may_think_unseen, bool(one.schema), request.url,
            {k.lower(): v.replace(KEY_PLACEHOLDER, "KEY") for k, v in request.headers.items()},
            request.body.decode(),
        ]))
    import litellm
    lists = ("callbacks", "success_callback", "failure_callback", "input_callback",
             "_async_success_callback", "_async_failure_callback", "service_callback")
    watched = seen[:]
    os.environ["LITELLM_LOG"], logging.getLogger("any").warning("the traps work")
    show(json.dumps([{name: getattr(litellm, name) for name in lists}, litellm.telemetry,
                     watched, seen[-2:]]))

asyncio.run(main(print))
"""
"""Has litellm parse the events of a first line, then write the requests of a line each, and watches
what it does besides."""


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
GOOD = {
    "id": "1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}],
    "usage": USAGE,
}
CHAT = [GOOD, GOOD | {"usage": USAGE | {"prompt_tokens": "about 10"}}]
MESSAGES = [
    {"type": "message_start", "message": {"usage": {"output_tokens": 1}}},
    {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 90, "output_tokens": 9}},
    {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 0, "output_tokens": 3}},
]
COHERE = [
    {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hello"}}}},
    {
        "type": "message-end",
        "delta": {
            "finish_reason": "COMPLETE",
            "usage": {"tokens": {"input_tokens": 10, "output_tokens": 5}},
        },
    },
]
WITHOUT_PARSER = ("anthropic", "azure", "bedrock", "gemini", "vertex_ai")
UNKNOWN_TO_LITELLM = ("huggingface", "perplexity")
"""Providers whose models litellm asks in another way, or after a look at the network."""

OTHERS = ("cohere", "responses", "server", *UNKNOWN_TO_LITELLM, *WITHOUT_PARSER)
CHATTING = [kind for kind in MODELS if kind not in OTHERS]


@dataclass(frozen=True)
class WrittenRequests:
    """What litellm wrote, and what it did besides."""

    frozen: list[tuple[dict[str, Any], list[Any]]]
    """The requests that its own client posted, and what it wrote for each."""
    others: list[list[Any]]
    besides: list[Any]
    parsed: dict[str, Any]
    """What its parsers give for each event; None where there is no parser."""


@pytest.fixture(scope="module")
def written() -> WrittenRequests:
    """Let litellm parse all events and write all requests in one process: loading it takes long."""
    rows = [json.loads(line) for line in FROZEN.read_text(encoding="utf-8").split("\n")[:-1]]
    others = [
        asked_of({"provider": provider, "model": model, "variant": variant})
        | ({"base_url": "https://example.com/v1"} if not PROVIDERS[provider].base_url else {})
        for provider, _, model in (name.partition("/") for name in MODELS.values())
        for variant in ("plain", "all", "think")
        if model
    ]
    asked = [*map(asked_of, rows), *others]
    events: dict[str, Any] = {MODELS[kind]: CHAT for kind in (*CHATTING, *WITHOUT_PARSER)}
    events |= {"handler/anthropic": MESSAGES, MODELS["cohere"]: COHERE}
    keys = {variable: "sk-canary" for one in PROVIDERS.values() for variable in one.variables}
    done = subprocess.run(
        [sys.executable, "-P", "-c", WRITE],
        input="".join(json.dumps(one) + "\n" for one in (events, *asked)),
        env={"PYTHONPATH": ":".join(sys.path), "HOME": os.environ["HOME"], **keys},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    parsed, *requests, besides = map(json.loads, done.stdout.splitlines())
    assert len(requests) == len(asked)
    frozen = [*zip(rows, requests[: len(rows)], strict=True)]
    return WrittenRequests(frozen, requests[len(rows) :], besides, parsed)


def asked_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the call that a frozen request was written for."""
    asked = {"provider": row["provider"], "model": row["model"], "cap": 300}
    asked["base_url"] = PROVIDERS[row["provider"]].base_url
    asked |= VARIANTS[row["variant"]]
    if row["provider"] == "openrouter" and row["variant"] != "own":
        asked["most"] = {"prompt": 2.0, "completion": 2.5}
    if "schema" in asked:
        asked["schema"] = json.dumps(asked["schema"], ensure_ascii=False)
    return asked


DECIDED_BY_THE_TABLE = frozenset(
    {
        "max_completion_tokens",
        "max_tokens",
        "output_config",
        "output_format",
        "p",
        "reasoning",
        "reasoning_effort",
        "temperature",
        "thinking",
        "thinkingConfig",
        "top_p",
    }
)
"""What `families.toml` decides (test_request_writer.py), whatever litellm would send."""


def without_the_tables(body: dict[str, Any]) -> dict[str, Any]:
    """Return what of a body litellm alone decides; of messages the texts."""
    kept = {name: value for name, value in body.items() if name not in DECIDED_BY_THE_TABLE}
    if "generationConfig" in kept:
        kept["generationConfig"] = without_the_tables(kept["generationConfig"])
    if "messages" in kept:
        kept["messages"] = [{**said, "role": ""} for said in kept["messages"] if said["content"]]
    return kept


@pytest.mark.sampled(0.34)
def test_requests_are_those_of_litellms_own_client(written: WrittenRequests) -> None:
    """But for what the table decides, and what the price list knows of schemas."""
    listed = [(row, one) for row, one in written.frozen if one[2] == row["schema"]]
    assert len(listed) > 80
    for row, (dialect, _, shaped, url, headers, body) in listed:
        found = {
            "dialect": dialect,
            "schema": shaped,
            "url": url,
            "headers": {name: headers[name] for name in ALLOWED_HEADERS & headers.keys()},
            "body": without_the_tables(json.loads(body)),
        }
        kept = {**row, "body": without_the_tables(row["body"])}
        kept["headers"] = {n: v for n, v in row["headers"].items() if n in ALLOWED_HEADERS}
        assert found == {name: kept[name] for name in found}, (row["model"], row["variant"])


def test_writing_says_keeps_and_reads_nothing(written: WrittenRequests) -> None:
    """No log, print, callback, connection or program, and no variable that has a value."""
    callbacks, telemetry, seen, last = written.besides
    assert last == [["read", "LITELLM_LOG", True], ["log", "the traps work"]]
    assert not any(callbacks.values())
    assert telemetry is False
    assert [what for what in seen if what[0] != "read"] == []
    assert {name for _, name, has_value in seen if has_value} == set()
    for _, _, _, url, headers, body in written.others:
        assert "sk-canary" not in url + str(headers) + body
        assert sum("KEY" in value for value in headers.values()) == 1


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_has_a_name_and_a_way_through_all_faults(name: str) -> None:
    assert name in PROVIDERS
    assert any(model.startswith(f"{name}/") for model in MODELS.values())


def test_no_provider_is_refused_and_asked() -> None:
    assert not provider_refusals().keys() & PROVIDERS.keys()


# Why Baton reads answers itself: what litellm's parsers of chunks don't give. A reader of ours can
# go once its provider's parser gives text, count and reason of the end of every chunk, also of a
# bad one. Then the test of that provider fails here; docs/cloud-providers.md has the list.


@pytest.mark.parametrize("kind", CHATTING)
def test_text_and_end_beside_a_bad_count_are_lost(written: WrittenRequests, kind: str) -> None:
    found, lost = written.parsed[MODELS[kind]]
    assert found == ["Hello", "stop", [10, 5]]
    assert lost in ("ValidationError", "ValueError", "TypeError")


@pytest.mark.parametrize("kind", WITHOUT_PARSER)
def test_a_configuration_has_no_parser(written: WrittenRequests, kind: str) -> None:
    assert written.parsed[MODELS[kind]] is None


def test_anthropics_handler_makes_up_counts_and_ends(written: WrittenRequests) -> None:
    start, large, small = written.parsed["handler/anthropic"]
    assert start[2] == [0, 1], "a count that didn't come is 0"
    assert large == ["", "stop", [90, 9]], "a reason that didn't come is stop"
    assert small[2] == [0, 3], "a smaller count replaces a larger one"


def test_cohere_gives_no_count_and_no_end(written: WrittenRequests) -> None:
    assert written.parsed[MODELS["cohere"]] == [["Hello", None, None], ["", None, None]]


# What is called of litellm by names that it doesn't promise to keep. One that changed may write
# another request: compare the requests of its dialect with the frozen ones, then pin it again.

CONVERSE = "llms.bedrock.chat.converse_transformation"
PINNED = {
    "llms.vertex_ai.gemini.transformation._transform_request_body": "699f916d279926ee",
    "llms.anthropic.chat.transformation.AnthropicConfig.transform_request": "eeef892b36b0c921",
    f"{CONVERSE}.AmazonConverseConfig.transform_request": "e8c3cac88f6622d6",
    "llms.cohere.chat.v2_transformation.CohereV2ChatConfig.transform_request": "40b6b9834fb4f187",
    "utils.ProviderConfigManager.get_provider_chat_config": "6d86619014b4ae45",
}
"""The first signs of the SHA-256 of each one's source, of litellm 1.106.2."""

HASH = """
import hashlib, inspect, json, os, sys
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import importlib

def found(path):
    parts, place = ["litellm", *path.split(".")], len(path.split("."))
    while True:
        try:
            one = importlib.import_module(".".join(parts[:place]))
            break
        except ImportError:
            place -= 1
    for name in parts[place:]:
        one = getattr(one, name)
    return one

print(json.dumps({
    path: hashlib.sha256(inspect.getsource(found(path)).encode()).hexdigest()[:16]
    for path in json.loads(sys.argv[1])
}))
"""


@pytest.mark.sampled(0.34)
def test_what_is_called_of_litellm_is_what_was_compared() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", HASH, json.dumps([*PINNED])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == PINNED


def test_each_dialect_that_litellm_writes_is_compared(written: WrittenRequests) -> None:
    """The private function is called for Gemini's alone, of both providers."""
    frozen = {dialect for _, (dialect, *_) in written.frozen}
    assert {"messages", "gemini"} <= frozen
    others = {dialect for dialect, *_ in written.others}
    assert {"cohere", "converse", "gemini", "messages", "chat", "responses"} <= others
