"""Who asks the endpoint, and who may: the exact address, no foreign page, and a token.

A page in the user's own browser can send requests to this machine. It can't choose the Host that
the browser writes, can't hide its origin, and doesn't know the token; each of the three would do
alone.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path

import msgspec

from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line
from baton.platform.durable_files import make_folder, replace_file
from baton.server.api_errors import ApiError
from baton.server.program_names import OTHER_PROGRAM, program_name

DEFAULT_PORT = 8765
LOOPBACK = ("127.0.0.1", "::1")

CLIENT_ID_DIGITS = 16


OPEN_PATHS = frozenset({"/", "/health"})
"""What is answered without a token: that Baton runs, and nothing else."""

WILDCARDS = ("0.0.0.0", "::")
"""What is bound for all addresses of this machine."""


class Grant(StrEnum):
    """What a token allows, the strictest first.

    To use what is free without that anything leaves this machine, to use what is free, or to spend
    within the ceilings as well.
    """

    PRIVATE = "private"
    FREE = "free"
    SPEND = "spend"


@dataclass(frozen=True, slots=True)
class Client:
    """A program that shows a token, as far as Baton can tell programs apart.

    `id` stands for the token in history and ledger, which never hold the token itself. `program` is
    the name by which it calls itself.
    """

    id: str
    grant: Grant
    program: str = field(default=OTHER_PROGRAM, compare=False)


@dataclass(frozen=True, slots=True)
class Access:
    """What a request must show: one of these `hosts`, and one of these tokens.

    `tokens` has the grant of each token, by its SHA-256. `names` are host names of the user, with
    any port, and `origins` those whose pages may ask. With `is_wildcard` each address of this
    machine does: a page that has rebound its own name to one still writes that name.
    """

    hosts: frozenset[str]
    tokens: Mapping[bytes, Grant]
    names: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    is_wildcard: bool = False

    def check_source(self, headers: Mapping[str, str], local: tuple[str, int] | None) -> None:
        """Check that a request is meant for this server, and comes from no foreign page.

        `headers` are by their lower-case names, several of a name with ", " between them; `local`
        is this side of the connection. Raises ApiError with status 421 for another Host, 403 for a
        page of another origin.
        """
        host = headers.get("host", "").lower()
        is_named = host in self.hosts or _host_name(host) in self.names
        is_own = self.is_wildcard and local is not None and _is_address(host, *local)
        if not (is_named or is_own):
            hint = "`baton serve --allow-host NAME` allows a name."
            raise ApiError(421, "host_not_allowed", "This address isn't Baton's.", hint)
        if headers.get("origin") not in self.origins and not _is_of_origin(headers, host):
            message = "Pages of other origins may not use Baton."
            hint = "`baton serve --allow-origin ORIGIN` allows one."
            raise ApiError(403, "origin_not_allowed", message, hint)

    def check_token(self, headers: Mapping[str, str], path: str) -> Client | None:
        """Return who a request's token makes it, None where it needs none.

        Raises ApiError with status 401 without a known token.
        """
        client = self._client(_tokens(headers), program_name(headers))
        if client is None and path not in OPEN_PATHS:
            raise ApiError(
                401,
                "invalid_api_key",
                "The token is missing or unknown.",
                "`baton serve --show-token` shows the tokens.",
            )
        return client

    def _client(self, tokens: Iterable[str], program: str) -> Client | None:
        """Return whose tokens these are, the strictest one of several; None if none is known.

        Each known one is compared, in constant time.
        """
        shown = {hash_token(token) for token in tokens}
        granted = [
            Client(known.hex()[:CLIENT_ID_DIGITS], grant, program)
            for known, grant in self.tokens.items()
            if sum(hmac.compare_digest(known, one) for one in shown)
        ]
        order = list(Grant)
        granted.sort(key=lambda client: order.index(client.grant))
        return granted[0] if granted else None


def allowed_hosts(port: int, names: Iterable[str] = ()) -> frozenset[str]:
    """Return the Host values of a server on loopback, and of the addresses that it was given."""
    bracketed = (f"[{name}]" if ":" in name else name for name in names)
    known: Collection[str] = ["127.0.0.1", "[::1]", "localhost", *bracketed]
    return frozenset(f"{name.lower()}:{port}" for name in known)


def allowed_name(text: str) -> str:
    """Return a host name as requests have it, of one that the user allows. Raises ConfigError."""
    name = text.strip().lower().rstrip(".")
    if not re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]", name):
        raise ConfigError(
            f"{one_line(text, 60)!r} isn't a host name.",
            "Write it without http://, port and path, for example baton.lan.",
        )
    return name


def allowed_origin(text: str) -> str:
    """Return an origin as browsers send it, of one that the user allows. Raises ConfigError."""
    origin = text.strip().rstrip("/")
    if not re.fullmatch(r"null|[a-z][a-z0-9+.-]*://[A-Za-z0-9_.:\[\]-]+", origin):
        raise ConfigError(
            f"{one_line(text, 60)!r} isn't an origin.",
            "It is one like https://chat.example, http://localhost:3000, app://obsidian.md or null;"
            " each has to be named.",
        )
    return origin


def hash_token(token: str) -> bytes:
    """Return a token's SHA-256: what is compared is then always as long."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _host_name(host: str) -> str:
    """Return a Host without its port."""
    name, _, port = host.rpartition(":")
    return name if port.isdecimal() and port.isascii() else host


