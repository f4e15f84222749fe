"""Downloads a file from a server that may fail, send wrong bytes, stall or limit requests.

Each attempt asks the file's own address for what is missing, so an address that was signed and has
expired is simply signed again. Only what fits exactly is appended to the partial: the right status,
the right range of the right total, no more bytes than promised. Everything else is a failed
attempt; after several in a row without new bytes, the last one's message is the error.

The body is read past httpx (`Response.iter_raw`), which copies it four times: 2.0 s of processor
time for 2 GiB, where the stream below needs 0.8 s, as `http.client` does. With writing and hashing
that decides between slower and as fast as curl (`scripts/bench_models`).
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from baton.core.catalogue_types import ModelOffer
from baton.core.machine import show_size
from baton.core.sanitiser import one_line
from baton.download.child import hub_client
from baton.download.child.hub_client import Stopped
from baton.download.child.partial_file import PartialFile
from baton.ipc.child_http import retry_after
from baton.ipc.parent_channel import Failure

READ_BYTES = 1 << 19
"""How much is read from a connection at once; all that a killed process can lose."""

_POLL_SECONDS = 0.25
"""How often a silent connection is checked for a stop, in seconds."""

_Read = Callable[[int, float], "bytes | memoryview"]
"""Reads at most so many bytes within so many seconds."""

_MIN_GAIN_BYTES = 1 << 16
"""Attempts that bring fewer bytes than this, together, count as failed: else they might never
end."""

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a download is retried without new bytes, and its pauses in seconds.

    Each pause is twice as long as the one before, up to `max_pause`. A server that asks for more
    than `max_retry_after` ends the download.
    """

    max_failures: int = 5
    first_pause: float = 1.0
    max_pause: float = 30.0
    max_retry_after: float = 300.0


class TransientFailure(Exception):
    """An attempt failed in a way that may pass; `wait` is what the server asked for, in seconds."""

    def __init__(self, failure: Failure, wait: float | None = None) -> None:
        self.failure = failure
        self.wait = wait


