"""A worker with several addresses: real servers on loopback, the real gateway, the real ledger."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from baton.core.errors import ContextTooLong, WorkerError, WorkerUnavailable
from baton.core.ledger_types import Status
from baton.core.messages import Declined, Request, RequestSent, Retrying, Text, Usage
from baton.core.money import FREE, Price
from baton.workers.cloud import CloudWorker, Gateway, WorkerAddress
from baton.workers.cloud.address_pool import preferred_order
from baton.workers.cloud.gateway import CallTimeouts
from support.cloud_worker_calls import (
    PRICE,
    Log,
    collect_answer,
    new_gateway,
    request,
    server_worker,
)
from support.fake_cloud import Cloud, Fault, Reply
from support.metered_calls import MeteredGateway, card_of
from support.scripted_servers import ScriptedServer, start_servers

ANSWER = Reply().text


@pytest.fixture
def clouds() -> Iterator[list[Cloud]]:
    with ExitStack() as opened:
        yield [opened.enter_context(Cloud(prices={"": PRICE})) for _ in range(3)]


def dead_address() -> str:
    """Return an address of this machine where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


def place(url: str) -> str:
    """Return an address as the egress log has it."""
    return url.split("/")[2]


def worker_at(
    gateway: Gateway, urls: Sequence[str], price: Price = FREE, slots: int = 4
) -> CloudWorker:
    return server_worker(
        gateway, "", price, addresses=[WorkerAddress(url, slots, remote=False) for url in urls]
    )


def in_order(urls: Sequence[str]) -> Request:
    """Return a request that prefers these addresses in their order, while they are equal."""
    systems = (f"Be kind. {number}" for number in count())
    asked = (request("Hello?", system=system) for system in systems)
    texts = ((one, "\n".join(message.text for message in one.messages)) for one in asked)
    return next(one for one, text in texts if preferred_order(urls, text) == [*range(len(urls))])


def question_in_order(urls: Sequence[str]) -> str:
    """Return a question of the first call of a metered gateway that does so."""
    asked = "You are brief.\nNaïve question of run-0001-server: {}"
    numbers = (str(number) for number in count())
    in_list = list(range(len(urls)))
    return next(n for n in numbers if preferred_order(urls, asked.format(n)) == in_list)


def bases(clouds: Sequence[Cloud]) -> list[str]:
    return [cloud.base("server") for cloud in clouds]


@pytest.mark.parametrize("price", [FREE, PRICE])
async def test_a_call_that_found_no_connection_goes_to_the_next_address(
    alone: Gateway, clouds: list[Cloud], price: Price
) -> None:
    log = Log()
    unsent: list[str] = []

    async def record_unsent(call: str) -> None:
        unsent.append(call)

    alone.record, alone.record_unsent = log.record, record_unsent
    down, up = dead_address(), clouds[0].base("server")
    worker = worker_at(alone, [down, up], price)
    heard = await collect_answer(worker, in_order([down, up]))
    assert (heard.text, heard.error) == (ANSWER, None)
    before_text = [chunk for chunk in heard.chunks if not isinstance(chunk, Text | Usage)]
    size = len(log.rows[0][2])
    reason = before_text[2]
    assert isinstance(reason, Retrying)
    assert place(down) in reason.reason
    assert before_text == [
        RequestSent(place(down), size),
        Declined(unsent=True, destination=place(down)),
        reason,
        RequestSent(place(up), size),
    ]
    assert [(call, where) for call, where, _ in log.rows] == [
        ("call-1", place(down)),
        ("call-1", place(up)),
    ]
    assert unsent == ["call-1"]
    assert worker.card.note == f"Failed when last asked: {place(down)}."

    heard = await collect_answer(worker)
    assert [sent.destination for sent in heard.sent] == [place(up)], "that one is left out now"