def _is_address(host: str, address: str, port: int) -> bool:
    """Whether a Host is this address and port; the zone of an address is each side's own."""
    name = _host_name(host)
    try:
        shown = ip_address(name.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return False
    is_same = shown == ip_address(address.partition("%")[0])
    return is_same and host == f"{name}:{port}" and (shown.version == 6) == name.startswith("[")


def _is_of_origin(headers: Mapping[str, str], host: str) -> bool:
    """Whether a request comes from no page, or from one that this server itself gave."""
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site", "none")
    return origin in (None, f"http://{host}") and site in ("none", "same-origin")


def _tokens(headers: Mapping[str, str]) -> list[str]:
    """Return a request's tokens, as clients of OpenAI's or of Anthropic's protocol send them."""
    shown = [key.strip() for key in headers.get("x-api-key", "").split(",")]
    for credentials in headers.get("authorization", "").split(","):
        scheme, _, token = credentials.strip().partition(" ")
        shown += [token.strip()] if scheme.lower() == "bearer" else []
    return [token for token in shown if token]


_TOKEN_BYTES = 32


class ServerTokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What clients show, one for each Grant."""

    free: str
    spend: str
    private: str = ""

    def grants(self) -> dict[bytes, Grant]:
        """Return what each allows, by its hash."""
        return {hash_token(getattr(self, grant)): grant for grant in Grant}


def read_tokens(file: Path) -> ServerTokens:
    """Return the tokens in a file, made now if it isn't there. Raises ConfigError."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return _write_tokens(file, ServerTokens(*map(_new_token, (Grant.FREE, Grant.SPEND))))
    except OSError as error:
        raise _unusable(file, f"can't be read ({error.strerror})") from error
    try:
        tokens = msgspec.json.decode(data, type=ServerTokens)
    except ValueError as error:  # what msgspec raises, and bytes that aren't UTF-8
        raise _unusable(file, "holds no tokens") from error
    shown = [tokens.free, tokens.spend, *([tokens.private] if tokens.private else [])]
    if min(map(len, shown)) < _TOKEN_BYTES or len(set(shown)) < len(shown):
        raise _unusable(file, "holds no tokens")
    return tokens if tokens.private else _write_tokens(file, tokens)  # an older Baton made two


def _new_token(grant: Grant) -> str:
    return f"baton-{grant}-{secrets.token_urlsafe(_TOKEN_BYTES)}"


def _write_tokens(file: Path, tokens: ServerTokens) -> ServerTokens:
    """Write the tokens with a new private one; of two Batons that do so, the last one's count."""
    whole = msgspec.structs.replace(tokens, private=_new_token(Grant.PRIVATE))
    try:
        make_folder(file.parent)
        replace_file(file, msgspec.json.encode(whole))
    except OSError as error:
        raise _unusable(file, f"can't be written ({error.strerror})") from error
    return whole


def _unusable(file: Path, why: str) -> ConfigError:
    return ConfigError(
        f"The file with the endpoint's tokens, {file}, {why}.",
        "Remove it: new tokens are made then, and clients need those.",
    )
