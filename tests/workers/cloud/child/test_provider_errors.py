"""What becomes of providers' errors: the kind of failure, its sentence, and what to do.

Each line of provider_errors.jsonl is one answer of a provider: its status, headers and body (with
`stream` an event of a stream), and what a user should be shown. The bodies are written after the
form and the words that `source` documents, with other names and numbers. Of `set`, "aside" stayed
unused while the table of errors was written, and "late" was collected after that.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from baton.ipc.messages import Failed
from baton.ipc.parent_channel import Failure
from baton.platform.secrets import PROVIDERS
from baton.workers.cloud.child import call_errors, provider_errors
from baton.workers.cloud.child.cloud_call import CloudCall

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "provider_errors.jsonl").read_text("utf-8").splitlines()
]
KINDS = {
    "key": ("SecretMissing", "refused the key", "`baton keys set"),
    "region": ("WorkerError", "doesn't answer requests from here", "a new key doesn't help"),
    "moderation": ("WorkerError", "refused the text", "Reword it"),
    "fee": ("WorkerError", "for which it may charge a fee", "stays charged"),
    "credit": ("WorkerError", "is used up", "Top it up"),
    "access": ("WorkerError", "gives this account no access", "Settle that"),
    "model": ("WorkerError", "doesn't offer", "Nothing was charged."),
    "context": ("ContextTooLong", "", ""),
    "rate": ("WorkerUnavailable", "takes no more requests for now", "Try again in"),
    "overload": ("WorkerUnavailable", "is overloaded", "Try again in"),
    "address": ("WorkerError", "has nothing at this address", "Check the address"),
    "memory": ("WorkerError", "has too little memory for the model", "Choose a smaller model"),
    "refused": ("WorkerError", "refused the request", "Nothing was charged"),
    "failed": ("WorkerUnavailable", " failed", "Try again"),
}
"""The class of each kind of failure, and words of its message and its hint."""

CONTEXT = 100_000
"""The worker's context, which counts where a provider names none."""


def make_call(row: dict[str, Any]) -> CloudCall:
    """Return a call to the row's provider."""
    provider = row["provider"]
    call = CloudCall(
        id=1,
        who=PROVIDERS[provider].title if provider in PROVIDERS else "The lab",
        provider=provider,
        model="some-model-1",
        base_url=row.get("base_url", "https://127.0.0.1"),
        variable="" if provider != "server" else "LAB_KEY",
        needs_key=True,
        through_library=provider != "server",
        messages=[{"role": "user", "content": "Hello"}],
        cap=300,
        bound=100,
        context=CONTEXT,
        connect=5.0,
        first=1.0,
        temperature=None,
        seed=None,
        announce=lambda host, body: None,
    )
    call.set_dialect(row["dialect"])
    return call


async def failed_call(row: dict[str, Any], call: CloudCall, before: bytes = b"") -> Failed:
    """Return how a call ends that gets the row's answer; `before` came before it in a stream."""
    body = row["body"]
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    failure: Failure
    if row.get("stream"):
        call.reader.feed(before + f"data: {text}\n\n".encode())
        failure = call_errors.unfinished_failure(call)
    else:
        stream = httpx.ByteStream(text.encode())
        response = httpx.Response(row["status"], headers=row.get("headers"), stream=stream)
        failure = await call_errors.response_failure(call, response, b"{}")
    return failure.failed


SUCCEEDED = ("openrouter-not-free",)
"""Errors about a model that name another one of the list."""


async def mistakes_in(row: dict[str, Any]) -> list[str]:
    """Return what is otherwise than a user should be shown it."""
    expect, failed = row["expect"], await failed_call(row, make_call(row))
    error, message, hint = KINDS[expect["kind"]]
    if expect["kind"] == "model" and row["provider"] == "server":
        hint = "`baton config edit`"  # no list has its models
    elif expect["kind"] == "model" and row["name"] in SUCCEEDED:
        hint = "Its successor is "
    found = []
    if failed.error != error or message not in failed.message or hint not in failed.hint:
        found.append(f"it isn't of the kind {expect['kind']}")
    if "wait" in expect and f"Try again in {expect['wait']}" not in failed.hint:
        found.append(f"the wait isn't {expect['wait']}")
    if expect["kind"] == "context":
        limit = expect.get("limit") or CONTEXT
        if failed.limit != limit:
            found.append(f"the limit isn't {limit}")
        if failed.needed != expect["needed"] if expect.get("needed") else failed.needed <= limit:
            found.append(f"what is needed isn't {expect.get('needed')}")
    found += [
        f"{said!r} is missing" for said in expect.get("says", ()) if said not in failed.message
    ]
    found += [f"{said!r} is there" for said in expect.get("never", ()) if said in failed.message]
    if failed.declined is not expect.get("free", True):
        found.append(f"declined is {failed.declined}")
    return [*found, f"{failed.message} | {failed.hint}"] if found else []


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ROWS])
async def test_a_provider_s_error_is_explained(row: dict[str, Any]) -> None:
    assert await mistakes_in(row) == []


