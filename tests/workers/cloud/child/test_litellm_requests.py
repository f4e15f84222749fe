"""What litellm writes: the requests of its own client, and nothing that it keeps or says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from baton.platform.secrets import PROVIDERS
from baton.workers.cloud.child.request_guard import ALLOWED_HEADERS
from baton.workers.cloud.worker import PROVIDER_NAMES, REFUSED_PROVIDERS
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
import asyncio, json, sys
from baton.workers.cloud.child.cloud_call import KEY_PLACEHOLDER
from baton.workers.cloud.child.litellm_requests import LitellmRequests
from baton.workers.cloud.child.request_guard import check_request, check_url
from workers.cloud.child.test_cloud_call import call

{setting}
async def main():
    writers = {{}}
    for line in sys.stdin:
        asked = json.loads(line)
        effort = asked.pop("effort", "low")
        one = call(bound=10**6, **asked)
        writer = writers.setdefault(effort, LitellmRequests(effort))
        await writer.ready()
        {before}
        request = await writer.write(one)
        check_url(request.url, one.base_url)
        check_request(request.body, one.dialect, one.model, one.cap, one.bound,
                      has_schema=bool(one.schema), must_not_store=one.is_openais)
        print(json.dumps([
            one.dialect, one.may_think_unseen, bool(one.schema), request.url,
            {{k.lower(): v.replace(KEY_PLACEHOLDER, "KEY") for k, v in request.headers.items()}},
            request.body.decode(),
        ]))
    {after}
asyncio.run(main())
"""


def write(asked: list[dict[str, Any]], **parts: str) -> list[list[Any]]:
    """Let litellm write requests in a process of its own; return what it prints, a line each."""
    code = WRITE.format(**{"setting": "", "before": "pass", "after": "pass"} | parts)
    keys = {variable: "sk-canary" for one in PROVIDERS.values() for variable in one.variables}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        input="".join(json.dumps(one) + "\n" for one in asked),
        env={"PYTHONPATH": ":".join(sys.path), "HOME": os.environ["HOME"], **keys},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


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


def test_requests_are_those_of_litellms_own_client() -> None:
    rows = [json.loads(line) for line in FROZEN.read_text(encoding="utf-8").split("\n")[:-1]]
    written = write([asked_of(row) for row in rows])
    for row, (dialect, may_think, shaped, url, headers, body) in zip(rows, written, strict=True):
        found = {
            "dialect": dialect,
            "may_think": may_think,
            "schema": shaped,
            "url": url,
            "headers": {name: headers[name] for name in ALLOWED_HEADERS & headers.keys()},
            "body": json.loads(body),
        }
        assert found == {name: row[name] for name in found}, (row["model"], row["variant"])


TRAPS = """
import builtins, logging, os, socket, subprocess
seen, watching = [], False
def note(what):
    if watching:
        seen.append(what)
def heard(event, given):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn")):
        note([event, str(given)])
sys.addaudithook(heard)
logging.Logger.handle = lambda self, record: note(["log", record.getMessage()])
printed = builtins.print
def trapped(*given, **more):
    note(["print", given])
plain = type(os.environ).__getitem__
type(os.environ).__getitem__ = lambda self, name: (
    note(["read", name, self.encodekey(name) in self._data]), plain(self, name)
)[1]
"""


def test_writing_says_keeps_and_reads_nothing() -> None:
    """No log, print, callback, connection or program, and no variable that has a value."""
    asked = [
        asked_of({"provider": provider, "model": model, "variant": variant})
        | ({"base_url": "https://example.com/v1"} if not PROVIDERS[provider].base_url else {})
        for provider, _, model in (name.partition("/") for name in MODELS.values())
        for variant in ("plain", "all", "think")
        if model
    ]
    before = """
        import litellm
        from litellm.litellm_core_utils import litellm_logging
        global watching
        if not watching:
            _ = litellm.supports_reasoning("openai/gpt-5-mini")
            os.environ.clear()
            os.environ["OPENAI_API_KEY"] = os.environ["LITELLM_LOG"] = "sk-canary"
            litellm_logging.Logging.__init__ = lambda *_, **__: note("logging object")
            litellm.print_verbose = trapped
            builtins.print, watching = trapped, True
            globals()["print"] = printed
    """.strip().replace("\n        ", "\n        ")
    after = """
    lists = ("callbacks", "success_callback", "failure_callback", "input_callback",
             "_async_success_callback", "_async_failure_callback", "service_callback")
    watched = seen[:]
    os.environ["LITELLM_LOG"], logging.getLogger("any").warning("the traps work")
    printed(json.dumps([{name: getattr(litellm, name) for name in lists}, litellm.telemetry,
                        watched, seen[-2:]]))
    """.strip()
    *requests, (callbacks, telemetry, seen, last) = write(
        asked, setting=TRAPS, before=before, after=after
    )
    assert len(requests) == len(asked)
    assert last == [["read", "LITELLM_LOG", True], ["log", "the traps work"]]
    assert not any(callbacks.values())
    assert telemetry is False
    assert [what for what in seen if what[0] != "read"] == []
    assert {name for _, name, has_value in seen if has_value} == set()
    for _, _, _, url, headers, body in requests:
        assert "sk-canary" not in url + str(headers) + body
        assert sum("KEY" in value for value in headers.values()) == 1


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_has_a_name_and_a_way_through_all_faults(name: str) -> None:
    assert name in PROVIDER_NAMES
    assert any(model.startswith(f"{name}/") for model in MODELS.values())


def test_no_provider_is_refused_and_asked() -> None:
    assert not REFUSED_PROVIDERS.keys() & PROVIDERS.keys()
