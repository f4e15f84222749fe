"""The only way out: one POST per call, to the call's own address.

Every request passes here, also those of servers: its body is checked, announced to the front, and
sent once the front has it on disk. The answer is read byte for byte until the provider's own end.
No request is sent twice.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from urllib.parse import urlsplit

import httpx

from baton import __version__
from baton.core.errors import ConfigError
from baton.core.labels import Label
from baton.core.messages import VIA_HEADER
from baton.ipc.child_http import trusted_certificates
from baton.ipc.parent_channel import Failure
from baton.platform import proxies as addresses, secrets
from baton.workers.cloud.child import call_errors, request_guard, response_limits
from baton.workers.cloud.child.cloud_call import KEY_PLACEHOLDER, CloudCall, HttpRequest
from baton.workers.cloud.messages import SetUpGateway

STREAM_TYPES = {"converse": "application/vnd.amazon.eventstream"}
"""In which form a streamed answer comes, in dialects that don't send server-sent events."""

KEY_SECONDS = 60.0
"""How long a key is remembered: asking a keyring for it takes a moment."""


KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in {
            "TCP_KEEPIDLE": 60,
            "TCP_KEEPALIVE": 60,
            "TCP_KEEPINTVL": 15,
            "TCP_KEEPCNT": 4,
        }.items()
        if hasattr(socket, name)
    ),
]
"""The system asks a silent peer whether it is still there, and gives it up after two minutes: a
model may think for longer. macOS calls the first wait TCP_KEEPALIVE."""


class AnswerDeadline:
    """Until when a call is waited for: its next byte, and its end."""

    def __init__(self, call: CloudCall, rules: SetUpGateway) -> None:
        self._now = asyncio.get_running_loop().time
        self._call = call
        self._end = self._now() + rules.total
        self.renew()

    def renew(self) -> None:
        """Wait for the next byte, which may be a ping: who sends any is still at work."""
        wait = self._call.stall if self._call.reader.written else self._call.first
        self.until = min(self._end, self._now() + wait)


