"""The background process: it holds loaded models and lends them to every Baton of one BATON_HOME.

The child `lender` is started detached, with the children that it takes over.
It knows no settings, keys or history, writes no file but its lock and its socket, and passes on
prompts and answers without keeping them. It ends when it was not used for a while, when memory is
short, or when it is asked to, and its children with it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from baton.ipc import lending_protocol as lending, messages
from baton.ipc.lending_protocol import (
    PROTOCOL,
    REQUESTS,
    Adopt,
    Borrow,
    Describe,
    Description,
    Done,
    FreeMemory,
    Lent,
    LentChild,
    Refused,
    StartForking,
    StartLending,
    Stop,
)
from baton.ipc.parent_channel import keep_quiet_and_private
from baton.ipc.process import command, file_versions
from baton.ipc.shared_child import (
    ChildUser,
    Malformed,
    Pipes,
    SharedChild,
    framed,
    key_of,
    read_body,
    read_fields,
    read_frame,
    read_id,
    read_type,
    slots_of,
)
from baton.platform import unix_sockets
from baton.platform.durable_files import open_private

LENDABLE_CHILDREN = ("runner", "scorer")

HELLO_SECONDS = 5.0
MAX_CONNECTIONS = 64
FIRST_MODEL_SECONDS = 30.0
"""How long it waits for its first model, where none was handed over."""

LOW_MEMORY_SHARE = 0.05
"""With less of the machine's memory free than this, models that nothing uses are ended."""


class Lender:
    """Holds children, lends them over the socket, and decides when it ends."""

    def __init__(self, start: StartLending) -> None:
        self._start = start
        self._children: list[SharedChild] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._waits_until = time.monotonic() + FIRST_MODEL_SECONDS
        self._fork_server: subprocess.Popen[bytes] | None = None

    async def run(self, adopted: Sequence[Adopt], listening: socket.socket) -> None:
        """Lend until it is time to end, then end all children."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        if adopted:
            self._waits_until = 0.0
        for one in adopted:
            child = SharedChild(one.borrow, Pipes(one.pid, *one.pipes), self._forget)
            child.last_id = one.last_id
            child.notices = {kind: framed(bytes(raw)) for kind, raw in one.notices.items()}
            self._children.append(child)
        server = await asyncio.start_unix_server(self._welcome, sock=listening, limit=2**20)
        self._start_fork_server()
        watching = asyncio.create_task(self._watch())
        await self._ended.wait()
        watching.cancel()
        server.close()
        if self._fork_server is not None:
            self._fork_server.kill()
        await _end_children(self._children)
        for task in self._connections:
            task.cancel()

    def _start_fork_server(self) -> None:
        """Start what forks a front for each `ask`; it ends with this process."""
        if not (self._start.modules and sys.platform == "linux"):
            return
        models = [file.path for child in self._children for file in child.files]
        place = self._start.folder / lending.FORKS_NAME
        order = StartForking(place, self._start.modules, models)
        with suppress(OSError):
            self._fork_server = subprocess.Popen(
                command("fork_server"),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
            assert self._fork_server.stdin is not None
            self._fork_server.stdin.write(messages.encode(order))
            self._fork_server.stdin.flush()

    def _forget(self, child: SharedChild) -> None:
        self._children.remove(child)

    async def _watch(self) -> None:
        """Look each second whether something is no longer needed, can't be afforded, or hangs."""
        place = self._start.folder / lending.SOCKET_NAME
        number = place.stat().st_ino
        while True:
            await asyncio.sleep(1.0)
            now, idle = time.monotonic(), self._start.idle_seconds
            is_low = has_little_memory()
            for child in list(self._children):
                child.count_silence()
                if not child.borrowers:
                    is_old = bool(idle) and now - child.unused_since > idle
                    if is_old or is_low or not child.is_lendable:
                        child.end()
            is_needed = self._children or now < self._waits_until
            if self._fork_server is not None and self._fork_server.poll() is not None:
                self._fork_server = None
            if not (is_needed and unix_sockets.is_there(place, number)):
                self._ended.set()

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = writer.get_extra_info("socket")
        is_welcome = len(self._connections) < MAX_CONNECTIONS
        self._connections.add(task)
        try:
            if is_welcome and unix_sockets.is_same_person(connection):
                await self._serve(reader, writer)
        except (Malformed, OSError, asyncio.IncompleteReadError, TimeoutError):
            pass
        except asyncio.CancelledError:  # we end
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection's first message; a borrower then uses it as long as it wants."""
        async with asyncio.timeout(HELLO_SECONDS):
            body = await read_body(reader)
        if body is None:
            return
        match self._read_request(body):
            case Borrow() as borrow:
                if (child := self._child_for(borrow)) is None:
                    writer.write(messages.encode(Refused()))
                else:
                    writer.write(messages.encode(Lent(pid=child.pid)))
                    await self._lend(child, reader, ChildUser(writer))
            case FreeMemory():
                await _end_children([one for one in self._children if not one.borrowers])
                writer.write(messages.encode(Done()))
            case Describe():
                writer.write(messages.encode(self._description()))
            case Stop():
                self._ended.set()
                await asyncio.sleep(60)  # the connection closes when all has ended
            case refused:
                writer.write(messages.encode(refused))
        with suppress(OSError):
            await writer.drain()

    def _read_request(self, body: bytes) -> Any:
        """Return a request; a refusal of one of another build. Raises Malformed."""
        try:
            fields = read_fields(body)
            if read_type(fields["type"]) == "borrow":
                is_known = read_id(fields["protocol"]) == PROTOCOL
                if not is_known or read_type(fields["build"]) != self._start.build:
                    return Refused(why="build")
            return messages.request_decoder(REQUESTS).decode(body)
        except (ValueError, KeyError, RecursionError) as error:
            raise Malformed from error

    def _child_for(self, borrow: Borrow) -> SharedChild | None:
        """Return the child with that model, started if there is none; None where it can't be."""
        key, slots = key_of(borrow), slots_of(borrow)
        for child in self._children:
            if child.key == key and child.slots >= slots and child.is_lendable:
                return child
        current = file_versions(*(file.path for file in borrow.files))
        is_unchanged = bool(current) and current == borrow.files
        can_start = borrow.child in LENDABLE_CHILDREN and borrow.priority == os.nice(0)
        if not (is_unchanged and can_start):
            return None
        try:
            child = SharedChild(borrow, _start_child(borrow), self._forget)
        except OSError:
            return None
        child.send_opening(borrow)
        self._children.append(child)
        self._waits_until = 0.0
        return child

    async def _lend(
        self, child: SharedChild, reader: asyncio.StreamReader, borrower: ChildUser
    ) -> None:
        child.attach(borrower)
        discards = False
        try:
            while not discards and (body := await read_body(reader)) is not None:
                discards = read_frame(body)[1] == "discard"
                if not discards:
                    child.take(borrower, body)
        finally:
            child.detach(borrower, discards)

    def _description(self) -> Description:
        children = [
            LentChild(child.kind, child.pid, len(child.borrowers)) for child in self._children
        ]
        if self._fork_server is not None:
            children.append(LentChild("fork_server", self._fork_server.pid, 0))
        idle, ends_in = self._start.idle_seconds, None
        if idle and self._children and not any(child.borrowers for child in self._children):
            last = max(child.unused_since for child in self._children)
            ends_in = max(0.0, last + idle - time.monotonic())
        return Description(
            pid=os.getpid(), build=self._start.build, children=children, ends_in=ends_in
        )


