"""What `baton ask` says and returns when a provider answers with an error, through the gateway."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Call, write_settings
from support.fake_cloud import BASES

ROWS: dict[str, dict[str, Any]] = {
    row["name"]: row
    for row in map(
        json.loads,
        (Path(__file__).parents[1] / "workers/cloud/child/provider_errors.jsonl")
        .read_text("utf-8")
        .splitlines(),
    )
}
SETTINGS = """
[budget]
day = "1"
[[workers]]
id = "far"
kind = "cloud"
model = "{provider}/{model}"
base_url = "{url}"
api_key_env = "FAR_KEY"
price = {{ input = "1", output = "2" }}
"""


@contextmanager
def answering(row: dict[str, Any]) -> Iterator[str]:
    """Serve the row's answer to each request; give the address."""
    text = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"])
    body = f"data: {text}\n\n".encode() if row.get("stream") else text.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(row["status"])
            for name, value in row.get("headers", {}).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{BASES[row['provider']]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "model", "code", "said"),
    [
        ("gemini-wrong-key", "gemini-2.5-flash", 3, "`baton keys set FAR_KEY`"),
        ("openai-region", "gpt-4o-mini", 6, "a new key doesn't help"),
        ("openrouter-moderation", "openai/gpt-5-mini", 6, "violence/graphic"),
        ("anthropic-credit", "claude-haiku-4-5", 6, "Top it up"),
        ("openrouter-bad-id", "openai/gpt-5-mini", 6, "doesn't offer openrouter/openai/gpt-5-mini"),
        ("deepseek-context", "deepseek-chat", 6, "140,000 tokens, and the worker can hold 131,072"),
        ("openrouter-stream-rate", "openai/gpt-5-mini", 6, "DeepInfra: Rate limit reached"),
    ],
)
def test_an_error_has_its_exit_code_and_says_what_helps(
    name: str, model: str, code: int, said: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAR_KEY", "sk-0123456789")
    row = ROWS[name]
    with answering(row) as url:
        write_settings(SETTINGS.format(provider=row["provider"], model=model, url=url))
        done = call("ask", "-m", "far", "--budget", "0.9", "Hello")
    assert (done.code, done.out) == (code, ""), done.err
    assert said in " ".join(done.err.split())
