"""Random requests of three tokens, and the user, over one home: nothing crosses, whatever they try.

Each text holds a word of its own that says who said it, and whether privately. Who gets to see such
a word is looked at wherever texts arrive: at the workers, in answers, in the history.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.messages import Chunk, Finish, Prompt, Request, RequestSent, Text, Usage
from baton.core.money import NANO
from baton.core.permissions import PromptLimits
from baton.core.ports import NEW, ConversationPosition
from baton.server import read_tokens
from baton.server.access import Grant
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import GPT, SMALL, Served, served_baton

SEQUENCES_PER_SERVER = 4
SEQUENCES_PER_HOME = 250
STEPS = 7
PERSON = "person"
LONG = " Please keep in mind that the ferry leaves from the eastern pier at a quarter past nine."
WORD = re.compile(r"word-[a-z]+-(?:open|private)-\d+")

_numbers = itertools.count()


def reply(request: Request) -> Iterable[Chunk]:
    """Answer with a word that belongs to whom the prompt does, as private as the request."""
    who = WORD.findall(request.messages[-1].text)[-1].split("-")[1]
    manner = "open" if request.label is Label.CLOUD else "private"
    if request.call:
        yield RequestSent("api.openai.com", 500)
    yield Text(f"word-{who}-{manner}-{next(_numbers)} is what I say.")
    yield Usage(40, 12, Finish.STOP)


@dataclass
class Chat:
    """A chat as the one who had it remembers it; `is_private` once any of it was."""

    owner: str
    messages: list[dict[str, str]] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    conversation: str = ""
    is_private: bool = False


class Scenario:
    """What was said so far over one home, by whom, and the next thing that somebody does."""

    def __init__(self, served: Served, small: ScriptedWorker, gpt: ScriptedWorker) -> None:
        self.served, self.small, self.gpt = served, small, gpt
        self.tokens = read_tokens(served.baton.paths.server_tokens)
        self.random = Random(0)
        self.chats: list[Chat] = []
        self.known: defaultdict[str, set[str]] = defaultdict(set)
        self.seen = 0
        self.statuses: defaultdict[int, int] = defaultdict(int)

    async def run(self, seed: int) -> None:
        """Do some random things, and look after each of them whether anything crossed."""
        self.random = Random(seed)
        del self.chats[:-12]
        with_money = self.random.random() < 0.6
        ceilings = {Scope.DAY: 1000 * NANO} if with_money else {}
        self.served.baton.orchestra.change_terms(ceilings=ceilings)
        for _ in range(STEPS):
            before = len(self.gpt.requests)
            private = await self._conversations_of_person()
            who = self.random.choice((PERSON, *Grant, Grant.SPEND))  # who could cross most
            await (self._as_person() if who == PERSON else self._as_program(Grant(who)))
            if who != PERSON:
                assert await self._conversations_of_person() == private, "a program changed them"
            paid = len(self.gpt.requests) - before
            assert not paid or (with_money and who == Grant.SPEND), (who, with_money)
            self._check_workers(str(who))

    def _text(self, who: str, is_private: bool) -> str:
        manner = "private" if is_private else "open"
        text = f"word-{who}-{manner}-{next(_numbers)} is my subject."
        return text + (LONG if self.random.random() < 0.5 else "")

    async def _as_person(self) -> None:
        """Ask something, privately or not; or delete a conversation, for good or for now."""
        store = self.served.baton.store
        chats = [chat for chat in self.chats if chat.conversation]
        if chats and self.random.random() < 0.3:
            gone = self.random.choice(chats)
            await (store.purge if self.random.random() < 0.5 else store.hide)(gone.conversation)
            id = gone.conversation
            for chat in [chat for chat in self.chats if chat.conversation == id]:
                chat.conversation, chat.responses = "", []
            return
        is_private = self.random.random() < 0.6
        text = self._text(PERSON, is_private)
        usable = [chat for chat in chats if chat.is_private == is_private]
        chat = self.random.choice([*usable[-3:], Chat(PERSON, is_private=is_private)])
        if chat.owner != PERSON:  # what a program began is the user's as well from now on
            chat = Chat(PERSON, list(chat.messages), [], chat.conversation, is_private)
            thread = await store.thread(chat.conversation)
            self.known[PERSON] |= set(WORD.findall(" ".join(turn.text for turn in thread)))
        place = ConversationPosition(chat.conversation) if chat.conversation else NEW
        limits = PromptLimits(Label.LOCAL if is_private else Label.CLOUD)
        orchestra = self.served.baton.orchestra
        async with orchestra.run(Prompt(text), place, limits, worker="small") as run:
            events = [event async for event in run]
        chat.conversation = events[0].conversation  # type: ignore[union-attr]
        answer = (await store.thread(chat.conversation))[-1].text
        chat.responses.append(f"resp_{events[0].run}")  # type: ignore[union-attr]
        chat.messages += [
            {"role": "user", "content": text},
            {"role": "assistant", "content": answer},
        ]
        self.chats = [one for one in self.chats if one is not chat] + [chat]

    async def _as_program(self, grant: Grant) -> None:
        """Begin a chat, continue one, bring one that is somebody else's, or look around."""
        headers = {"authorization": f"Bearer {getattr(self.tokens, grant)}"}
        async with httpx.AsyncClient(base_url=self.served.url, headers=headers) as client:
            if self.random.random() < 0.25:
                await self._look_around(client, grant)
            else:
                await self._ask(client, grant)

    async def _look_around(self, client: httpx.AsyncClient, grant: Grant) -> None:
        """Ask for a response by its id, or by a part of it, or have it cancelled."""
        found = [id for chat in self.chats[-6:] for id in chat.responses] or ["resp_0"]
        own = {id for chat in self.chats if chat.owner == grant for id in chat.responses}
        id = self.random.choice(found)
        part = id[: self.random.randint(5, 16)]
        asked = self.random.choice((id, id, id, id, part, id[5:], id.upper()))
        way = self.random.choice(("GET", "POST"))
        path = f"/responses/{asked}" + ("/cancel" if way == "POST" else "")
        answer = await client.request(way, path)
        is_own = asked in own  # of those, what isn't in the background can't be cancelled
        assert answer.status_code in (
            (200,) if is_own and way == "GET" else (404, 200)[: 1 + is_own]
        )
        self._check_answer(grant, answer)

    async def _ask(self, client: httpx.AsyncClient, grant: Grant) -> None:
        dice = self.random
        chats = [*self.chats[-6:], Chat(grant), Chat(grant)]
        private = [chat for chat in chats if chat.is_private and grant is Grant.SPEND]
        own = [chat for chat in self.chats[-12:] if chat.responses and chat.owner == grant]
        chat = dice.choice(dice.choice((private, own, chats, chats)) or chats)
        wants_private = dice.random() < 0.3
        is_private = wants_private or grant is Grant.PRIVATE or chat.is_private
        text = self._text(grant, is_private)
        model = dice.choice(("small", "gpt", "gpt", "gpt", "baton/auto", "baton/local"))
        headers = {"x-baton-private": "1"} if wants_private else {}
        headers |= {"x-baton-budget": "5"} if dice.random() < 0.5 else {}
        is_kept = dice.random() < 0.6
        # Another's chat was handed over to this program, which brings it.
        before = self._varied(chat.messages)
        path = dice.choice(("/chat/completions", "/responses", "/responses", "/messages"))
        body = self._body(path, model, [*before, {"role": "user", "content": text}])
        is_linked = path == "/responses" and bool(chat.responses) and dice.random() < 0.7
        if is_linked:
            body |= {"input": text, "previous_response_id": chat.responses[-1]}
        if path == "/responses" and is_kept and dice.random() < 0.7:
            body["background"] = True
        if not is_kept:
            body |= {"baton": {"keep": False}} if path == "/messages" else {"store": False}
        self.known[grant] |= set(WORD.findall(json.dumps(body)))
        answer = await client.post(path, json=body, headers=headers)
        while answer.json().get("status") == "in_progress":
            answer = await client.get(f"/responses/{answer.json()['id']}")
        self.statuses[answer.status_code] += 1
        assert answer.status_code < 500, answer.text
        if is_linked and chat.owner != grant:
            assert answer.status_code in (403, 404), answer.text  # 403: it may not use that worker
        self._check_answer(grant, answer, is_asking=True)
        if answer.status_code == 200 and answer.json().get("status") != "failed":
            self._remember(chat, grant, text, answer.json(), is_private, is_kept)

    def _remember(
        self,
        chat: Chat,
        grant: Grant,
        text: str,
        said: dict[str, Any],
        is_private: bool,
        kept: bool,
    ) -> None:
        report = said["baton"]
        written = "".join(WORD.findall(json.dumps(said)))
        found = re.findall(r"word-[^\"]*? is what I say\.", json.dumps(said))
        assert found, written
        mine = Chat(grant, list(chat.messages), [], "", is_private)
        mine.messages += [
            {"role": "user", "content": text},
            {"role": "assistant", "content": found[-1]},
        ]
        if kept:
            mine.responses, mine.conversation = (
                [f"resp_{report['run_id']}"],
                report["conversation_id"],
            )
        self.chats.append(mine)

    def _varied(self, messages: list[dict[str, str]]) -> list[dict[str, str]]:
        """Return a chat as a program may send it again: other spaces, another case, more around."""
        dice = self.random
        varied = []
        for message in messages:
            text = message["content"]
            text = dice.choice((text, f" {text}\n", text.replace(" ", "  "), text + " "))
            varied.append({**message, "content": text})
        if varied and dice.random() < 0.3:
            varied.insert(0, {"role": "user", "content": "Good morning."})
            varied.insert(1, {"role": "assistant", "content": "Good morning to you."})
        return varied

    def _body(self, path: str, model: str, messages: list[dict[str, str]]) -> dict[str, Any]:
        system = self.random.choice(("", f"The time is {next(_numbers)}."))
        if path == "/messages":
            body = {"model": model, "messages": messages, "max_tokens": 50}
            return body | ({"system": system} if system else {})
        if system:
            messages = [{"role": "system", "content": system}, *messages]
        return {"model": model, "input" if path == "/responses" else "messages": messages}

    def _check_answer(
        self, grant: Grant, answer: httpx.Response, *, is_asking: bool = False
    ) -> None:
        """A token gets no word but those that it brought, and those written for it."""
        words = set(WORD.findall(answer.text))
        own = {word for word in words if word.split("-")[1] == grant}
        assert words <= self.known[grant] | own, (grant, words - self.known[grant] - own)

    def _check_workers(self, who: str) -> None:
        """What is shown to workers is of the one who asks; to the cloud none of it is private."""
        requests = [*self.small.requests[self.seen :]]
        for request in requests:
            words = set(WORD.findall(" ".join(message.text for message in request.messages)))
            foreign = {word for word in words if word.split("-")[1] != who}
            assert foreign <= self.known[who], (who, foreign - self.known[who])
        self.seen = len(self.small.requests)
        for request in self.gpt.requests:
            text = " ".join(message.text for message in request.messages)
            assert "-private-" not in text, text

    async def _conversations_of_person(self) -> dict[str, tuple[Label, int]]:
        store = self.served.baton.store
        own = {chat.conversation for chat in self.chats if chat.owner == PERSON}
        return {
            one.id: (one.label, one.turns) for one in await store.conversations() if one.id in own
        }


