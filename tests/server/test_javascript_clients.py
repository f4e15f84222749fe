"""The clients for JavaScript (OpenAI's, and Vercel's AI SDK) use Baton over real HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from baton.core.messages import Card, Chunk, Request, Text
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import served_baton

FOLDER = Path(__file__).parent.parent / "javascript"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        NODE is None or not (FOLDER / "node_modules").exists(),
        reason="needs Node.js and `npm ci` in tests/javascript",
    ),
]


def script(request: Request) -> Iterable[Chunk]:
    if "Call the tool" in request.messages[-1].text:
        yield Text('<tool_call>{"name": "weather", "arguments": {"place": "Oslo"}}</tool_call>')
    elif request.shape is not None:
        yield Text(request.shape.schema)
    else:
        yield from (Text("Hello, "), Text("you "), Text("there."))


async def test_they_get_what_the_worker_wrote(tmp_path: Path) -> None:
    assert NODE is not None
    worker = ScriptedWorker(script, Card("small", "local", "Small", context=8192))
    async with served_baton(tmp_path, [worker]) as served:
        process = await asyncio.create_subprocess_exec(
            NODE,
            "clients.mjs",
            cwd=FOLDER,
            env={**os.environ, "BATON_URL": served.url, "BATON_TOKEN": served.token},
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await process.communicate()
    assert process.returncode == 0
    said = "Hello, you there."
    assert json.loads(printed) == {
        "chat": said,
        "chatStream": said,
        "responses": said,
        "responsesStream": said,
        "tool": {"place": "Oslo"},
        "schema": '{"type": "object", "properties": {}}',
        "sdk": said,
        "sdkTokens": 3,
        "sdkStream": said,
    }
