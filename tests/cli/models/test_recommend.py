"""`baton models recommend` and `role`, and `ps`."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from baton.cli.models.recommend import _joint_text, machine_line
from baton.core.catalogue_types import UNKNOWN_SOURCE, CatalogueEntry
from baton.core.machine import Gpu, Hardware
from baton.core.messages import Message, Request, Role
from baton.gguf.memory_fit import Fit, FitVerdict, ModelLoad
from baton.models.library import RecommendationMemory
from baton.models.recommendation import Pick, Recommendation
from baton.platform.paths import find_paths
from baton.platform.settings import load_settings, write_settings
from baton.workers.local import Memory, measure_speed, starter
from support.command_line import Call
from support.fake_hub import Hub
from support.local_worker_calls import local_worker
from support.sample_models import catalogue_entry, keep_catalogue, stock, tiny


def test_the_recommendation_names_machine_models_and_the_way(call: Call) -> None:
    done = call("models", "recommend", "--no-measure")
    assert done.code == 0, done.err
    assert done.out.startswith("This machine: ")
    assert "of memory" in done.out
    report = json.loads(call("models", "recommend", "--no-measure", "--json").out)
    assert report["starter_tokens_per_second"] is None
    assert report["machine"]["memory"] > 0
    assert report["download_bytes"] == sum(
        one["size"] for one in report["models"] if not one["here"]
    )
    kept = json.loads((find_paths().state / "recommended.json").read_text())
    assert [one["id"] for one in kept["models"]] == [one["id"] for one in report["models"]]
    if report["models"]:
        assert "`baton models pull --recommended`" in done.err
        assert "To download: " in done.out


@pytest.mark.local_model
def test_it_measures_once_and_three_calls_say_the_same(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_speed, "__defaults__", (0.2,))  # seconds
    first = call("models", "recommend", "--json")
    assert first.err.count("Measuring for two seconds") == 1
    assert json.loads(first.out)["starter_tokens_per_second"] > 0
    for _ in range(2):
        again = call("models", "recommend", "--json")
        assert again.err == ""
        for name in ("starter_tokens_per_second", "models"):
            assert json.loads(again.out)[name] == json.loads(first.out)[name]


def test_a_speed_counts_for_its_machine_and_briefly_where_others_were_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other = Hardware(8 * 10**9, 10**9, 4, 8, "A"), Hardware(8 * 10**9, 10**9, 2, 4, "A")
    memory = RecommendationMemory(tmp_path)
    assert memory.speed(here) is None
    memory.save_speed(42.5, here, busy=False)
    assert (memory.speed(replace(here, available=5)), memory.speed(other)) == (42.5, None)
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 10**8)
    assert memory.speed(here) == 42.5, "measured once"
    memory.save_speed(7.0, here, busy=True)
    assert memory.speed(here) == 7.0
    monkeypatch.setattr("time.time", lambda: now + 10**8 + 7200)
    assert memory.speed(here) is None
    (tmp_path / "starter-speed.json").write_text("[]")
    assert memory.speed(here) is None


def test_what_a_set_takes_is_not_a_riddle_beside_what_each_takes() -> None:
    picks = tuple(
        Pick(CatalogueEntry(id, id, UNKNOWN_SOURCE), (), ModelLoad(id, 1, 0, 0, 0)) for id in "abc"
    )
    verdict = FitVerdict(Fit.FITS, 5, 9, "Together they take 5.3 GB of the 24 GB here.")
    assert _joint_text(Recommendation(picks, 0, 5, verdict, "")) == (
        "They are loaded one at a time, so with what Baton itself needs they take 5.3 GB of the "
        "24 GB here."
    )
    assert _joint_text(Recommendation(picks[:1], 0, 5, verdict, "")) == verdict.why


def test_a_machine_is_described_in_a_line() -> None:
    machine = Hardware(
        34 * 10**9, 20 * 10**9, 8, 16, "A Processor", disk=10**11, battery=0.5, plugged=False,
        gpus=(Gpu("Big\x1b GPU", 7 * 10**9, 8 * 10**9, "550.1"),), idle_gpus=("Old GPU",),
    )  # fmt: skip
    assert machine_line(machine) == (
        "32 GB of memory (59 % free), 8 cores, A Processor, Big\ufffd GPU with 8 GB (driver "
        "550.1), Old GPU, which llama.cpp here can't use, 100.0 GB free on the disk, battery 50 % "
        "and not plugged in"
    )
    assert "no GPU that can be used" in machine_line(Hardware(10**9, 10**9, 1, 1))


def test_what_was_recommended_is_what_is_fetched(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Hub() as hub:
        for name, value in hub.environ.items():
            monkeypatch.setenv(name, value)
        files = {"chatty.gguf": tiny(seed=1), "solver.gguf": tiny(seed=2)}
        revision = hub.add("maker/models", files)
        keep_catalogue(
            *(catalogue_entry(name.removesuffix(".gguf"), data, revision=revision)
              for name, data in files.items())
        )  # fmt: skip
        picks = [{"id": "chatty", "roles": ["conductor", "chat"]}, {"id": "nobody", "roles": []}]
        file = find_paths().state / "recommended.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"at": time.time() - 60, "models": picks}))
        done = call("models", "pull", "--recommended")
        assert done.code == 0, done.err
        assert "chatty, 50.0 kB, will be fetched." in done.err
        settings = load_settings(find_paths().config_file)
        assert (settings.worker, settings.conductor) == ("chatty", ""), "no role was given for it"
        assert hub.served("solver.gguf") == 0
        assert "is here already" in call("models", "pull", "--recommended").err
        assert call("models", "pull", "--recommended", "chatty").code == 2
        # As after a kill when all of it had come, just before it got its roles.
        write_settings(find_paths().config_file, {"worker": None})
        assert "answers from now on" in call("models", "pull", "--recommended").err
        assert load_settings(find_paths().config_file).worker == "chatty"
        write_settings(find_paths().config_file, {"worker": "other"})
        call("models", "pull", "--recommended")
        assert load_settings(find_paths().config_file).worker == "other", "a choice is left alone"


def test_roles_are_shown_and_given(call: Call) -> None:
    stock("mine", tiny())
    assert call("models", "role", "chat", "mine").code == 0
    assert call("models", "role", "coder", "mine").code == 0
    assert call("models", "role", "conductor", "mine").out == "mine\n"
    settings = load_settings(find_paths().config_file)
    assert settings.prefer == {"code": "mine"}
    roles = json.loads(call("models", "role", "--json").out)["roles"]
    assert roles == {"chat": "mine", "conductor": "mine", "coder": "mine", "reasoning": ""}
    assert "Baton chooses" in call("models", "role").out
    assert "no model, by your choice" in call("models", "role", "conductor", "rule").out
    assert load_settings(find_paths().config_file).conductor == "rule"
    assert json.loads(call("models", "role", "--json").out)["missing"] == []
    assert call("models", "role", "conductor", "none").out == "Baton chooses\n"
    assert call("models", "role", "coder", "none").code == 0
    assert call("models", "role", "chat", "small").code == 0
    settings = load_settings(find_paths().config_file)
    assert (settings.worker, settings.prefer) == ("small", {})


def test_a_role_is_given_to_no_missing_model(call: Call) -> None:
    done = call("models", "role", "chat", "smal")
    assert (done.code, "Did you mean 'small'?" in done.err) == (2, True)
    assert call("models", "role", "king", "small").code == 2
    done = call("models", "role", "coder", "qwen3.5-4b")
    assert (done.code, "qwen3.5-4b isn't here" in done.err) == (2, True)
    assert "`baton models pull qwen3.5-4b --role coder`" in done.err
    assert not find_paths().config_file.exists()


@pytest.fixture
def loaded() -> Iterator[int]:
    """The starter model, loaded by this process; its process's number."""
    loop = asyncio.new_event_loop()
    model = starter()
    worker = local_worker(model.card, model.path, Memory())

    async def ask() -> None:
        async for _ in worker.stream(Request((Message(Role.USER, "Hi"),), max_tokens=1)):
            pass

    loop.run_until_complete(ask())
    [child] = [
        child.pid for child in psutil.Process().children() if "runner" in child.cmdline()[-1]
    ]
    yield child
    loop.run_until_complete(worker.aclose())
    loop.close()


def test_what_is_loaded_is_listed(call: Call, loaded: int) -> None:
    [one] = [
        row
        for row in json.loads(call("models", "ps", "--json").out)["models"]
        if row["pid"] == loaded
    ]
    assert (one["id"], one["front"]) == ("small", os.getpid())
    assert one["memory_bytes"] > 50_000_000
    done = call("models", "ps")
    [row] = [row.split() for row in done.out.splitlines() if str(loaded) in row.split()]
    assert row[0] == "small"
