"""Streams of the corpus over real HTTP, through the real gateway process, gate and ledger.

What comes of each is the same as in this process (test_streams.py), so what is proven there of all
of them holds here. Ceilings, the log of what left, and offline are proven with them.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from baton.core.errors import BudgetExceeded, WorkerError
from baton.core.ledger_types import Scope, Status
from baton.platform.secrets import PROVIDERS
from baton.workers.cloud import CloudWorker, Gateway
from support.metered_calls import ROOM, FinishedCall, MeteredGateway, card_of, gateway_of
from support.stream_cloud import StreamCloud, prompt_of
from support.stream_corpus import PRICE, load_corpus
from support.stream_mutations import KINDS, Mutant, mutant_of, plain_mutant
from support.stream_replayer import CAP, ReplayedStream, StreamReplayer

CORPUS = load_corpus()
FAMILIES = sorted({stream.family for stream in CORPUS})
SEED = os.environ["BATON_TEST_SAMPLE"]
AT_ONCE = 6

WORKERS = {
    "azure_chat": "azure",
    "fireworks": "fireworks_ai",
    "openai_chat": "openai",
    "openai_responses": "responses",
    "together": "together_ai",
    "vertex": "vertex_ai",
    **dict.fromkeys(("llama_server", "lm_studio", "ollama", "sglang", "tgi", "vllm"), "server"),
}
"""The worker of support.metered_calls that asks a family, where its name is another."""


def drawn_mutants(family: str, count: int) -> list[Mutant]:
    """Return streams of a family: as described, and each changed in a drawn way."""
    chance = random.Random(f"{SEED} {family}")
    streams = [stream for stream in CORPUS if stream.family == family]
    found = []
    for stream in chance.sample(streams, min(count, len(streams))):
        kind = chance.choice([*KINDS])
        found += [plain_mutant(stream), mutant_of(stream, kind, SEED) or plain_mutant(stream)]
    return found


def add_azure_responses(metered: MeteredGateway) -> None:
    """Add a worker that asks Azure for responses."""
    variable, base = PROVIDERS["azure"].variable, metered.cloud.base("azure")
    card = card_of("azure", PRICE)
    metered.workers["azure_responses"] = CloudWorker(
        type(card)(
            card.id,
            card.kind,
            "gpt-5-codex",
            privacy=card.privacy,
            price=card.price,
            provider=card.provider,
            model="azure/gpt-5-codex",
            remote=True,
        ),
        metered.gateway,
        base_url=base,
        api_key_env=variable,
    )


def difference(done: FinishedCall, replayed: ReplayedStream) -> list[str]:
    """Return where a call ended otherwise than in this process."""
    usage, charge = done.tally.usage if done.tally else None, done.charge
    if charge is None:
        return ["no charge"]
    status = Status.SETTLED if replayed.is_confirmed else Status.UNCONFIRMED
    if replayed.is_void:
        status = Status.VOID
    end = "error" if usage is None else str(usage.finish)
    is_hold = usage is None and not replayed.is_void
    found = [
        (done.text != replayed.text, f"text {done.text!r}, not {replayed.text!r}"),
        (end != replayed.end, f"end {end} {done.error}, not {replayed.end} {replayed.error}"),
        (charge.status is not status, f"{charge.status}, not {status}"),
        (
            replayed.is_confirmed and charge.charged != replayed.charge,
            f"charged {charge.charged}",
        ),
        (is_hold and charge.charged != charge.held, f"charged {charge.charged} of {charge.held}"),
        (charge.charged > charge.held, f"charged {charge.charged} of {charge.held}"),
    ]
    return [why for is_other, why in found if is_other]


async def check(gateway: Gateway, home: Path, family: str, mutants: list[Mutant]) -> None:
    kind = WORKERS.get(family, family)
    gate = asyncio.Semaphore(AT_ONCE)
    cloud = StreamCloud()
    cloud.mutants = mutants
    async with cloud, MeteredGateway(cloud, home, gateway=gateway, price=PRICE) as metered:
        add_azure_responses(metered)

        async def call(number: int) -> FinishedCall:
            async with gate:
                return await metered.call(kind, cap=CAP, text=prompt_of(number))

        dones = await asyncio.gather(*(call(number) for number in range(len(mutants))))
        await metered.quiet()
        standing = await metered.ledger.standing(ROOM)
    async with StreamReplayer() as replayer:
        problems = {
            mutant.id: why
            for mutant, done in zip(mutants, dones, strict=True)
            if (why := difference(done, await replayer.replay(mutant)))
        }
    assert not problems
    (day,) = [room for room in standing.rooms if room.ceiling]
    assert (standing.frozen, day.held) == ("", 0)
    assert day.used == sum(done.charge.charged for done in dones if done.charge)
    received = {bytes(call.body) for call in cloud.calls}
    assert {egress.body for done in dones for egress in done.egress} == received
    assert all(len(done.egress) == len(done.sent) == 1 for done in dones)
    assert len(cloud.received) == len(mutants)
    assert not cloud.trapped


@pytest.mark.sampled(5)
@pytest.mark.parametrize("family", FAMILIES)
async def test_streams_are_read_alike_in_the_gateway(
    gateway: Gateway, tmp_path: Path, family: str
) -> None:
    await check(gateway, tmp_path, family, drawn_mutants(family, 5))


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
async def test_all_streams_are_read_alike_in_the_gateway(
    gateway: Gateway, tmp_path: Path, family: str
) -> None:
    await check(gateway, tmp_path, family, drawn_mutants(family, len(CORPUS)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", FAMILIES)
async def test_no_stream_takes_more_than_its_ceiling(
    gateway: Gateway, tmp_path: Path, family: str
) -> None:
    """Ended well, cut or broken: what isn't confirmed stays held, and then nothing more leaves."""
    mutants = drawn_mutants(family, 10)
    room = {Scope.DAY: 2 * 10**7}
    cloud = StreamCloud()
    cloud.mutants = mutants
    async with (
        cloud,
        MeteredGateway(cloud, tmp_path, gateway=gateway, price=PRICE, room=room) as metered,
    ):
        add_azure_responses(metered)
        kind = WORKERS.get(family, family)
        calls = (
            metered.call(kind, cap=CAP, text=prompt_of(number)) for number in range(len(mutants))
        )
        dones = await asyncio.gather(*calls)
        await metered.quiet()
        (day,) = [each for each in (await metered.ledger.standing(room)).rooms if each.ceiling]
    refused = [done for done in dones if isinstance(done.error, BudgetExceeded)]
    assert refused
    assert all(not done.sent and not done.egress for done in refused)
    assert len(cloud.received) == len(dones) - len(refused) > 0
    assert day.used <= room[Scope.DAY]
    for done in dones:
        if done not in refused:
            assert done.charge is not None
            assert done.charge.charged <= done.charge.held


async def test_offline_no_stream_is_asked_for(tmp_path: Path) -> None:
    gateway = gateway_of(tmp_path)
    gateway.offline = True
    cloud = StreamCloud()
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway, price=PRICE) as metered:
        add_azure_responses(metered)
        kinds = sorted({WORKERS.get(family, family) for family in FAMILIES} - {"server"})
        for kind in kinds:  # a server of this machine's own may be asked
            done = await metered.call(kind, text=prompt_of(0))
            assert isinstance(done.error, WorkerError)
            assert "offline" in str(done.error)
            assert not done.sent
            assert not done.egress
            assert done.charge is None or done.charge.charged == 0
        assert not cloud.received
    await gateway.aclose()