class HttpDownload:
    """Appends the missing bytes to a partial file, until it is complete or nothing more comes."""

    def __init__(
        self, web: hub_client.HubClient, offer: ModelOffer, partial: PartialFile, pace: RetryPolicy
    ) -> None:
        self.paused_until = 0.0
        self._web = web
        self._offer = offer
        self._partial = partial
        self._pace = pace
        self._what = str(offer.source)
        self._name = offer.source.file or self._what

    def run(self) -> None:
        """Raises Failure, OSError from the disk, and Stopped once the partial is closed."""
        failures, most = 0, self._partial.size
        while self._partial.size < self._offer.size:
            try:
                self._attempt()
            except TransientFailure as trouble:
                if self._partial.size - most >= _MIN_GAIN_BYTES:
                    failures, most = 0, self._partial.size
                failures += 1
                if failures >= self._pace.max_failures:
                    raise trouble.failure from trouble
                self._pause(trouble, failures)

    def _pause(self, trouble: TransientFailure, failures: int) -> None:
        pace = self._pace
        wait = min(pace.max_pause, pace.first_pause * 2 ** (failures - 1)) * random.uniform(
            0.5, 1.0
        )
        if trouble.wait is not None:
            if trouble.wait > pace.max_retry_after:
                raise trouble.failure from trouble
            wait = max(wait, trouble.wait)
            self.paused_until = time.monotonic() + wait
        self._partial.wait(wait)

    def _attempt(self) -> None:
        """Ask once for what is missing and append it. Raises TransientFailure if it is cut."""
        if self._partial.size and not (self._offer.sha256 or self._partial.etag):
            self._partial.restart()
        start = self._partial.size
        try:
            with self._web.open(
                self._web.address(self._offer.source),
                first=start or None,
                headers=self._version_condition() if start else None,
            ) as response:
                skip = self._check_response(response, start)
                self._append_body(response, skip)
        except hub_client.UnsafeAddress as error:
            raise hub_client.connection_failure(error, self._what) from error
        except httpx.TransportError as error:
            raise TransientFailure(hub_client.connection_failure(error, self._what)) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise hub_client.connection_failure(error, self._what) from error
        if self._partial.size < self._offer.size:
            raise TransientFailure(self._connection_cut())

    # Responses

    def _version_condition(self) -> dict[str, str]:
        """Ask for the same version, where no sha256 can prove it at the end."""
        return {} if self._offer.sha256 else {"If-Range": self._partial.etag}

    def _check_response(self, response: httpx.Response, start: int) -> int:
        """Check an answer before its body; return how many bytes of that are here already."""
        self._check_identity(response)
        self._check_status(response)
        match response.status_code:
            case 206:
                self._check_range(response, start)
                return 0
            case 200:
                self._check_length(response, self._offer.size)
                if self._offer.sha256:
                    return start
                if start:
                    self._partial.restart()
                self._partial.etag = _strong_etag(response.headers.get("ETag", ""))
                return 0
        raise TransientFailure(self._wrong_answer(f"HTTP {response.status_code} for a file"))

    def _check_status(self, response: httpx.Response) -> None:
        """Raise the error that a status means."""
        status = response.status_code
        if status < 400:
            return
        if status == 416:
            raise TransientFailure(
                self._wrong_answer(f"there is nothing after {self._partial.size:,} bytes")
            )
        failure = hub_client.response_failure(response, self._what)
        if status in hub_client.TRANSIENT_STATUSES:
            raise TransientFailure(failure, retry_after(response.headers))
        if response.history:  # it may be only the signature that has expired
            raise TransientFailure(self._refused(response))
        raise failure

    def _check_identity(self, response: httpx.Response) -> None:
        """Refuse another file than the one that was looked up, if the hub says so itself."""
        for answer in (*response.history, response):
            linked = answer.headers.get("X-Linked-Etag", "").strip('W/"').lower()
            known = re.fullmatch(r"[0-9a-f]{64}", linked) and self._offer.sha256
            if known and linked != self._offer.sha256.lower():
                raise Failure(
                    "ModelFileError",
                    f"{self._name} is another file at its source now, so it was not fetched.",
                    "Look it up again; if the catalogue names it, its entry is out of date.",
                )

    def _check_range(self, response: httpx.Response, start: int) -> None:
        span = one_line(response.headers.get("Content-Range", ""), 60).strip()
        match = _CONTENT_RANGE.fullmatch(span)
        if match is None or not start:
            raise TransientFailure(
                self._wrong_answer(f"a part that wasn't asked for ({span or 'unnamed'})")
            )
        first, last = int(match[1]), int(match[2])
        if first != start or last < first:
            raise TransientFailure(self._wrong_answer(f"another part than was asked for ({span})"))
        if match[3] not in ("*", str(self._offer.size)) or last >= self._offer.size:
            raise TransientFailure(self._wrong_answer(f"a part of another file ({span})"))
        self._check_length(response, last + 1 - first)
        if not self._offer.sha256 and _strong_etag(response.headers.get("ETag", "")) not in (
            "",
            self._partial.etag,
        ):
            self._partial.restart()
            raise TransientFailure(self._wrong_answer("a part of another version"))

    def _check_length(self, response: httpx.Response, length: int) -> None:
        announced = response.headers.get("Content-Length")
        if announced is not None and announced != str(length):
            raise TransientFailure(
                self._wrong_answer(f"{one_line(announced, 20)} bytes where {length} are right")
            )

    # Bodies

    def _append_body(self, response: httpx.Response, skip: int) -> None:
        """Append a body but for its first bytes. Raises Failure if it is longer than promised."""
        for piece in self._read_body(response):
            fresh = memoryview(piece)[min(skip, len(piece)) :]
            skip -= len(piece) - len(fresh)
            if self._partial.size + len(fresh) > self._offer.size:
                raise FileTooLong(self._offer, self._name)
            if fresh:
                self._partial.append(fresh)

    def _read_body(self, response: httpx.Response) -> Iterator[bytes | memoryview]:
        """Yield the body as it comes. Raises Stopped, TransientFailure and httpx's errors."""
        length = response.headers.get("Content-Length")
        whole = response.iter_raw()
        stream = response.extensions.get("network_stream")
        if length is None or stream is None or "Transfer-Encoding" in response.headers:
            yield from whole
            return
        # The first piece is all that was read together with the headers; behind it the stream
        # holds nothing but the body.
        first = next(whole, b"")
        yield first
        left = int(length) - len(first)
        read = _make_reader(stream)
        while left > 0:
            piece = self._read(read, min(READ_BYTES, left))
            if not piece:
                raise TransientFailure(self._connection_cut())
            left -= len(piece)
            yield piece

    def _read(self, read: _Read, most: int) -> bytes | memoryview:
        """Read what has come, at most so much; nothing at the end."""
        silent = time.monotonic() + self._web.read_seconds
        while True:
            if self._partial.closed:
                raise Stopped
            try:
                return read(most, _POLL_SECONDS)
            except httpcore.ReadTimeout as error:
                if time.monotonic() >= silent:
                    failure = hub_client.connection_failure(httpx.ReadTimeout(""), self._what)
                    raise TransientFailure(failure) from error
            except httpcore.NetworkError as error:
                raise TransientFailure(self._connection_cut()) from error

    # Errors

    def _wrong_answer(self, what: str) -> Failure:
        return Failure(
            "ModelFileError",
            f"The server of {self._name} sends something else than the file: {what}."
            f" {self._kept_text()}",
            "Try again later, or fetch it from another source.",
        )

    def _connection_cut(self) -> Failure:
        return Failure(
            "WorkerUnavailable",
            f"The connection broke several times while {self._name} came. {self._kept_text()}",
            "Check the network and run it again; it continues where it ended.",
        )

    def _refused(self, response: httpx.Response) -> Failure:
        return Failure(
            "WorkerUnavailable",
            f"{one_line(response.url.host)} refuses {self._name} (HTTP {response.status_code}),"
            f" although its source led there. {self._kept_text()}",
            "Try again later; if there is a proxy, check that it lets that host through.",
        )

    def _kept_text(self) -> str:
        here, whole = show_size(self._partial.size), show_size(self._offer.size)
        return f"{here} of {whole} are here and kept."


class FileTooLong(Failure):
    """More bytes came than the file has, so none of them can be trusted."""

    def __init__(self, offer: ModelOffer, name: str) -> None:
        super().__init__(
            "ModelFileError",
            f"{name} is longer than the {offer.size:,} bytes that were promised, so it was"
            " deleted.",
            "Fetch it again, or from another source.",
        )


def _strong_etag(etag: str) -> str:
    """Return an etag by which the same bytes can be asked for again, else ""."""
    etag = etag.strip()
    return etag if re.fullmatch(r'"[\x21\x23-\x7e]{1,1000}"', etag) else ""


def _make_reader(stream: Any) -> _Read:
    """Return what reads a connection's bytes: into the same memory again and again if it can.

    That takes half as long as having new memory made for each piece. What it returns is good until
    the next call. Through a proxy that is itself spoken to by TLS, the socket isn't the last layer.
    """
    socket, tls = (stream.get_extra_info(name) for name in ("socket", "ssl_object"))
    if socket is None or tls not in (None, socket):
        read: _Read = stream.read
        return read
    room = memoryview(bytearray(READ_BYTES))

    def read_into(most: int, seconds: float) -> memoryview:
        try:
            socket.settimeout(seconds)
            return room[: socket.recv_into(room[:most])]
        except TimeoutError as error:
            raise httpcore.ReadTimeout from error
        except OSError as error:
            raise httpcore.ReadError from error

    return read_into
