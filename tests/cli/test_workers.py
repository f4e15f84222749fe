"""`baton workers`: what can answer, and what else runs on this machine."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from baton.compose.worker_entries import AddOptions, detected_entries
from baton.core.errors import ConfigError
from baton.platform.settings import ServerWorkerSettings, load_settings
from baton.workers.local import ServerModel
from support.cloud_worker_calls import Log, new_gateway
from support.command_line import Call
from support.fake_cloud import Cloud, CloudBehaviour, Fault, Reply

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
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
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
        "slots": None,
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


@contextmanager
def llama_servers(hosts: Sequence[str], model: str) -> Iterator[dict[str, list[str]]]:
    """Run what answers like llama-server at its usual port; yield what each host was asked."""
    asked: dict[str, list[str]] = {host: [] for host in hosts}
    answers = {"data": [{"id": model, "owned_by": "llamacpp"}], "total_slots": 2}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[self.headers["host"].partition(":")[0]].append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answers).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    with ExitStack() as running:
        for host in hosts:
            try:
                server = ThreadingHTTPServer((host, 8080), Handler)
            except OSError as error:
                pytest.skip(f"{host}:8080 isn't an address here, or taken: {error}")
            running.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            running.callback(thread.join)
            running.callback(server.shutdown)
        yield asked


def test_a_model_of_two_named_hosts_is_added_as_one_worker(call: Call, home: Path) -> None:
    """They are real addresses of loopback, asked through the real gateway."""
    hosts = ("127.0.0.77", "127.0.0.78")
    named = ("--host", hosts[0], "--host", hosts[1], "--host", hosts[0])
    urls = [f"http://{host}:8080/v1" for host in hosts]
    with llama_servers((*hosts, "127.0.0.79"), "baton-test") as asked:
        shown = call("workers", "detect", *named, "--host", "127.0.0.80")
        assert "No engine answered on 127.0.0.80 (Ollama" in shown.err
        assert "baton-test" in shown.out
        assert "on 127.0.0.77, 127.0.0.78" in shown.out
        assert not (home / "config" / "config.toml").exists()
        [found] = json.loads(call("workers", "detect", *named, "--json").out)["models"]
        assert (found["base_url"], found["slots"], found["engine"]) == (urls, 2, "llama-server")
        assert call("workers", "detect", *named, "--add").code == 0
        assert "No engine with new models" in call("workers", "detect", *named).err
    assert asked["127.0.0.79"] == [], "nobody named it"
    assert {*asked["127.0.0.77"]} == {"/v1/models", "/props"}
    [added] = load_settings(home / "config" / "config.toml").workers
    assert added == ServerWorkerSettings(
        "baton-test", "baton-test", tuple(urls), here=True, slots=2
    )


async def test_offline_only_this_machine_is_asked_for_engines(tmp_path: Path) -> None:
    """The command refuses before; the child process that could reach others does so as well."""
    gateway = new_gateway(Log(), tmp_path, offline=True)
    with llama_servers(["127.0.0.77"], "baton-test"):
        found = await gateway.find_engines("127.0.0.77", 5)
        assert [model.model for model in found] == ["baton-test"]
        assert await gateway.find_engines("198.51.100.1", 5) == []
    await gateway.aclose()


def test_models_of_another_host_need_a_price(home: Path) -> None:
    there = ServerModel("m", "vLLM", "m", ("http://10.0.0.2:8000/v1", "http://10.0.0.3:8000/v1"))
    with pytest.raises(ConfigError, match="What m costs isn't known"):
        detected_entries([there], AddOptions())
    [entry] = detected_entries([there], AddOptions(price=("0", "0")))
    assert entry["price"] == {"input": "0", "output": "0"}
    assert "here" not in entry


@pytest.mark.parametrize(
    "host",
    ["http://10.0.0.2", "10.0.0.2:8000", "gpu/x", "user@gpu", "", "gp\u00fc", "a b", "gpu:1"],
)
def test_what_is_not_a_host_is_refused(call: Call, host: str) -> None:
    done = call("workers", "detect", "--host", host)
    assert done.code == 2
    assert "is not the name of a host" in done.err


def test_a_worker_with_several_addresses_is_shown_and_tested_at_each(
    call: Call, home: Path
) -> None:
    with Cloud() as up, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.close()
        urls = [up.base("server"), f"http://127.0.0.1:{port}/server/v1"]
        write_worker(home, f"base_url = {json.dumps(urls)}\nslots = [3, 5]\nhere = true")
        shown = call("workers", "show", "lab").out
        assert f"Address 1:      {urls[0]} (this machine, 3 at once)" in shown
        assert f"Address 2:      {urls[1]} (this machine, 5 at once)" in shown
        assert "8 requests" in shown
        facts = json.loads(call("workers", "show", "lab", "--json").out)
        assert facts["addresses"] == [
            {"url": urls[0], "slots": 3},
            {"url": urls[1], "slots": 5},
        ]
        done = call("workers", "test", "lab")
        assert f"{urls[0]} works: " in done.out
        assert f"{urls[1]} fails: " in done.out
        assert done.code == 6
        report = json.loads(call("workers", "test", "lab", "--json").out)
        assert report["status"] == "failed"
        assert [each["status"] for each in report["addresses"]] == ["finished", "failed"]
        assert up.posts == 2


def test_the_trace_and_the_egress_log_name_each_address_of_a_moved_call(
    call: Call, home: Path
) -> None:
    with Cloud() as up, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.close()
        urls = [f"http://127.0.0.1:{port}/server/v1", up.base("server")]
        write_worker(home, f"base_url = {json.dumps(urls)}\nhere = true")
        for number in range(30):  # half of all prompts go to the other one first
            asked = json.loads(call("ask", "-m", "lab", "--json", f"Say hello, {number}.").out)
            assert asked["answer"] == Reply().text
            rows = json.loads(call("egress", "ls", "--run", asked["run_id"], "--json").out)[
                "requests"
            ]
            if len(rows) > 1:
                break
        traced = call("trace", asked["run_id"]).out
        down, there = (url.split("/")[2] for url in urls)
        assert f"had no connection to {down}, so that did not leave" in traced
        assert re.search(rf"sent [\d,]+ bytes to .*{there}", traced)
        assert "tried again at once" in traced
    assert len(asked["calls"]) == 1
    left = {row["destination"]: row["left"] for row in rows}
    assert left == {down: False, there: True}


def write_worker(home: Path, facts: str) -> None:
    """Configure the worker `lab`, of a model of the kit's cloud."""
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'[[workers]]\nid = "lab"\nkind = "server"\nmodel = "kit-1"\n{facts}\n')


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