async def _end_children(children: Sequence[SharedChild]) -> None:
    """End children, which leave the lender's list then, and wait until they are gone."""
    ending = list(children)
    for child in ending:
        child.end()
    for child in ending:
        await child.gone()


def has_little_memory() -> bool:
    """Whether the machine needs what models that nothing uses would hold."""
    memory = psutil.virtual_memory()
    return bool(memory.available < memory.total * LOW_MEMORY_SHARE)


def _start_child(borrow: Borrow) -> Pipes:
    process = subprocess.Popen(
        command(borrow.child),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=borrow.environ,
        cwd="/",
        start_new_session=True,
    )
    ends = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None]
    stdin, stdout, stderr = (os.dup(pipe.fileno()) for pipe in ends)
    for pipe in ends:
        pipe.close()
    return Pipes(process.pid, stdin, stdout, stderr, process)


def _bind(folder: Path) -> tuple[int, socket.socket] | None:
    """Return the lock and the socket; None where another background process has them."""
    lock = open_private(folder / lending.LOCK_NAME, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    listening = unix_sockets.bind(folder / lending.SOCKET_NAME)
    listening.setblocking(False)
    return lock, listening


def _read_start() -> tuple[StartLending, list[Adopt]]:
    """Read what is handed over, until the process that does so has ended."""
    stdin = os.fdopen(os.dup(0), "rb")
    decoder = messages.request_decoder(StartLending | Adopt)
    start, adopted = None, []
    with stdin:
        while (message := messages.read(stdin, decoder)) is not None:
            match message:
                case StartLending():
                    start = message
                case Adopt():
                    adopted.append(message)
    if start is None:
        sys.exit(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    return start, adopted


def main() -> None:
    """Run until it isn't needed any more."""
    keep_quiet_and_private()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    start, adopted = _read_start()
    for one in adopted:
        for pipe in one.pipes:
            os.set_inheritable(pipe, False)
    if not unix_sockets.is_private(start.folder) or (bound := _bind(start.folder)) is None:
        return
    _, listening = bound
    place = start.folder / lending.SOCKET_NAME
    number = place.stat().st_ino
    try:
        asyncio.run(Lender(start).run(adopted, listening))
    finally:
        if unix_sockets.is_there(place, number):
            place.unlink(missing_ok=True)
            (start.folder / lending.FORKS_NAME).unlink(missing_ok=True)
    os._exit(0)
