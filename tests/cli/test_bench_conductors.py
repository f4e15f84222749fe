"""`baton bench --conductor`: who plans best here, and what the settings say afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

import pytest

from baton.bench.conductor_bench import Episode, read_episodes
from baton.compose import Baton, library
from baton.compose.local_workers import LocalWorkers
from baton.compose.remote_workers import RemoteWorkers
from baton.core.errors import WorkerUnavailable
from baton.core.messages import Card, Chunk, Request, Text
from baton.core.planning.plan_lines import TOOL_HEADS
from baton.core.planning.request_parts import TrainedConductor
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.history import Store
from baton.money import Ledger
from baton.platform.paths import Paths, find_paths
from baton.platform.settings import Settings, load_settings, write_settings
from baton.workers.scripted_worker import Script, ScriptedWorker
from support.command_line import Call
from support.scripted_conductors import PlainTools, plan_text

EPISODES = read_episodes()[:3]
Bench = Callable[..., None]
"""Puts scripted workers, by id, and a trained conductor in the place of the real ones."""


def plans(right: int) -> Script:
    """Plan as the trained conductor does: so many episodes right, the others not at all."""
    left = list(EPISODES)

    def script(request: Request) -> Iterable[Chunk]:
        episode = left.pop(0)
        yield Text(_lines(episode) if EPISODES.index(episode) < right else "no plan")

    return script


def is_split(episode: Episode) -> bool:
    return len(episode.parts) > 1 or episode.parts[0].tool != ""


def _lines(episode: Episode) -> str:
    heads = {tool: head for head, tool in TOOL_HEADS.items()}
    if not is_split(episode):
        return "chat1: *"
    return "\n".join(f"{heads.get(part.tool, 'writing1')}: {part.text}" for part in episode.parts)


def draws(right: int) -> Script:
    """The same as a language model draws plans, whom another try doesn't help."""
    left = [episode for n, episode in enumerate(EPISODES) for _ in range(1 if n < right else 2)]

    def script(request: Request) -> Iterable[Chunk]:
        episode = left.pop(0)
        if EPISODES.index(episode) >= right:
            yield Text("no plan")
        elif not is_split(episode):
            yield Text(plan_text(("chat", "Answer the prompt.", ())))
        else:
            kinds = ["calculation" if part.tool else "writing" for part in episode.parts]
            yield Text(
                plan_text(*((k, p.text, ()) for k, p in zip(kinds, episode.parts, strict=True)))
            )

    return script


@pytest.fixture
def benched(monkeypatch: pytest.MonkeyPatch) -> Bench:
    def put(trained: Script | None, **scripts: Script) -> None:
        cards = {name: Card(name, "local", name.title(), context=8192) for name in scripts}
        workers: Mapping[str, ScriptedWorker] = {
            name: ScriptedWorker(scripts[name], card) for name, card in cards.items()
        }
        tool = Card("calculator", "tool", "Calculator")

        def compose(settings: Settings, paths: Paths, **_: object) -> Baton:
            ledger, store = Ledger(paths.ledger), Store(None)
            everyone = {**workers, tool.id: ScriptedWorker(card=tool)}
            orchestra = Orchestra(Services(everyone, store, ledger=ledger), next(iter(everyone)))
            if trained is not None:
                own = ScriptedWorker(trained, Card("conductor", "local", "Conductor"))
                orchestra.configure(trained=TrainedConductor(own, PlainTools()))
            stock = library(settings, paths)
            local = LocalWorkers(settings, stock)
            away = RemoteWorkers(settings, paths, ledger)
            return Baton(orchestra, store, ledger, settings, paths, stock, local, away)

        monkeypatch.setattr("baton.compose.compose", compose)
        monkeypatch.setattr("baton.bench.read_episodes", lambda: EPISODES)

    return put


@pytest.fixture
def large() -> str:
    """A local worker in the settings that is large enough to conduct."""
    entry = {"id": "large-7b", "kind": "local", "model": "large-7b.gguf"}
    write_settings(find_paths().config_file, {"workers": [entry]})
    return "large-7b"


def conductor() -> str:
    return load_settings(find_paths().config_file).conductor


