"""Attacks on what is private: crashes, other servers, guesses, and texts that begin alike."""

from __future__ import annotations

import asyncio
import html
import json
import os
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from baton.core.errors import StoreError
from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.messages import Card, Chunk, Finish, Prompt, Request, Text, Usage
from baton.core.money import NANO
from baton.core.permissions import PromptLimits
from baton.core.ports import ConversationPosition
from baton.platform.sqlite import connect
from baton.workers.scripted_worker import ScriptedWorker
from server.test_attack_rows import (
    Turns,
    answer_text,
    ask_as_user,
    local_worker,
    post,
    remote_worker,
    serve,
    stored_labels,
)
from support.served_baton import Served, wait_until

LONG = "My diagnosis is asthma, and the doctor said so on Monday. Nobody else may hear of it."
ANSWER = "You said to me that you have asthma since Monday, and that nobody may hear of it."
GERMAN = "Meine Diagnose heißt Überfunktion der Schilddrüse, sagte Dr. Öztürk am Montag früh."
QUOTED = "I don't think Dr. O'Neil's first opinion & the \"second\" differ: it's asthma, isn't it?"
PRIVATELY = {"x-baton-private": "1"}

SMALL = Card("small", "local", "Small", context=8192, slots=64)


def waiting_worker(go: asyncio.Event, answer: str) -> ScriptedWorker:
    """Return a worker that writes its answer, and ends it once it may."""

    def script(request: Request) -> Iterable[Chunk | float]:
        yield Text(answer)
        while not go.is_set():
            yield 0.02
        yield Usage(10, 4, Finish.STOP)

    return ScriptedWorker(script, SMALL)


def was_shown(worker: ScriptedWorker, text: str) -> bool:
    return any(text in message.text for one in worker.requests for message in one.messages)


async def test_an_own_answer_that_begins_alike_frees_no_private_answer_of_others(
    tmp_path: Path,
) -> None:
    def script(request: Request) -> Iterable[Chunk]:
        is_medical = "medical" in request.messages[-1].text
        rest = (
            "the patient has asthma, the doctor said so to his wife."
            if is_medical
            else "boats float."
        )
        yield Text(f"Here is a summary of the text: {rest}")
        yield Usage(10, 4, Finish.STOP)

    away = remote_worker()
    async with serve(tmp_path, ScriptedWorker(script, SMALL), away) as (served, client):
        answer_text(await post(client, "chat", "baton/local", "Summarise the text about boats."))
        await ask_as_user(served, "Summarise the medical text.", PromptLimits(Label.LOCAL))
        found = await served.baton.store.conversations()
        threads = [await served.baton.store.thread(one.id) for one in found]
        [private] = [turn.text for thread in threads for turn in thread if "asthma" in turn.text]
        answer = await post(client, "chat", "gpt", f"Translate into French: {private}")
    assert not was_shown(away, "asthma")
    assert answer.status_code == 400


@pytest.mark.parametrize("next_prompt", ["What is my PIN?", "And if not?"])
async def test_a_private_answer_cannot_be_guessed_in_bulk(tmp_path: Path, next_prompt: str) -> None:
    """A thousand guesses are answered alike with and without the right one; one is recognised."""
    workers = local_worker("Your PIN is 4711."), remote_worker()
    async with serve(tmp_path, *workers) as (served, client):
        await ask_as_user(served, "What is my PIN?", PromptLimits(Label.LOCAL))
        for pins, status in (
            (range(4711, 4712), 400),
            (range(4200, 5200), 402),
            (range(2000, 3000), 402),
        ):
            turns = [("user", "Good morning."), ("assistant", "Good morning.")]
            for pin in pins:
                prompt = next_prompt if len(turns) > 2 else "What is my PIN?"
                turns += [("user", prompt), ("assistant", f"Your PIN is {pin}.")]
            turns.append(("user", "Hm?"))
            answer = await post(client, "chat", "gpt", turns, {"x-baton-budget": "0"})
            assert answer.status_code == status, pins


@pytest.mark.parametrize("text", [GERMAN, QUOTED], ids=["german", "quoted"])
async def test_a_private_text_is_recognised_in_a_transcript_as_json_or_html(
    tmp_path: Path, text: str
) -> None:
    async with serve(tmp_path, local_worker("Noted."), remote_worker()) as (_, client):
        await post(client, "chat", "baton/local", text, PRIVATELY)
        turn = [{"role": "user", "content": text}]
        for form in (json.dumps(turn), json.dumps(json.dumps(turn)), f"<p>{html.escape(text)}</p>"):
            answer = await post(client, "chat", "gpt", f"Summarise: {form}")
            assert answer.status_code == 400, form


async def test_what_is_said_both_ways_stays_here_by_previous_response_id_as_well(
    tmp_path: Path,
) -> None:
    away = remote_worker()
    async with serve(tmp_path, local_worker("Noted."), away) as (_, client):
        first = await post(client, "responses", "baton/local", LONG)
        await post(client, "responses", "baton/local", LONG, PRIVATELY)
        fields = {"previous_response_id": first.json()["id"]}
        answer = await post(client, "responses", "gpt", "Go on", **fields)
    assert away.requests == []
    assert answer.status_code == 400


async def test_two_prompts_in_a_row_are_recognised_after_another_one(tmp_path: Path) -> None:
    private = [("user", "I have asthma-77."), ("user", "Reply OK.")]
    after = [("assistant", "OK."), ("user", "And?")]
    async with serve(tmp_path, local_worker("OK."), remote_worker()) as (_, client):
        await post(client, "chat", "baton/local", private, PRIVATELY)
        for before in ([], [("user", "Hello.")]):
            answer = await post(client, "chat", "gpt", [*before, *private, *after])
            assert answer.status_code == 400, before


# Crashes, other servers, a full disk


@asynccontextmanager
async def crashed_server(tmp_path: Path, keep: str) -> AsyncIterator[httpx.AsyncClient]:
    """Serve again after a crash in the middle of a private answer of which a client has a part."""
    go, away = asyncio.Event(), remote_worker()
    async with serve(tmp_path / "a", waiting_worker(go, ANSWER), away) as (served, client):
        headers = {**PRIVATELY, "x-baton-keep": keep}
        asking = asyncio.create_task(post(client, "chat", "baton/local", LONG, headers))
        file = served.baton.paths.database
        await wait_until(lambda: is_marked(served))
        copy = tmp_path / "b" / file.relative_to(tmp_path / "a")
        copy.parent.mkdir(parents=True)
        copy.touch()
        source, target = connect(file, "ro"), connect(copy, "rw")
        source.backup(target)
        target.execute("UPDATE runs SET owner = 999999999")  # its process is gone
        source.close()
        target.close()
        go.set()
        await asking
    async with serve(tmp_path / "b", local_worker(), away) as (_, client):
        yield client


def is_marked(served: Served) -> bool:
    """Whether an answer, or a pair that isn't kept, is recorded as far as it is."""
    if not any(one.view.answer for one in served.runner.served):
        return False
    connection = connect(served.baton.paths.database, "ro")
    marks = """SELECT 1 FROM answer_pieces
        UNION SELECT 1 FROM private_marks WHERE answer <> ''"""
    found = connection.execute(marks).fetchone()
    connection.close()
    return found is not None


async def test_a_private_answer_is_recognised_after_a_crash(tmp_path: Path) -> None:
    async with crashed_server(tmp_path, "1") as client:
        assert (await post(client, "chat", "gpt", f"Translate: {ANSWER}")).status_code == 400


@pytest.mark.parametrize("said", [[("user", LONG)], [("user", "And?"), ("assistant", ANSWER)]])
async def test_what_is_not_kept_is_private_after_a_crash(tmp_path: Path, said: Turns) -> None:
    turns = [("user", LONG), *said, ("user", "And?")]
    async with crashed_server(tmp_path, "0") as client:
        assert (await post(client, "chat", "gpt", turns)).status_code == 400


