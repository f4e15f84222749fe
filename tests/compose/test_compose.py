"""The parts fit together, also where one of them is missing."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from baton.compose import card_of, compose, library, open_ledger
from baton.compose.remote_workers import entry_warning
from baton.compose.worker_entries import AddOptions
from baton.core.errors import BudgetExceeded, ConfigError, ModelFileError
from baton.core.labels import Label
from baton.core.ledger_types import Scope, ScopeBalance, SpendingStyle, Standing
from baton.core.messages import Prompt
from baton.core.money import FREE, NANO, parse_usd
from baton.core.permissions import PromptLimits, RunTerms, may_use
from baton.core.view import fold_events
from baton.models.model_download import ModelDownload
from baton.models.ports import FileStamp, LibraryModel, ModelRecord
from baton.models.store import FolderModelStore
from baton.models.store.model_store import file_stamp
from baton.platform.paths import find_paths
from baton.platform.secrets import remove_keys
from baton.platform.settings import (
    BudgetSettings,
    CloudWorkerSettings,
    LocalWorkerSettings,
    PriceSettings,
    ServerWorkerSettings,
    Settings,
    load_settings,
    write_settings,
)
from baton.workers import local
from support.fake_cloud import Cloud, Reply
from support.fake_hub import Hub
from support.ledger_processes import bill


@pytest.fixture
def _no_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("_no_starter")
async def test_a_missing_starter_model_is_missed_only_when_it_is_wanted(tmp_path: Path) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    own = LocalWorkerSettings("own", model=str(tmp_path / "own.gguf"))
    for settings in (Settings(workers=(own,)), Settings(workers=(own,), worker="own")):
        baton = compose(settings, paths, history=False)
        assert [card.id for card in baton.orchestra.roster if not card.is_tool] == ["own"]
        assert baton.orchestra.worker().card.id == "own", "who else?"
        with pytest.raises(ModelFileError, match="starter model isn't installed"):
            baton.orchestra.worker("small")
        await baton.aclose()


@pytest.mark.usefixtures("_no_starter")
async def test_without_any_model_everything_is_put_together_but_no_worker_answers(
    tmp_path: Path,
) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    baton = compose(Settings(), paths, history=False)
    for name in (None, "small"):
        with pytest.raises(ModelFileError, match="no model on this machine yet"):
            baton.orchestra.worker(name)
    assert baton.stand_in() == ""
    held = _save_model(paths.models, "pulled")
    baton.add_model(held)
    assert baton.orchestra.worker().card.id == "pulled", "the first that comes answers"
    await baton.remove_worker("pulled")
    with pytest.raises(ModelFileError, match="no model on this machine yet"):
        baton.orchestra.worker()
    await baton.aclose()
    baton = compose(Settings(worker="gone"), paths, history=False)
    assert "'gone' (the setting `worker`) any more, so pulled answers" in baton.stand_in()
    await baton.aclose()


def _save_model(folder: Path, id: str) -> LibraryModel:
    store = FolderModelStore(folder)
    record = ModelRecord(id, id, f"{id}.gguf")
    held = store.save(record)
    held.path.write_bytes(b"GGUF")
    status = held.path.stat()
    return store.save(replace(record, stamp=FileStamp(status.st_size, status.st_mtime_ns)))


async def test_settings_reach_the_worker(tmp_path: Path) -> None:
    own = LocalWorkerSettings("own", model="x.gguf", system="Be brief.", context=512, max_output=9)
    baton = compose(Settings(workers=(own,)), find_paths({"BATON_HOME": str(tmp_path)}))
    card = baton.orchestra.worker("own").card
    assert (card.system, card.context, card.max_output) == ("Be brief.", 512, 9)
    models = [c.id for c in baton.orchestra.roster if not c.is_tool]
    assert models == ["small", "own"]
    await baton.aclose()


async def test_workers_that_load_the_same_share_it_and_write_in_their_own_way(
    tmp_path: Path,
) -> None:
    own = (
        LocalWorkerSettings("sure", temperature=0, seed=1),
        LocalWorkerSettings("wild", temperature=2, adapter="~/a.gguf"),
        LocalWorkerSettings("long", context=4096),
        LocalWorkerSettings("apart", kv="q8_0"),
    )
    baton = compose(Settings(workers=own), find_paths({"BATON_HOME": str(tmp_path)}), history=False)
    baton.orchestra.worker("small").warm()
    held = {
        name: worker.process
        for name in ("small", "sure", "wild", "long", "apart")
        if isinstance(worker := baton.orchestra.worker(name), local.LocalWorker)
    }
    assert baton.orchestra.worker("wild").card.name == "SmolLM2 135M with a"
    assert held["small"] == held["sure"] == held["wild"] is not None
    assert held["long"] is held["apart"] is None
    await baton.aclose()


async def test_a_configured_worker_that_is_missing_is_reported(tmp_path: Path) -> None:
    prefer = {"code": "small", "math": "gone"}
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    baton = compose(Settings(prefer=prefer), paths, history=False)
    assert baton.orchestra.services.prefer == prefer
    assert "'gone', preferred for math, isn't there" in baton.warning
    assert "code" not in baton.warning
    await baton.aclose()


async def test_money_is_paced_as_the_settings_say(tmp_path: Path) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    for history in (True, False):
        baton = compose(
            Settings(budget=BudgetSettings(pace=SpendingStyle.BEST)), paths, history=history
        )
        room = Standing((ScopeBalance(Scope.DAY, 10**9),))
        pacer = baton.orchestra.services.pacer
        assert pacer.thrift is SpendingStyle.BEST
        assert (await pacer.weigh(0.1, 10**6, room)).ok
        await baton.aclose()


HERE = "http://127.0.0.1:11434/v1"


@pytest.mark.parametrize(
    ("entry", "privacy", "remote"),
    [
        (ServerWorkerSettings("a", "qwen3:8b", HERE), Label.LAN, False),
        (ServerWorkerSettings("a", "qwen3:8b", HERE, here=True), Label.LAN, False),
        (ServerWorkerSettings("a", "qwen3:8b", HERE, privacy=Label.LOCAL), Label.LOCAL, False),
        (ServerWorkerSettings("a", "glm-4.6:cloud", HERE, here=True), Label.CLOUD, True),
        (ServerWorkerSettings("a", "openai/gpt-oss-20b", HERE), Label.CLOUD, True),
        (ServerWorkerSettings("a", "openai/gpt-oss-20b", HERE, here=True), Label.LAN, False),
        (ServerWorkerSettings("a", "Qwen/Qwen3-8B", HERE), Label.LAN, False),
        (ServerWorkerSettings("a", "gpt-5-mini", HERE), Label.CLOUD, True),
        (ServerWorkerSettings("a", "mine", "http://127.0.0.1:4000/v1"), Label.CLOUD, True),
        (ServerWorkerSettings("a", "gpt-oss:120b-cloud", HERE), Label.CLOUD, True),
        (ServerWorkerSettings("a", "glm-4.6:Cloud", HERE), Label.CLOUD, True),
        (ServerWorkerSettings("a", "an-alias", HERE, privacy=Label.CLOUD), Label.CLOUD, True),
        (ServerWorkerSettings("a", "qwen3", "http://10.0.0.9/v1"), Label.LAN, True),
        (
            ServerWorkerSettings("a", "qwen3", "http://10.0.0.9/v1", privacy=Label.LOCAL),
            Label.LOCAL,
            True,
        ),
        (ServerWorkerSettings("a", "qwen3", "https://llm.example.org/v1"), Label.CLOUD, True),
        (ServerWorkerSettings("a", "glm:cloud", HERE, privacy=Label.LOCAL), Label.LOCAL, True),
    ],
)
def test_an_engine_on_this_machine_that_forwards_counts_as_a_cloud(
    entry: ServerWorkerSettings, privacy: Label, remote: bool
) -> None:
    """So it is refused offline, redacted and priced, under any name that it forwards.

    Private texts go to another program here only where `privacy` says so.
    """
    card = card_of(entry)
    assert card.is_local is (not remote and (entry.here or entry.privacy is Label.LOCAL))
    assert (card.privacy, card.remote) == (privacy, remote)
    assert (card.price is None) is remote


LAN, CLOUD = "http://10.0.0.9:8000/v1", "https://llm.example.org/v1"


@pytest.mark.parametrize(
    ("urls", "facts", "privacy", "remote", "offline"),
    [
        ((HERE, "http://[::1]:8000/v1"), {}, Label.LAN, False, True),
        ((HERE, "http://localhost:8000/v1"), {"privacy": Label.LOCAL}, Label.LOCAL, False, True),
        ((HERE, LAN), {}, Label.LAN, True, True),
        ((LAN, HERE), {"here": True}, Label.LAN, True, True),
        ((LAN, "http://10.0.0.10/v1"), {}, Label.LAN, True, False),
        ((HERE, LAN, CLOUD), {}, Label.CLOUD, True, True),
        ((LAN, CLOUD), {}, Label.CLOUD, True, False),
        ((HERE, LAN), {"privacy": Label.CLOUD}, Label.CLOUD, True, False),
        ((HERE, "http://127.0.0.1:4000/v1"), {}, Label.CLOUD, True, True),  # LiteLLM's port
        ((HERE, "http://127.0.0.1:4000/v1"), {"here": True}, Label.LAN, False, True),
    ],
)
def test_of_several_addresses_the_farthest_decides_what_may_be_sent(
    urls: tuple[str, ...], facts: dict[str, Any], privacy: Label, remote: bool, offline: bool
) -> None:
    card = card_of(ServerWorkerSettings("a", "qwen3", urls, slots=3, **facts))
    assert (card.privacy, card.remote, card.slots) == (privacy, remote, 3 * len(urls))
    assert card.needs_network is not offline
    assert (card.price is None) is remote, "what leaves this machine has a price, if it is 0"
    terms = RunTerms(offline=True)
    assert may_use(replace(card, price=FREE), Label.CLOUD, terms) is offline
    assert may_use(card, Label.LOCAL, terms) is (privacy is Label.LOCAL)


def test_a_list_that_goes_farther_than_its_privacy_says_is_warned_of() -> None:
    entry = ServerWorkerSettings("lab", "qwen3", (HERE, LAN), privacy=Label.LOCAL)
    assert entry_warning(entry) == (
        "The worker 'lab' is set to local, but what it is sent travels to: lan."
    )
    assert entry_warning(ServerWorkerSettings("lab", "qwen3", (HERE, LAN))) == ""


def test_a_cloud_worker_that_is_set_to_cost_nothing_is_warned_of_unless_it_does() -> None:
    free = PriceSettings("0", "0")
    warned = entry_warning(CloudWorkerSettings("gpt", "openai/gpt-5-mini", price=free))
    assert "in the cloud and set to cost nothing" in warned
    assert entry_warning(CloudWorkerSettings("glm", "zai/glm-4.7-flash", price=free)) == ""
    assert entry_warning(CloudWorkerSettings("glm", "zai/glm-4.7-flash")) == ""


async def test_offline_a_mixed_list_is_used_on_this_machine_only(tmp_path: Path) -> None:
    """Through the whole engine, with a real server; the other address would take no connection."""
    with Cloud() as cloud:
        urls = ("http://10.255.255.1:8000/server/v1", cloud.base("server"))
        price = PriceSettings("0", "0")
        entry = ServerWorkerSettings("lab", "kit-1", urls, price=price)
        settings = Settings(worker="lab", offline=True, workers=(entry,))
        baton = compose(settings, find_paths({"BATON_HOME": str(tmp_path)}), history=False)
        limits = PromptLimits(alone=True, attended=False, budget=0)
        async with baton.orchestra.run(Prompt("Hello?"), limits=limits, worker="lab") as run:
            view = fold_events([event async for event in run])
        sent = [(row.destination, row.left) for row in await baton.ledger.egress()]
        await baton.aclose()
    assert view.answer == Reply().text
    assert sent == [(cloud.url.removeprefix("http://"), True)]


async def test_the_learned_router_decides_and_is_ended_with_the_rest(tmp_path: Path) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    own = LocalWorkerSettings("own", model=str(tmp_path / "own.gguf"))
    baton = compose(Settings(workers=(own,)), paths, history=False)
    router = baton.router
    assert router is not None
    assert baton.orchestra.services.router is router
    assert (router.pid, baton.warning) == (None, "")
    router.warm()
    pid = router.pid
    assert pid is not None
    await baton.aclose()
    assert not psutil.pid_exists(pid)


async def test_what_holds_models_is_ended_without_waiting_and_can_start_again(
    tmp_path: Path,
) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    settings = Settings()
    baton = compose(settings, paths, history=False, warm=settings.worker)
    worker, router = baton.local.here[settings.worker], baton.router
    assert router is not None

    def pids() -> list[int]:
        return [pid for pid in (worker.process, router.pid) if pid is not None]

    ended = [psutil.Process(pid) for pid in pids()]
    assert len(ended) == 2
    baton.end_models()
    assert not pids()
    await asyncio.to_thread(psutil.wait_procs, ended, 30)
    assert not any(process.is_running() for process in ended)
    worker.warm()
    assert len(pids()) == 1
    await baton.aclose()


async def test_a_missing_router_is_reported_at_the_start_and_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.routing.learned_router.shipped_folder", lambda: tmp_path / "nowhere")
    baton = compose(Settings(), find_paths({"BATON_HOME": str(tmp_path)}), history=False)
    baton.report_later(pytest.fail)
    assert "A rule of length and task decides" in baton.warning
    assert "git checkout models/router" in baton.warning
    async with baton.orchestra.run(Prompt("What is 1 + 1?")) as run:
        assert [event async for event in run]
    await baton.aclose()


@pytest.mark.local_model
@pytest.mark.parametrize(("label", "starts"), [(Label.LOCAL, False), (Label.CLOUD, True)])
async def test_no_gateway_is_started_for_a_worker_that_may_not_see_the_prompt(
    tmp_path: Path, label: Label, starts: bool
) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    far = CloudWorkerSettings("gpt", model="openai/gpt-5-mini")
    baton = compose(Settings(workers=(far,)), paths, history=False, warm="gpt", label=label)
    assert baton.remote.gateway is not None
    assert (baton.remote.gateway.pid is not None) is starts
    await baton.aclose()


async def test_the_router_may_load_as_long_as_the_worker_that_is_warmed(tmp_path: Path) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    baton = compose(Settings(), paths, history=False, warm="small")
    small = baton.orchestra.worker("small")
    assert isinstance(small, local.LocalWorker)
    was_loading = small.loading
    assert baton.router is not None
    assert baton.router.pid is not None
    async with baton.orchestra.run(Prompt("Say hello."), limits=PromptLimits(max_tokens=4)) as run:
        assert [event async for event in run]
    assert (was_loading, small.loading) == (True, False)
    await baton.aclose()


@pytest.mark.parametrize("state", ["broken", "gone", "coming"])
async def test_the_starter_answers_while_the_chosen_model_cannot(state: str) -> None:
    paths = find_paths()
    store = FolderModelStore(paths.models)
    write_settings(paths.config_file, {"worker": "mine", "conductor": "mine"})
    record = ModelRecord("mine", "Mine", "mine.gguf", size=9, sha256="0" * 64)
    lost = {
        "broken": replace(record, wrong="its contents aren't what they were"),
        "gone": replace(record, stamp=FileStamp(9, 1)),
        "coming": record,
    }
    assert store.save(lost[state]).state == state
    baton = compose(load_settings(paths.config_file), paths, history=False)
    assert baton.orchestra.default == baton.orchestra.worker().card.id == "small"
    assert baton.warning.startswith("mine is")
    path = store.save(record).path
    path.write_bytes(b"GGUF or so")
    held = store.save(replace(record, stamp=file_stamp(path)))
    assert "answers and draws plans" in baton.add_model(held), "when it is here again"
    assert baton.orchestra.default == "mine"
    await baton.aclose()
    baton = compose(load_settings(paths.config_file), paths, history=False)
    assert (baton.orchestra.default, baton.missed) == ("mine", "")
    await baton.aclose()


async def test_models_that_arrive_at_once_all_join_and_one_takes_a_role(tmp_path: Path) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    store = FolderModelStore(paths.models)
    together = threading.Barrier(4)

    def arrive(number: int) -> str:
        held = store.save(ModelRecord(f"m{number}", f"M{number}", f"m{number}.gguf"))
        held.path.write_bytes(b"GGUF or so")
        held = store.save(replace(held.record, stamp=file_stamp(held.path)))
        together.wait(10)
        return baton.add_model(held)

    baton = compose(load_settings(paths.config_file), paths, history=False)
    notices = await asyncio.gather(*(asyncio.to_thread(arrive, number) for number in range(4)))
    assert sum("answers" in one for one in notices) == 1
    assert {f"m{n}" for n in range(4)} < {card.id for card in baton.orchestra.roster}
    assert load_settings(paths.config_file).worker == baton.orchestra.default
    await baton.aclose()


def test_changes_of_settings_at_once_are_all_made(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: write_settings(file, {"keys": {f"key{n}": "x"}}), range(40)))
    assert len(load_settings(file, {}).keys) == 40


async def test_the_hubs_token_is_the_fetchers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with Hub() as hub:
        hub.tokens.add("hf_mine")
        hub.add("me/mine", {"mine.gguf": b"x" * 5000}, private=True)
        for name, value in {**hub.environ, "HF_TOKEN": "hf_mine"}.items():
            monkeypatch.setenv(name, value)
        stock = library(Settings(), find_paths())
        remove_keys(os.environ)  # as the app does, which starts editors and clipboards
        assert "HF_TOKEN" not in os.environ
        with pytest.raises(ModelFileError, match="isn't a model"):  # so the file was let through
            await ModelDownload(stock).request("hf.co/me/mine")
        await stock.aclose()


async def test_closing_continues_where_a_part_fails_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baton = compose(Settings(), find_paths({"BATON_HOME": str(tmp_path)}))
    closed: list[object] = []

    def record(part: type, *, fails: bool = False) -> None:
        inner = part.aclose  # type: ignore[attr-defined]

        async def aclose(self: object) -> None:
            await inner(self)
            closed.append(type(self))
            if fails:
                raise OSError("no more")

        monkeypatch.setattr(part, "aclose", aclose)

    worker = baton.orchestra.worker()
    record(type(baton.library), fails=True)
    record(type(worker), fails=True)
    for part in (baton.orchestra, baton.ledger, baton.store):
        record(type(part))
    with pytest.raises(OSError, match="no more"):
        await baton.aclose()
    assert {type(baton.library), type(worker), type(baton.ledger), type(baton.store)} <= {*closed}


@pytest.mark.parametrize(("ceiling", "allowed"), [("0", False), ("0.0001", False), ("2", True)])
async def test_a_ceiling_that_is_changed_during_a_start_is_obeyed(
    tmp_path: Path, ceiling: str, allowed: bool
) -> None:
    """Another Baton sets it after the settings were read, and before the ledger is open."""
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    write_settings(paths.config_file, {"budget": {"day": "1"}})
    settings = load_settings(paths.config_file)
    write_settings(paths.config_file, {"budget": {"day": ceiling}})
    other = open_ledger(paths)
    await other.set_ceiling(Scope.DAY, parse_usd(ceiling))
    baton = compose(settings, paths, history=False)
    standing = await baton.orchestra.standing()
    assert [room.ceiling for room in standing.rooms] == [min(parse_usd(ceiling), NANO), None]
    for _ in range(2):
        if allowed:
            await baton.ledger.hold(bill(settings.budget.ceilings))
        else:
            with pytest.raises(BudgetExceeded):
                await baton.ledger.hold(bill(settings.budget.ceilings))
    await other.set_ceiling(Scope.DAY, 2 * NANO)  # from now on as ever
    await baton.ledger.hold(bill(settings.budget.ceilings))
    await other.aclose()
    await baton.aclose()


async def test_no_ceiling_that_is_set_later_loosens_one_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_BUDGET__DAY", "0.0001")
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    write_settings(paths.config_file, {"budget": {"day": "1"}})
    settings = load_settings(paths.config_file)
    other = open_ledger(paths)
    baton = compose(settings, paths, history=False)

    async def ceiling() -> int | None:
        [today, _] = (await baton.orchestra.standing()).rooms
        return today.ceiling

    limit = await ceiling()
    for amount in (5 * NANO, None):
        await other.set_ceiling(Scope.DAY, amount)
        assert await ceiling() == limit == NANO // 10_000
        with pytest.raises(BudgetExceeded, match="BATON_BUDGET__DAY") as caught:
            await baton.ledger.hold(bill(settings.budget.ceilings))
        assert "budget set" not in str(caught.value)
    await other.set_ceiling(Scope.DAY, 1)
    assert await ceiling() == 1
    await other.aclose()
    await baton.aclose()


def test_another_name_keeps_no_key_and_connects_nothing(home: Path) -> None:
    baton = compose(Settings(), find_paths(), history=False)
    with pytest.raises(ConfigError) as raised:
        baton.connect("google/gemini-2.5-flash", AddOptions(), "sk-0123456789", is_plain=True)
    assert "Did you mean gemini/gemini-2.5-flash?" in raised.value.hint
    assert not find_paths().keys_file.exists()
    assert not find_paths().config_file.exists()
    asyncio.run(baton.aclose())