@pytest.mark.parametrize(
    "name",
    [
        "gemini-wrong-key",
        "gemini-list-wrong-key",
        "openai-quota",
        "anthropic-credit",
        "novita-balance",
        "openrouter-upstream",
        "cerebras-no-model",
        "cohere-no-model",
        "omlx-context",
        "openai-responses-context",
        "numbered-credits",
    ],
)
async def test_an_error_that_came_as_an_answer_is_one(name: str) -> None:
    """Some proxies answer with 200 whatever became of a request."""
    [row] = [row for row in ROWS if row["name"] == name]
    call = make_call(row)
    call.reader.feed(json.dumps(row["body"]).encode())
    assert call.reader.rest() == ""
    failed = call_errors.unfinished_failure(call).failed
    error, message, hint = KINDS[row["expect"]["kind"]]
    assert failed.error == error
    assert message in failed.message
    assert hint in failed.hint or not failed.declined


@pytest.mark.parametrize(
    "line", (Path(__file__).parents[1] / "setting_refusals.jsonl").read_text("utf-8").splitlines()
)
def test_what_is_asked_again_without_a_setting_is_of_no_other_kind(line: str) -> None:
    row = json.loads(line)
    said = provider_errors.error_sentence(row["error"])
    kinds = [provider_errors.find_kind({"x"}, status, row["error"], said) for status in (400, 422)]
    assert row["means"] is None or kinds == [None, None]


async def test_a_template_that_knows_no_system_role_is_asked_without_it() -> None:
    body = {"error": {"code": 500, "message": "System role not supported", "type": "server_error"}}
    call = make_call({"provider": "server", "dialect": "chat"})
    response = httpx.Response(500, stream=httpx.ByteStream(json.dumps(body).encode()))
    sent = json.dumps({"messages": [{"role": "system", "content": "S"}]}).encode()
    failed = (await call_errors.response_failure(call, response, sent)).failed
    assert (failed.option, failed.value, failed.declined) == ("system", "user", True)


ENDINGS = ("", ".", "..", "…", "!", "?", ":", ",", ";", "。", '."', " .", "\n", ")", ".)", "'")
WORDS = (
    "",
    "It can't be done",
    "Limit 3, used 4",
    "Overloaded",
    "<html>",
    "See https://x.example/a",
)
STATUSES = (0, 302, 400, 401, 402, 403, 404, 408, 413, 422, 429, 498, 500, 503, 529)


def is_well_ended(text: str) -> bool:
    """Whether each of a text's sentences has one stop at its end."""
    kept = text.partition(" What it had written is kept.")[0]
    ends = [not part or bool(re.search(r"[.!?…][\"'`)\]]*$", part)) for part in (text, kept)]
    return all(ends) and not re.search(r"[.!?…:;,。] ?[.;,:](?: |\)|$)", text)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("has_text", [False, True])
async def test_every_sentence_has_its_stop(status: int, has_text: bool) -> None:
    before = (
        b'data: {"choices": [{"index": 0, "delta": {"content": "So"}}]}\n\n' if has_text else b""
    )
    for words, ending, needs_key in itertools.product(WORDS, ENDINGS, (False, True)):
        body = {"error": {"message": words + ending, "type": "x"}}
        row = {"provider": "groq", "dialect": "chat", "status": status, "body": body}
        call = make_call(row | {"stream": status == 0})
        call.needs_key = needs_key
        failed = await failed_call(row | {"stream": status == 0}, call, before)
        assert is_well_ended(failed.message), failed.message
        assert is_well_ended(failed.hint), failed.hint
