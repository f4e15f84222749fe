"""The HTTP server: its sockets on loopback, its limits, its log, and its end."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import msgspec

from baton.compose import Baton
from baton.core.errors import ConfigError
from baton.platform.durable_files import make_folder, open_private
from baton.platform.import_stubs import skip_package_init
from baton.presentation.served_requests import ServedRequest, request_line
from baton.presentation.words import count_text
from baton.server.access import (
    LOOPBACK,
    WILDCARDS,
    Access,
    ServerTokens,
    allowed_hosts,
    allowed_name,
    allowed_origin,
    read_tokens,
)
from baton.server.api_errors import bad_request
from baton.server.endpoint import Endpoint
from baton.server.request_runner import AS_CONFIGURED, RequestRunner, ServingLimits

skip_package_init("uvicorn")  # it imports what starts processes, which the packaged binary lacks

import uvicorn  # noqa: E402
from uvicorn.config import Config  # noqa: E402
from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: E402
from uvicorn.server import Server  # noqa: E402

vars(uvicorn)["Config"] = Config  # where uvicorn's own parts look for it
import uvicorn.lifespan.off  # noqa: E402 (uvicorn imports it by its name)

HEADER_SECONDS = 10.0
"""How long a request's head may take to arrive."""

IDLE_SECONDS = 75
MAX_HEADER_BYTES = 64 * 1024
MAX_CONNECTIONS = 900
MAX_IDLE_CONNECTIONS = 128
"""How many connections may have no request under way: more end those that have waited longest."""

READ_BYTES = 2048
"""How much is read at once: of pieces of one byte asyncio's 256 kB take seconds, and all wait."""

STALL_SECONDS = 60.0
"""After so many seconds without reading anything of its answer a client counts as gone."""

END_SECONDS = 5.0
"""How long runs that are broken off at the end may take to be recorded as that."""

GRACE_SECONDS = 10
"""How long requests may take to end when the server is stopped."""

_PORTS_TO_TRY = 50


class _BoundedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, within bounds of time and number.

    A head that takes too long to arrive ends the connection, and so does an answer that isn't read.
    `idle` are the server's connections without a request under way, the longest first.
    """

    def __init__(self, idle: OrderedDict[_BoundedProtocol, None], **parts: Any) -> None:
        super().__init__(**parts)
        self._idle = idle
        self._alarm: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        vars(transport)["max_size"] = READ_BYTES
        self._alarm = self.loop.call_later(HEADER_SECONDS, self._end_slow)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.pop(self, None)
        for alarm in (self._alarm, self._stall):
            if alarm is not None:
                alarm.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._alarm is None and (self.cycle is None or self.cycle.response_complete):
            self._alarm = self.loop.call_later(HEADER_SECONDS, self._end_slow)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._idle.pop(self, None)
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None

    def on_response_complete(self) -> None:
        if str(self.conn.their_state) == "SEND_BODY":  # it was refused, and isn't read to its end
            self.transport.close()
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()

    def _wait(self) -> None:
        """Count as idle from now on."""
        self._idle[self] = None
        if len(self._idle) > MAX_IDLE_CONNECTIONS:
            longest, _ = self._idle.popitem(last=False)
            longest.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Say in the shape of other errors that this wasn't HTTP; then end the connection."""
        body = msgspec.json.encode(
            bad_request("This isn't an HTTP request that Baton reads.").openai()
        )
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _end_slow(self) -> None:
        self._alarm = None
        if not self.transport.is_closing():
            self.transport.close()


