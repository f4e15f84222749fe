"""Three real llama.cpp servers behind one worker, one of which is killed in the midst of its work.

Needs tests/engines.lock: scripts/baton's environment, and `pip install -r tests/engines.lock`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from baton.core.errors import BatonError, WorkerUnavailable
from baton.core.labels import Label
from baton.core.ledger_types import Status
from baton.core.messages import (
    Card,
    Chunk,
    Message,
    Request,
    RequestSent,
    Retrying,
    Role,
    Text,
    Usage,
)
from baton.core.permissions import ANYTHING, RunTerms
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.money import Ledger
from baton.workers.cloud import CloudWorker, Gateway, WorkerAddress
from baton.workers.local.local_servers import ask_engines, host_addresses
from support.cloud_worker_calls import PATIENCE
from support.llama_servers import MODEL_NAME, SLOTS, LlamaServer, start_llama_servers

pytest.importorskip("xllamacpp", reason="needs tests/engines.lock")
pytestmark = [
    pytest.mark.long,
    pytest.mark.local_model,
    pytest.mark.skipif(sys.platform == "win32", reason="kills a process"),
]

CALLS = 18
TOKENS = 40


@dataclass
class Answered:
    """What came of one call."""

    run: str
    chunks: list[Chunk] = field(default_factory=list)
    error: BatonError | None = None

    @property
    def text(self) -> str:
        """What was shown of its answer."""
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, Text))

    @property
    def places(self) -> list[str]:
        """Where it was sent, in order."""
        return [chunk.destination for chunk in self.chunks if isinstance(chunk, RequestSent)]


async def test_one_of_three_real_servers_is_killed_and_no_call_is_lost(tmp_path: Path) -> None:
    with start_llama_servers(tmp_path, 3) as servers:
        for server in servers:
            assert _total_slots(server) == SLOTS
        ledger = Ledger(tmp_path / "ledger.db")
        gateway = Gateway(
            ledger.sent,
            record_unsent=ledger.record_unsent,
            keys_file=tmp_path / "keys.toml",
            patience=PATIENCE,
        )
        addresses = [WorkerAddress(each.base_url, SLOTS, remote=False) for each in servers]
        card = Card("lab", "server", "lab", provider="server", model=MODEL_NAME)
        worker = CloudWorker(card, gateway, addresses=addresses)
        try:
            ended = await _ask_and_kill(worker, ledger, servers)
            await _check(ended, ledger, servers)
        finally:
            await gateway.aclose()
            await ledger.aclose()


async def test_a_real_server_is_found_and_says_how_many_calls_it_takes(tmp_path: Path) -> None:
    with start_llama_servers(tmp_path, 1) as [server]:
        places = [
            replace(place, port=server.port)
            for place in host_addresses("127.0.0.1")
            if place.engine == "llama-server"
        ]
        [found] = await ask_engines(places, 30)
    assert (found.model, found.slots, found.addresses) == (
        MODEL_NAME,
        (SLOTS,),
        (server.base_url,),
    )


async def _ask_and_kill(
    worker: CloudWorker, ledger: Ledger, servers: Sequence[LlamaServer]
) -> list[Answered]:
    """Keep all slots busy; kill one server as soon as it has written half of its second answer."""
    free = asyncio.Semaphore(SLOTS * len(servers))
    doomed = servers[1]
    written = 0

    async def forget(tally: CallUsage) -> None:
        """The ledger has it."""

    async def ask(number: int) -> Answered:
        nonlocal written
        done = Answered(f"run-{number:02d}")
        purse = RunBudget(ledger, None, RunTerms(), ANYTHING, run=done.run, session="s")
        said = f"Tell me story number {number}, about a lighthouse."
        asked = Request((Message(Role.USER, said),), max_tokens=TOKENS, label=Label.CLOUD)
        async with free:
            try:
                async with aclosing(MeteredWorker(worker, purse, forget).stream(asked)) as chunks:
                    async for chunk in chunks:
                        done.chunks.append(chunk)
                        if isinstance(chunk, Text) and done.places[-1] == _place(doomed):
                            written += chunk.tokens
                            if written >= TOKENS * 1.5 and doomed.process.poll() is None:
                                doomed.process.kill()
            except BatonError as error:
                done.error = error
        return done

    return await asyncio.gather(*(ask(number) for number in range(CALLS)))


async def _check(ended: Sequence[Answered], ledger: Ledger, servers: Sequence[LlamaServer]) -> None:
    dead = _place(servers[1])
    assert servers[1].process.poll() is not None, "it was killed"
    cut = [done for done in ended if done.error is not None]
    assert len(cut) <= SLOTS, "only what it was writing"
    for done in ended:
        kinds = [type(chunk) for chunk in done.chunks]
        if done.error is None:
            assert done.text
            assert kinds.count(Usage) == 1
            assert kinds[-1] is Usage
        else:
            assert type(done.error) is WorkerUnavailable
            assert done.text, "a call without a word yet is moved"
            assert done.places == [dead]
        if Text in kinds:
            after = kinds[kinds.index(Text) :]
            assert RequestSent not in after, "what has begun isn't begun again"
            assert Retrying not in after
        assert len({*done.places}) == len(done.places), "no address is asked twice"
        [charge] = await ledger.charges(done.run)
        assert charge.charged == 0
        ends = {Status.SETTLED} if done.error is None else {Status.UNCONFIRMED}
        assert charge.status in ends
        rows = await ledger.egress(done.run)
        assert [row.destination for row in reversed(rows)] == done.places
    used = {place for done in ended for place in done.places}
    assert used == {_place(server) for server in servers}, "all of them had work"
    assert any(len(done.places) > 1 for done in ended), "a call was moved"


def _place(server: LlamaServer) -> str:
    return f"127.0.0.1:{server.port}"


def _total_slots(server: LlamaServer) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/props", timeout=60) as answer:
        slots: int = json.load(answer)["total_slots"]
    return slots
