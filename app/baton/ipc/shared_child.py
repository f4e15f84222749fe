"""A child of the background process, and those who use it at the same time."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from baton.core.frozen_dataclass import frozen_dataclass
from baton.ipc import lending_protocol as lending, messages
from baton.ipc.lending_protocol import Borrow
from baton.ipc.messages import MAX_FRAME_BYTES, Beat, Cancel, Ended
from baton.ipc.process import (
    LOADED,
    SILENT_SECONDS,
    STARTING_SECONDS,
    ending_text,
    file_versions,
)

GRACE_SECONDS = 1.5
"""How long a child may take to stop a cancelled answer, before it is ended."""

MAX_UNSENT_BYTES = 2 * MAX_FRAME_BYTES
"""Who leaves so much unread is no longer served."""

Fields = dict[str, msgspec.Raw]
Key = tuple[object, ...]

_HEAD = struct.Struct(">I")
read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
read_id = msgspec.json.Decoder(int).decode
read_type = msgspec.json.Decoder(str).decode
_BEAT = messages.encode(Beat())
_OF_SLOTS = ("slots", "expected")


class Malformed(Exception):
    """The other side sent what makes no sense."""


@dataclass(eq=False)
class ChildUser:
    """A Baton that uses a child. `calls` are its open calls: its id of each, and the child's."""

    writer: asyncio.StreamWriter
    calls: dict[int, int] = field(default_factory=dict)

    def send(self, frame: bytes) -> None:
        """Pass a frame on, unless it reads nothing any more."""
        if self.writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.writer.transport.abort()
        else:
            self.writer.write(frame)


@frozen_dataclass
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
        self.slots = slots_of(borrow)
        self.files = borrow.files
        self.pid = pipes.pid
        self.borrowers: set[ChildUser] = set()
        self.notices: dict[str, bytes] = {}
        self.last_id = 0
        self.unused_since = time.monotonic()
        self.is_ending = False
        self._finals = frozenset(borrow.finals)
        self._owners: dict[int, tuple[ChildUser, int] | None] = {}
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
        is_current = file_versions(*(file.path for file in self.files)) == self.files
        return not self.is_ending and "failed" not in self.notices and is_current

    def attach(self, borrower: ChildUser) -> None:
        """Let one more use it, and repeat to it what was said before."""
        self.borrowers.add(borrower)
        for frame in (*self.notices.values(), _BEAT):
            borrower.send(frame)

    def detach(self, borrower: ChildUser, discards: bool = False) -> None:
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

    def take(self, borrower: ChildUser, body: bytes) -> None:
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
        self._write(framed(bytes(borrow.opening)))

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
        return ending_text(status, self._last_words.decode("utf-8", "replace"))

    def _pass_on(self, body: bytes) -> None:
        """Pass a message of the child on to the one whose call it is of, else to all."""
        self._signs += 1
        fields, kind, id = read_frame(body)
        if kind == "beat" or id not in self._owners:
            if id > 0 or (kind == "failed" and LOADED in self.notices):
                return  # of a call that is over, or of one that made no sense
            frame = framed(body)
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
        """End a child that is busy with cancelled calls only."""
        if self._owners and all(owner is None for owner in self._owners.values()):
            self.end()

    async def _read_prints(self, prints: asyncio.StreamReader) -> None:
        while data := await prints.read(4096):
            self._last_words = (self._last_words + data)[-4096:]


def key_of(borrow: Borrow) -> Key:
    """Return what two children have in common that can stand for each other.

    For how many calls at once one was started, and what memory that takes, may differ.
    """
    opening = read_fields(borrow.opening)
    common = {name: bytes(value) for name, value in opening.items() if name not in _OF_SLOTS}
    environ = lending.shared_environment(borrow.environ)
    return borrow.child, tuple(common.items()), borrow.files, environ, borrow.priority


def slots_of(borrow: Borrow) -> int:
    """Return for how many calls at once a child is wanted."""
    return read_id(read_fields(borrow.opening).get("slots", b"1"))


def read_frame(body: bytes) -> tuple[Fields, str, int]:
    """Return a message's fields, its type and its call. Raises Malformed."""
    try:
        fields = read_fields(body)
        return fields, read_type(fields["type"]), read_id(fields["id"]) if "id" in fields else 0
    except (ValueError, KeyError, RecursionError) as error:
        raise Malformed from error


def frame_of(fields: Fields, id: int) -> bytes:
    """Return a message's frame, under another id."""
    return framed(msgspec.json.encode({**fields, "id": id}))


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


def framed(body: bytes) -> bytes:
    return _HEAD.pack(len(body)) + body


async def _pipe_writer(loop: asyncio.AbstractEventLoop, descriptor: int) -> asyncio.StreamWriter:
    pipe = os.fdopen(descriptor, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _pipe_reader(loop: asyncio.AbstractEventLoop, descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=2**20)
    pipe = os.fdopen(descriptor, "rb", 0)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader
