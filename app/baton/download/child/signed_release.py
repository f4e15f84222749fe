"""Releases of the packaged binary: checks their signatures, and fetches their files.

A release is in a folder or behind an address, encrypted or not: only what the key in this build
has signed is trusted, and the hashes in it.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import httpx

from baton.core.catalogue_types import ModelOffer, Source
from baton.core.sanitiser import one_line
from baton.download.child import hub_client, transfer
from baton.download.child.http_download import RetryPolicy
from baton.download.messages import FetchReleaseFile
from baton.download.releases import MANIFEST, SIGNATURE, is_address
from baton.ipc.parent_channel import Failure
from baton.platform.proxies import is_usable

MAX_MANIFEST_BYTES = 1 << 20
"""How many bytes a manifest may have; a signature needs 128 and a line break."""

_SIGNATURE = re.compile(rb"[0-9a-f]{128}\s{0,2}")
_ACCOUNT_VARIABLES = frozenset(
    {"HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"}
)


def fetch_manifest(source: str, key: str) -> str:
    """Return a release's manifest, which was signed by that key. Raises Failure."""
    parts = ((MANIFEST, MAX_MANIFEST_BYTES), (SIGNATURE, 256))
    if is_address(source):
        with closing(_release_client(source)) as web:
            read = [_fetch_small(web, _address(source, name), most) for name, most in parts]
    else:
        read = [_read_small(Path(source) / name, most) for name, most in parts]
    content, signature = read
    check_signature(content, signature, key, source)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _distrust_failure(source, "its list isn't text") from error


def fetch_release_file(
    file: FetchReleaseFile, progress: transfer.ReportProgress, stopped: transfer.Stop
) -> str:
    """Fetch a file of a release, of that size and contents; return its sha256.

    It resumes an earlier attempt. Raises Failure and Stopped.
    """
    if not is_address(file.source):
        source = Path(file.source) / file.name
        _check_size(source, file.size)
        return transfer.copy(source, file.target, file.sha256, progress, stopped)
    there = Source(file=file.name, url=_address(file.source, file.name))
    offer = ModelOffer(there, file.size, file.sha256)
    with closing(_release_client(file.source)) as web:
        return transfer.fetch(
            offer, file.target, progress, stopped, web=web, pace=RetryPolicy(first_pause=0.5)
        )


def check_signature(content: bytes, signature: bytes, key: str, source: str) -> None:
    """Refuse what wasn't signed by that key. Raises Failure."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if _SIGNATURE.fullmatch(signature) is None:
        raise _distrust_failure(source, "its signature isn't one")
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature.decode("ascii").strip()), content)
    except InvalidSignature as error:
        raise _distrust_failure(source, "its signature is wrong") from error
    except ValueError as error:
        raise Failure(
            "ConfigError",
            "The key that this build checks updates with can't be used.",
            "Install Baton again.",
        ) from error


def _fetch_small(web: hub_client.HubClient, url: str, most: int) -> bytes:
    """Return a file of a release, which must be there and small. Raises Failure."""
    try:
        with web.client(most) as client, client.stream("GET", url) as response:
            if response.status_code != 200:
                raise hub_client.response_failure(response, url)
            return b"".join(response.iter_raw())
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise hub_client.connection_failure(error, url) from error


def _release_client(source: str) -> hub_client.HubClient:
    """Return a client for an address that the user named, as for a mirror; http is their choice.

    No account's token goes there.
    """
    if not is_usable(source) or not source.isascii() or not source.isprintable():
        raise Failure(
            "ConfigError",
            f"{one_line(re.sub('//[^/]*@', '//…@', source))!r} isn't the address of a release.",
            "It begins with https:// (or http://), and holds no password, ? or #.",
        )
    kept = {name: value for name, value in os.environ.items() if name not in _ACCOUNT_VARIABLES}
    return hub_client.HubClient(
        {**kept, "HF_ENDPOINT": source, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
    )


def _address(source: str, name: str) -> str:
    return f"{source.rstrip('/')}/{quote(name)}"


def _read_small(path: Path, most: int) -> bytes:
    try:
        if not path.is_file():
            raise FileNotFoundError(2, "it isn't there")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise Failure(
            "ConfigError",
            f"{path} can't be read: {error.strerror or error}.",
            f"Name a folder that holds a release: it has {MANIFEST} and {SIGNATURE}.",
        ) from error
    if len(content) > most:
        raise _distrust_failure(str(path.parent), f"its {path.name} is far too long")
    return content


def _check_size(source: Path, size: int) -> None:
    try:
        found = source.stat().st_size if source.is_file() else None
    except OSError:
        found = None
    if found != size:
        what = "isn't there" if found is None else f"has {found:,} bytes where {size:,} are right"
        raise Failure("ModelFileError", f"{source} {what}.", "Copy the release there again.")


def _distrust_failure(source: str, why: str) -> Failure:
    return Failure(
        "ConfigError",
        f"The release in {one_line(source)} is not signed by the publisher of this Baton: {why}.",
        "None of it was used. Take it from another source, and report it to its publisher.",
    )
