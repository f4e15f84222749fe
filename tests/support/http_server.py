"""HTTP/1.1 on loopback as a hub and its store speak it: ranges, signatures of time, and faults.

`Fault` says how one answer goes wrong, `ServedRequest` is what the log keeps of one. `fake_hub`
decides what is answered; here it is sent: a file's content with `sendfile`, whole or a range of it.
"""

from __future__ import annotations

import contextlib
import email.utils
import json
import re
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

LOOP = "to itself"
"""As a fault's `location`: the redirect leads to where the request went."""


@dataclass(frozen=True, slots=True)
class Fault:
    """How one answer goes wrong; all that is set happens.

    `status` answers with that instead (with `headers`, `body`, `code` as X-Error-Code, `message` as
    X-Error-Message, `retry_after` and `location`), for any request. The others spoil content:
    `rate` sends so many bytes per second, `cut` ends after so many bytes of this answer (`reset` as
    a crashed machine would, `stall` by silence), `length` is added to the true Content-Length,
    `unsized` leaves it out, `wrong` flips the byte at that offset of the file, `whole` answers a
    range with 200 and everything, `shift` moves what Content-Range claims, `careless` ignores
    If-Range, so that the part may be of another version.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    code: str = ""
    message: str = ""
    retry_after: int | str | None = None
    location: str = ""
    rate: int = 0
    cut: int | None = None
    reset: bool = False
    stall: bool = False
    length: int = 0
    unsized: bool = False
    wrong: int | None = None
    whole: bool = False
    shift: int = 0
    careless: bool = False


FINE = Fault()


@dataclass(slots=True)
class ServedRequest:
    """One request: where it came (`hub` or `store`), and how it was answered.

    `kind` is `api`, `resolve` or `store`; `start` is the first byte of content that was sent, and
    `sent` how many were handed to the socket (a client that left may not have read the last ones).
    """

    where: str
    kind: str
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes = b""
    status: int = 0
    start: int = 0
    sent: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send: a status, headers, and content (a path is served from its file)."""

    status: int
    content: bytes | Path = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    ranges: bool = False


def as_json(value: object, **headers: str) -> Answer:
    """Return an answer in JSON."""
    fields = {"Content-Type": "application/json; charset=utf-8", **headers}
    return Answer(200, json.dumps(value).encode(), fields)


def in_seconds(seconds: float) -> str:
    """Return the time so many seconds from now as HTTP writes it, for `retry_after`."""
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


class Server(ThreadingHTTPServer):
    """One port. `answer` gets each request with the fault that it gets."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        where: str,
        answer: Callable[[ServedRequest], tuple[Answer, Fault]],
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        if context is not None:
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
        self.where = where
        self.answer = answer
        self.stopped = threading.Event()
        self.open = 0
        self.errors: list[str] = []
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def count(self, more: int) -> None:
        """Count what is being answered."""
        with self._lock:
            self.open += more

    def close(self) -> None:
        """Stop, and cut what is still being answered."""
        self.stopped.set()
        self.shutdown()
        with self._lock:
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        self.server_close()
        self._thread.join(5)

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """Take a connection."""
        with self._lock:
            self._sockets.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """Let go of a connection."""
        with self._lock:
            self._sockets.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Note an error of ours; a client that left is none."""
        import sys
        import traceback

        if not isinstance(sys.exc_info()[1], OSError):
            self.errors.append(traceback.format_exc())