async def run_sequences(home: Path, seeds: Iterable[int]) -> dict[int, int]:
    """Run a sequence for each seed over one home, with restarts; return how often which status."""
    statuses: defaultdict[int, int] = defaultdict(int)
    chats: list[Chat] = []
    known: defaultdict[str, set[str]] = defaultdict(set)
    left = list(seeds)
    while left:
        batch, left = left[:SEQUENCES_PER_SERVER], left[SEQUENCES_PER_SERVER:]
        small, gpt = ScriptedWorker(reply, SMALL), ScriptedWorker(reply, GPT)
        async with served_baton(home, [small, gpt]) as served:
            scenario = Scenario(served, small, gpt)
            scenario.chats, scenario.known = chats, known
            for seed in batch:
                await scenario.run(seed)
            chats = scenario.chats
            for status, count in scenario.statuses.items():
                statuses[status] += count
    return statuses


async def test_nothing_crosses_in_random_sequences(tmp_path: Path) -> None:
    seeds = [Random().getrandbits(48) for _ in range(40)]
    statuses = await run_sequences(tmp_path, seeds)
    assert statuses[200] > 25, statuses


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 10_000, SEQUENCES_PER_HOME))
async def test_nothing_crosses_in_ten_thousand_random_sequences(first: int, tmp_path: Path) -> None:
    statuses = await run_sequences(tmp_path, range(first, first + SEQUENCES_PER_HOME))
    assert statuses[200] > SEQUENCES_PER_HOME, statuses
