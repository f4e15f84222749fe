"""Every model that is listed can be asked: the gateway would send what litellm writes for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from baton.platform.secrets import PROVIDERS
from baton.workers.cloud.price_table import snapshot

WRITE = """
import asyncio, json, sys
from baton.core.messages import Message, Role, max_input_tokens
from baton.workers.cloud.child.litellm_requests import LitellmRequests
from baton.workers.cloud.child.request_guard import check_request, check_url
from workers.cloud.child.test_cloud_call import call

said = [Message(Role.SYSTEM, "You are brief."), Message(Role.USER, "What is a hold?")]

async def main():
    writer = LitellmRequests("low")
    for line in sys.stdin:
        asked = json.loads(line)
        one = call(bound=max_input_tokens(said), cap=4096, **asked)
        one.messages = [{"role": m.role.value, "content": m.text} for m in said]
        try:
            request = await writer.write(one)
            check_url(request.url, one.base_url)
            check_request(request.body, one.dialect, one.model, one.cap, one.bound,
                          must_not_store=one.is_openais)
        except Exception as error:
            print(json.dumps([asked["provider"] + "/" + asked["model"], repr(error)]))

asyncio.run(main())
"""


def refused(models: list[str]) -> list[list[str]]:
    """Return which requests would not be sent, each with the reason."""
    asked = []
    for name in models:
        provider, _, model = name.partition("/")
        base_url = PROVIDERS[provider].base_url or "https://example.com/v1"
        call = {"provider": provider, "model": model, "base_url": base_url}
        if provider == "openrouter":
            call["most"] = {"prompt": 2.0, "completion": 2.5}
        asked.append(call)
    done = subprocess.run(
        [sys.executable, "-P", "-c", WRITE],
        input="".join(json.dumps(call) + "\n" for call in asked),
        env={"PYTHONPATH": ":".join(sys.path), "HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_listed_model_can_be_asked() -> None:
    """All in one process: loading litellm takes longer than writing a thousand requests.

    Two names that could be listed once, and weren't sent, are found.
    """
    short, other = "fireworks_ai/glm-5p2", "vertex_ai/xai/grok-4.3"
    models = snapshot().models
    assert not {short, other} & models.keys()
    found = refused([*models, short, other])
    assert [name for name, _ in found] == [short, other], found
    assert "another model" in found[0][1]
    assert "the answer's cap" in found[1][1]
