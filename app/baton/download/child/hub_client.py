"""How the download process connects, where redirects may lead, and what a failure means.

    client = default_client()                      # of this process's environment, one for all
    with client.open(client.address(source), first=0, last=999) as response: ...
    str(response.url)                              # after redirects: a signed address

Everything goes through `HubClient`. The account's token is added to what goes to the hub itself
(the origin of HF_ENDPOINT) and taken off everything else; http is for this machine and for hubs
that the user chose so; no redirect leads from a remote host to this machine or its network, or to
plain http. Answers are never decompressed: what comes is what a hash is of.

`open` raises httpx's errors, and `UnsafeAddress` among them; it never raises for a status.
`response_failure` and `connection_failure` say in a sentence what either means. Everything that a
server says about itself is untrusted: it is shown on one line, and decides only the sentence.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx

from baton import __version__
from baton.core.catalogue_types import Source
from baton.core.labels import Label, address_label
from baton.core.sanitiser import one_line
from baton.ipc.child_http import retry_after, trusted_certificates, wait_text
from baton.ipc.parent_channel import Failure
from baton.platform.proxies import has_host, is_usable, proxy_fault, proxy_for
from baton.platform.secrets import KEY_EDGES

DEFAULT_HUB = "https://huggingface.co"
"""The hub, where HF_ENDPOINT names no other."""

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
"""How long to wait for a connection, and for the next bytes (HF_HUB_DOWNLOAD_TIMEOUT)."""

MAX_REDIRECTS = 8

TRANSIENT_STATUSES = frozenset({408, 425, 429, *range(500, 600)})
"""The statuses after which a retry may succeed."""

_TRUE_WORDS = {"1", "ON", "YES", "TRUE"}
_FALSE_WORDS = {"", "0", "OFF", "NO", "N", "FALSE"}


class Stopped(Exception):
    """The front has cancelled the request."""


class UnsafeAddress(httpx.TransportError):
    """An address or a redirect that nothing is fetched from; the text says where it leads."""


class HubClient:
    """The download process's only way to the network; any thread may use it.

    `endpoint` is the hub's address, `token` the account's ("": none), `offline` whether the
    user's environment forbids to connect, `read_seconds` how long to wait for the next bytes.
    Raises Failure where the environment is invalid, and from every request when offline.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self.endpoint = _endpoint(environ)
        self.token = account_token(environ)
        # Fails closed: any value that isn't plainly a no keeps Baton from connecting.
        self.offline = environ.get("HF_HUB_OFFLINE", "").strip().upper() not in _FALSE_WORDS
        self._hub_origin = _origin(self.endpoint)
        self._transports: dict[str | None, httpx.HTTPTransport] = {}
        self._trusted: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self.read_seconds = (
            _timeout_seconds(environ.get("HF_HUB_DOWNLOAD_TIMEOUT", "")) or READ_SECONDS
        )
        self._client = self.client()

    @property
    def host(self) -> str:
        """The hub's name for people."""
        return urlsplit(self.endpoint).netloc

    def address(self, source: Source) -> str:
        """Return a file's address."""
        if source.url:
            return source.url
        repo, revision = quote(source.repo), quote(source.revision or "main", safe="")
        return f"{self.endpoint}/{repo}/resolve/{revision}/{quote(source.file)}"

    @contextmanager
    def open(
        self,
        url: str,
        *,
        method: str = "GET",
        first: int | None = None,
        last: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """Send a request, redirects followed; its body is not read yet (`iter_raw`).

        With `first`, a range is asked for, up to and with the byte `last` (None: to the end).
        """
        fields = dict(headers or {})
        if first is not None:
            fields["Range"] = f"bytes={first}-{'' if last is None else last}"
        with self._client.stream(method, url, headers=fields) as response:
            yield response

    def client(self, most: int | None = None) -> httpx.Client:
        """Return a client that obeys all rules; `most` limits the bytes of each answer."""
        return httpx.Client(
            transport=_GuardedTransport(self, most),
            headers={"User-Agent": f"baton/{__version__}"},
            trust_env=False,
            follow_redirects=True,
            max_redirects=MAX_REDIRECTS,
            timeout=httpx.Timeout(
                self.read_seconds, connect=min(self.read_seconds, CONNECT_SECONDS), pool=None
            ),
            event_hooks={"response": [self._check_redirect]},
        )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()
        for way in self._transports.values():
            way.close()

    def is_hub(self, url: str) -> bool:
        """Whether an address is the hub's own, which may see the account's token."""
        return _origin(url) == self._hub_origin

    def send(self, request: httpx.Request) -> httpx.Response:
        """Send one request, no redirects followed."""
        if self.offline:
            raise Failure(
                "ConfigError",
                "HF_HUB_OFFLINE is set, so nothing is fetched.",
                "Unset it, or carry models over: `baton models export` and `baton models import`.",
            )
        url = str(request.url)
        self._check_address(url)
        request.headers["Accept-Encoding"] = "identity"
        request.headers.pop("Authorization", None)
        if self.token and self.is_hub(url):
            request.headers["Authorization"] = f"Bearer {self.token}"
        return self._transport(url).handle_request(request)

    def _check_address(self, url: str) -> None:
        """Refuse an address that nothing is fetched from. Raises UnsafeAddress."""
        parts, there = urlsplit(url), address_label(url)
        if parts.scheme == "https" or (parts.scheme == "http" and there is Label.LOCAL):
            return
        # The user may have chosen a hub without encryption, in their own network or beyond.
        chosen = there is Label.LAN or self.is_hub(url)
        if parts.scheme == self._hub_origin[0] == "http" and chosen:
            return
        raise UnsafeAddress(
            f"{parts.scheme}://{parts.netloc} isn't an address that is safe to fetch from"
        )

    def _check_redirect(self, response: httpx.Response) -> None:
        """Refuse a redirect to a nearer network than it comes from, or from https to http."""
        if not response.has_redirect_location:
            return
        here = response.request.url
        with suppress(httpx.InvalidURL):
            to = here.join(response.headers["location"])
            self._check_address(str(to))
            there = address_label(str(to))
            nearer = _DISTANCES[there] < _DISTANCES[address_label(str(here))]
            # A mirror may have a public name and a store in the same network.
            mirror = self.endpoint != DEFAULT_HUB and self.is_hub(str(here)) and there is Label.LAN
            if (nearer and not mirror) or (here.scheme, to.scheme) == ("https", "http"):
                raise UnsafeAddress(
                    f"{here.host} leads to {to.scheme}://{to.host}, which is not safe"
                )

    def _transport(self, url: str) -> httpx.HTTPTransport:
        """Return the connections through the proxy for an address, or without one."""
        proxy = proxy_for(url, "", self._environ)
        with self._lock:
            if proxy not in self._transports:
                self._trusted = self._trusted or trusted_certificates(self._environ)
                try:
                    if proxy is not None and not has_host(proxy):
                        raise ValueError("the proxy has no place")
                    self._transports[proxy] = httpx.HTTPTransport(
                        verify=self._trusted, proxy=proxy, trust_env=False
                    )
                except (ImportError, ValueError, httpx.InvalidURL) as error:
                    raise Failure("ConfigError", *proxy_fault(url, "", self._environ)) from error
            return self._transports[proxy]


class _GuardedTransport(httpx.BaseTransport):
    """Where a client's requests go: through `HubClient`, and answers no longer than agreed."""

    def __init__(self, web: HubClient, most: int | None) -> None:
        self._web = web
        self._most = most

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        response = self._web.send(request)
        coding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if coding not in ("", "identity"):
            response.close()
            raise UnsafeAddress(
                f"{request.url.host} sends compressed answers, which weren't asked for"
            )
        if self._most is not None and isinstance(response.stream, httpx.SyncByteStream):
            response.stream = _LimitedStream(response.stream, self._most)
        return response


class _LimitedStream(httpx.SyncByteStream):
    """An answer with a limit in bytes and seconds."""

    def __init__(self, stream: httpx.SyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    def __iter__(self) -> Iterator[bytes]:
        seen, end = 0, time.monotonic() + 4 * READ_SECONDS
        for piece in self._stream:
            seen += len(piece)
            if seen > self._most or time.monotonic() > end:
                raise UnsafeAddress("the answer doesn't end")
            yield piece

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


@functools.cache
def default_client() -> HubClient:
    """Return this process's way out. Raises Failure."""
    return HubClient()


_DISTANCES = {Label.LOCAL: 0, Label.LAN: 1, Label.CLOUD: 2}


def _endpoint(environ: Mapping[str, str]) -> str:
    endpoint = environ.get("HF_ENDPOINT", "").strip().rstrip("/") or DEFAULT_HUB
    if not is_usable(endpoint):
        raise Failure(
            "ConfigError",
            "HF_ENDPOINT isn't the address of a hub.",
            "It begins with https://, and holds no password, ? or #; unset, it is the usual one.",
        )
    return endpoint


def account_token(environ: Mapping[str, str]) -> str:
    """Return the account's token: from the environment, else from the hub's own file."""
    if environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").strip().upper() in _TRUE_WORDS:
        return ""
    named = environ.get("HF_TOKEN") or environ.get("HUGGING_FACE_HUB_TOKEN") or ""
    if not named:
        with suppress(OSError, ValueError, RuntimeError):
            named = _token_file(environ).read_text("utf-8")
    # One that doesn't fit in a header would break every request.
    token = named.strip(KEY_EDGES)
    return token if re.fullmatch(r"[\x21-\x7e]+", token) else ""


def _token_file(environ: Mapping[str, str]) -> Path:
    if path := environ.get("HF_TOKEN_PATH"):
        return Path(path).expanduser()
    if home := environ.get("HF_HOME"):
        return Path(home).expanduser() / "token"
    cache = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "token"


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").rstrip("."), port


def _timeout_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return min(max(seconds, 0.1), 3600.0) if seconds > 0 else 0.0


# What may be meant: the error, its sentence and its hint.

_GATED = (
    "SecretMissing",
    "{repo} is only for accounts that have agreed to its licence.",
    "Accept the licence on {page}, then set HF_TOKEN to a token of that account.",
)
_NO_REPO = (
    "ConfigError",
    "{host} has no repository {repo}, or shows it only to some accounts.",
    "Check the name; what is private needs HF_TOKEN.",
)
_NO_REVISION = (
    "ConfigError",
    "{host} has no such revision of {repo}.",
    "Leave the revision out for the newest.",
)
_NOT_THERE = ("ConfigError", "{host} has no {what}.", "Check the name.")
_NOTHING_THERE = ("ConfigError", "There is nothing at {what}.", "Check the address.")
_TOKEN = (
    "SecretMissing",
    "{host} doesn't know the token in HF_TOKEN (or the one that `hf auth login` kept).",
    "Set HF_TOKEN to a valid one, or unset it: most models need none.",
)
_NO_ACCESS = (
    "SecretMissing",
    "{host} refuses access to {what} (HTTP {status}){said}.",
    "Look at {page} in a browser; what needs an account needs HF_TOKEN.",
)
_TOO_OFTEN = (
    "WorkerUnavailable",
    "{host} takes no more requests for now. What has come is kept.",
    "Try again in {wait}.",
)
_FAILED = (
    "WorkerUnavailable",
    "{host} failed (HTTP {status}) when asked for {what}. What has come is kept.",
    "Try again in {wait}.",
)
_ODD = (
    "WorkerUnavailable",
    "{host} answered HTTP {status} when asked for {what}{said}.",
    "Try again later, or fetch it from another source.",
)

_BY_CODE = {
    "GatedRepo": _GATED,
    "RepoNotFound": _NO_REPO,
    "RevisionNotFound": _NO_REVISION,
    "EntryNotFound": _NOT_THERE,
}
_BY_STATUS = {401: _NO_ACCESS, 403: _NO_ACCESS, 404: _NOT_THERE, 410: _NOT_THERE, 429: _TOO_OFTEN}
_BAD_TOKEN_TEXT = "invalid credentials"


def response_failure(response: httpx.Response, what: str) -> Failure:
    """Return what an answer means that brings nothing."""
    status, headers = response.status_code, response.headers
    reason = headers.get("X-Error-Message", "")
    meaning = _BY_CODE.get(headers.get("X-Error-Code", "")) or _BY_STATUS.get(status, _ODD)
    if status == 401 and _BAD_TOKEN_TEXT in reason.lower():
        meaning = _TOKEN
    elif status == 401 and meaning is _NO_ACCESS and "://" not in what:
        meaning = _NO_REPO  # so hubs answer strangers, lest they learn what is there
    elif meaning is _NOT_THERE and "://" in what:
        meaning = _NOTHING_THERE
    elif status in TRANSIENT_STATUSES and status != 429:
        meaning = _FAILED
    fields = {
        "what": one_line(what),
        "repo": _repo(what),
        "host": one_line(response.request.url.netloc.decode("ascii", "replace")),
        "page": _page(response, what),
        "status": status,
        "said": f": {one_line(reason).rstrip('.')}" if reason.strip() else "",
        "wait": wait_text(retry_after(headers)),
    }
    error, message, hint = (text.format_map(fields) for text in meaning)
    return Failure(error, message, hint)


def connection_failure(error: Exception, what: str) -> Failure:
    """Return what a failed connection means, or one that was refused here."""
    what = one_line(what)
    match error:
        case httpx.TooManyRedirects():
            message, hint = f"The address of {what} redirects in a circle.", ""
        case UnsafeAddress() | httpx.InvalidURL():
            message = f"{what} was not fetched: {one_line(str(error))}."
            hint = "Fetch it from an address that begins with https://."
        case httpx.TimeoutException():
            message = f"The server stopped answering when asked for {what}. What has come is kept."
            hint = "Check the network, then try again."
        case httpx.ProxyError():
            message = f"The proxy doesn't let {what} through: {one_line(str(error))}."
            hint = "Check HTTPS_PROXY and NO_PROXY."
        case httpx.ConnectError() if _is_tls_error(error):
            message = f"The server of {what} can't be trusted: {one_line(str(error))}."
            hint = "If your network inspects TLS, set SSL_CERT_FILE to its certificate."
        case httpx.ConnectError():
            message = f"{what} can't be reached: {_connect_reason(error)}."
            hint = "Check the network, and HF_ENDPOINT if it is set; nothing was lost."
        case _:
            message = f"The connection broke when {what} was asked for. What has come is kept."
            hint = "Try again."
    return Failure("WorkerUnavailable", message, hint or "Fetch it from another source.")


def _connect_reason(error: httpx.ConnectError) -> str:
    """Return why a connection failed, in plain words where there are some."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return f"{one_line(error.request.url.host)} can't be looked up"
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens there"
        cause = cause.__context__
    return one_line(re.sub(r"^\[Errno -?\d+\] ", "", str(error))) or type(error).__name__


def invalid_answer(host: str, what: str, why: str) -> Failure:
    """Return the error for an invalid answer of a hub; `why` follows a colon."""
    return Failure(
        "WorkerUnavailable",
        f"What {host} says of {one_line(what)} is invalid: {one_line(why)}.",
        "Check HF_ENDPOINT if it is set, or fetch it from another source.",
    )


def _page(response: httpx.Response, what: str) -> str:
    """Return where the user can look at it: the repository's page on the hub."""
    url = (response.history[0] if response.history else response).request.url
    page = url.copy_with(path=f"/{_repo(what)}", query=None, fragment=None)
    return one_line(str(page) if "://" not in what else what)


def _repo(what: str) -> str:
    return one_line(what if "://" in what else "/".join(what.split("/")[:2]))


def _is_tls_error(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__context__
    return False
