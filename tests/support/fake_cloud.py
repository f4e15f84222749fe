"""A cloud on loopback: real HTTP, four dialects, bills as a provider would, and misbehaves at will.

    with Cloud(prices={"": price}) as cloud:          # or `async with`
        cloud.next(Fault.STALL)                       # the next POST only; then answers are good
        ... cloud.base("anthropic") ...               # the base address of one provider
        cloud.quiet()                                 # every POST is over and billed
        assert cloud.billed <= ledger                 # nano-dollars; also cloud.bills, .received

It runs in a thread with a loop of its own, so it outlives any client process that is killed, and
a test that blocks doesn't stop it. `python -m support.fake_cloud` runs one in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from baton.core.money import FREE, Price, Rates
from support.cloud_answer import Answer, Bill, CloudBehaviour, Reply, SharedPace, price_of
from support.cloud_faults import REFUSED, Fault
from support.http_connection import Connection, Head
from support.provider_dialects import refusal
from support.received_requests import (
    BASES,
    ReceivedRequest,
    asked_of,
    dialect_of,
    key_of,
    provider_of,
)

__all__ = [
    "BASES",
    "FAR_SETTINGS",
    "REFUSED",
    "Bill",
    "Cloud",
    "CloudBehaviour",
    "Fault",
    "ReceivedRequest",
    "Reply",
]


FAR_SETTINGS = """
worker = "far"
[budget]
day = "1"
[[workers]]
id = "far"
kind = "server"
model = "kit-1"
base_url = "{url}"
privacy = "cloud"
price = {{ input = "1", output = "2" }}
"""
"""A configuration whose default worker costs money; `url` is its address."""


@dataclass
class Cloud:
    """See the module's text. A model's price is the one under the longest name that its ends with.

    `choose` gives a POST's fault when nothing waits in `next`, `write` its answer (None: `reply`).
    `journal` is a file that gets a line for each POST when it is read, and one for each bill.
    `total_rate` limits what all answers together get, in tokens a second.
    """

    prices: Mapping[str, Price] = field(default_factory=lambda: {"": FREE})
    reply: Reply = field(default_factory=Reply)
    manner: CloudBehaviour = field(default_factory=CloudBehaviour)
    choose: Callable[[ReceivedRequest], Fault | None] | None = None
    write: Callable[[ReceivedRequest], Reply | None] | None = None
    models: tuple[str, ...] = ("kit-1",)
    journal: Path | None = None
    port: int = 0
    host: str = "127.0.0.1"
    total_rate: float | None = None

    def __post_init__(self) -> None:
        self._pace = SharedPace(self.total_rate)
        self.received: list[ReceivedRequest] = []
        self.bills: list[Bill] = []
        self.trapped: list[bytes] = []
        """What arrived where a redirect leads: nothing ever should."""
        self._faults: deque[Fault | None] = deque()
        self._open = 0
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.host}:{self.port}"

    def base(self, provider: str) -> str:
        """Return a provider's base address here; requests to it are answered as by that one."""
        return f"{self.url}/{provider}{BASES[provider]}"

    def next(self, *faults: Fault | None) -> None:
        """Set how the next POSTs go; after them all is well."""
        self._faults.extend(faults)

    @property
    def calls(self) -> list[ReceivedRequest]:
        """The POSTs for an answer that arrived whole."""
        return [received for received in self.received if received.dialect]

    @property
    def posts(self) -> int:
        """How many POSTs for an answer arrived whole."""
        return len(self.calls)

    @property
    def billed(self) -> int:
        """What all POSTs cost, in nano-dollars. Call `quiet` first."""
        return sum(bill.nanos for bill in self.bills)

    def quiet(self, seconds: float = 60.0) -> None:
        """Wait until every POST is over and billed."""
        end = time.monotonic() + seconds
        still = 0
        while still < 3:  # what a client sent before it died may not be read yet
            if self._error is not None:
                raise AssertionError("the test's cloud crashed") from self._error
            if time.monotonic() > end:
                raise AssertionError("the kit's cloud is still answering")
            still = 0 if self._open else still + 1
            time.sleep(0.005)

    # -- life

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(ready)), name="kit-cloud", daemon=True
        )
        self._thread.start()
        if not ready.wait(10):
            raise AssertionError("the kit's cloud didn't start")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._talk(Connection(reader, writer)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.trapped.append(await reader.read(65536))
            writer.close()

        server = await asyncio.start_server(accept, self.host, self.port)
        other = await asyncio.start_server(trap, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.manner = replace(self.manner, trap=other.sockets[0].getsockname()[1])
        ready.set()
        await self._stop.wait()
        server.close()
        other.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- requests

    async def _talk(self, connection: Connection) -> None:
        try:
            while await self._one(connection):
                pass
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client left, or the test is over
        except Exception as error:  # a request that no client should send, or a bug here
            self._error = error
        finally:
            connection.cut()

    async def _one(self, connection: Connection) -> bool:
        """Answer one request; return whether the connection may be used again."""
        read = await connection.read()
        if read is None:
            return False
        received, path = self._take(*read)
        if not received.dialect:
            answered = await connection.answer(*self._other(received.method, path))
            return answered and ("connection", "close") not in received.headers
        self._note("received", number=received.number, path=received.path, size=len(received.body))
        answer = self._answer(received, path)
        try:
            return await answer.send(connection)
        finally:
            self._charge(answer.bill())

    def _take(self, head: Head, body: bytes) -> tuple[ReceivedRequest, str]:
        provider, path = provider_of(head)
        dialect = dialect_of(path) if head.method == "POST" else ""
        with self._lock:
            received = ReceivedRequest(
                len(self.received),
                time.time(),
                head.method,
                head.target,
                head.headers,
                body,
                provider,
                dialect,
                key_of(head),
            )
            self.received.append(received)
            self._open += bool(dialect)
        return received, path

    def _answer(self, received: ReceivedRequest, path: str) -> Answer:
        if self._faults:
            fault = self._faults.popleft()
        else:
            fault = self.choose(received) if self.choose else None
        asked = asked_of(received, path)
        price = price_of(self.prices, asked.model)
        reply = (self.write and self.write(received)) or self.reply
        return Answer(received, asked, fault, reply, self.manner, price, self._pace)

    def _other(self, method: str, path: str) -> tuple[int, bytes]:
        """Return the answer to anything that isn't a call."""
        data: Any = None
        if method == "GET" and path.endswith("/models"):
            rows = [{"id": name, "object": "model", "owned_by": "kit"} for name in self.models]
            data = {"object": "list", "data": rows}
        elif method == "GET" and path == "/api/tags":
            data = {"models": [{"name": name, "model": name, "size": 1} for name in self.models]}
        elif method == "GET" and path == "/api/version":
            data = {"version": "0.11.0"}
        if data is None:
            return 404, refusal("chat", 404, "There is nothing here.")
        return 200, json.dumps(data).encode()

    def _charge(self, bill: Bill) -> None:
        self._note("bill", **asdict(bill))
        with self._lock:
            self.bills.append(bill)
            self._open -= 1

    def _note(self, kind: str, **data: Any) -> None:
        if self.journal is not None:
            with self._lock, self.journal.open("a") as file:
                file.write(json.dumps({"kind": kind, **data}) + "\n")


def main() -> None:
    """Run one in this process until it is killed; its port and its bills go to files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--bill-file", type=Path)
    parser.add_argument("--rate", type=float, help="tokens a second")
    parser.add_argument("--total-rate", type=float, help="tokens a second, of all answers together")
    parser.add_argument("--tokens", type=int, help="tokens of each answer")
    parser.add_argument("--usd-per-million", type=int, default=0, help="for every token")
    given = parser.parse_args()
    rate = given.usd_per_million * 10**9
    price = Price(Rates(rate, rate, rate, rate))
    reply = Reply(tokens=given.tokens, rate=given.rate)
    journal, total = given.bill_file, given.total_rate
    with Cloud(prices={"": price}, reply=reply, journal=journal, total_rate=total) as cloud:
        written = given.port_file.with_suffix(".new")
        written.write_text(str(cloud.port))
        written.replace(given.port_file)  # a reader that waits for it never sees half a number
        threading.Event().wait()


if __name__ == "__main__":
    main()