@pytest.mark.parametrize(
    "fault",
    [Fault.CUT_AT_ONCE, Fault.CUT_BEFORE_FIRST, Fault.OVERLOADED, Fault.RATE_LIMITED, Fault.EMPTY],
)
async def test_only_a_server_that_is_free_is_asked_again_after_it_had_the_request(
    alone: Gateway, clouds: list[Cloud], fault: Fault
) -> None:
    for cloud in clouds:
        cloud.choose = lambda _: fault
    clouds[1].choose = None
    urls = bases(clouds[:2])
    paid = await collect_answer(worker_at(alone, urls, PRICE), in_order(urls))
    assert paid.error is not None
    assert clouds[1].posts == 0, "it could be charged twice"
    free = await collect_answer(worker_at(alone, urls), in_order(urls))
    if fault is Fault.EMPTY:  # a server that answers with nothing understood isn't a server
        assert type(free.error) is WorkerError
    else:
        assert (free.text, free.error) == (ANSWER, None)
        assert [sent.destination for sent in free.sent] == [place(url) for url in urls]
        assert clouds[1].posts == 1


async def test_a_request_that_brings_servers_down_meets_two_of_them_at_most(
    alone: Gateway, clouds: list[Cloud]
) -> None:
    for cloud in clouds[:2]:
        cloud.choose = lambda _: Fault.CUT_BEFORE_FIRST
    urls = bases(clouds)
    heard = await collect_answer(worker_at(alone, urls), in_order(urls))
    assert heard.error is not None
    assert [cloud.posts for cloud in clouds] == [1, 1, 0]


async def test_what_servers_decline_themselves_reaches_the_last_of_them(
    alone: Gateway, clouds: list[Cloud]
) -> None:
    for cloud in clouds[:2]:
        cloud.choose = lambda _: Fault.OVERLOADED
    urls = [dead_address(), *bases(clouds)]
    heard = await collect_answer(worker_at(alone, urls), in_order(urls))
    assert (heard.text, heard.error) == (ANSWER, None)
    assert [cloud.posts for cloud in clouds] == [1, 1, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="fills the queue of a socket")
