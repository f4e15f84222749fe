"""`baton models ls` and `show`: what there is, what it takes, and what it is good at."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from baton.cli.models.model_list import wrap_line
from baton.core.history_types import Signal
from support import gguf_writer
from support.command_line import Call, CallResult, Process
from support.past_prompts import PastPrompt, live
from support.sample_models import models

WORKERS = """\
[[workers]]
id = "lab"
kind = "server"
model = "llama-3.1-8b-instruct"
base_url = "http://127.0.0.1:9/v1"

[[workers]]
id = "mine"
kind = "server"
model = "zorp-8b"
base_url = "http://127.0.0.1:9/v1"
skills = { code = 4.5 }
"""


@pytest.fixture
def config(home: Path) -> Path:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(WORKERS)
    return file


def line(done: CallResult, name: str) -> str:
    [found] = [text for text in done.out.splitlines() if text.startswith(f"{name}:")]
    return found.partition(":")[2].strip()


def test_at_first_it_is_a_guess_and_says_so(call: Call) -> None:
    done = call("models", "show", "small")
    assert done.code == 0
    assert line(done, "Guessed") == "everything, from its size"
    assert line(done, "Good at").startswith("chat ")
    assert "your own" not in done.out
    assert line(done, "Size").startswith("135 million parameters")
    assert line(done, "Price") == "costs nothing"
    assert line(done, "Licence") == "Apache-2.0"


def test_what_was_done_with_answers_moves_it(call: Call) -> None:
    rewrite = "Rewrite this more politely: send me the report {}"
    extract = "Extract all names from this text: Ann, Bob and {}"
    before = call("models", "show", "small", "--json")
    asyncio.run(
        live(
            [
                *(PastPrompt(rewrite.format(n), Signal.GOOD) for n in range(12)),
                *(PastPrompt(extract.format(n), Signal.BAD) for n in range(8)),
                PastPrompt("Hello"),
            ]
        )
    )
    done = call("models", "show", "small")
    assert line(done, "Good at").endswith("(your own 20 answers)")
    assert line(done, "Your answers") == "rewriting (12), extraction (8)"
    after = call("models", "show", "small", "--json")

    def chances(printed: CallResult) -> dict[str, float]:
        return {one["kind"]: one["chance"] for one in json.loads(printed.out)["skills"]}

    first, then = chances(before), chances(after)
    assert then["rewriting"] > first["rewriting"] + 0.2
    assert then["extraction"] < first["extraction"] - 0.1
    assert json.loads(after.out)["answers"] == 20


@pytest.mark.usefixtures("config")
def test_measured_typed_and_guessed_values_are_distinguished(call: Call) -> None:
    lab = call("models", "show", "lab")
    assert "math (on " in line(lab, "Measured")
    assert line(lab, "Guessed").endswith("from its size and what was measured")
    assert line(lab, "Guessed").startswith("everything else, ")
    mine = call("models", "show", "mine")
    assert line(mine, "Set by you") == "code"
    assert line(mine, "Runs") == "this machine"
    assert line(mine, "Address") == "http://127.0.0.1:9/v1"
    [code] = [s for s in json.loads(call("models", "show", "mine", "--json").out)["skills"]
              if s["kind"] == "code"]  # fmt: skip
    assert (code["level"], code["basis"], code["measured_on"]) == (4.5, "typed", 0)


@pytest.mark.usefixtures("config")
def test_models_are_listed_without_tools(call: Call) -> None:
    done = call("models", "list")
    head, *rows = done.out.splitlines()
    assert head.split()[:4] == ["id", "role", "state", "size"]
    assert [row.split() for row in rows[1:]] == [["lab", "server"], ["mine", "server"]]
    assert rows[0].split()[:5] == ["*", "small", "chat", "starter", "98.4"]
    listed = json.loads(call("models", "ls", "--json").out)["models"]
    assert [one["id"] for one in listed if one["default"]] == ["small"]
    assert {len(one["skills"]) for one in listed} == {12}
    assert [one["state"] for one in listed] == ["starter", "server", "server"]
    assert listed[0]["memory_bytes"] > listed[0]["size"]


def test_the_whole_catalogue_can_be_listed(call: Call) -> None:
    known = models(call("models", "ls", "--all", "--json"))
    assert known["qwen3.5-4b"]["state"] == "catalogue"
    assert known["qwen3.5-4b"]["licence"] == "apache-2.0"
    done = call("models", "ls", "--all")
    [row] = [text for text in done.out.splitlines() if " qwen3.5-4b " in text]
    assert "(conductor, chat, reasoning)" in row
    assert "2.7 GB" in row


def test_a_model_that_is_not_here_is_shown_with_what_it_would_take(call: Call) -> None:
    done = call("models", "show", "qwen3.5-4b")
    assert done.code == 0, done.err
    assert "`baton models pull qwen3.5-4b`" in line(done, "State")
    assert line(done, "Memory").startswith("about ")
    assert "unsloth/Qwen3.5-4B-GGUF" in line(done, "From")
    assert len(line(done, "SHA-256")) == 64
    assert "(its maker)" in line(done, "Scores")
    assert "planning" in line(done, "Published")
    report = json.loads(call("models", "show", "qwen3.5-4b", "--json").out)
    assert report["fit"]["verdict"] in ("fits", "tight", "spills", "won't")
    assert {score["source"] for score in report["scores"]} > {"its maker"}
    assert report["file"] is None


def test_what_is_used_has_a_speed_and_a_last_use(call: Call) -> None:
    before = models(call("models", "ls", "--json"))["small"]
    assert (before["tokens_per_second"], before["last_used"]) == (None, None)
    asyncio.run(live([PastPrompt("Hello")]))
    assert models(call("models", "ls", "--json"))["small"]["last_used"] is not None
    assert line(call("models", "show", "small"), "Last used")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("baton models pull qwen3.5-9", b"plain,qwen3.5-9b\n"),
        ("baton models show sm", b"plain,small\nplain,smollm3-3b\n"),
        ("baton models re", b"plain,recommend\n"),
    ],
)
def test_ids_are_completed(
    process: Process, monkeypatch: pytest.MonkeyPatch, typed: str, offered: bytes
) -> None:
    monkeypatch.setenv("_BATON_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    assert process().stdout == offered


POET = """
[[workers]]
id = "poet"
model = "{model}"
temperature = 1.1
top_k = 12
seed = 4
thinking = false
adapter = "{adapter}"
adapter_scale = 0.5
system = "Rhyme."
threads = 1

