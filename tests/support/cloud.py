"""A cloud on loopback: real HTTP, four dialects, bills as a provider would, and misbehaves if told.

    with Cloud(prices={"": price}) as cloud:          # or `async with`
        cloud.next(Fault.STALL)                       # the next POST only; then answers are good
        ... cloud.base("anthropic") ...               # the base address of one provider
        cloud.quiet()                                 # every POST is over and billed
        assert cloud.billed <= ledger                 # nano-dollars; also cloud.bills, .received

It runs in a thread with a loop of its own, so it outlives whatever client process is killed, and
a test that blocks doesn't stop it. `python -m support.cloud` runs one in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from baton.domain.prices import FREE, Price, Used
from support.http import Connection, Head
from support.speech import SPEECHES, Asked, Speech, Tokens, Usage, altered, refusal, too_long


class Fault(StrEnum):
    """How one POST goes wrong."""

    UNAUTHORISED = "401"
    FORBIDDEN = "403"
    NOT_FOUND = "404"
    RATE_LIMITED = "429"
    TOO_LONG = "400 too long"
    SERVER_ERROR = "500"
    OVERLOADED = "529"
    ECHO_KEY = "401 echoes the key"
    REDIRECT = "307 elsewhere"
    HTML = "200 with a page"
    EMPTY = "200 with nothing"
    HUGE_HEADER = "huge header"
    SLOW_START = "slow first byte"
    STALL = "stall in mid-stream"
    ERROR_IN_STREAM = "error in mid-stream"
    ECHO_IN_STREAM = "error in mid-stream echoes the key"
    CUT_AT_ONCE = "cut before the answer's head"
    CUT_BEFORE_FIRST = "cut before the first token"
    CUT_MIDWAY = "cut in mid-stream"
    CUT_POLITELY = "a proper end of HTTP in mid-stream"
    CUT_BEFORE_LAST = "cut before the last token"
    CUT_BEFORE_END = "cut after the last token"
    CUT_BEFORE_MARKER = "cut before the end marker"
    MALFORMED = "malformed event"
    NO_USAGE = "no usage"
    NEGATIVE_USAGE = "negative usage"
    TEXT_USAGE = "usage in words"
    HUGE_USAGE = "huge usage"
    ABOVE_CAP = "usage above the cap"
    ENDLESS = "endless stream"
    SPLIT_BYTES = "every byte a chunk"
    GZIP = "gzip"


REFUSED: Mapping[Fault, int] = {
    Fault.UNAUTHORISED: 401,
    Fault.FORBIDDEN: 403,
    Fault.NOT_FOUND: 404,
    Fault.RATE_LIMITED: 429,
    Fault.TOO_LONG: 400,
    Fault.SERVER_ERROR: 500,
    Fault.OVERLOADED: 529,
    Fault.ECHO_KEY: 401,
}
"""Faults that are answered by an error alone."""

HARMLESS = frozenset({Fault.SPLIT_BYTES, Fault.GZIP})
"""Faults after which the answer is whole and its usage right."""

USAGE_FAULTS: Mapping[Fault, Callable[[int], Any]] = {
    Fault.NEGATIVE_USAGE: lambda n: -n - 1,
    Fault.TEXT_USAGE: lambda n: f"about {n}",
    Fault.HUGE_USAGE: lambda n: 10**30 + n,
}

BASES: Mapping[str, str] = {
    "openai": "/v1",
    "openrouter": "/api/v1",
    "mistral": "/v1",
    "deepseek": "/v1",
    "groq": "/openai/v1",
    "xai": "/v1",
    "ollama": "/v1",
    "server": "/v1",
    "anthropic": "",
    "gemini": "/v1beta",
}
"""What a provider's base address ends in."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered. Tokens have up to four bytes and never part a character.

    `text` is repeated or cut to `tokens` tokens if that is set. `reasoning` tokens come first and
    count towards the cap. `rate` is in tokens a second, None as fast as it goes. One token of a
    prompt stands for `bytes_per_token` bytes; `overhead` is added for each message.
    """

    text: str = "Here is an answer of a few words, not more than that. "
    tokens: int | None = None
    reasoning: int = 0
    cached: int = 0
    written: int = 0
    rate: float | None = None
    bytes_per_token: int = 4
    overhead: int = 4


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived; `key` is whatever credential came with it."""

    number: int
    at: float
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    provider: str
    dialect: str
    key: str

    @property
    def json(self) -> Any:
        """The body as data."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Bill:
    """What a provider would charge for one POST. `fault` and `ended` say how it went."""

    number: int
    model: str
    tokens_in: int
    tokens_out: int
    cached: int
    cache_written: int
    reasoning: int
    nanos: int
    fault: Fault | None = None
    ended: bool = False


@dataclass
class _Call:
    """One POST while it is being answered."""

    received: Received
    asked: Asked
    fault: Fault | None
    reply: Reply
    price: Price
    speech: Speech
    tokens_in: int
    pieces: list[str]
    cut: bool
    reasoning: int
    sent: int = 0
    ended: bool = False
    factor: int = 1

    def tokens(self, out: int) -> Tokens:
        reply = self.reply
        cached = min(reply.cached, self.tokens_in)
        written = min(reply.written, self.tokens_in - cached)
        return Tokens(self.tokens_in, out, cached, written, min(self.reasoning, out))

    def cost(self, tokens: Tokens) -> int:
        return self.price.cost(
            Used(tokens.input, tokens.out, cached=tokens.cached, cache_written=tokens.written)
        )

    @property
    def out(self) -> int:
        """Everything that this answer will have generated."""
        return (len(self.pieces) + self.reasoning) * self.factor


@dataclass
class Cloud:
    """See the module's text. `prices` by model (the longest name that ends the asked one; "" any).

    `whole_cap`: who leaves early pays for the whole cap. `errors_bill`: a 500 bills the input.
    `choose` is asked for each POST's fault when nothing waits in `next`.
    """

    prices: Mapping[str, Price] = field(default_factory=lambda: {"": FREE})
    reply: Reply = Reply()
    choose: Callable[[Received], Fault | None] | None = None
    whole_cap: bool = False
    errors_bill: bool = True
    retry_after: str = "7"
    pause: float = 30.0
    models: tuple[str, ...] = ("kit-1",)
    journal: Path | None = None
    port: int = 0

    def __post_init__(self) -> None:
        self.received: list[Received] = []
        self.bills: list[Bill] = []
        self.trapped: list[bytes] = []
        self.trap_port = 0
        self._faults: deque[Fault | None] = deque()
        self._open = 0
        self._lock = threading.Lock()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # -- what tests use

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def base(self, provider: str) -> str:
        """Return a provider's base address here; requests to it are answered as by that one."""
        return f"{self.url}/{provider}{BASES[provider]}"

    def next(self, *faults: Fault | None) -> None:
        """Set how the next POSTs go; after them all is well."""
        self._faults.extend(faults)

    @property
    def posts(self) -> int:
        """How many POSTs arrived whole."""
        return sum(1 for received in self.received if received.method == "POST")

    @property
    def billed(self) -> int:
        """What all POSTs cost, in nano-dollars. Call `quiet` first."""
        return sum(bill.nanos for bill in self.bills)

    def quiet(self, seconds: float = 10.0) -> None:
        """Wait until every POST is over and billed."""
        end = time.monotonic() + seconds
        still = 0
        while still < 5:  # what a client sent before it died may not be read yet
            if time.monotonic() > end:
                raise AssertionError("the kit's cloud is still answering")
            still = 0 if self._open else still + 1
            time.sleep(0.01)

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
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            connection = Connection(reader, writer)
            try:
                while await self._one(connection):
                    pass
            except (ConnectionError, asyncio.CancelledError):
                pass
            finally:
                tasks.discard(task)
                connection.cut()

        async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.trapped.append(await reader.read(65536))
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", self.port)
        other = await asyncio.start_server(trap, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.trap_port = other.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()
        other.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- one request

    async def _one(self, connection: Connection) -> bool:
        """Answer one request; return whether the connection may be used again."""
        read = await connection.read()
        if read is None:
            return False
        head, body = read
        provider, path = _provider(head)
        dialect = _dialect(path) if head.method == "POST" else ""
        with self._lock:
            received = Received(
                len(self.received),
                time.time(),
                head.method,
                head.target,
                head.headers,
                body,
                provider,
                dialect,
                _key(head),
            )
            self.received.append(received)
            if dialect:
                self._open += 1
        if not dialect:
            return await connection.answer(*self._other(head.method, path, provider))
        self._note("received", number=received.number, size=len(body), path=head.target)
        call = self._call(received, path)
        try:
            return await self._post(connection, call)
        finally:
            self._charge(call)

    def _other(self, method: str, path: str, provider: str) -> tuple[int, bytes]:
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

    def _call(self, received: Received, path: str) -> _Call:
        asked = _asked(received, path)
        if self._faults:
            fault = self._faults.popleft()
        else:
            fault = self.choose(received) if self.choose else None
        reply = self.reply
        cap = 4096 if asked.cap is None else asked.cap
        pieces, cut, reasoning = _pieces(reply, cap)
        size = sum(-(-len(text.encode()) // reply.bytes_per_token) for text in asked.texts)
        tokens_in = size + reply.overhead * len(asked.texts)
        price = _price(self.prices, asked.model)
        factor = 3 if fault is Fault.ABOVE_CAP else 1
        if factor > 1:  # so that it is above, whatever the answer's length
            factor = -(-(2 * cap + 1) // max(1, len(pieces) + reasoning))
        speech = SPEECHES[asked.dialect](asked)
        call = _Call(
            received, asked, fault, reply, price, speech, tokens_in, pieces, cut, reasoning
        )
        call.factor = factor
        speech.cost = call.cost(call.tokens(call.out)) / 1e9
        return call

    async def _post(self, connection: Connection, call: _Call) -> bool:
        fault = call.fault
        if fault is not None and fault in REFUSED:
            return await self._refuse(connection, call, REFUSED[fault])
        if fault is Fault.REDIRECT:
            where = f"http://127.0.0.1:{self.trap_port}{call.received.path}"
            return await connection.answer(307, b"", {"location": where})
        if fault is Fault.HTML:
            page = b"<html><body>Please log in to this network.</body></html>"
            return await connection.answer(200, page, {"content-type": "text/html"})
        if fault is Fault.SLOW_START:
            await connection.wait(self.pause)
        if fault is Fault.CUT_AT_ONCE:
            connection.cut()
            return False
        if not call.asked.stream:
            return await self._whole(connection, call)
        extra = {"x-padding": "x" * 300_000} if fault is Fault.HUGE_HEADER else {}
        await connection.begin(
            "text/event-stream",
            extra,
            split=fault is Fault.SPLIT_BYTES,
            gzip=fault is Fault.GZIP,
        )
        return await self._stream(connection, call)

    async def _refuse(self, connection: Connection, call: _Call, status: int) -> bool:
        message = {
            Fault.TOO_LONG: too_long(call.asked.dialect, call.tokens_in),
            Fault.ECHO_KEY: f"Incorrect API key provided: {call.received.key}.",
        }.get(call.fault or Fault.EMPTY, f"The kit refuses with {status}.")
        extra = {"retry-after": self.retry_after} if status == 429 else {}
        return await connection.answer(status, refusal(call.asked.dialect, status, message), extra)

    async def _whole(self, connection: Connection, call: _Call) -> bool:
        if call.fault in (Fault.CUT_MIDWAY, Fault.CUT_BEFORE_FIRST, Fault.CUT_BEFORE_LAST):
            connection.cut()
            return False
        body = call.speech.whole("".join(call.pieces), call.cut, _usage(call))
        call.sent = len(call.pieces)
        call.ended = True
        return await connection.answer(200, body)

    async def _stream(self, connection: Connection, call: _Call) -> bool:
        fault, speech = call.fault, call.speech
        if fault is Fault.EMPTY:
            return await connection.end()
        usage = _usage(call)
        if fault is Fault.CUT_BEFORE_FIRST:
            connection.cut()
            return False
        await connection.send(speech.start(usage))
        stop = await self._text(connection, call)
        if stop is not None:
            return stop
        text = "".join(call.pieces)
        if fault is Fault.CUT_BEFORE_END:
            connection.cut()
            return False
        await connection.send(speech.finish(text, call.cut, usage))
        if fault is Fault.CUT_BEFORE_MARKER:
            connection.cut()
            return False
        await connection.send(speech.marker(text, call.cut, usage))
        call.ended = True
        return await connection.end()

    async def _text(self, connection: Connection, call: _Call) -> bool | None:
        """Send the pieces; return None after the last one, else whether the connection lives."""
        wrong = len(call.pieces) // 2
        begun = time.monotonic()
        while call.fault is Fault.ENDLESS or call.sent < len(call.pieces):
            if call.sent == wrong:
                stop = await self._midway(connection, call)
                if stop is not None:
                    return stop
            if call.fault is Fault.CUT_BEFORE_LAST and call.sent == len(call.pieces) - 1:
                connection.cut()
                return False
            call.sent += 1
            await connection.send(
                call.speech.piece(call.pieces[(call.sent - 1) % len(call.pieces)])
            )
            if call.reply.rate:
                due = begun + call.sent / call.reply.rate
                await connection.wait(due - time.monotonic())
        return None

    async def _midway(self, connection: Connection, call: _Call) -> bool | None:
        """Do what goes wrong in the middle; return None to go on."""
        if call.fault is Fault.STALL:
            await connection.wait(self.pause)
        elif call.fault is Fault.MALFORMED:
            await connection.send(b'data: {"choices": [{"delta": {"content": "bro\n\n')
        elif call.fault in (Fault.ERROR_IN_STREAM, Fault.ECHO_IN_STREAM):
            said = f" for {call.received.key}" if call.fault is Fault.ECHO_IN_STREAM else ""
            await connection.send(call.speech.broken(f"Overloaded in mid-stream{said}."))
            return await connection.end()
        elif call.fault is Fault.CUT_MIDWAY:
            connection.cut()
            return False
        elif call.fault is Fault.CUT_POLITELY:
            return await connection.end()
        return None

    # -- money

    def _charge(self, call: _Call) -> None:
        tokens = self._owed(call)
        bill = Bill(
            call.received.number,
            call.asked.model,
            tokens.input,
            tokens.out,
            tokens.cached,
            tokens.written,
            tokens.reasoning,
            call.cost(tokens),
            call.fault,
            call.ended,
        )
        self._note("bill", **asdict(bill))
        with self._lock:
            self.bills.append(bill)
            self._open -= 1

    def _owed(self, call: _Call) -> Tokens:
        status = REFUSED.get(call.fault) if call.fault else None
        free = status is not None and (status != 500 or not self.errors_bill)
        if free or call.fault in (Fault.REDIRECT, Fault.HTML):
            return Tokens(0, 0)
        if status is not None:
            return call.tokens(0)
        if call.ended:
            return call.tokens(call.out)
        if self.whole_cap and call.asked.cap is not None:
            return call.tokens(call.asked.cap)
        thought = call.reasoning if call.sent else 0
        return call.tokens((call.sent + thought) * call.factor)

    def _note(self, kind: str, **data: Any) -> None:
        if self.journal is not None:
            with self._lock, self.journal.open("a") as file:
                file.write(json.dumps({"kind": kind, **data}) + "\n")


def _usage(call: _Call) -> Usage:
    if call.fault is Fault.NO_USAGE:
        return None
    usage: Usage = call.speech.usage(call.tokens(call.out))
    change = USAGE_FAULTS.get(call.fault) if call.fault else None
    return altered(usage, change) if change else usage


def _provider(head: Head) -> tuple[str, str]:
    """Return who is asked, and the path without the provider's name."""
    path = head.target.split("?")[0]
    first, _, rest = path[1:].partition("/")
    if first in BASES:
        return first, f"/{rest}"
    if path.startswith("/v1/messages"):
        return "anthropic", path
    for provider, base in (("openrouter", "/api/v1"), ("groq", "/openai"), ("gemini", "/v1beta")):
        if path.startswith(base):
            return provider, path
    return "openai", path


def _dialect(path: str) -> str:
    ends = {"/chat/completions": "chat", "/responses": "responses", "/messages": "anthropic"}
    for end, dialect in ends.items():
        if path.endswith(end):
            return dialect
    return "gemini" if path.endswith((":streamGenerateContent", ":generateContent")) else ""


def _key(head: Head) -> str:
    for name, value in head.headers:
        if name in ("x-api-key", "x-goog-api-key"):
            return value
        if name == "authorization":
            return value.removeprefix("Bearer ")
    _, _, query = head.target.partition("?")
    pairs = dict(part.partition("=")[::2] for part in query.split("&"))
    return pairs.get("key", "")


def _texts(value: Any) -> list[str]:
    """Return every text in the messages of whatever dialect."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return _texts(value.get("content", value.get("parts", value.get("text"))))
    return []


def _asked(received: Received, path: str) -> Asked:
    data = received.json
    stream = bool(data.get("stream"))
    model = str(data.get("model", ""))
    if received.dialect == "gemini":
        model, _, verb = path.rpartition("/")[2].partition(":")
        stream = verb.startswith("stream")
    places = ("system", "instructions", "systemInstruction", "system_instruction")
    texts = [
        text
        for name in (*places, "messages", "input", "contents")
        for text in _texts(data.get(name))
    ]
    caps = (data.get("generationConfig") or {}).get("maxOutputTokens")
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        caps = data.get(name, caps)
    options = data.get("stream_options") or {}
    usage = bool(options.get("include_usage"))
    return Asked(received.dialect, received.provider, model, stream, caps, usage, tuple(texts))


def _pieces(reply: Reply, cap: int) -> tuple[list[str], bool, int]:
    """Return the answer's tokens, whether the cap cut it, and the tokens thought before it."""
    pieces: list[str] = []
    piece = ""
    wanted = reply.tokens
    for letter in reply.text if wanted is None else _again(reply.text, wanted * 4):
        if len((piece + letter).encode()) > 4:
            pieces.append(piece)
            piece = ""
        piece += letter
    pieces.append(piece)
    if wanted is not None:
        pieces = pieces[:wanted]
    reasoning = min(reply.reasoning, cap)
    kept = pieces[: cap - reasoning]
    return kept, len(kept) < len(pieces), reasoning


def _again(text: str, letters: int) -> str:
    return (text * (letters // max(1, len(text)) + 1))[:letters]


def _price(prices: Mapping[str, Price], model: str) -> Price:
    names = [name for name in prices if model.endswith(name)]
    return prices[max(names, key=len)] if names else FREE


def main() -> None:
    """Run one in this process until it is killed; its port and its bills go to files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--bill-file", type=Path, required=True)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--tokens", type=int)
    given = parser.parse_args()
    reply = Reply(tokens=given.tokens, rate=given.rate)
    with Cloud(reply=reply, journal=given.bill_file) as cloud:
        given.port_file.write_text(str(cloud.port))
        threading.Event().wait()


if __name__ == "__main__":
    main()