async def test_a_host_that_drops_connections_costs_little_where_there_is_another(
    tmp_path: Path, clouds: list[Cloud]
) -> None:
    """A paid call as well: not a byte of it left."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf, ExitStack() as waiting:
        port = deaf.getsockname()[1]
        for _ in range(4):  # they aren't taken, so that no other connection comes about
            filler = waiting.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        patience = CallTimeouts(connect=600, connect_of_many=1, first_of_slow=30)
        gateway = new_gateway(Log(), tmp_path, patience=patience)
        urls = [f"http://127.0.0.1:{port}/server/v1", clouds[0].base("server")]
        heard = await collect_answer(worker_at(gateway, urls, PRICE), in_order(urls))
        await gateway.aclose()
    assert (heard.text, heard.error) == (ANSWER, None)
    assert Declined(unsent=True, destination=place(urls[0])) in heard.chunks


@pytest.mark.parametrize("fault", [Fault.CUT_MIDWAY, Fault.STALL, Fault.ERROR_IN_STREAM])
async def test_an_answer_that_has_begun_is_never_begun_elsewhere(
    tmp_path: Path, clouds: list[Cloud], fault: Fault
) -> None:
    gateway = new_gateway(Log(), tmp_path, patience=CallTimeouts(stall=2))
    clouds[0].next(fault)
    urls = bases(clouds[:2])
    worker = worker_at(gateway, urls)
    heard = await collect_answer(worker, in_order(urls))
    assert heard.text
    assert ANSWER.startswith(heard.text)
    assert type(heard.error) is WorkerUnavailable
    assert not heard.has(Retrying)
    assert clouds[1].posts == 0
    assert place(clouds[0].base("server")) in worker.card.note, "the next call goes past it"
    await gateway.aclose()


async def test_a_request_that_is_at_fault_itself_is_not_tried_elsewhere(
    alone: Gateway, clouds: list[Cloud]
) -> None:
    urls = bases(clouds[:2])
    worker = worker_at(alone, urls)
    clouds[0].next(Fault.TOO_LONG, Fault.NOT_FOUND)
    assert type((await collect_answer(worker, in_order(urls))).error) is ContextTooLong
    assert type((await collect_answer(worker, in_order(urls))).error) is WorkerError
    assert (clouds[1].posts, worker.card.note) == (0, "")


async def test_an_address_that_stays_silent_is_left_for_another_one_sooner(
    tmp_path: Path, clouds: list[Cloud]
) -> None:
    patience = CallTimeouts(first=1, first_of_slow=60)
    gateway = new_gateway(Log(), tmp_path, patience=patience)
    clouds[0].next(Fault.SLOW_START)
    urls = bases(clouds[:2])
    heard = await collect_answer(worker_at(gateway, urls), in_order(urls))
    assert (heard.text, heard.error) == (ANSWER, None)
    assert len(heard.sent) == 2
    await gateway.aclose()


async def test_where_no_address_answers_the_error_names_all_of_them(alone: Gateway) -> None:
    urls = [dead_address() for _ in range(3)]
    worker = worker_at(alone, urls)
    for _ in range(2):  # the second time all of them are left out, and tried nevertheless
        heard = await collect_answer(worker)
        assert type(heard.error) is WorkerUnavailable
        assert all(place(url) in heard.error.message for url in urls)
        assert len(heard.sent) == 3
    assert "nothing listens" in await worker.fault()


async def test_calls_at_once_are_spread_over_the_free_slots(
    alone: Gateway, clouds: list[Cloud]
) -> None:
    for cloud in clouds:
        cloud.reply = Reply(tokens=20, rate=20)
    worker = worker_at(alone, bases(clouds), slots=2)
    heard = await asyncio.gather(*(collect_answer(worker) for _ in range(6)))
    assert [each.error for each in heard] == [None] * 6
    assert [cloud.posts for cloud in clouds] == [2, 2, 2]


@pytest.mark.parametrize("system", ["Be kind.", ""])
async def test_a_conversation_stays_at_the_address_that_has_its_beginning(
    alone: Gateway, clouds: list[Cloud], system: str
) -> None:
    """With a worker of its own for each turn, as in a shell."""
    urls, places = bases(clouds), []
    for said in (["Hello?"], ["Hello?", "Hi.", "Well?"], ["Hello?", "Hi.", "Well?", "Yes.", "So?"]):
        asked = request(*said, system=system)
        asked = asked if system else replace(asked, messages=asked.messages[1:])
        heard = await collect_answer(worker_at(alone, urls), asked)
        places += [sent.destination for sent in heard.sent]
    assert len(places) == 3
    assert len({*places}) == 1


async def test_offline_only_the_addresses_on_this_machine_are_asked(
    tmp_path: Path, clouds: list[Cloud]
) -> None:
    here = clouds[0].base("server")
    addresses = [
        WorkerAddress("http://10.255.255.1:8000/server/v1"),
        WorkerAddress(here, remote=False),
    ]
    gateway = new_gateway(Log(), tmp_path, offline=True)
    worker = server_worker(gateway, "", addresses=addresses)
    for _ in range(2):
        heard = await collect_answer(worker)
        assert (heard.error, [sent.destination for sent in heard.sent]) == (None, [place(here)])
    clouds[0].next(Fault.CUT_AT_ONCE)
    heard = await collect_answer(worker)
    assert len(heard.sent) == 1, "a call that fails doesn't go to the other one either"
    assert heard.error is not None
    far = await collect_answer(server_worker(gateway, "", addresses=addresses[:1]))
    assert far.error is not None
    assert "offline" in far.error.message
    assert far.sent == []
    await gateway.aclose()


# Money


def metered_addresses(metered: MeteredGateway, urls: Sequence[str], price: Price) -> None:
    """Have the server of a metered gateway be at these addresses."""
    metered.workers["server"] = CloudWorker(
        card_of("server", price),
        metered.gateway,
        addresses=[WorkerAddress(url, 2, remote=False) for url in urls],
        api_key_env="LAB_API_KEY",
    )


async def test_a_moved_call_has_one_hold_one_charge_and_a_row_for_each_address(
    tmp_path: Path, clouds: list[Cloud]
) -> None:
    cloud, down = clouds[0], dead_address()
    async with MeteredGateway(cloud, tmp_path, price=PRICE) as metered:
        metered.gateway.record_unsent = metered.ledger.record_unsent
        urls = [down, cloud.base("server")]
        metered_addresses(metered, urls, PRICE)
        done = await metered.call("server", text=question_in_order(urls))
        await metered.quiet()
        assert (done.text, done.error) == (ANSWER, None)
        assert done.charge is not None, "there is one"
        assert (done.charge.status, done.charge.charged) == (Status.SETTLED, cloud.billed)
        rows = [(row.destination, row.left) for row in reversed(done.egress)]
        assert rows == [(place(down), False), (place(cloud.base("server")), True)]
        assert len({row.sha256 for row in done.egress}) == 1


async def test_a_moved_call_that_is_cut_stays_charged(tmp_path: Path, clouds: list[Cloud]) -> None:
    """That its first address declined it says nothing of the second."""
    cloud, down = clouds[0], dead_address()
    async with MeteredGateway(cloud, tmp_path, price=PRICE) as metered:
        metered.gateway.record_unsent = metered.ledger.record_unsent
        urls = [down, cloud.base("server")]
        metered_addresses(metered, urls, PRICE)
        cloud.next(Fault.CUT_BEFORE_FIRST)
        done = await metered.call("server", text=question_in_order(urls))
        assert len(done.egress) == 2
        await metered.quiet()
        assert done.error is not None
        assert done.charge is not None
        assert done.charge.status is Status.UNCONFIRMED
        assert done.charge.charged == done.charge.held >= cloud.billed


async def test_a_free_call_that_moved_is_settled_once_at_nothing(
    tmp_path: Path, clouds: list[Cloud]
) -> None:
    urls = bases(clouds[:2])
    async with MeteredGateway(clouds[0], tmp_path, price=FREE) as metered:
        metered_addresses(metered, urls, FREE)
        clouds[0].next(Fault.CUT_BEFORE_FIRST)
        done = await metered.call("server", text=question_in_order(urls))
        assert done.charge is not None
        assert (done.charge.status, done.charge.charged) == (Status.SETTLED, 0)
        rows = [(row.destination, row.left) for row in reversed(done.egress)]
        assert rows == [(place(url), True) for url in urls]


# A server that is killed


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process with a signal")
async def test_a_server_that_is_killed_under_load_loses_no_call(
    alone: Gateway, tmp_path: Path
) -> None:
    with start_servers(tmp_path, [300, 300, 300], tokens=40) as servers:
        await check_kill(alone, servers, 36)


async def check_kill(gateway: Gateway, servers: Sequence[ScriptedServer], count: int) -> None:
    """Kill one of the servers in the midst of so many calls, and look at how each of them ended."""
    log = Log()
    gateway.record = log.record
    worker = worker_at(gateway, [server.base_url for server in servers], slots=2)
    free = asyncio.Semaphore(6)

    async def ask(number: int) -> tuple[Request, list[object], BaseException | None]:
        asked = replace(request(f"Number {number}."), call=f"call-{number}")
        async with free:
            if number == count // 3:
                servers[1].process.send_signal(signal.SIGKILL)
            heard = await collect_answer(worker, asked)
        return asked, list(heard.chunks), heard.error

    ended = await asyncio.gather(*(ask(number) for number in range(count)))
    whole = "".join(servers[0].answer)
    cut = 0
    for asked, chunks, error in ended:
        text = "".join(chunk.text for chunk in chunks if isinstance(chunk, Text))
        usages = [chunk for chunk in chunks if isinstance(chunk, Usage)]
        if error is None:
            assert text == whole, "an answer is one server's, whole and once"
            assert len(usages) == 1
        else:
            cut += 1
            assert text, "a call without a word yet is moved"
            assert whole.startswith(text)
            assert usages == []
        sent = [chunk for chunk in chunks if isinstance(chunk, RequestSent)]
        rows = [where for call, where, _ in log.rows if call == asked.call]
        assert rows == [each.destination for each in sent]
        assert len(set(rows)) == len(rows), "no address is asked twice"
    assert cut <= 2, "those that it was answering"
    tried = [place(server.base_url) for server in servers]
    after = [where for call, where, _ in log.rows if int(call[5:]) >= count // 3 + 6]
    assert after.count(tried[1]) <= 3, "it is left out, but for a look now and then"