def test_a_server_that_answers_as_another_model_is_said(call: Call, home: Path) -> None:
    with Cloud(reply=Reply(model="kit-7b")) as cloud:
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(
            '[[workers]]\nid = "lab"\nkind = "server"\nmodel = "kit-1"\nhere = true\n'
            f'base_url = "{cloud.base("server")}"\n'
        )
        said = "lab answered with the model kit-7b, which isn't the one that was asked for."
        shown = call("ask", "-m", "lab", "Hello?")
        assert (shown.code, shown.err.count(said)) == (0, 1)
        assert said in call("why").out
        done = json.loads(call("ask", "-m", "lab", "--json", "Hello?").out)
        assert [(w["kind"], w["message"]) for w in done["warnings"]] == [("substituted", said)]
        assert said in call("workers", "test", "lab").err
        cloud.reply = Reply(model="/models/kit-1-q4_k_m.gguf")
        done = json.loads(call("ask", "-m", "lab", "--json", "Hello?").out)
        assert done["warnings"] == []


@pytest.mark.parametrize("said", ["no such model doesnotexist", "Quota is used up.", "why?"])
def test_what_a_server_says_of_its_failure_ends_with_one_stop(
    call: Call, home: Path, said: str
) -> None:
    with Cloud(manner=CloudBehaviour(not_found=said)) as cloud:
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(
            '[[workers]]\nid = "lab"\nkind = "server"\nmodel = "kit-1"\nhere = true\n'
            f'base_url = "{cloud.base("server")}"\n'
        )
        cloud.next(Fault.NOT_FOUND)
        sentence = said if said[-1] in ".?" else f"{said}."
        assert f": {sentence} Nothing was charged." in call("ask", "-m", "lab", "Hello?").err


def test_a_model_in_the_home_of_an_unknown_user_is_not_a_file(call: Call, home: Path) -> None:
    done = call("ask", "-m", "~unknown-user/x.gguf", "Hello?")
    assert done.code in (2, 5)
    assert "~unknown-user" in done.err
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[[workers]]\nid = "x"\nmodel = "~unknown-user/x.gguf"\n')
    assert call("workers", "ls").code == 0
    assert "~unknown-user" in call("ask", "-m", "x", "Hello?").err