class _Server(Server):
    """A server that leaves the signals to the program it is a part of."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


@dataclass(frozen=True, slots=True)
class OpenEndpoint:
    """An endpoint that is open: where it is, the tokens for it, and what runs its requests."""

    hosts: tuple[str, ...]
    port: int
    tokens: ServerTokens
    runner: RequestRunner
    log: RequestLog

    @property
    def token(self) -> str:
        """The token for what is free."""
        return self.tokens.free

    @property
    def requests(self) -> Sequence[ServedRequest]:
        """The requests, the newest last."""
        served = (one.request for one in self.runner.served)
        return sorted((*served, *self.log.plain), key=lambda one: one.began)

    @property
    def url(self) -> str:
        """The address for clients."""
        host = self.hosts[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"


@asynccontextmanager
async def serving(
    baton: Baton,
    port: int,
    hosts: Iterable[str] = LOOPBACK,
    grace: int = GRACE_SECONDS,
    allowed: ServingLimits = AS_CONFIGURED,
    report: Callable[[ServedRequest], object] | None = None,
) -> AsyncIterator[OpenEndpoint]:
    """Serve with the parts of a Baton until this is left.

    Requests that run then may take `grace` seconds to end. `allowed` is what they are allowed
    besides the settings. `report` takes each request that is over, and must not wait. Raises
    ConfigError for a port that is taken, for an address that isn't this machine's, for a name or
    origin in the settings that isn't one, and offline for a name that would be looked up.
    """
    asked = tuple(hosts)
    tokens = read_tokens(baton.paths.server_tokens)
    for host in asked:
        _check_host(host, is_offline=baton.orchestra.terms.offline)
    names = frozenset(map(allowed_name, baton.settings.serve.allow_hosts))
    origins = frozenset(map(allowed_origin, baton.settings.serve.allow_origins))
    is_wildcard = not set(asked).isdisjoint(WILDCARDS)
    sockets = _listen(asked, port)
    bound = sockets[0].getsockname()[1]
    runner = RequestRunner(baton, allowed)
    access = Access(
        allowed_hosts(bound, asked), tokens.grants(), names, origins, is_wildcard=is_wildcard
    )
    log = RequestLog(baton.paths.logs / "serve.log", report)
    endpoint = Endpoint(runner, access, log.add)
    server = _Server(_config(endpoint, grace))
    running = asyncio.create_task(server.serve(sockets))
    try:
        yield OpenEndpoint(asked, bound, tokens, runner, log)
    finally:
        server.should_exit = True
        await endpoint.aclose()
        await running
        if cancelled := set(server.server_state.tasks):  # their runs end in history and ledger
            await asyncio.wait(cancelled, timeout=END_SECONDS)
        await runner.aclose()
        log.close()


def _config(app: Any, grace: int) -> Config:
    return Config(
        app,
        http=partial(_BoundedProtocol, OrderedDict()),  # type: ignore[arg-type]
        loop="none",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=grace,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_host(host: str, *, is_offline: bool) -> None:
    """Refuse an empty address, which means all of them, and offline a name. Raises ConfigError."""
    hint = "Name one of this machine's addresses, for example 192.168.1.5."
    if not host.strip():
        raise ConfigError("The address to listen at is empty.", hint)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if is_offline and host != "localhost":
            raise ConfigError(f"Baton is offline, so {host!r} isn't looked up.", hint) from None


def _listen(hosts: Iterable[str], port: int) -> list[socket.socket]:
    """Return sockets that listen at all of these addresses. Raises ConfigError."""
    sockets: list[socket.socket] = []
    try:
        for host in hosts:
            try:
                sockets.append(_bind(host, port))
            except OSError as error:
                if sockets and host == "::1" and error.errno != errno.EADDRINUSE:
                    continue  # there is no IPv6 here
                raise _unusable(host, port, error) from error
            port = sockets[0].getsockname()[1]
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return sockets


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small pieces at once: else each answer waits 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((host, port))
        made.listen(128)
    except BaseException:
        made.close()
        raise
    return made


def _unusable(host: str, port: int, error: OSError) -> ConfigError:
    if error.errno != errno.EADDRINUSE:
        return ConfigError(f"Nothing can listen at {host}: {error.strerror or error}.")
    free = next((n for n in range(port + 1, port + _PORTS_TO_TRY) if _is_free(host, n)), 0)
    hint = f"`--port {free}` is free." if free else "Choose another one."
    return ConfigError(f"Port {port} is taken by another program.", hint)


def _is_free(host: str, port: int) -> bool:
    try:
        _bind(host, port).close()
    except OSError:
        return False
    return True


MAX_PLAIN = 100
"""How many requests without a run are remembered."""

MAX_REFUSALS = 20
REFUSAL_SECONDS = 10.0
"""So many refused requests in so many seconds have a line each; of more only the number."""

MAX_LOG_BYTES = 256 * 1024


class RequestLog:
    """Takes requests that are over: `report` gets each, `file` a line of each that was refused.

    Of a flood of refused ones they get the number.
    """

    def __init__(self, file: Path, report: Callable[[ServedRequest], object] | None = None) -> None:
        self.plain: deque[ServedRequest] = deque(maxlen=MAX_PLAIN)
        self._report = report
        self._file = _LogFile(file)
        self._since = time.monotonic()
        self._refused = 0

    def add(self, request: ServedRequest) -> None:
        """Take a request."""
        if request.address:
            self.plain.append(request)
        self._begin_period()
        self._refused += bool(request.failure)
        if request.failure and self._refused > MAX_REFUSALS:
            return
        self._show(request)

    def close(self) -> None:
        """Say what was left out, and close the file."""
        self._report_rest()
        self._file.close()

    def _begin_period(self) -> None:
        if time.monotonic() - self._since > REFUSAL_SECONDS:
            self._report_rest()
            self._since, self._refused = time.monotonic(), 0

    def _report_rest(self) -> None:
        if (rest := self._refused - MAX_REFUSALS) > 0:
            text = f"{count_text(rest, 'more request')} refused."
            self._show(ServedRequest("", "", status=0, failure=text))

    def _show(self, request: ServedRequest) -> None:
        if self._report is not None:
            self._report(request)
        if request.failure:
            id = f"  (req_{request.run})" if request.run else ""
            self._file.write(f"{request_line(request)}{id}")


class _LogFile(RotatingFileHandler):
    """A file of lines with the time, of which the oldest leave."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, maxBytes=MAX_LOG_BYTES, backupCount=1, delay=True)

    def write(self, line: str) -> None:
        """Add a line with the date. A disk that won't have it fails no request."""
        text = f"{time.strftime('%Y-%m-%d')} {line}"
        self.emit(logging.LogRecord("baton", logging.INFO, "", 0, text, None, None))

    def handleError(self, record: logging.LogRecord) -> None:
        """Leave a line out that can't be written."""

    def _open(self) -> TextIOWrapper:
        make_folder(Path(self.baseFilename).parent)
        number = open_private(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return TextIOWrapper(os.fdopen(number, "ab"), "utf-8")
