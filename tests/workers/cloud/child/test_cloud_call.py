"""What is asked for besides the text, and what a refusal can have cost."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from baton.ipc.process import Child, ChildProcess
from baton.workers.cloud.child import call_errors
from baton.workers.cloud.child.cloud_call import CloudCall, HttpRequest, RequestSettings
from baton.workers.cloud.child.main import TEXT_SECONDS, TextSender, unsent_call
from baton.workers.cloud.child.request_guard import check_request
from baton.workers.cloud.child.request_writer import own_request, settings_of
from baton.workers.cloud.messages import REPLIES, AnswerText, SendRequest

PLAIN = RequestSettings()
OPENAI = "https://api.openai.com/v1"


def _body(request: HttpRequest) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(request.body)
    return body


def call(provider: str = "openai", base_url: str = OPENAI, **more: Any) -> CloudCall:
    asked: dict[str, Any] = {
        "id": 1,
        "who": provider,
        "provider": provider,
        "model": "m",
        "base_url": base_url,
        "variable": "",
        "needs_key": True,
        "through_library": True,
        "messages": [{"role": "user", "content": "Hello"}],
        "cap": 300,
        "bound": 100,
        "context": 0,
        "connect": 5.0,
        "first": 1.0,
        "temperature": None,
        "seed": None,
        "announce": lambda host, body: None,
    }
    return CloudCall(**asked | more)


@pytest.mark.parametrize(
    ("base_url", "tier"),
    [
        (OPENAI, "default"),
        ("https://eu.api.openai.com/v1", "default"),
        ("https://openai.com.example/v1", None),
        ("https://notopenai.com/v1", None),
        ("http://127.0.0.1:8000/v1", None),
    ],
)
def test_openai_is_asked_for_the_tier_whose_price_is_known(base_url: str, tier: str | None) -> None:
    """Without that it takes the one that the user's project is set to, which may be dearer."""
    assert call(base_url=base_url).tier == tier
    assert _body(own_request(call(base_url=base_url), PLAIN)).get("service_tier") == tier


def test_a_server_is_asked_for_what_was_chosen_and_nothing_else() -> None:
    body = _body(own_request(call(), PLAIN))
    assert not body.keys() & {"seed", "temperature", "response_format"}
    assert (body["max_tokens"], body["stream"]) == (300, True)
    asked = call(seed=0, temperature=0.0, schema='{"type": "object"}', through_library=False)
    body = _body(own_request(asked, settings_of(asked, "low")))
    assert (body["seed"], body["temperature"]) == (0, 0.0)
    assert "response_format" in body


def test_a_request_can_be_read_where_it_is_shown() -> None:
    request = own_request(call(messages=[{"role": "user", "content": "Grüße, 你好"}]), PLAIN)
    assert "Grüße, 你好".encode() in request.body


def test_openai_is_asked_not_to_store_an_answer() -> None:
    for base_url in (OPENAI, "http://127.0.0.1:8000/v1"):
        asked = call(base_url=base_url)
        asked.set_dialect("responses")
        body = own_request(asked, PLAIN).body
        assert json.loads(body)["store"] is False
        check_request(
            body, "responses", asked.model, asked.cap, asked.bound, must_not_store=asked.is_openais
        )


VIOLATION = {
    "code": "The caller does not have permission to execute the specified operation",
    "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_X",
}


@pytest.mark.parametrize(
    ("provider", "status", "body", "declined"),
    [
        ("xai", 403, VIOLATION, False),
        ("xai", 403, {"error": "Your team is blocked."}, True),
        ("openai", 403, VIOLATION, True),
        ("gemini", 499, {"error": {"message": "The operation was cancelled."}}, False),
        ("openai", 408, {}, False),
        ("bedrock", 424, {"message": "The model failed while it processed the request."}, False),
        ("openai", 400, {}, True),
        ("openai", 307, {}, False),
        ("openai", 500, {}, False),
        ("openai", 500, {"error": {"message": "The server had an error."}}, True),
        ("openai", 503, {"error": "upstream connect error"}, False),
        ("openai", 502, {"message": "Bad gateway"}, False),
        ("openai", 504, {"error": {"message": "Timed out."}}, False),
        ("mistral", 503, {"object": "error", "message": "Overloaded"}, True),
        ("xai", 500, {"code": "internal", "error": "Internal error"}, True),
    ],
)
async def test_what_may_have_cost_something_is_not_declined(
    provider: str, status: int, body: dict[str, Any], declined: bool
) -> None:
    stream = httpx.ByteStream(json.dumps(body).encode())
    failure = await call_errors.response_failure(
        call(provider), httpx.Response(status, stream=stream), b"{}"
    )
    assert failure.failed.declined is declined