class CloudHttpClient:
    """Posts calls. It alone holds keys, and connections to anything else."""

    def __init__(self, rules: SetUpGateway, environ: Mapping[str, str]) -> None:
        self._rules = rules
        self._environ = environ
        self._transports: dict[str | None, httpx.AsyncHTTPTransport] = {}
        self._keys: dict[tuple[str, str], tuple[float, str]] = {}
        self._trusted: ssl.SSLContext | None = None

    async def prepare(self, call: CloudCall) -> None:
        """Refuse a call without an address that may be reached, or without its key.

        Raises Failure.
        """
        self._target_urls(call, call.base_url)
        if call.needs_key:
            call.key = await self._find_key(call)

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.aclose()
        self._transports.clear()

    async def warm(self) -> None:
        """Read the trusted certificates, and import what the first connection needs."""
        with suppress(Failure):  # the first call meets it again, and reports it
            self._transport(None)
        import httpcore  # as httpx does: not before the first connection

        await httpcore.AnyIOBackend().sleep(0)

    async def post(self, call: CloudCall, request: HttpRequest) -> AsyncGenerator[str]:
        """Send a call's one request, and give the text of its answer as it comes.

        `call` knows afterwards what was counted and whether it ended well. Raises Failure.
        """
        targets = self._target_urls(call, request.url)
        proxy = self._proxy(call, targets[0])
        if proxy is None and addresses.is_lan_name(targets[0]):
            targets = await self._resolve_lan_name(call, targets[0])
        transport = self._open_transport(call, proxy)
        self._check_request(call, request)
        call.announce(addresses.route_text(call.base_url, proxy), request.body)
        await call.go.wait()
        deadline = AnswerDeadline(call, self._rules)
        response = await self._send(transport, call, targets, request, deadline)
        try:
            if response.status_code in (400, 401, 402, 403):  # it may be about the key
                self._keys.pop((call.provider, call.variable), None)  # looked up again next time
            if response.status_code != 200:
                raise await call_errors.response_failure(call, response, request.body)
            if call_errors.is_compressed(response):
                raise call_errors.compressed_failure(call)
            key_filter, failure = KeyFilter(call.key), None
            async with aclosing(self._read_texts(call, response, deadline)) as texts:
                try:
                    async for text in texts:
                        if shown := key_filter.add(text):
                            yield shown
                except Failure as error:
                    failure = error
            if rest := key_filter.finish():
                yield rest
            if failure is not None:
                raise failure
        finally:
            await response.aclose()

    def _check_request(self, call: CloudCall, request: HttpRequest) -> None:
        try:
            texts = (request.body, request.url.encode())
            for key in (KEY_PLACEHOLDER, call.key, *(key for _, key in self._keys.values())):
                if any(_json_bytes(key) in text for text in texts):
                    raise request_guard.UnfitRequest("it holds a key")
            request_guard.check_url(request.url, call.base_url)
            request_guard.check_request(
                request.body,
                call.dialect,
                call.model,
                call.cap,
                call.bound,
                has_schema=bool(call.schema),
                must_not_store=call.must_not_store,
            )
        except request_guard.UnfitRequest as error:
            raise Failure(
                "WorkerError",
                f"The request for {call.who} was not sent: {error}.",
                "Choose another worker; this one can't be used within a ceiling.",
            ) from error

    def _target_urls(self, call: CloudCall, url: str) -> list[str]:
        """Return the addresses to try for a URL: several only for this machine's two."""
        if not addresses.is_usable(call.base_url):
            example = "" if call.base_url else secrets.ADDRESS_EXAMPLES.get(call.provider)
            raise Failure(
                "ConfigError",
                f"{call.who} has no address that can be used.",
                f'Put yours into its entry: base_url = "{example}" (`baton config edit`).'
                if example
                else "It begins with http:// or https://, has a plain name (an international one"
                " begins with xn--), and holds no password, ? or #: `baton config edit`.",
            )
        local = addresses.loopback_addresses(url)
        if self._rules.offline and not local:
            raise Failure(
                "WorkerError",
                f"Baton is offline, and {call.who} is not on this machine.",
                "Choose a local worker, or leave offline.",
            )
        return local or [url]

    def _proxy(self, call: CloudCall, target: str) -> str | None:
        """Return the proxy for a call. Raises Failure for one that would read the call's key."""
        proxy = addresses.proxy_for(
            target, self._rules.proxy, self._rules.proxies, Label(call.privacy)
        )
        if proxy and call.key and urlsplit(target).scheme == "http":
            through = addresses.route_text(target, proxy).rpartition(" through ")[2]
            raise Failure(
                "ConfigError",
                f"{call.who} has an http:// address, so the proxy {through} would read its key."
                " Nothing was sent.",
                "Use an https:// address, or go there without a proxy: `cloud.proxy`, NO_PROXY.",
            )
        return proxy

    async def _resolve_lan_name(self, call: CloudCall, target: str) -> list[str]:
        """Return where a name of the home network leads. Raises Failure if to another place."""
        try:
            async with asyncio.timeout(call.connect):
                return await addresses.resolve_lan_name(target)
        except addresses.LeavesNetwork as error:
            raise Failure(
                "WorkerError",
                f"{call.who} has a name of the home network, but its address {error} is not in"
                " the home network. Nothing was sent.",
                "Check the name, or enter the address itself: `baton config edit`.",
            ) from error
        except (OSError, UnicodeError) as error:
            unknown = httpx.ConnectError("its name is not known")
            raise call_errors.connection_failure(call, unknown) from error

    def _open_transport(self, call: CloudCall, proxy: str | None) -> httpx.AsyncHTTPTransport:
        try:
            return self._transport(proxy)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            rules, privacy = self._rules, Label(call.privacy)
            fault = addresses.proxy_fault(call.base_url, rules.proxy, rules.proxies, privacy)
            raise Failure("ConfigError", *fault) from error

    async def _send(
        self,
        transport: httpx.AsyncHTTPTransport,
        call: CloudCall,
        targets: list[str],
        request: HttpRequest,
        deadline: AnswerDeadline,
    ) -> httpx.Response:
        base = urlsplit(call.base_url)
        headers = {**_headers(call, request), "host": base.netloc}
        extensions = {"sni_hostname": base.hostname, "timeout": {"connect": call.connect}}
        for target in targets:
            try:
                posted = httpx.Request(
                    "POST", target, content=request.body, headers=headers, extensions=extensions
                )
                async with asyncio.timeout_at(deadline.until):
                    response = await transport.handle_async_request(posted)
            except httpx.ConnectError as error:
                if target is targets[-1]:
                    raise call_errors.connection_failure(call, error) from error
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                raise call_errors.connection_failure(call, error) from error
            else:
                if len(response.headers.raw) <= response_limits.MAX_HEADERS:
                    return response
                await response.aclose()
                raise call_errors.endless_failure(call)
        raise AssertionError("a call has a target")

    async def _read_texts(
        self, call: CloudCall, response: httpx.Response, deadline: AnswerDeadline
    ) -> AsyncGenerator[str]:
        """Read the answer; it ended well if HTTP and the provider's dialect both say so.

        One that passed its cap is cut there: the provider may charge for every further word.
        """
        seen, reader = 0, call.reader
        pieces = response.aiter_raw()
        deadline.renew()
        try:
            while True:
                async with asyncio.timeout_at(deadline.until):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                text = reader.feed(piece)
                seen += len(piece)
                deadline.renew()
                if text:
                    yield text
                if call.is_past_cap:
                    break
                if reader.is_too_long or response_limits.is_endless(
                    call.cap, seen=seen, events=reader.events, written=reader.written
                ):
                    raise call_errors.endless_failure(call)
        except (httpx.HTTPError, TimeoutError) as error:
            raise call_errors.connection_failure(call, error) from error
        if rest := reader.rest():
            yield rest
        if not (reader.at_end or call.is_past_cap):
            raise call_errors.unfinished_failure(call)

    async def _find_key(self, call: CloudCall) -> str:
        """Return the call's key. Raises Failure where there is none that can be used."""
        try:
            key = await self.find_key(call.provider, call.variable)
        except ConfigError as error:
            raise Failure("ConfigError", error.message, error.hint) from error
        if not key:
            raise call_errors.missing_key_failure(call)
        return key

    async def find_key(self, provider: str, variable: str) -> str:
        """Return a provider's key, or the one under a variable's name; "" if there is none.

        A keyring may take a while to answer. Raises ConfigError for what can't be used.
        """
        slot = (provider, variable)
        since, key = self._keys.get(slot, (0.0, ""))
        if key and time.monotonic() - since < KEY_SECONDS:
            return key
        found = await asyncio.to_thread(
            secrets.find_key,
            provider,
            variable=variable,
            file=self._rules.keys_file,
            environ=self._environ,
        )
        if found is None:
            return ""
        self._keys[slot] = (time.monotonic(), found.value)
        return found.value

    def _transport(self, proxy: str | None) -> httpx.AsyncHTTPTransport:
        """Return the connections through a proxy, or without one.

        A client around them would look into redirects, and send cookies back.
        """
        if proxy not in self._transports:
            if proxy is not None and not addresses.has_host(proxy):
                raise ValueError("the proxy has no place")
            self._trusted = self._trusted or trusted_certificates(self._environ)
            self._transports[proxy] = httpx.AsyncHTTPTransport(
                verify=self._trusted,
                proxy=proxy,
                trust_env=False,
                socket_options=KEEP_ALIVE,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=16),
            )
        return self._transports[proxy]


