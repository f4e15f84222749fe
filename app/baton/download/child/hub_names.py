"""What a hub may call its repositories, revisions and files. Anything else is refused or left out.

A file's name becomes one in the models folder, so no part of it may lead elsewhere, be a device's
on Windows, or be anything that a terminal would obey.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from baton.core.catalogue_types import Source
from baton.core.sanitiser import one_line
from baton.ipc.parent_channel import Failure

MAX_PARTS = 8
MAX_PART_BYTES = 200
MAX_ADDRESS_CHARS = 4096

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SPLIT_FILE = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_DEVICE_NAMES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)


def is_model_path(name: str) -> bool:
    """Tell whether a name is a GGUF file's in a repository, perhaps in folders there."""
    parts = name.split("/")
    return (
        name.lower().endswith(".gguf")
        and len(parts) <= MAX_PARTS
        and all(_is_plain(part) for part in parts)
    )


def is_commit(revision: object) -> bool:
    """Tell whether that is a revision for good."""
    return isinstance(revision, str) and _COMMIT.fullmatch(revision) is not None


def is_sha256(text: object) -> bool:
    """Tell whether that is a sha256 in hex."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def split_count(file: str) -> int:
    """Return how many files a model is split into, of which this is one; 1 if it isn't."""
    match = _SPLIT_FILE.search(file)
    return max(1, int(match[2])) if match else 1


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
    if (parts := split_count(file)) > 1:
        raise split_failure(file, parts)


def split_failure(file: str, parts: int) -> Failure:
    """A model comes in several files."""
    return Failure(
        "ModelFileError",
        f"{one_line(file)} is one of {parts} files that make up a model together,"
        " and Baton loads single ones only.",
        "Choose a smaller quantisation: it usually comes in one file.",
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
            f"{one_line(url)!r} is no address that can be used.",
            "It begins with https://, and holds no name or password.",
        )


def _is_plain(part: str) -> bool:
    """Tell whether a name is one file's or folder's, that any system and any terminal can take."""
    return (
        part.isprintable()
        and not set(part) & set('\\<>:"|?*')
        and not part.startswith(".")
        and part == part.strip().rstrip(".")
        and 0 < len(part.encode()) <= MAX_PART_BYTES
        and part.partition(".")[0].strip().lower() not in _DEVICE_NAMES
    )
