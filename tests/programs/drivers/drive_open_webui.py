"""Open WebUI's own server, which is asked over its API as its page does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

START_SECONDS = 240
PROMPT = Path(os.environ["PROMPT_FILE"]).read_text(encoding="utf-8")
MODEL = "baton/auto"

with socket.create_server(("127.0.0.1", 0)) as free:
    PORT = free.getsockname()[1]
ROOT = f"http://127.0.0.1:{PORT}"


def ask(path: str, body: Any = None, token: str = "") -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    return urllib.request.urlopen(urllib.request.Request(ROOT + path, data, headers), timeout=120)


def chat(token: str, prompt: str, *, model: str = MODEL, stream: bool = False) -> Any:
    messages = [{"role": "user", "content": prompt}]
    body = {"model": model, "messages": messages, "stream": stream}
    return ask("/api/chat/completions", body, token)


def stream(token: str) -> list[str]:
    pieces = []
    for line in chat(token, PROMPT, stream=True):
        data = line.decode().removeprefix("data: ").strip()
        if data.startswith("{"):
            pieces += [choice["delta"].get("content") for choice in json.loads(data)["choices"]]
    return [piece for piece in pieces if piece]


def long(token: str) -> str:
    text: str = json.load(chat(token, PROMPT))["choices"][0]["message"]["content"]
    return text


def error(token: str) -> list[str]:
    """Return what the page shows for an unknown model, and for a prompt that is too long."""
    shown = []
    for model, prompt in (("baton/nothing", "Hello"), (MODEL, "All work and no play. " * 6000)):
        try:
            chat(token, prompt, model=model)
            shown.append("")
        except urllib.error.HTTPError as failure:
            detail = json.dumps(json.load(failure))
            known = ("Model not found", "context")
            shown.append(next((words for words in known if words in detail), detail))
    return shown


def main(column: str) -> None:
    environ = {
        **os.environ,
        "WEBUI_AUTH": "false",
        "DATA_DIR": str(Path("data").absolute()),
        "WEBUI_SECRET_KEY": "none",
        "OFFLINE_MODE": "true",
        "RAG_EMBEDDING_ENGINE": "openai",  # so that no model is loaded for it
        "BYPASS_EMBEDDING_AND_RETRIEVAL": "true",
        "SCARF_NO_ANALYTICS": "true",
        "ANONYMIZED_TELEMETRY": "false",
    }
    command = ["open-webui", "serve", "--host", "127.0.0.1", "--port", str(PORT)]
    with subprocess.Popen(command, env=environ, stdout=sys.stderr) as server:
        try:
            end = time.monotonic() + START_SECONDS
            while True:
                try:
                    ask("/health")
                    break
                except OSError:
                    if server.poll() is not None or time.monotonic() > end:
                        raise
                    time.sleep(0.5)
            signed_in = json.load(ask("/api/v1/auths/signin", {"email": "", "password": ""}))
            token = signed_in["token"]
            models = {model["id"] for model in json.load(ask("/api/models", token=token))["data"]}
            assert MODEL in models, models
            print(json.dumps({"stream": stream, "long": long, "error": error}[column](token)))
        finally:
            server.kill()


main(sys.argv[1])
