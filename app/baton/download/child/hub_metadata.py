"""What a hub offers as a model: file, size, hash, licence and header; names that are refused.

Repositories are asked about through the official client, plain addresses with a HEAD. The type and
size of every value in an answer are checked, and revisions are pinned.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import httpx

from baton import __version__
from baton.core.catalogue_types import FilePart, ModelOffer, Source
from baton.core.sanitiser import one_line
from baton.download.child import hub_client
from baton.download.child.hub_client import TRANSIENT_STATUSES, HubClient, Stopped
from baton.gguf import header as gguf
from baton.gguf.header import Header
from baton.gguf.metadata import MalformedHeader
from baton.gguf.split_files import is_plain_name, is_sha256, joined_hash, part_names
from baton.ipc.child_http import retry_after
from baton.ipc.parent_channel import Failure

if TYPE_CHECKING:
    from huggingface_hub import HfApi


MAX_ANSWER_BYTES = 16 << 20
"""Bytes of an answer about a repository; the largest known have 3 MB."""

MAX_FILE_BYTES = 1 << 46
MAX_FILES = 2000

FIRST_BYTES = 4 << 20
MAX_HEADER_BYTES = 64 << 20
"""How much of a file is fetched to read its header: most end within the first megabytes."""

RETRY_PAUSES = (0.3, 1.0)
"""Seconds to wait before each retry of a question."""

MAX_RETRY_SECONDS = 5.0
"""A server that asks for a longer wait isn't retried."""

_LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .+_-]{0,79}")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")

T = TypeVar("T")