def test_a_model_that_plans_better_conducts_from_then_on(
    call: Call, benched: Bench, large: str
) -> None:
    benched(plans(1), small=plans(0), **{large: draws(3)})
    done = call("bench", "--conductor")
    assert done.code == 0, done.err
    table = done.out.splitlines()
    assert [line.split()[0] for line in table[:3]] == ["conductor", "Baton's", large]
    assert "0.83" in table[1], "what has no plan stays whole"
    assert "1.00" in table[2]
    assert table[3] == (
        "large-7b plans better here than Baton's own conductor (1.00 against 0.83) and conducts "
        "from now on; `baton models role conductor none` undoes that."
    )
    assert conductor() == large
    assert call("models", "role", "conductor", "none").code == 0
    assert conductor() == ""


def test_a_model_that_plans_no_better_changes_nothing(
    call: Call, benched: Bench, large: str
) -> None:
    benched(plans(2), **{large: draws(2)})
    done = call("bench", "--conductor")
    said = "No model plans better here than Baton's own conductor"
    assert done.out.splitlines()[-1] == f"{said}, which still plans."
    assert conductor() == ""
    write_settings(find_paths().config_file, {"conductor": large})
    benched(plans(2), **{large: draws(2)})
    stays = f"stays {large}, which `baton models role conductor none` changes."
    assert stays in call("bench", "--conductor").out
    assert conductor() == large


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("other", "stays other, which `baton models role conductor large-7b` changes."),
        ("rule", "your setting `conductor` stays rule, which"),
        ("large-7b", "and conducts already."),
    ],
)
def test_what_the_user_chose_stays(
    call: Call, benched: Bench, large: str, named: str, said: str
) -> None:
    write_settings(find_paths().config_file, {"conductor": named})
    benched(plans(1), **{large: draws(3)})
    assert said in call("bench", "--conductor").out
    assert conductor() == named


def test_a_part_of_the_episodes_decides_nothing(call: Call, benched: Bench, large: str) -> None:
    benched(plans(0), **{large: draws(3)})
    done = call("bench", "--conductor", "--limit", "2")
    assert "only all episodes, without --limit, change who plans." in done.out
    assert conductor() == ""


def test_alone_the_trained_conductor_has_just_its_row(call: Call, benched: Bench) -> None:
    benched(plans(3), small=plans(0))
    done = call("bench", "--conductor", "--json")
    found = json.loads(done.out)
    assert (found["schema"], found["status"], found["said"]) == (1, "finished", "")
    (row,) = found["rows"]
    assert (row["conductor"], row["score"], row["episodes"]) == (None, 1.0, 3)


def test_without_the_trained_conductor_nothing_is_changed(
    call: Call, benched: Bench, large: str
) -> None:
    benched(None, **{large: draws(3)})
    done = call("bench", "--conductor")
    assert "Baton's own conductor isn't here, so no setting is changed." in done.out
    assert conductor() == ""
    benched(None, small=plans(0))
    assert call("bench", "--conductor").code == 1


def test_a_model_that_can_not_be_loaded_leaves_the_others_to_be_compared(
    call: Call, benched: Bench, large: str
) -> None:
    def broken(request: Request) -> Iterable[BaseException]:
        yield WorkerUnavailable("It can't be started.")

    benched(plans(1), **{large: draws(3), "ill-7b": broken})
    done = call("bench", "--conductor", "--json")
    assert "ill-7b could not be tried: It can't be started." in done.err
    found = json.loads(done.out)
    assert [row["conductor"] for row in found["rows"]] == [None, large]
    assert (found["conductor"], found["changed"]) == (large, True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--workers", "openai/gpt-5-mini"], "There is no worker 'openai/gpt-5-mini'"),
        (["--workers", "lab"], "There is no worker 'lab'"),
        (["--workers", "calculator"], "calculator is a tool"),
        (["--workers", "nobody"], "There is no worker 'nobody'"),
        (["--strategy", "single"], "--strategy can't be combined with --conductor"),
        (["questions.jsonl"], "A file of questions can't be combined with --conductor"),
    ],
)
def test_what_can_not_be_compared_is_refused(call: Call, more: list[str], said: str) -> None:
    lab = {"id": "lab", "kind": "server", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    write_settings(find_paths().config_file, {"workers": [lab]})
    done = call("bench", "--conductor", *more)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.local_model
@pytest.mark.sampled(0.5)
def test_the_conductor_that_comes_with_baton_plans_the_first_episode(call: Call) -> None:
    done = call("bench", "--conductor", "--limit", "1", "--json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"]
    assert row["episodes"] == 1
    assert row["score"] >= 0.5