[[workers]]
id = "lab"
kind = "server"
model = "llama"
base_url = "http://127.0.0.1:9/v1"
temperature = 0.3

[[workers]]
id = "plain"
kind = "server"
model = "llama"
base_url = "http://127.0.0.1:9/v1"
"""


@pytest.fixture
def poet(home: Path, tmp_path: Path) -> Path:
    """Have a worker with a manner of its own; return its adapter, which isn't there yet."""
    adapter = tmp_path / "verse.gguf"
    keys = gguf_writer.facts() | {"general.sampling.temp": 0.6, "general.sampling.top_p": 0.8}
    model = tmp_path / "model.gguf"
    model.write_bytes(gguf_writer.whole(keys, [gguf_writer.Tensor("token_embd.weight", (64, 64))]))
    (home / "config").mkdir(parents=True)
    text = POET.format(model=model, adapter=adapter)
    (home / "config" / "config.toml").write_text(text)
    return adapter


@pytest.mark.parametrize("group", ["models", "workers"])
def test_how_a_worker_writes_is_shown_with_its_source(call: Call, poet: Path, group: str) -> None:
    done = call(group, "show", "poet")
    assert line(done, "Writes with") == (
        "temperature 1.1, top_k 12 (config.toml); top_p 0.8 (its file); "
        "min_p 0.05, repeat_penalty 1.1 (Baton's own)"
    )
    assert line(done, "Seed") == "4 (config.toml)"
    assert line(done, "Thinks") == "no (config.toml)"
    assert line(done, "System text") == "\u201cRhyme.\u201d (config.toml)"
    assert line(done, "Loaded with") == "kv f16, 1 thread, as many layers on a GPU as fit"
    assert line(done, "Adapter").startswith(f"{poet}, which isn't there")
    poet.write_bytes(bytes(12_000_000))
    assert (
        line(call(group, "show", "poet"), "Adapter") == f"{poet}, 12.0 MB, with a strength of 0.5"
    )
    report = json.loads(call(group, "show", "poet", "--json").out)
    assert report["sampling"]["temperature"] == {"value": 1.1, "from": "settings"}
    assert report["sampling"]["top_p"] == {"value": 0.8, "from": "file"}
    assert (report["seed"], report["thinking"]) == (4, False)
    assert report["adapter"] == {"file": str(poet), "scale": 0.5}


@pytest.mark.parametrize("group", ["models", "workers"])
def test_how_the_starter_writes_is_shown(call: Call, group: str) -> None:
    done = call(group, "show", "small")
    assert line(done, "Writes with").startswith("temperature 0 (suits this model); top_k 40, ")
    assert line(done, "Seed").startswith("not needed")
    assert "Adapter:" not in done.out
    assert json.loads(call(group, "show", "small", "--json").out)["adapter"] is None


@pytest.mark.usefixtures("poet")
@pytest.mark.parametrize("group", ["models", "workers"])
def test_of_remote_workers_only_what_was_set_is_known(call: Call, group: str) -> None:
    assert line(call(group, "show", "lab"), "Writes with") == "temperature 0.3 (config.toml)"
    plain = call(group, "show", "plain")
    assert line(plain, "Writes with") == "what is usual there"
    assert "Seed:" not in plain.out
    assert json.loads(call(group, "show", "plain", "--json").out)["sampling"] == {}


def test_of_a_missing_model_no_sampling_is_shown(call: Call) -> None:
    assert "Writes with" not in call("models", "show", "qwen3.5-2b").out
    assert "Writes with" not in call("workers", "show", "calculator").out


def test_the_nearest_one_is_named(call: Call) -> None:
    done = call("models", "show", "smal")
    assert done.code == 2
    assert "There is no model 'smal'. Did you mean 'small'?" in done.err
    assert "Did you mean 'small'?" in call("models", "show", "smollm2 135").err
    assert "`baton models ls --all`" in call("models", "show", "qqqqqq").err


def test_on_a_screen_lines_break_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    whole = wrap_line("* small  best at chat 8/10, extraction 5/10", 9)
    assert "\n" not in whole
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    line = "* small  on this machine  98.4 MB  best at chat 8/10, extraction 5/10, code 1/10"
    first, *more = wrap_line(line, 9).splitlines()
    assert first == "* small  on this machine  98.4 MB  best at chat 8/10,"
    assert more == ["         extraction 5/10, code 1/10"]
