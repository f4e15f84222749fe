"""The endpoint's tokens: three of 256 bits, made when they are first needed."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from baton.core.errors import ConfigError
from baton.platform.durable_files import make_folder, replace_file
from baton.server.access import Grant, hash_token

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
