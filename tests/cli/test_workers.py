"""`baton workers`: what can answer, and what else runs on this machine."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from baton.platform.settings import ServerWorkerSettings, load_settings
from support.command_line import Call

MODELS = {
    "models": [
        {"model": "baton-test:8b", "size": 5_200_000_000},
        {"model": "baton-test:120b-cloud", "remote_host": "https://ollama.com:443"},
    ]
}

OURS = """\
# my workers
[[workers]]
id = "mine"                   # the lab's
kind = "server"
model = "qwen3-32b"
base_url = "http://10.0.0.9:8000/v1"
api_key_env = "LAB_KEY"
price = { input = "0.0375", output = "2.5" }

[screen]
theme = "light"               # at noon
"""


@dataclass
class Ollama:
    """What answers like one; `asked` are the paths it was asked for."""

    port: int
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ollama]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            running.asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(MODELS).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running = Ollama(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{running.port}")
    monkeypatch.setattr("baton.workers.local.local_servers.TIMEOUT_SECONDS", 30)
    yield running
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def config(home: Path) -> Path:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(OURS)
    return file


def test_what_runs_here_is_shown_and_added_on_request(
    call: Call, ollama: Ollama, config: Path
) -> None:
    shown = call("workers", "detect")
    assert "baton-test-8b" in shown.out
    assert "5.2 GB" in shown.out
    assert "only forwarded to a cloud" in shown.out
    assert "--add" in shown.err
    assert config.read_text() == OURS
    assert ollama.asked == ["/api/tags"]

    assert call("workers", "detect", "--add", "baton-test-8b").code == 0
    assert config.read_text().startswith(OURS.split("[screen]")[0])
    assert "# at noon" in config.read_text()
    added = load_settings(config).workers[-1]
    assert added == ServerWorkerSettings(
        "baton-test-8b", "baton-test:8b", f"http://127.0.0.1:{ollama.port}/v1", here=True
    )
    # What is a worker already isn't new.
    assert "baton-test-8b" not in call("workers", "detect").out


def test_what_is_only_forwarded_is_added_as_cloud(call: Call, ollama: Ollama, home: Path) -> None:
    done = call("workers", "detect", "--add", "baton-test-120b-cloud")
    assert "needs a price" in done.err
    [added] = load_settings(home / "config" / "config.toml").workers
    assert isinstance(added, ServerWorkerSettings)
    assert (added.privacy, added.price) == ("cloud", None)


def test_what_is_found_is_reported_as_json(call: Call, ollama: Ollama) -> None:
    found = json.loads(call("workers", "detect", "--json").out)["models"]
    assert {
        "id": "baton-test-8b",
        "engine": "Ollama",
        "model": "baton-test:8b",
        "base_url": f"http://127.0.0.1:{ollama.port}/v1",
        "size": 5_200_000_000,
        "cloud": False,
    } in found


def test_a_model_that_was_not_found_is_named(call: Call, ollama: Ollama) -> None:
    done = call("workers", "detect", "nothing")
    assert done.code == 2
    assert "'nothing'" in done.err


@pytest.mark.parametrize("args", [["--offline"], []])
def test_offline_nothing_is_asked(
    call: Call, ollama: Ollama, args: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not args:
        monkeypatch.setenv("BATON_OFFLINE", "1")
    done = call("workers", "detect", *args)
    assert done.code == 2
    assert "offline" in done.err
    assert ollama.asked == []


def test_a_remote_worker_is_shown_with_its_price_and_how_far_texts_travel(
    call: Call, config: Path
) -> None:
    listed = " ".join(call("workers", "ls").out.split())
    assert "mine server qwen3-32b lan, $0.0375 in, $2.50 out per million tokens" in listed
    shown = call("workers", "show", "mine").out
    for fact in ("http://10.0.0.9:8000/v1", "in LAB_KEY", "lan", "$0.0375 in, $2.50 out"):
        assert fact in shown
    facts = json.loads(call("workers", "show", "mine", "--json").out)
    assert (facts["price"]["input"], facts["price"]["output"]) == ("0.0375", "2.5")
    assert facts["address"] == "http://10.0.0.9:8000/v1"
    rows = {row["id"]: row for row in json.loads(call("workers", "ls", "--json").out)["workers"]}
    assert rows["mine"]["privacy"] == "lan"
    assert rows["small"]["default"]


def test_skills_and_slots_are_shown(call: Call, home: Path) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        '[[workers]]\nid = "gpt"\nkind = "cloud"\nmodel = "openai/gpt-5-mini"\n'
        "slots = 3\nskills = { code = 4.5, math = 5, chat = 2 }\n"
    )
    shown = call("workers", "show", "gpt").out
    assert "math 5, code 4.5, chat 2 (of 5)" in shown
    assert "3 requests" in shown
    facts = json.loads(call("workers", "show", "gpt", "--json").out)
    assert (facts["slots"], facts["skills"]) == (3, {"code": 4.5, "math": 5.0, "chat": 2.0})
    assert "`baton models show small`" in call("workers", "show", "small").out


@pytest.mark.parametrize("tool", ["calculator", "units", "clock", "python"])
def test_tools_are_listed_as_such_and_can_be_tried(call: Call, tool: str) -> None:
    assert re.search(rf"^  {tool} +tool ", call("workers", "ls").out, re.MULTILINE)
    shown = call("workers", "show", tool).out
    assert "Note:" in shown
    assert "Longest answer:" not in shown
    facts = json.loads(call("workers", "show", tool, "--json").out)
    assert facts["kind"] == "tool"
    assert call("workers", "test", tool).out.startswith(f"{tool} works: ")
