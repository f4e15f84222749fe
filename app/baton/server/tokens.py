"""The endpoint's tokens: two of 256 bits, made when they are first needed."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from baton.core.errors import ConfigError
from baton.platform.durable_files import make_folder, replace_file
from baton.server.access import Grant, hash_token

_TOKEN_BYTES = 32


class ServerTokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What clients show: one for what is free, one that may spend within the ceilings."""

    free: str
    spend: str

    def grants(self) -> dict[bytes, Grant]:
        """Return what each allows, by its hash."""
        return {hash_token(self.free): Grant.FREE, hash_token(self.spend): Grant.SPEND}


def read_tokens(file: Path) -> ServerTokens:
    """Return the tokens in a file, made now if it isn't there. Raises ConfigError."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return _make_tokens(file)
    except OSError as error:
        raise _unusable(file, f"can't be read ({error.strerror})") from error
    try:
        tokens = msgspec.json.decode(data, type=ServerTokens)
    except ValueError as error:  # what msgspec raises, and bytes that aren't UTF-8
        raise _unusable(file, "holds no tokens") from error
    if min(len(tokens.free), len(tokens.spend)) < _TOKEN_BYTES or tokens.free == tokens.spend:
        raise _unusable(file, "holds no tokens")
    return tokens


def _make_tokens(file: Path) -> ServerTokens:
    made = (f"baton-{kind}-{secrets.token_urlsafe(_TOKEN_BYTES)}" for kind in ("free", "spend"))
    tokens = ServerTokens(*made)
    try:
        make_folder(file.parent)
        replace_file(file, msgspec.json.encode(tokens))
    except OSError as error:
        raise _unusable(file, f"can't be written ({error.strerror})") from error
    return tokens


def _unusable(file: Path, why: str) -> ConfigError:
    return ConfigError(
        f"The file with the endpoint's tokens, {file}, {why}.",
        "Remove it: new tokens are made then, and clients need those.",
    )
