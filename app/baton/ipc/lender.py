"""The background process: it holds loaded models and lends them to every Baton of one BATON_HOME.

`python -m baton.ipc.child_entry lender` is started detached, with the children that it takes over.
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
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
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
    StartLending,
    Stop,
)
from baton.ipc.messages import MAX_FRAME_BYTES, Beat, Cancel, Ended
from baton.ipc.parent_channel import keep_quiet_and_private
from baton.ipc.process import LOADED, SILENT_SECONDS, STARTING_SECONDS, command, file_stamps
from baton.platform.durable_files import open_private

LENDABLE_CHILDREN = ("runner", "scorer")

GRACE_SECONDS = 1.5
"""How long a child may take to stop an answer that nobody waits for, before it is ended."""

HELLO_SECONDS = 5.0
MAX_CONNECTIONS = 64
MAX_UNSENT_BYTES = 2 * MAX_FRAME_BYTES
"""Who lets so much lie unread is no longer served."""

LOW_MEMORY_SHARE = 0.05
"""With less of the machine's memory free than this, models that nothing uses are ended."""

Fields = dict[str, msgspec.Raw]
Key = tuple[object, ...]

_HEAD = struct.Struct(">I")
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_id = msgspec.json.Decoder(int).decode
_read_type = msgspec.json.Decoder(str).decode
_BEAT = messages.encode(Beat())


class Malformed(Exception):
    """The other side sent what makes no sense."""


@dataclass(eq=False)
class Borrower:
    """A Baton that uses a child. `calls` are its open calls: its id of each, and the child's."""

    writer: asyncio.StreamWriter
    calls: dict[int, int] = field(default_factory=dict)

    def send(self, frame: bytes) -> None:
        """Pass a frame on, unless it reads nothing any more."""
        if self.writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.writer.transport.abort()
        else:
            self.writer.write(frame)


@dataclass(frozen=True, slots=True)
class Pipes:
    """A child's process and pipes. `started` is None for one that was handed over."""

    pid: int
    stdin: int
    stdout: int
    stderr: int
    started: subprocess.Popen[bytes] | None = None