class KeyFilter:
    """Removes a key from a text that comes in pieces.

    Holds back an end of the text that may be the beginning of the key. Keys under 8 characters stay
    in the text: they are placeholders such as "none" or "ollama", which are words of answers.
    """

    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= call_errors.MIN_ECHO_CHARS else ""
        self._held = ""

    def add(self, text: str) -> str:
        """Take a piece; return what is surely no part of the key."""
        if not self._key:
            return text
        text = (self._held + text).replace(self._key, call_errors.KEY_MARK)
        sizes = reversed(range(len(self._key)))
        size = next(size for size in sizes if text.endswith(self._key[:size]))
        self._held = text[len(text) - size :]
        return text[: len(text) - size]

    def finish(self) -> str:
        """Return what was held back; it is replaced if it is more than half of the key."""
        rest, self._held = self._held, ""
        return call_errors.KEY_MARK if 2 * len(rest) > len(self._key) else rest


def _json_bytes(key: str) -> bytes:
    """Return a key as JSON writes it; no key stands in no text."""
    return json.dumps(key).encode()[1:-1] or b"\xff"


def _headers(call: CloudCall, request: HttpRequest) -> dict[str, str]:
    """Return a request's headers: ours, and of the writer's those that providers need.

    The writer's others would say which library wrote the request, or ask for what is not checked.
    """
    headers = {
        "accept": STREAM_TYPES.get(call.dialect, "text/event-stream"),
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"baton/{__version__}",
    }
    if call.via:
        headers[VIA_HEADER] = call.via
    for name, value in request.headers.items():
        if name.lower() in request_guard.ALLOWED_HEADERS and (
            call.key or KEY_PLACEHOLDER not in value
        ):
            headers[name.lower()] = value.replace(KEY_PLACEHOLDER, call.key)
    return headers