class HubMetadata:
    """Asks one hub, and addresses. Raises Failure, and Stopped once `stopped` says so."""

    def __init__(self, web: HubClient, stopped: Callable[[], bool]) -> None:
        self._web = web
        self._stopped = stopped

    def look_up(self, source: Source) -> ModelOffer:
        """Return what is known of one file now, pinned."""
        check_source(source)
        if source.url:
            return self._retry(source.url, lambda: self._look_up_address(source))
        files = list(self._repo_offers(source.repo, source.revision))
        offers = {offer.source.file: offer for offer in _join_parts(files)}
        if (first := part_names(source.file)[0]) in offers:
            return offers[first]
        there = list(offers)[:8]
        raise Failure(
            "ConfigError",
            f"{source.repo} has no file {source.file}.",
            f"It has: {one_line(', '.join(there), 300)}." if there else "It has no GGUF files.",
        )

    def list_files(self, repo: str, revision: str = "") -> Sequence[ModelOffer]:
        """Return the models of a repository: GGUF files, or several that make up one."""
        check_repo(repo, revision)
        return _join_parts(list(self._repo_offers(repo, revision)))[:MAX_FILES]

    def read_header(self, offer: ModelOffer) -> Header:
        """Return a file's header, fetching as little of the file as will do."""
        check_source(offer.source)
        file = offer.source.file or file_name(offer.source.url)
        if offer.parts:
            offer = replace(offer, size=offer.parts[0].size)
        most = min(offer.size or MAX_HEADER_BYTES, MAX_HEADER_BYTES)
        data, wanted = bytearray(), min(FIRST_BYTES, most)
        while True:
            self._retry(str(offer.source), partial(self._fetch_beginning, offer, data, wanted))
            try:
                header = gguf.parse_header(bytes(data), offer.size or None)
                if header.parts != max(1, len(offer.parts)):
                    raise MalformedHeader(f"it is one of {header.parts} parts by its header")
                return header
            except gguf.HeaderIncomplete as cut:
                if wanted >= most:
                    raise _unusable_failure(file, "its header doesn't end") from cut
                wanted = min(most, max(cut.needed, 2 * wanted))
            except MalformedHeader as error:
                raise _unusable_failure(file, str(error), error.hint) from error

    # Repositories

    def _repo_offers(self, repo: str, revision: str) -> Iterator[ModelOffer]:
        info = self._retry(repo, lambda: self._model_info(repo, revision))
        commit = info.sha
        if not is_commit(commit) or (is_commit(revision) and commit != revision):
            raise self._invalid_answer(repo, f"its revision is {commit!r}")
        licence, gated = _licence(info), bool(info.gated)
        for sibling in info.siblings or ():
            name = sibling.rfilename
            if not isinstance(name, str) or not is_model_path(name):
                continue  # a picture, a text, or a trick
            size, sha256 = sibling.size, ""
            if sibling.lfs is not None:
                size, sha256 = sibling.lfs.size, sibling.lfs.sha256
                if not is_sha256(sha256):
                    raise self._invalid_answer(repo, f"the sha256 of {name} is {sha256!r}")
            if not _is_size(size):
                raise self._invalid_answer(repo, f"the size of {name} is {size!r}")
            yield ModelOffer(Source(repo, name, commit), size, sha256, licence, gated)

    def _model_info(self, repo: str, revision: str) -> Any:
        """Return what the official client makes of the hub's answer."""
        api = _hub_api(self._web)
        try:
            return api.model_info(
                repo, revision=revision or None, files_metadata=True, timeout=self._web.read_seconds
            )
        except (Failure, httpx.HTTPError, httpx.InvalidURL):
            raise
        except Exception as error:  # an answer of another shape fails in many ways
            raise self._invalid_answer(
                repo, f"it isn't a hub's answer ({type(error).__name__})"
            ) from error

    # Addresses

    def _look_up_address(self, source: Source) -> ModelOffer:
        """Return what an address says of itself, and of the other parts' addresses."""
        urls = part_names(source.url)
        if len(urls) == 1:
            return self._look_up_file(source)
        found = [self._look_up_file(part_source(source, n)) for n in range(len(urls))]
        return _join_parts(found)[0]

    def _look_up_file(self, source: Source) -> ModelOffer:
        with self._web.open(source.url, method="HEAD") as response:
            if response.status_code < 400:
                return self._address_offer(source, response)
        if response.status_code not in (400, 403, 405, 501):
            raise _status_error(response)
        # Signed addresses are often good for GET alone.
        with self._web.open(source.url, first=0, last=0) as response:
            if response.status_code not in (200, 206):
                raise _status_error(response)
            return self._address_offer(source, response)

    def _address_offer(self, source: Source, response: httpx.Response) -> ModelOffer:
        file = source.file or file_name(source.url)
        if response.headers.get("Content-Type", "").lower().startswith("text/html"):
            raise Failure(
                "ConfigError",
                f"{one_line(source.url)} leads to a web page, not to a file.",
                "Use the address of the download itself.",
            )
        size = _size_of(response)
        if size is None:
            raise Failure(
                "ModelFileError",
                f"{response.url.host} doesn't say how large {file} is, so it can't be verified.",
                "Download it with a browser, then `baton models import FILE`.",
            )
        return ModelOffer(Source(file=file, url=source.url), size, _hash_of(response))

    # Headers

    def _fetch_beginning(self, offer: ModelOffer, data: bytearray, wanted: int) -> None:
        """Fetch a file's first bytes, as far as they are wanted and not here yet."""
        url, have = self._web.address(offer.source), len(data)
        with self._web.open(url, first=have, last=wanted - 1) as response:
            if response.status_code == 416:
                raise _changed_failure(offer)
            if response.status_code not in (200, 206):
                raise _status_error(response)
            if response.status_code == 200:
                data.clear()  # it sends everything, from the start
            else:
                self._check_range(offer, response, have)
            for piece in response.iter_raw():
                data += piece[: wanted - len(data)]
                if self._stopped():
                    raise Stopped
                if len(data) >= wanted:
                    return
        if offer.size:
            raise httpx.RemoteProtocolError("it ended too soon", request=response.request)

    def _check_range(self, offer: ModelOffer, response: httpx.Response, have: int) -> None:
        match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != have:
            host, what = response.url.host, str(offer.source)
            raise hub_client.invalid_answer(host, what, "it sent another part than was asked for")
        if match[3] != "*" and offer.size and int(match[3]) != offer.size:
            raise _changed_failure(offer)

    # Patience

    def _retry(self, what: str, ask: Callable[[], T]) -> T:
        """Ask, and retry after a pause where that may help."""
        for pause in (*RETRY_PAUSES, None):
            try:
                return ask()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                response: httpx.Response | None = getattr(error, "response", None)
                wait = _retry_seconds(error, response, pause)
                if wait is None:
                    if response is not None:
                        raise hub_client.response_failure(response, what) from error
                    raise hub_client.connection_failure(error, what) from error
                self._sleep(wait)
        raise AssertionError("the last time has no pause")

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            if self._stopped():
                raise Stopped
            time.sleep(min(rest, 0.1))

    def _invalid_answer(self, what: str, why: str) -> Failure:
        return hub_client.invalid_answer(self._web.host, what, why)


def _retry_seconds(
    error: Exception, response: httpx.Response | None, pause: float | None
) -> float | None:
    """Return how long to wait before asking again, None not to."""
    if pause is None:
        return None
    if response is None:
        return pause if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError) else None
    stale = response.status_code == 403 and bool(response.history)  # an address that expired
    if response.status_code not in TRANSIENT_STATUSES and not stale:
        return None
    after = retry_after(response.headers)
    if after is None:
        return None if response.status_code == 429 else pause
    return after if after <= MAX_RETRY_SECONDS else None


def _hub_api(web: HubClient) -> HfApi:
    """Return the official client, set to use our connections, without telemetry."""
    os.environ.update(HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_UPDATE_CHECK="1")
    from huggingface_hub import HfApi, set_client_factory

    set_client_factory(lambda: web.client(MAX_ANSWER_BYTES))
    return HfApi(
        endpoint=web.endpoint, token=False, library_name="baton", library_version=__version__
    )


def _licence(info: Any) -> str:
    """Return a repository's licence as its card or its tags name it, "" if they don't."""
    card = info.card_data
    found = getattr(card, "license", None)
    if found == "other":
        found = getattr(card, "license_name", None) or found
    tags = [tag for tag in info.tags or () if isinstance(tag, str)]
    tagged = [tag.removeprefix("license:") for tag in tags if tag.startswith("license:")]
    for licence in (found, *tagged):
        if isinstance(licence, str) and _LICENCE.fullmatch(licence):
            return licence
    return ""