class SharedChild:
    """A child that holds a model, and those who use it.

    Their calls get ids of its own, so that several can share it; what it says of no call is for all
    of them, and for those who come later.
    """

    def __init__(self, borrow: Borrow, pipes: Pipes, on_end: Callable[[SharedChild], None]) -> None:
        self.kind = borrow.child
        self.key = key_of(borrow)
        self.files = borrow.files
        self.pid = pipes.pid
        self.borrowers: set[Borrower] = set()
        self.notices: dict[str, bytes] = {}
        self.last_id = 0
        self.unused_since = time.monotonic()
        self.is_ending = False
        self._finals = frozenset(borrow.finals)
        self._owners: dict[int, tuple[Borrower, int] | None] = {}
        self._pipes = pipes
        self._on_end = on_end
        self._fault = ""
        self._signs, self._seen_signs, self._silent = 0, 0, 0
        self._commands: asyncio.StreamWriter | None = None
        self._early: list[bytes] = []
        self._last_words = b""
        self._tasks = [asyncio.create_task(self._run())]

    @property
    def is_lendable(self) -> bool:
        """Whether it can be lent: it lives, could load its model, and that has not changed."""
        is_current = file_stamps(*(file.path for file in self.files)) == self.files
        return not self.is_ending and "failed" not in self.notices and is_current

    def attach(self, borrower: Borrower) -> None:
        """Let one more use it, and repeat to it what was said before."""
        self.borrowers.add(borrower)
        for frame in (*self.notices.values(), _BEAT):
            borrower.send(frame)

    def detach(self, borrower: Borrower, discards: bool = False) -> None:
        """Cancel what one asked, and forget it."""
        self.borrowers.discard(borrower)
        for id in borrower.calls.values():
            self._owners[id] = None
            self._write(messages.encode(Cancel(id=id)))
        if borrower.calls:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end_if_stuck)
        if not self.borrowers:
            self.unused_since = time.monotonic()
            if discards:
                self.end()

    def take(self, borrower: Borrower, body: bytes) -> None:
        """Pass a message of a borrower on to the child. Raises Malformed."""
        fields, kind, id = read_frame(body)
        if id <= 0:
            raise Malformed("a message of no call would be for all")
        own = borrower.calls.get(id)
        if own is None:
            if kind == "cancel":
                return  # it has ended meanwhile
            self.last_id = own = self.last_id + 1
            borrower.calls[id] = own
            self._owners[own] = (borrower, id)
        self._write(frame_of(fields, own))

    def send_opening(self, borrow: Borrow) -> None:
        """Have a child that was just started load its model."""
        self._write(_framed(bytes(borrow.opening)))

    def count_silence(self) -> None:
        """End it when it shows no sign of life; called each second that the machine is awake."""
        self._silent = self._silent + 1 if self._signs == self._seen_signs else 0
        self._seen_signs = self._signs
        if self._silent >= (SILENT_SECONDS if self._signs else STARTING_SECONDS):
            self.end("It stopped answering.")

    def end(self, fault: str = "") -> None:
        """End the child at once."""
        if self.is_ending:
            return
        self.is_ending = True
        self._fault = fault
        if self._pipes.started is not None:
            self._pipes.started.kill()
        else:  # its stdout is still open, so the number is still its own
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until it has ended."""
        await asyncio.wait(self._tasks)

    def _write(self, frame: bytes) -> None:
        if self._commands is None:
            self._early.append(frame)
        elif self._commands.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.end("It takes no more requests.")
        else:
            self._commands.write(frame)

    async def _run(self) -> None:
        loop, pipes = asyncio.get_running_loop(), self._pipes
        self._commands = await _pipe_writer(loop, pipes.stdin)
        for frame in self._early:
            self._commands.write(frame)
        prints = asyncio.create_task(self._read_prints(await _pipe_reader(loop, pipes.stderr)))
        replies = await _pipe_reader(loop, pipes.stdout)
        try:
            while (body := await read_body(replies)) is not None:
                self._pass_on(body)
        except (Malformed, asyncio.IncompleteReadError, ConnectionError):
            if not self.is_ending:
                self.end("It sent an invalid reply.")
        had_calls = bool(self._owners)
        self.is_ending, was_ending = True, self.is_ending
        self._commands.close()
        ending = await self._ending(had_calls)
        why = self._fault or ("" if was_ending else ending)
        await asyncio.wait({prints}, timeout=1)
        prints.cancel()
        for borrower in self.borrowers:
            borrower.send(messages.encode(Ended(why=why)))
            borrower.writer.close()
        self._on_end(self)

    async def _ending(self, had_calls: bool) -> str:
        """Return why it ended of itself, "" if it had nothing to do."""
        if self._pipes.started is None:
            return "It ended unexpectedly." if had_calls or LOADED not in self.notices else ""
        status = await asyncio.to_thread(self._pipes.started.wait)
        if status == 0:
            return ""
        if status < 0:
            return f"It crashed ({_signal_name(-status)})."
        words = self._last_words.decode("utf-8", "replace").strip().splitlines()
        return f"It ended (exit code {status}){f': {words[-1]}' if words else ''}."

    def _pass_on(self, body: bytes) -> None:
        """Pass a message of the child on to the one whose call it is of, else to all."""
        self._signs += 1
        fields, kind, id = read_frame(body)
        if kind == "beat" or id not in self._owners:
            if id > 0 or (kind == "failed" and LOADED in self.notices):
                return  # of a call that is over, or of one that made no sense
            frame = _framed(body)
            if kind != "beat":
                self.notices[kind] = frame
            for borrower in list(self.borrowers):
                borrower.send(frame)
            return
        owner = self._owners[id]
        if kind in self._finals:
            del self._owners[id]
            if owner is not None:
                owner[0].calls.pop(owner[1], None)
        if owner is not None:
            owner[0].send(frame_of(fields, owner[1]))

    def _end_if_stuck(self) -> None:
        """End a child that goes on with what nobody waits for, where it does nothing else."""
        if self._owners and all(owner is None for owner in self._owners.values()):
            self.end()

    async def _read_prints(self, prints: asyncio.StreamReader) -> None:
        while data := await prints.read(4096):
            self._last_words = (self._last_words + data)[-4096:]


class Lender:
    """Holds children, lends them over the socket, and decides when it ends."""

    def __init__(self, start: StartLending) -> None:
        self._start = start
        self._children: list[SharedChild] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._unused_since = time.monotonic()

    async def run(self, adopted: Iterable[Adopt], listening: socket.socket) -> None:
        """Lend until it is time to end, then end all children."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        for one in adopted:
            child = SharedChild(one.borrow, Pipes(one.pid, *one.pipes), self._forget)
            child.last_id = one.last_id
            child.notices = {kind: _framed(bytes(raw)) for kind, raw in one.notices.items()}
            self._children.append(child)
        server = await asyncio.start_unix_server(self._welcome, sock=listening, limit=2**20)
        watching = asyncio.create_task(self._watch())
        await self._ended.wait()
        watching.cancel()
        server.close()
        children = list(self._children)
        for child in children:
            child.end()
        for child in children:
            await child.gone()
        for task in self._connections:
            task.cancel()

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
            if any(child.borrowers for child in self._children):
                self._unused_since = now
            if not self._children or not _is_there(place, number):
                self._ended.set()

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = writer.get_extra_info("socket")
        is_welcome = len(self._connections) < MAX_CONNECTIONS
        self._connections.add(task)
        try:
            if is_welcome and lending.is_same_person(connection):
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
                    await self._lend(child, reader, Borrower(writer))
            case FreeMemory():
                await self._free_memory()
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
            fields = _read_fields(body)
            if _read_type(fields["type"]) == "borrow":
                is_known = _read_id(fields["protocol"]) == PROTOCOL
                if not is_known or _read_type(fields["build"]) != self._start.build:
                    return Refused(why="build")
            return messages.request_decoder(REQUESTS).decode(body)
        except (ValueError, KeyError, RecursionError) as error:
            raise Malformed from error

    def _child_for(self, borrow: Borrow) -> SharedChild | None:
        """Return the child with that model, started if there is none; None where it can't be."""
        key = key_of(borrow)
        for child in self._children:
            if child.key == key and child.is_lendable:
                return child
        current = file_stamps(*(file.path for file in borrow.files))
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
        return child

    async def _lend(
        self, child: SharedChild, reader: asyncio.StreamReader, borrower: Borrower
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

    async def _free_memory(self) -> None:
        unused = [child for child in self._children if not child.borrowers]
        for child in unused:
            child.end()
        for child in unused:
            await child.gone()

    def _description(self) -> Description:
        children = [
            LentChild(child.kind, child.pid, len(child.borrowers)) for child in self._children
        ]
        idle, ends_in = self._start.idle_seconds, None
        if idle and self._children and not any(child.borrowers for child in self._children):
            last = max(child.unused_since for child in self._children)
            ends_in = max(0.0, last + idle - time.monotonic())
        return Description(
            pid=os.getpid(), build=self._start.build, children=children, ends_in=ends_in
        )


def key_of(borrow: Borrow) -> Key:
    """Return what two children have in common that can stand for each other."""
    environ = lending.shared_environment(borrow.environ)
    return borrow.child, bytes(borrow.opening), borrow.files, environ, borrow.priority


def read_frame(body: bytes) -> tuple[Fields, str, int]:
    """Return a message's fields, its type and its call. Raises Malformed."""
    try:
        fields = _read_fields(body)
        return fields, _read_type(fields["type"]), _read_id(fields["id"]) if "id" in fields else 0
    except (ValueError, KeyError, RecursionError) as error:
        raise Malformed from error


def frame_of(fields: Fields, id: int) -> bytes:
    """Return a message's frame, under another id."""
    return _framed(msgspec.json.encode({**fields, "id": id}))


async def read_body(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next frame's content, None at a clean end.

    Raises Malformed for one that is too large, IncompleteReadError for one that was cut.
    """
    try:
        head = await reader.readexactly(_HEAD.size)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    (size,) = _HEAD.unpack(head)
    if size > MAX_FRAME_BYTES:
        raise Malformed("a frame is too large")
    return await reader.readexactly(size)


def has_little_memory() -> bool:
    """Whether the machine needs what models that nothing uses would hold."""
    memory = psutil.virtual_memory()
    return bool(memory.available < memory.total * LOW_MEMORY_SHARE)


def _framed(body: bytes) -> bytes:
    return _HEAD.pack(len(body)) + body


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


async def _pipe_writer(loop: asyncio.AbstractEventLoop, descriptor: int) -> asyncio.StreamWriter:
    pipe = os.fdopen(descriptor, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _pipe_reader(loop: asyncio.AbstractEventLoop, descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=2**20)
    pipe = os.fdopen(descriptor, "rb", 0)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


def _is_there(place: Path, number: int) -> bool:
    try:
        return place.stat().st_ino == number
    except OSError:
        return False


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _bind(folder: Path) -> tuple[int, socket.socket] | None:
    """Return the lock and the socket; None where another background process has them."""
    lock = open_private(folder / lending.LOCK_NAME, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    (folder / lending.SOCKET_NAME).unlink(missing_ok=True)  # of one that was killed
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with lending.socket_address(folder) as address:
        listening.bind(address)
    (folder / lending.SOCKET_NAME).chmod(0o600)
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
    if not lending.is_private(start.folder) or (bound := _bind(start.folder)) is None:
        return
    _, listening = bound
    place = start.folder / lending.SOCKET_NAME
    number = place.stat().st_ino
    try:
        asyncio.run(_lend(start, adopted, listening))
    finally:
        if _is_there(place, number):
            place.unlink(missing_ok=True)
    os._exit(0)


async def _lend(start: StartLending, adopted: list[Adopt], listening: socket.socket) -> None:
    await Lender(start).run(adopted, listening)