@pytest.mark.parametrize(
    ("said", "needed", "limit"),
    [
        (
            "This model's maximum context length is 128,000 tokens. However, you requested 130000"
            " tokens (125000 in the messages, 5000 in the completion).",
            130_000,
            128_000,
        ),
        ("This model's maximum context length is 4096 tokens.", 4097, 4096),
        ("The prompt is too long.", 8193, 8192),
        (f"The context length is {'9' * 4000}, not {'1,' + '000,' * 900}000.", 8193, 8192),
    ],
)
async def test_what_is_too_long_is_reported_in_the_numbers_of_the_provider(
    said: str, needed: int, limit: int
) -> None:
    stream = httpx.ByteStream(json.dumps({"error": {"message": said}}).encode())
    refused = httpx.Response(400, stream=stream)
    failure = await call_errors.response_failure(call(context=8192), refused, b"{}")
    assert (failure.failed.needed, failure.failed.limit) == (needed, limit)


async def test_a_form_that_a_worker_cannot_give_costs_nothing() -> None:
    said = {"error": {"message": "response_format: the schema is too deep."}}
    stream = httpx.ByteStream(json.dumps(said).encode())
    failure = await call_errors.response_failure(
        call(schema="{}"), httpx.Response(400, stream=stream), b"{}"
    )
    assert "can't give an answer in a set form: response_format" in str(failure)
    assert failure.failed.declined