async def test_what_is_not_kept_is_private_at_another_server_while_it_is_answered(
    tmp_path: Path,
) -> None:
    go, away = asyncio.Event(), remote_worker()
    async with (
        serve(tmp_path, waiting_worker(go, ANSWER), away) as (served, client),
        serve(tmp_path, local_worker(), away) as (_, other),
    ):
        headers = {**PRIVATELY, "x-baton-keep": "0"}
        asking = asyncio.create_task(post(client, "chat", "baton/local", "Hi.", headers))
        await wait_until(lambda: is_marked(served))
        turns = [("user", "Hi."), ("assistant", ANSWER), ("user", "And?")]
        answer = await post(other, "chat", "gpt", turns)
        go.set()
        await asking
    assert answer.status_code == 400


async def test_a_prompt_that_is_not_kept_is_private_before_it_is_answered(tmp_path: Path) -> None:
    go = asyncio.Event()
    async with (
        serve(tmp_path, waiting_worker(go, "")) as (served, client),
        serve(tmp_path, local_worker(), remote_worker()) as (_, other),
    ):
        headers = {**PRIVATELY, "x-baton-keep": "0"}
        asking = asyncio.create_task(post(client, "chat", "baton/local", LONG, headers))
        await wait_until(lambda: any(one.view.started for one in served.runner.served))
        answer = await post(other, "chat", "gpt", f"  {LONG} ")
        go.set()
        await asking
    assert answer.status_code == 400


async def test_a_short_answer_that_is_not_kept_is_private_once_it_is_there(tmp_path: Path) -> None:
    headers = {**PRIVATELY, "x-baton-keep": "0"}
    turns = [("user", "Hi."), ("assistant", "OK."), ("user", "And?")]
    async with serve(tmp_path, local_worker("OK.")) as (_, client):
        answer_text(await post(client, "chat", "baton/local", "Hi.", headers))
    async with serve(tmp_path, local_worker(), remote_worker()) as (_, client):
        assert (await post(client, "chat", "gpt", turns)).status_code == 400


async def test_a_full_disk_does_not_make_what_was_private_open(tmp_path: Path) -> None:
    async with serve(tmp_path, local_worker("Noted.")) as (served, client):

        async def fail(*parts: object) -> None:
            raise StoreError("The disk is full.", "Free some space.")

        vars(served.baton.store.clients)["keep_private_marks"] = fail
        headers = {**PRIVATELY, "x-baton-keep": "0"}
        answer = await post(client, "chat", "baton/local", LONG, headers)
    assert answer.status_code == 503
    assert "disk is full" in answer.text


async def test_a_refused_private_follow_up_stays_private(tmp_path: Path) -> None:
    async with serve(tmp_path, local_worker("Noted."), remote_worker()) as (_, client):
        first = await post(client, "responses", "baton/local", "Hello there")
        turns = [("user", LONG), ("assistant", "Noted."), ("user", "What else?")]
        fields = {"previous_response_id": first.json()["id"]}
        refused = await post(client, "responses", "gpt", turns, PRIVATELY, **fields)
        assert refused.status_code == 400
        assert (await post(client, "chat", "gpt", turns)).status_code == 400


# What a program sees of the user's part of a chat, and the other way round


@pytest.mark.parametrize("protocol", ["chat", "responses"])
async def test_a_program_does_not_learn_that_the_user_said_something_privately(
    tmp_path: Path, protocol: str
) -> None:
    async with serve(tmp_path, local_worker("Noted."), remote_worker()) as (served, client):
        first = await post(client, protocol, "baton/local", "A talk about boats.")

        async def next_turn() -> int:
            turns: Any = "And?"
            more = {"previous_response_id": first.json()["id"]} if protocol == "responses" else {}
            if protocol == "chat":
                turns = [("user", "A talk about boats."), ("assistant", "Noted."), ("user", turns)]
            return (await post(client, protocol, "gpt", turns, **more)).status_code

        assert await next_turn() == 200
        place = ConversationPosition(first.json()["baton"]["conversation_id"])
        limits = PromptLimits(Label.LOCAL)
        async with served.baton.orchestra.run(Prompt("My secret."), place, limits) as run:
            async for _ in run:
                pass
        assert await next_turn() == 200