def _size_of(response: httpx.Response) -> int | None:
    """Return how large a file is, from any header that says so."""
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    lengths = [match[3]] if match is not None else []
    if response.status_code == 200:
        lengths.append(response.headers.get("Content-Length", ""))
    lengths += [one.headers.get("X-Linked-Size", "") for one in response.history]
    for length in lengths:
        if _LENGTH.fullmatch(length) and _is_size(int(length)):
            return int(length)
    return None


def _hash_of(response: httpx.Response) -> str:
    """Return a file's sha256 where a server sends it, else ""."""
    for one in (*response.history, response):
        for name in ("X-Linked-Etag", "ETag"):
            value: str = one.headers.get(name, "").strip().strip('"').lower()
            if is_sha256(value):
                return value
    return ""


def _is_size(size: object) -> bool:
    return type(size) is int and 0 < size <= MAX_FILE_BYTES


def _status_error(response: httpx.Response) -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError("", request=response.request, response=response)


def _changed_failure(offer: ModelOffer) -> Failure:
    return Failure(
        "ModelFileError",
        f"{one_line(str(offer.source))} has another size than the hub announced.",
        "Ask for it again: it was replaced meanwhile.",
    )


def part_source(source: Source, place: int) -> Source:
    """Return the source of a model's part, counted from 0, given any part's."""
    file = part_names(source.file)[place]
    return replace(source, file=file, url=part_names(source.url)[place] if source.url else "")


def part_offers(offer: ModelOffer) -> list[ModelOffer]:
    """Return the offers of a model's files: of its parts, or itself."""
    return [
        replace(offer, source=part_source(offer.source, place), size=part.size, sha256=part.sha256)
        for place, part in enumerate(offer.parts)
    ] or [offer]


def _join_parts(files: Sequence[ModelOffer]) -> list[ModelOffer]:
    """Return the models that some files are, in the order of their first files.

    What isn't there of one has 0 bytes among its parts.
    """
    named = {(offer.source.file, offer.source.url): offer for offer in files}
    models: dict[str, ModelOffer] = {}
    for offer in files:
        names = part_names(offer.source.file)
        if len(names) == 1:
            models[names[0]] = offer
        elif names[0] not in models:
            sources = [part_source(offer.source, n) for n in range(len(names))]
            found = [named.get((source.file, source.url)) for source in sources]
            parts = tuple(FilePart(o.size, o.sha256) if o else FilePart(0) for o in found)
            models[names[0]] = replace(
                offer,
                source=sources[0],
                size=sum(part.size for part in parts),
                sha256=joined_hash([part.sha256 for part in parts]),
                parts=parts,
            )
    return list(models.values())


def _unusable_failure(file: str, why: str, hint: str = "") -> Failure:
    return Failure(
        "ModelFileError",
        f"{one_line(file)} isn't a model that can be used: {one_line(why)}.",
        hint or "Choose another file.",
    )


MAX_PARTS = 8
MAX_ADDRESS_CHARS = 4096

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_model_path(name: str) -> bool:
    """Whether a name is a GGUF file's in a repository, perhaps in folders there."""
    parts = name.split("/")
    return (
        name.lower().endswith(".gguf")
        and len(parts) <= MAX_PARTS
        and all(map(is_plain_name, parts))
    )


def is_commit(revision: object) -> bool:
    """Whether that is a revision for good."""
    return isinstance(revision, str) and _COMMIT.fullmatch(revision) is not None


def check_repo(repo: str, revision: str) -> None:
    """Refuse what can't be a repository's name or a revision. Raises Failure."""
    names = repo.split("/")
    fits = 1 <= len(names) <= 2 and all(_NAME.fullmatch(name) for name in names)
    if not fits or ".." in repo or "--" in repo or repo.endswith((".", "-")):
        raise Failure(
            "ConfigError",
            f"{one_line(repo)!r} can't be a repository's name.",
            "It is written as USER/REPO.",
        )
    if revision and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise Failure(
            "ConfigError",
            f"{one_line(revision)!r} can't be a revision.",
            "It is a branch such as main, or 40 hex digits.",
        )


def check_file(file: str) -> None:
    """Refuse what can't be a model's file. Raises Failure."""
    if not is_model_path(file):
        raise Failure(
            "ConfigError",
            f"{one_line(file)!r} can't be a model's file here.",
            "It needs a plain name that ends with .gguf.",
        )


def check_source(source: Source) -> None:
    """Refuse a source that nothing can be fetched from. Raises Failure."""
    if source.url:
        _check_address(source.url)
    else:
        check_repo(source.repo, source.revision)
    check_file(source.file or file_name(source.url))


def file_name(url: str) -> str:
    """Return the name of the file that an address leads to."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= MAX_ADDRESS_CHARS
    if not plain or not parts.hostname or "@" in parts.netloc:
        raise Failure(
            "ConfigError",
            f"{one_line(url)!r} isn't an address that can be used.",
            "It begins with https://, and holds no name or password.",
        )