def test_no_key_is_left_where_litellm_reads() -> None:
    code = (
        "import json, os; from baton.workers.cloud.child.main import take_environ\n"
        "print(json.dumps([take_environ(), dict(os.environ)]))"
    )
    keys = {"OPENAI_API_KEY": "a", "LAB": "b", "HTTPS_PROXY": "c", "LITELLM_LOG": "DEBUG"}
    kept = {"PATH": "/bin", "PYTHONPATH": ":".join(sys.path), "DISPLAY": ":0"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=keys | kept, capture_output=True, check=True
    )
    environ, left = json.loads(done.stdout)
    assert environ.items() >= (keys | kept).items()
    assert left.items() >= kept.items()
    assert not left.keys() & keys.keys()


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_gateway_that_fails_says_where_and_quotes_nothing(
    is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last words may be read only after it is gone."""
    read = ChildProcess._read_stderr

    def read_late(process: ChildProcess) -> None:
        if is_late:
            process._process.wait()
            time.sleep(0.1)
        read(process)

    monkeypatch.setattr(ChildProcess, "_read_stderr", read_late)
    child = Child(ChildProcess("gateway", dict(os.environ)), REPLIES)
    child.send(SendRequest())  # before it is set up
    await child.gone()
    assert child.why().startswith("It ended (exit code 1): AttributeError at ")
    assert "keys_file" not in child.stderr_end


async def test_no_text_is_lost_and_none_comes_after_the_last() -> None:
    frames: list[str] = []
    pieces: list[int] = []

    def send(message: AnswerText) -> None:
        frames.append(message.text)
        pieces.append(message.tokens)

    front: Any = SimpleNamespace(send=send)
    call = unsent_call("openai", "gpt-5-mini")
    call.set_dialect("responses")
    voice = TextSender(front, call)
    for text in ("A", "b", "", "c"):
        voice.add(text)
    assert frames[0] == "A"
    voice.finish()
    before = len(frames)
    await asyncio.sleep(2 * TEXT_SECONDS)  # the loop keeps the order of what is due
    assert (len(frames), "".join(frames)) == (before, "Abc")
    voice.add("d")
    voice.add("e")
    await asyncio.sleep(2 * TEXT_SECONDS)
    assert ("".join(frames), sum(pieces)) == ("Abcde", 5)


def delta(finish: str | None = None, **said: Any) -> dict[str, Any]:
    return {"choices": [{"delta": said, "finish_reason": finish}]}


FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"
THINKING: dict[str, list[dict[str, Any]]] = {
    "groq, raw": [delta(content="<think>\nOkay, so I"), delta(content=" want.\n</think>\n\n4")],
    "split marks": [delta(content=piece) for piece in ("<", "think", ">", "Hm", "</", "think>4")],
    "begun in the prompt": [delta(content="Okay, the user asks."), delta(content="</think>\n\n4")],
    "kimi": [delta(content="\u25c1think\u25b7Hm.\u25c1/think"), delta(content="\u25b74")],
    "harmony": [delta(content=f"<|channel|>analysis<|message|>Hm.{FINAL}"), delta(content="4")],
    "harmony, by channel": [delta(content="Hm.", channel="analysis"), delta(content="4")],
    "apart": [delta(reasoning_content="Hm."), delta(content="4")],
    "openrouter": [
        delta(content="", reasoning="Hm.", reasoning_details=[{"type": "x", "text": "Hm."}]),
        delta(content="4"),
    ],
    "snowflake": [
        delta(content="", reasoning_details=[{"type": "reasoning.text", "text": "Hm."}]),
        delta(content="4"),
    ],
    "mistral": [
        delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]),
        delta(content=[{"type": "text", "text": "4"}]),
    ],
    "gemini": [
        delta(content="<thought>Hm.", extra_content={"google": {"thought": True}}),
        delta(content="</thought>4"),
    ],
    "apart and marked": [delta(reasoning="Hm."), delta(content="<think>Hm.</think>4")],
    "two blocks": [delta(content="<think>a</think>\n<think>b"), delta(content="</think>4")],
}
"""How thoughts come before the answer "4"."""


def sent_text(data: bytes, size: int) -> str:
    """Return what the front gets of a stream that comes in pieces of some size."""
    said = ""

    def send(message: AnswerText) -> None:
        nonlocal said
        said = message.text if message.starts_again else said + message.text

    async def read() -> None:
        call = unsent_call("groq", "m")
        sender = TextSender(front, call)
        for start in range(0, len(data), size):
            sender.add(call.reader.feed(data[start : start + size]))
        sender.add(call.reader.rest())
        sender.finish()
        assert call.reader.at_end
        assert call.reader.written > 2, "thoughts count"

    front: Any = SimpleNamespace(send=send)
    asyncio.run(read())
    return said


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("how", THINKING)
def test_thoughts_are_not_an_answer_however_they_come(how: str, finish: str, size: int) -> None:
    events = [*THINKING[how], delta(finish)]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    data = "".join([*lines, "data: [DONE]\n\n"]).encode()
    assert sent_text(data, size) == "4"


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("said", ["<think>\nOkay, so I want", "[THINK]Hm.", "<reasoning>Hm"])
def test_thoughts_that_the_cap_cut_are_not_an_answer(said: str, size: int) -> None:
    whole = {"message": {"content": f"{said} more. " + "Hm. " * 9}, "finish_reason": "length"}
    assert sent_text(json.dumps({"choices": [whole]}).encode(), size) == ""


async def send_answer(*pieces: str, finish: str, is_plain: bool) -> tuple[list[str], bool]:
    """Return the answer as it stood after each message, and whether the model's is plain."""
    shown = [""]

    def send(message: AnswerText) -> None:
        shown.append(message.text if message.starts_again else shown[-1] + message.text)

    call = unsent_call("groq", "m")
    sender = TextSender(SimpleNamespace(send=send), call, is_plain=is_plain)  # type: ignore[arg-type]
    for piece in pieces:
        sender.add(piece)
        shown.append(shown[-1])
    call.reader.finish = finish
    sender.finish()
    return shown[1:], sender.is_plain


async def test_a_beginning_is_held_back_until_an_answer_came_without_thoughts() -> None:
    for finish in ("length", "", "stop"):
        shown, is_plain = await send_answer("Paris", " it is.", finish=finish, is_plain=False)
        assert (shown[0], shown[-1], is_plain) == ("", "Paris it is.", finish == "stop")
    shown, is_plain = await send_answer("Paris", " it is.", finish="", is_plain=True)
    assert (shown[0], shown[-1], is_plain) == ("Paris", "Paris it is.", True)


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("thoughts", [("Simple.", "\n</think>\n"), ("<think>", "Hm.</think>")])
async def test_thoughts_have_the_beginning_held_back_again(
    thoughts: tuple[str, ...], is_plain: bool
) -> None:
    shown, is_plain = await send_answer(*thoughts, "4", "2", finish="stop", is_plain=is_plain)
    assert (shown[-1], is_plain) == ("42", False)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Key sk-abcdefghijkl is wrong", "Key [key] is wrong"),
        ("Key sk-abcde...fghijkl", "Key [key]...fghijkl"),
        ("sk-abcdefghijklsk-abcdefghijkl", "[key][key]"),
        ("nothing of it", "nothing of it"),
        ("", ""),
    ],
)
def test_keys_are_removed_from_what_providers_say(said: str, left: str) -> None:
    assert call_errors.without_key(said, "sk-abcdefghijkl") == left
    assert call_errors.without_key(said, "") == said