class _ConnectionEnded(ConnectionError):
    """The answer ends here, and so does the connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        self._handle()

    do_HEAD = do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: `ServedRequest` is the log."""

    def version_string(self) -> str:
        """Return the server's name."""
        return "loopback"

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = ServedRequest(
            self.server.where,
            "",
            self.command,
            unquote(parts.path),
            parse_qs(parts.query, keep_blank_values=True),
            headers,
            self.rfile.read(int(headers.get("content-length") or 0)),
        )
        self.server.count(1)
        try:
            answer, fault = self.server.answer(seen)
            if fault.status:
                answer = self._refusal(fault)
            self._send(seen, answer, fault)
        except OSError:
            self.close_connection = True
        finally:
            self.server.count(-1)

    def _refusal(self, fault: Fault) -> Answer:
        after = None if fault.retry_after is None else str(fault.retry_after)
        location = self.path if fault.location == LOOP else fault.location
        named = {
            "X-Error-Code": fault.code,
            "X-Error-Message": fault.message,
            "Retry-After": after,
            "Location": location,
        }
        headers = {name: value for name, value in named.items() if value}
        return Answer(fault.status, fault.body, {**headers, **fault.headers})

    def _send(self, seen: ServedRequest, answer: Answer, fault: Fault) -> None:
        size = _size(answer.content)
        status, start, end = answer.status, 0, size
        headers = dict(answer.headers)
        if answer.ranges:
            headers["Accept-Ranges"] = "bytes"
            if not fault.whole:
                asked = {k: v for k, v in seen.headers.items() if k != "if-range"}
                asked = asked if fault.careless else seen.headers
                status, start, end = _content_range(asked, headers.get("ETag", ""), size)
        if status == 206:
            first, last = start + fault.shift, end - 1 + fault.shift
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        elif status == 416:
            headers["Content-Range"] = f"bytes */{size}"
        seen.status, seen.start = status, start
        claimed = max(0, end - start + fault.length)
        self._head(status, headers, None if fault.unsized else claimed)
        if self.command == "HEAD":
            return
        most = end - start if fault.unsized else min(end - start, claimed)
        self._body(seen, answer.content, start, start + most, fault)
        if fault.unsized or fault.length:
            raise _ConnectionEnded

    def _head(self, status: int, headers: Mapping[str, str], length: int | None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if length is None:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _body(
        self, seen: ServedRequest, content: bytes | Path, start: int, end: int, fault: Fault
    ) -> None:
        stop = end if fault.cut is None else min(end, start + fault.cut)
        with _open_sender(content) as send:
            for first, last, flipped in _pieces(start, stop, fault):
                send(self.connection, first, last - first, flipped)
                seen.sent += last - first
                if fault.rate and self.server.stopped.wait((last - first) / fault.rate):
                    raise _ConnectionEnded
        if fault.cut is None:
            return
        if fault.stall:
            self._say_nothing()
        if fault.reset:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
        raise _ConnectionEnded

    def _say_nothing(self) -> None:
        """Wait until the client leaves."""
        while not self.server.stopped.wait(0.01):
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                return


_Send = Callable[[socket.socket, int, int, bool], None]


@contextlib.contextmanager
def _open_sender(content: bytes | Path) -> Iterator[_Send]:
    """Give what sends a piece of the content, with its first byte flipped if so wanted."""
    if isinstance(content, bytes):
        view = memoryview(content)

        def copied(to: socket.socket, start: int, count: int, flipped: bool) -> None:
            piece = view[start : start + count]
            to.sendall(bytes([piece[0] ^ 0xFF]) if flipped else piece)

        yield copied
        return
    with content.open("rb") as file:

        def straight(to: socket.socket, start: int, count: int, flipped: bool) -> None:
            if flipped:
                file.seek(start)
                to.sendall(bytes([file.read(1)[0] ^ 0xFF]))
            else:
                to.sendfile(file, start, count)

        yield straight


def _pieces(start: int, end: int, fault: Fault) -> Iterator[tuple[int, int, bool]]:
    """Cut a range into what is sent at once; a byte that is flipped is a piece of its own."""
    step = max(1, fault.rate // 50) if fault.rate else 8 << 20
    at = start
    while at < end:
        last = min(end, at + step)
        if fault.wrong is not None and at <= fault.wrong < last:
            last = fault.wrong + 1 if at == fault.wrong else fault.wrong
        yield at, last, at == fault.wrong
        at = last


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _content_range(headers: Mapping[str, str], etag: str, size: int) -> tuple[int, int, int]:
    """Return the status for a request's Range, its first byte, and the one after its last."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", "").replace(" ", ""))
    changed = headers.get("if-range", etag) != etag
    if match is None or changed or not any(match.groups()):
        return 200, 0, size
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    return (206, start, end) if start < end else (416, 0, 0)
