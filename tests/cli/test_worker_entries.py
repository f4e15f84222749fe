"""`baton workers add`: workers get into config.toml, and count as what they are."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from baton.platform.paths import find_paths
from baton.platform.settings import ServerWorkerSettings, load_settings
from support.command_line import Call
from support.fake_cloud import Cloud, ReceivedRequest, Reply


@contextmanager
def listing(*models: tuple[str, str]) -> Iterator[str]:
    """Run what lists these models, each with its owner, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            data = [{"id": name, "owned_by": owner} for name, owner in models]
            self.wfile.write(json.dumps({"data": data}).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.workers.local.local_servers.TIMEOUT_SECONDS", 30)


def config() -> Path:
    return find_paths().config_file


def entries() -> list[dict[str, object]]:
    import tomllib

    return list(tomllib.loads(config().read_text()).get("workers", []))


def test_a_server_here_is_confirmed_by_adding_it_and_twice_is_once(call: Call) -> None:
    with listing(("llama3.2:3b", "library")) as url:
        first = call("workers", "add", url)
        text = config().read_text()
        second = call("workers", "add", f"{url}/v1/")
    assert (first.code, second.code) == (0, 0)
    assert "used without asking" in first.err
    assert "there already" in second.err
    assert config().read_text() == text
    [worker] = load_settings(config()).workers
    assert worker == ServerWorkerSettings("llama3.2-3b", "llama3.2:3b", f"{url}/v1", here=True)


def test_private_texts_go_there_once_that_is_said(call: Call) -> None:
    with listing(("llama3.2:3b", "library")) as url:
        call("workers", "add", url)
        assert "private conversations don't" in call("workers", "show", "llama3.2-3b").out
        call("workers", "add", "llama3.2-3b", "--private")
    assert [(entry["here"], entry["privacy"]) for entry in entries()] == [(True, "local")]


@pytest.mark.parametrize(
    ("model", "owner"),
    [("fast", "openai"), ("openai/gpt-5-mini", "x"), ("gpt-5-mini", "x"), ("glm-4.6:cloud", "x")],
)
def test_what_seems_to_forward_counts_as_cloud(call: Call, model: str, owner: str) -> None:
    with listing((model, owner)) as url:
        assert "--price" in call("workers", "add", url).err, "a cloud's price must be known"
        assert not config().exists()
        assert call("workers", "add", url, "--price", "1", "2").code == 0
        assert [entry["privacy"] for entry in entries()] == ["cloud"]


def test_the_users_word_counts_more_than_a_name(call: Call) -> None:
    with listing(("openai/gpt-oss-20b", "organization_owner")) as url:
        assert call("workers", "add", url, "--here").code == 0
    shown = json.loads(call("workers", "ls", "--json").out)
    card = next(card for card in shown["workers"] if card["id"] == "gpt-oss-20b")
    assert (card["remote"], card["is_confirmed"], card["privacy"]) == (False, True, "lan")


def test_a_server_written_by_hand_is_confirmed_by_its_id(call: Call) -> None:
    config().parent.mkdir(parents=True, exist_ok=True)
    config().write_text(
        '# mine\n[[workers]]\nid = "lab"  # the box\nkind = "server"\nmodel = "qwen3:8b"\n'
        'base_url = "http://127.0.0.1:1/v1"\n'
    )
    assert "not confirmed" in call("workers", "ls").out
    assert call("workers", "add", "lab").code == 0
    assert "not confirmed" not in call("workers", "ls").out
    assert config().read_text().startswith('# mine\n[[workers]]\nid = "lab"  # the box\n')


def test_a_provider_s_model_needs_a_price(call: Call) -> None:
    assert call("workers", "add", "openai/gpt-5-mini").code == 0
    assert call("workers", "add", "openai/gpt-5-mini").code == 0
    assert call("workers", "add", "openrouter/some/model").code == 2
    assert call("workers", "add", "openrouter/some/model", "--price", "0.1", "x").code == 2
    done = call("workers", "add", "openrouter/some/model", "--price", "0.1", "0.4", "--json")
    assert json.loads(done.out)["worker"]["price"] == {"input": "0.1", "output": "0.4"}
    assert [entry["id"] for entry in entries()] == ["gpt-5-mini", "model"]


def test_free_and_short_names_are_added_without_a_price(call: Call) -> None:
    for name in ("zai/glm-4.7-flash", "fireworks_ai/glm-5p3", "openrouter/openai/gpt-oss-20b:free"):
        assert call("workers", "add", name).code == 0
    assert [entry["model"] for entry in entries()] == [
        "zai/glm-4.7-flash",
        "fireworks_ai/accounts/fireworks/models/glm-5p3",
        "openrouter/openai/gpt-oss-20b:free",
    ]
    assert "set to cost nothing" not in call("workers", "ls").err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nothing-here"], "neither an address"),
        (["replicate/claude"], "Baton doesn't ask the provider 'replicate'"),
        (["deepinfra/glm"], "https://api.deepinfra.com/v1/openai"),
        (["bedrock/claude"], "--price"),
        (["watsonx/granite"], "Baton doesn't ask the provider 'watsonx'"),
        (["google/gemini-2.5-flash"], "Did you mean gemini/gemini-2.5-flash?"),
        (["anthropic/claude-sonnet-4.5"], "Did you mean anthropic/claude-sonnet-4-5?"),
        (["gpt-5-mini"], "Did you mean openai/gpt-5-mini"),
        (["anthropic/claude-sonnet-4-0"], "isn't known, so it was not added: only models.dev's"),
        (["http://10.0.0.9/v1"], "--model"),
        (["http://10.0.0.9/v1", "--model", "m"], "--price"),
        (["nothing-here", "--offline"], "offline"),
    ],
)
def test_what_can_not_be_added_is_refused_and_changes_nothing(
    call: Call, args: list[str], said: str
) -> None:
    done = call("workers", "add", *args)
    assert done.code == 2
    assert said in done.err
    assert not config().exists()


