"""What the background process and those that borrow models from it say to each other, and where.

The socket is in the state folder of one BATON_HOME, so homes never mix. Both sides check that the
other is of the same person, and of the same build.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec

from baton import __version__
from baton.ipc.messages import FinalReply, Message
from baton.ipc.process import FileVersion

PROTOCOL = 1
"""The version of the messages below. Stop and Describe must keep their form for good."""

SOCKET_NAME = "lender.sock"
LOCK_NAME = "lender.lock"
FORKS_NAME = "front.sock"
"""The socket of the fork server, which forks a front for each `ask`."""
UNSHARED_VARIABLES = frozenset({"LANG", "LC_ALL", "PATH", "TEMP", "TMP", "TMPDIR"})
"""Variables that differ between terminals and make no difference to a model that is loaded."""


# To the background process


class Borrow(Message, tag="borrow"):
    """Lend a child that holds this model; the connection then speaks that child's messages.

    `finals` are the types of its final replies, `priority` is how nice the borrower is: a model
    that is less important than it would slow it down.
    """

    protocol: int
    build: str
    child: str
    environ: dict[str, str]
    opening: msgspec.Raw
    files: tuple[FileVersion, ...]
    finals: list[str]
    priority: int


class FreeMemory(Message, tag="free_memory"):
    """End the models that nothing uses now."""


class Describe(Message, tag="describe"):
    """Say what is lent."""


class Stop(Message, tag="stop"):
    """End, with all children."""


class StartLending(Message, tag="start"):
    """The first message on the background process's stdin.

    `modules` are what its fork server imports; without any it starts none.
    """

    folder: Path
    build: str
    idle_seconds: float
    modules: list[str]


class Adopt(Message, tag="adopt"):
    """A child that is handed over: `borrow` is what it was started with, `pipes` are inherited.

    `notices` are what it has said of no call, by type; `last_id` is that of its last call.
    """

    pid: int
    pipes: tuple[int, int, int]
    borrow: Borrow
    notices: dict[str, msgspec.Raw]
    last_id: int


class StartForking(Message, tag="start"):
    """The only message to the fork server: where it listens, what it imports and reads before."""

    place: Path
    modules: list[str]
    models: list[Path]


# From the background process


class Lent(Message, tag="lent"):
    """The child that is lent."""

    pid: int


class Refused(Message, tag="refused"):
    """Nothing is lent, and why."""

    why: str = ""


class LentChild(msgspec.Struct):
    """A child of the background process, and how many use it now."""

    kind: str
    pid: int
    borrowers: int


class Description(Message, tag="description"):
    """What the background process holds; `ends_in` is None while it is used."""

    pid: int
    build: str
    children: list[LentChild]
    ends_in: float | None = None


class Done(Message, tag="done"):
    """What was asked for is done."""


REQUESTS = Borrow | FreeMemory | Describe | Stop
ANSWERS = Lent | Refused | Description | Done


def final_types(replies: Any) -> list[str]:
    """Return the types of the final replies in a union."""
    kinds = [kind for kind in get_args(replies) if issubclass(kind, FinalReply)]
    return ["failed", "stopped", *sorted(str(kind.__struct_config__.tag) for kind in kinds)]


def shared_environment(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what must be the same for a child to be shared."""
    kept = ((name, value) for name, value in environ.items() if name not in UNSHARED_VARIABLES)
    return tuple(sorted(kept))


def own_build() -> str:
    """Return a mark of this build; a checkout has another one after a change."""
    package = Path(__file__).parents[1]
    marks = [__version__, sys.executable, str(package)]
    for part in ("", "ipc", "workers/local", "workers/local/child", "routing", "routing/child"):
        with suppress(OSError), os.scandir(package / part) as entries:
            stats = [(entry.name, entry.stat()) for entry in entries if entry.is_file()]
            marks += [f"{name} {one.st_size} {one.st_mtime_ns}" for name, one in sorted(stats)]
    if getattr(sys, "frozen", False):
        status = Path(sys.executable).stat()
        marks.append(f"{status.st_ino} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(marks).encode("utf-8", "surrogateescape")).hexdigest()[:32]