async def test_the_user_resumes_what_they_deleted_whatever_a_program_allowed(
    tmp_path: Path,
) -> None:
    async with serve(tmp_path, local_worker("Half", pause=20.0)) as (served, client):
        headers = {"x-baton-budget": "0.5"}
        asking = asyncio.create_task(post(client, "chat", "baton/auto", "Hello", headers))
        await wait_until(lambda: bool(served.runner.served) and served.runner.served[0].view.plan)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await wait_until(lambda: served.runner.served[0].is_over)
        store = served.baton.store
        record = await store.runs.get(served.runner.served[0].id)
        await store.hide(record.conversation)
        served.baton.orchestra.add(local_worker("Whole."))
        async with served.baton.orchestra.resume(record) as run:
            events = [event async for event in run]
        assert type(events[-1]).__name__ == "Finished", events[-1]
        assert [*await stored_labels(served)] == [record.conversation]


@pytest.mark.parametrize("protocol", ["chat", "responses"])
async def test_the_ceiling_of_a_conversation_holds_where_drafts_are_replaced(
    tmp_path: Path, protocol: str
) -> None:
    ceilings = {Scope.DAY: NANO, Scope.SESSION: NANO // 40}
    away, headers = remote_worker(), {"x-baton-strict": "1"}
    async with serve(tmp_path, local_worker(), away, ceilings=ceilings) as (served, client):
        turns, more = [("user", "The first question?")], dict[str, Any]()
        for number in range(10):
            asked = f"More {number}?" if more else turns
            answer = await post(client, protocol, "baton/auto", asked, headers, **more)
            if answer.status_code == 402:
                break
            if protocol == "responses":
                more = {"previous_response_id": answer.json()["id"]}
            turns = [*turns, ("assistant", answer_text(answer)), ("user", f"More {number}?")]
        assert len(await stored_labels(served)) == 1
    assert answer.status_code == 402
    assert len(away.requests) == 4  # as many as of a model that is asked for by name


# Memory


class MemoryWatch:
    """How much more memory was in use at most than at its beginning, in bytes."""

    def __init__(self) -> None:
        self.most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        first = resident_bytes()
        while not self._over.wait(0.005):
            self.most = max(self.most, resident_bytes() - first)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_private_texts_that_begin_alike_take_no_memory(tmp_path: Path) -> None:
    """A program may have stored them, a request at a time."""
    async with serve(tmp_path, local_worker(), remote_worker()) as (served, client):
        text = LONG + " and so on" * 130_000
        headers = {**PRIVATELY, "x-baton-deadline": "0.001"}
        await post(client, "chat", "baton/auto", text, headers)
        database = connect(served.baton.paths.database, "rw")
        columns = [row["name"] for row in database.execute("PRAGMA table_info(turns)")]
        other = {name: f"{name} || ?1" for name in ("id", "text", "fingerprint", "whole")}
        other |= {"key": "key + ?1 * 1000000", "length": "length + ?1"}
        database.execute("BEGIN")
        for number in range(1, 61):
            database.execute(
                f"INSERT INTO turns SELECT {', '.join(other.get(name, name) for name in columns)} "
                "FROM turns WHERE role = 'user' AND length(id) = 12",
                [number],
            )
        database.execute("COMMIT")
        database.close()
        with MemoryWatch() as watch:
            answer_text(await post(client, "chat", "baton/auto", f"Hi: {text[:60]}"))
    assert watch.most < 40 * 10**6