def test_a_question_that_the_starter_gets_wrong_goes_to_ollama_s_model_unasked(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by `detect --add`, it is used as a model of Baton's own would be."""

    def write(received: ReceivedRequest) -> Reply:
        return Reply("Lisbon is the capital of Portugal.")

    with Cloud(write=write, models=("llama3.2:3b",)) as cloud:
        url = cloud.base("server")
        assert call("workers", "add", url, "--model", "llama3.2:3b").code == 0
        done = call("ask", "What is the capital of Portugal?")
        why = call("why").out
        vote = call("ask", "--strategy", "majority", "What is the capital of Portugal?")
        private = call("ask", "--private", "-m", "llama3.2-3b", "What is the capital of Portugal?")
    assert "Lisbon" in done.out
    assert "costs nothing" in why
    assert vote.code == 0
    assert private.code == 2
    assert "--private" in private.err


def test_who_answers_instead_of_a_server_that_is_down_is_said_in_a_pipe(call: Call) -> None:
    config().parent.mkdir(parents=True, exist_ok=True)
    config().write_text(
        'worker = "lab"\n[[workers]]\nid = "lab"\nkind = "server"\nmodel = "qwen2.5:7b"\n'
        'base_url = "http://127.0.0.1:1/v1"\nhere = true\n'
    )
    done = call("ask", "--json", "--max-tokens", "2", "Name a colour.")
    assert done.code == 0
    assert "small answers instead" in done.err
    warnings = json.loads(done.out)["warnings"]
    assert "substituted" in {warning["kind"] for warning in warnings}


def test_a_provider_without_one_address_needs_the_workers(call: Call) -> None:
    done = call("workers", "add", "bedrock/us.anthropic.claude", "--price", "1", "5")
    example = "https://bedrock-runtime.us-east-1.amazonaws.com"
    assert f"It needs its `base_url` (like {example}: `baton config edit`) and a key" in done.err


def test_of_a_cloud_worker_only_what_is_missing_is_named(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    key, ceiling = "a key (`baton keys set openai`)", "a ceiling (`baton budget set day 2`)"
    done = call("workers", "add", "openai/gpt-5-nano", "--id", "one")
    assert f"It needs {key} and {ceiling}." in done.err
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "x" * 40)
    done = call("workers", "add", "openai/gpt-5-mini", "--id", "two")
    assert f"It needs {ceiling}." in done.err
    assert call("budget", "set", "day", "2").code == 0
    assert "needs" not in call("workers", "add", "openai/gpt-5", "--id", "three").err
    monkeypatch.delenv("OPENAI_API_KEY")
    done = call("workers", "add", "openai/gpt-4.1", "--id", "four")
    assert f"It needs {key}." in done.err
