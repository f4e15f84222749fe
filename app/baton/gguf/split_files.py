"""Names and hashes of model files, and the order of those that belong together.

llama.cpp names the parts NAME-00001-of-00003.gguf and finds the others by the first one's name. The
first part says what the model is; each says which part it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from baton.gguf.metadata import MalformedHeader

MAX_PARTS = 256
"""More parts than a model is known to have (about 100)."""

_PART = re.compile(r"-(\d{5})(-of-(\d{5})\.gguf)")
"""As llama.cpp knows them, for which the case counts."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_DEVICE_NAMES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)
_MAX_NAME_BYTES = 200

JOIN_PARTS_HINT = "Put all parts into one folder, under the names that they came with."


def is_sha256(text: object) -> bool:
    """Whether that is a sha256 in hex."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def is_plain_name(name: str) -> bool:
    """Whether a name is one file's or folder's, that any system and any terminal can take."""
    return (
        name.isprintable()
        and not set(name) & set('/\\<>:"|?*')
        and not name.startswith(".")
        and name == name.strip().rstrip(".")
        and 0 < len(name.encode()) <= _MAX_NAME_BYTES
        and not is_device_name(name)
    )


def is_device_name(name: str) -> bool:
    """Whether a name is a device's on Windows, where only the part before the first dot counts."""
    return name.partition(".")[0].strip().lower() in _DEVICE_NAMES


def part_names(name: str) -> tuple[str, ...]:
    """Return the names of all parts of a model, given one part's; only that of a whole model.

    Paths and addresses are taken too.
    """
    match = _PART.search(name)
    number, count = (int(match[1]), int(match[3])) if match is not None else (1, 1)
    if not 1 <= number <= count <= MAX_PARTS or match is None:
        return (name,)
    return tuple(_PART.sub(rf"-{n:05d}\g<2>", name) for n in range(1, count + 1))


def part_paths(path: Path) -> tuple[Path, ...]:
    """Return the paths of all parts of a model, the first part's first."""
    names = part_names(path.name)
    return tuple(map(path.with_name, names)) if len(names) > 1 else (path,)


def name_without_part(name: str) -> str:
    """Return a file's name without which part it is."""
    return re.sub(r"-\d{5}-of-\d{5}(?=\.gguf$|$)", "", name, flags=re.IGNORECASE)


def joined_hash(hashes: Sequence[str]) -> str:
    """Return one sha256 for all parts, "" if one is unknown; a whole model's is its own."""
    if len(hashes) == 1 or not all(hashes):
        return hashes[0] if len(hashes) == 1 else ""
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def check_parts(name: str, count: int, read: Callable[[str], tuple[int, int]]) -> None:
    """Check that a model's parts are there and belong together.

    `name` is the first part's, `count` what its header says. `read` returns which part of how many
    a file's header says that it is, and raises OSError and MalformedHeader. Raises MalformedHeader,
    which names the part by its number.
    """
    names = part_names(name)
    if count != len(names):
        raise MalformedHeader(
            f"its name says that it has {len(names)} parts, and its header says {count}",
            "Give its files the names that they came with: NAME-00001-of-0000N.gguf.",
        )
    for number, part in enumerate(names[1:], start=2):
        what = f"part {number} of {count}, {part},"
        try:
            found = read(part)
        except FileNotFoundError:
            raise MalformedHeader(f"{what} isn't there", JOIN_PARTS_HINT) from None
        except OSError as error:
            raise MalformedHeader(f"{what} can't be read ({error.strerror or error})") from error
        except MalformedHeader as error:
            raise MalformedHeader(f"{what} can't be used: {error}", error.hint) from error
        if found != (number, count):
            raise MalformedHeader(
                f"{what} is part {found[0]} of {found[1]} by its header", "Get that part again."
            )
