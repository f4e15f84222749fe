"""Models that are borrowed from the background process, and those that are handed over to it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from baton.ipc import lending_protocol as lending, messages
from baton.ipc.lending_protocol import (
    ANSWERS,
    Adopt,
    Borrow,
    Describe,
    Description,
    FreeMemory,
    Lent,
    StartLending,
    Stop,
)
from baton.ipc.messages import FrameError, Message
from baton.ipc.process import Child, ChildProcess, ModelOrder, command, environment
from baton.platform import unix_sockets

ANSWER_SECONDS = 2.0
"""How long the background process may take to answer: 5 to 17 ms, measured on a busy machine."""

STOPPING_SECONDS = 5.0


class BorrowedProcess:
    """The connection to a child of the background process; ending it leaves the child alone."""

    went_idle = False
    """It is the lender that says so, with Ended."""

    stderr_end = ""
    """What it prints stays with the lender."""

    def __init__(self, connection: socket.socket, replies: BinaryIO, pid: int) -> None:
        self.pid = pid
        self.replies = replies
        self.commands = cast(BinaryIO, connection.makefile("wb"))
        self._connection = connection

    def kill(self) -> None:
        """End the borrowing; what was asked is cancelled in the child."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def wait(self) -> None:
        """Close the connection."""
        self.kill()
        self._connection.close()

    def ending(self) -> str:
        """Return how it ended, in a sentence, where the lender didn't say so."""
        return "The background process that held it ended."


class Borrower:
    """Borrows from the background process of one state folder, where there is one.

    `is_alone` is whether there was none when it was last looked for.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_alone = False

    def borrow(self, order: ModelOrder, replies: Any) -> Child | None:
        """Return a child that holds that model; None where it isn't lent."""
        if (connection := self._connect()) is None:
            return None
        try:
            request = borrow_request(order, replies)
            stream = cast(BinaryIO, connection.makefile("rb"))
            answer = None if request is None else _exchange(connection, stream, request)
            if isinstance(answer, Lent):
                connection.settimeout(None)
                return Child(BorrowedProcess(connection, stream, answer.pid), replies, order)
        except (OSError, FrameError):
            pass
        connection.close()
        return None

    def free_memory(self) -> bool:
        """Have the models ended that nothing uses; return whether there was one to ask."""
        return self._ask(FreeMemory()) is not None

    def description(self) -> Description | None:
        """Return what is lent now; None where no background process runs."""
        answer = self._ask(Describe())
        return answer if isinstance(answer, Description) else None

    def stop(self) -> bool:
        """End the background process and wait until it is gone; return whether there was one."""
        if (connection := self._connect()) is None:
            return False
        with connection, suppress(OSError):
            connection.settimeout(STOPPING_SECONDS)
            connection.sendall(messages.encode(Stop()))
            while connection.recv(4096):
                pass  # it closes the connection when its children are gone
        return True

    def _ask(self, request: Message) -> Any:
        if (connection := self._connect()) is None:
            return None
        with connection, suppress(OSError, FrameError):
            return _exchange(connection, cast(BinaryIO, connection.makefile("rb")), request)
        return None

    def _connect(self) -> socket.socket | None:
        """Return a connection to this user's background process, None where there is none."""
        self.is_alone = False
        if not unix_sockets.IS_SUPPORTED:
            return None
        try:
            return unix_sockets.connect(self.folder / lending.SOCKET_NAME, ANSWER_SECONDS)
        except (FileNotFoundError, ConnectionRefusedError):
            self.is_alone = True
        except OSError:
            pass
        return None


def _exchange(connection: socket.socket, stream: BinaryIO, request: Message) -> Any:
    """Send a request; return the answer. Raises OSError or FrameError."""
    connection.sendall(messages.encode(request))
    return messages.read(stream, messages.request_decoder(ANSWERS))


def borrow_request(order: ModelOrder, replies: Any) -> Borrow | None:
    """Return what asks for a child with that model; None where it can't be shared."""
    if not order.files or not all(file.path.is_absolute() for file in order.files):
        return None
    return Borrow(
        protocol=lending.PROTOCOL,
        build=lending.own_build(),
        child=order.name,
        environ=dict(order.environ),
        opening=msgspec.Raw(messages.encode(order.opening)[4:]),
        files=order.files,
        finals=lending.final_types(replies),
        priority=os.nice(0),
    )


def start_lender(folder: Path, idle_seconds: float, children: Sequence[Child]) -> bool:
    """Start the background process and hand it children; return whether that was possible.

    It inherits the children's pipes and its own stdin, on which it learns what it holds. With
    children, that pipe stays open until this process has ended: only then does it read what they
    send, so that no reply is taken by the wrong reader. Without any, it starts models as they are
    borrowed, and this returns once it can be asked.
    """
    if not unix_sockets.IS_SUPPORTED:
        return False
    adopted = [one for one in map(_adoption, children) if one is not None]
    if children and not adopted:
        return False
    # An `ask` hands children over, and what it has imported the next one will need.
    modules = [name for name in sys.modules if name != "__main__"] if children else []
    start = StartLending(
        folder=folder, build=lending.own_build(), idle_seconds=idle_seconds, modules=modules
    )
    words = b"".join(map(messages.encode, (start, *adopted)))
    reading, writing = os.pipe()
    try:
        subprocess.Popen(
            command("lender"),
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
            cwd="/",
            umask=0o077,
            start_new_session=True,
            pass_fds=[pipe for one in adopted for pipe in one.pipes],
        ).returncode = 0  # it isn't this process's to wait for
        os.set_blocking(writing, False)
        is_whole = os.write(writing, words) == len(words)
        if children:
            return is_whole
        os.close(writing)
        return is_whole and _is_up(folder)
    except OSError:
        os.close(writing)
        return False
    finally:
        os.close(reading)


def _is_up(folder: Path) -> bool:
    """Wait until the background process answers; return whether it does in time."""
    end = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < end:
        if Borrower(folder).description() is not None:
            return True
        time.sleep(0.02)
    return False


def _adoption(child: Child) -> Adopt | None:
    transport, order = child.transport, child.order
    if not isinstance(transport, ChildProcess) or order is None:
        return None
    if (request := borrow_request(order, child.replies)) is None:
        return None
    notices = {
        str(kind.__struct_config__.tag): msgspec.Raw(messages.encode(message)[4:])
        for kind, message in child.notices.items()
    }
    return Adopt(
        pid=child.pid,
        pipes=transport.pipes(),
        borrow=request,
        notices=notices,
        last_id=child.last_id,
    )
