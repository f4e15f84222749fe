"""What loaded models share: memory, for which idle ones make room, and the processor.

And which models are loaded now, by any Baton of this user on this machine.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from baton.core.errors import ModelFileError
from baton.core.machine import show_size
from baton.gguf.memory_fit import (
    MEMORY_SHARE,
    SPARE_BYTES,
    ModelLoad,
    room_beside,
    smaller_contexts,
)
from baton.platform.machine_limits import file_reader, memory_allowance, physical_cores
from baton.workers.local.native_probe import probe_gpus

if TYPE_CHECKING:
    import asyncio

    import psutil

ReadMemory = Callable[[], "MachineMemory"]


class MachineMemory(NamedTuple):
    """The bytes that a machine has, or a container on it, and those that could be used now."""

    total: int
    available: int


class MemoryUser(Protocol):
    """A worker that may hold a model in memory."""

    @property
    def resident(self) -> int:
        """Bytes held now."""

    @property
    def busy(self) -> bool:
        """Whether it is answering, and must not be unloaded."""

    @property
    def pid(self) -> int | None:
        """The process that holds it, None if there is none."""

    @property
    def force(self) -> bool:
        """Whether it is to be loaded even if there is no room."""

    def unload(self) -> None:
        """Let the memory go."""


class NotEnoughMemory(ModelFileError):
    """There isn't enough memory for a model."""


class MemoryOccupied(NotEnoughMemory):
    """There is no room as long as other models are answering."""


class Memory:
    """Keeps loaded models within a limit in bytes (0: a share of what the machine has), and within
    what is free on the machine right now.

    Sizes are estimates from above: the file, and the whole context it may grow to. `cpu` is what
    they compute on, `releases` counts how often one became idle or ended. `gpu` is how many bytes
    models may have on GPUs beside the limit.
    """

    def __init__(self, limit: int = 0, look: ReadMemory | None = None) -> None:
        self.cpu = CpuLock()
        self.releases = 0
        self.gpu = 0
        self._asking: asyncio.Task[None] | None = None
        self._given = limit
        self._look = look or machine_memory
        self._watching: list[asyncio.Future[None]] = []
        self._users: list[MemoryUser] = []  # the least recently used first

    @property
    def limit(self) -> int:
        """How many bytes all loaded models may hold together."""
        return (self._given or int(self._look().total * MEMORY_SHARE)) + self.gpu

    def make_room(self, user: MemoryUser, needed: int, load: ModelLoad | None = None) -> None:
        """Unload idle models, the least recently used first, until `needed` bytes fit.

        `load` is what they are for, from which the hint follows. Raises MemoryOccupied when they
        don't even then, and NotEnoughMemory when they never will, unless the user is forced: then
        idle models go, and it gets what there is.
        """
        others = [other for other in self._users if other is not user]
        limit, free = self.limit, self._free(user)
        if not user.force:
            _check_room(needed, limit, free, others, load)
        self._users = [*others, user]
        for other in others:
            if sum(user.resident for user in others) + needed <= limit and needed <= free:
                return
            if not other.busy:
                free += _reclaimable_bytes(other)
                other.unload()

    def _free(self, user: MemoryUser) -> int:
        """Return the bytes that a user could have now, if nothing else is unloaded for it.

        What a model reads in place, mapped from its file, counts as available to the machine; so
        does the context that it hasn't grown to yet. Both stay promised to it. What the user
        itself has taken already needn't be free any more.
        """
        others = [other for other in self._users if other is not user]
        promised = sum(max(other.resident - _private_bytes(other), 0) for other in others)
        return self._look().available - SPARE_BYTES - promised + _private_bytes(user) + self.gpu

    async def find_gpus(self) -> bool:
        """Find out what GPUs have free, once; return whether there is more room by that."""
        import asyncio

        if self._asking is not None and self._asking.done():
            return False
        self._asking = self._asking or asyncio.create_task(self._ask_for_gpus())
        await asyncio.shield(self._asking)  # others may be waiting for it as well
        return self.gpu > 0

    async def _ask_for_gpus(self) -> None:
        self.gpu = room_beside(await probe_gpus())

    async def wait_for_release(self, since: int) -> None:
        """Wait until there may be more room than when there had been so many `releases`.

        What happened meanwhile counts: giving up an attempt takes its time.
        """
        import asyncio

        if self.releases != since:
            return
        future = asyncio.get_running_loop().create_future()
        self._watching.append(future)
        await future

    def notify_release(self) -> None:
        """Let those who wait know that a model is idle or gone."""
        self.releases += 1
        watching, self._watching = self._watching, []
        for future in watching:
            if not future.done():
                future.set_result(None)


class CpuLock:
    """Lets models compute at once only while each of their threads has a core of its own.

    Threads of one model wait for each other at every layer, spinning. On two cores, two models
    with two threads each wrote 15 to 18 tokens a second each; one of them alone wrote 106. With one
    thread each they wrote 26 to 66 at once, and alone no more. So the first computes with all
    threads that it is set to; others wait in order, and those set to fewer share the cores.
    What one model computes for several requests it computes at once, with the same threads; but
    requests that come after another model's wait behind it. `cores` 0 means as many as this process
    may use.
    """

    def __init__(self, cores: int = 0) -> None:
        self._given = cores
        self._holds: dict[object, CpuHold] = {}
        self._waiting: deque[CpuWait] = deque()

    @asynccontextmanager
    async def hold(self, owner: object, threads: int) -> AsyncGenerator[None]:
        """Wait for so many free cores (0: all of them), and hold them, or share the owner's."""
        import asyncio

        wait = CpuWait(owner, threads, asyncio.get_running_loop().create_future())
        self._waiting.append(wait)
        self._admit()
        try:
            await wait.turn
            yield
        finally:
            if wait.turn.done() and not wait.turn.cancelled():
                self._release(owner)
            else:
                self._waiting.remove(wait)
            self._admit()

    @cached_property
    def _cores(self) -> int:
        return self._given or physical_cores()

    def _admit(self) -> None:
        while self._waiting and self._has_cores_for(self._waiting[0]):
            wait = self._waiting[0]
            if wait.turn.done():
                return  # it was cancelled, and leaves the queue when it next runs
            self._waiting.popleft()
            held = self._holds.get(wait.owner, CpuHold(wait.threads, 0))
            self._holds[wait.owner] = held._replace(requests=held.requests + 1)
            wait.turn.set_result(None)

    def _has_cores_for(self, wait: CpuWait) -> bool:
        if not self._holds or wait.owner in self._holds:
            return True
        busy = sum(self._cores_for(hold.threads) for hold in self._holds.values())
        return busy + self._cores_for(wait.threads) <= self._cores

    def _cores_for(self, threads: int) -> int:
        return min(threads or self._cores, self._cores)

    def _release(self, owner: object) -> None:
        held = self._holds.pop(owner)
        if held.requests > 1:
            self._holds[owner] = held._replace(requests=held.requests - 1)


class CpuHold(NamedTuple):
    """The threads that an owner computes with (0: all cores), and for how many requests."""

    threads: int
    requests: int


class CpuWait(NamedTuple):
    """Who waits to compute with so many threads (0: all cores), and what ends the waiting."""

    owner: object
    threads: int
    turn: asyncio.Future[None]


def machine_memory(root: Path = Path("/")) -> MachineMemory:
    """Return this machine's memory, or its container's if that is less."""
    total, available = _meminfo(root)
    allowed = memory_allowance(file_reader(root))
    if allowed is None:
        return MachineMemory(total, available)
    return MachineMemory(min(total, allowed.limit), min(available, allowed.room))


def _meminfo(root: Path) -> tuple[int, int]:
    """Read Linux' own file; on other systems, and where it is odd, psutil is worth its import."""
    try:
        lines = (root / "proc/meminfo").read_text("ascii").splitlines()
        kilobytes = {
            name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)
        }
        return kilobytes["MemTotal"] * 1024, kilobytes["MemAvailable"] * 1024
    except (OSError, ValueError, LookupError):
        import psutil

        found = psutil.virtual_memory()
        return found.total, found.available


def _private_bytes(user: MemoryUser) -> int:
    """Return the bytes that a model's process shares with no other."""
    if user.pid is None:
        return 0
    if sys.platform != "linux":
        return memory_of_process(user.pid)
    try:
        pages = Path(f"/proc/{user.pid}/statm").read_text("ascii").split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, LookupError):
        return 0  # it has just ended


def _reclaimable_bytes(user: MemoryUser) -> int:
    """Return the bytes that could be had if a model were unloaded."""
    return max(user.resident, _private_bytes(user))


def _check_room(
    needed: int, limit: int, free: int, others: Sequence[MemoryUser], load: ModelLoad | None
) -> None:
    """Make sure that there will be room once idle models are gone.

    Raises MemoryOccupied and NotEnoughMemory.
    """
    free += sum(_reclaimable_bytes(other) for other in others if not other.busy)
    busy = [other for other in others if other.busy]
    held = sum(other.resident for other in busy)
    if needed > limit:
        raise _over_limit(needed, 0, limit, load)
    if needed > free + sum(map(_reclaimable_bytes, busy)):
        raise _memory_in_use(needed, 0, free, load)
    if held + needed > limit:
        raise _over_limit(needed, held, limit, load)
    if needed > free:
        raise _memory_in_use(needed, held, free, load)


def _over_limit(needed: int, held: int, limit: int, load: ModelLoad | None) -> NotEnoughMemory:
    others = f", and models that are answering hold {show_size(held)}" if held else ""
    kind = MemoryOccupied if held else NotEnoughMemory
    return kind(
        f"This model needs about {show_size(needed)} of memory{others};"
        f" {show_size(limit)} are allowed.",
        f"{_remedy(load, max(limit - held, 0))}, or raise `memory_gb` under [local].",
    )


def _memory_in_use(needed: int, held: int, free: int, load: ModelLoad | None) -> NotEnoughMemory:
    others = " beside models that are answering" if held else ""
    kind = MemoryOccupied if held else NotEnoughMemory
    free = max(free, 0)
    return kind(
        f"This model needs about {show_size(needed)} of memory, and {show_size(free)} are"
        f" free now{others}.",
        f"{_remedy(load, free)}, or close other programs.",
    )


def _remedy(load: ModelLoad | None, free: int) -> str:
    """Return the largest context that fits, or that another model would have to be chosen."""
    for context in smaller_contexts(load.context) if load is not None else ():
        if load is not None and load.with_context(context).total <= free:
            return f"Set its `context` to {context}, with which it fits"
    return "Choose a smaller model"


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in a child process.

    `path` is None where the system doesn't know it (all of it on a GPU, or no longer a file).
    `memory` is in bytes of main memory, with its share of what others use as well; `started` in
    seconds since the epoch; `front` is the Baton that it belongs to.
    """

    pid: int
    front: int
    path: Path | None
    memory: int
    started: float


def list_loaded_models() -> list[LoadedModel]:
    """Return what is loaded now, the oldest first."""
    import psutil

    me = psutil.Process().username()
    found = []
    for process in psutil.process_iter():
        # It may end meanwhile, or belong to another user.
        with suppress(psutil.Error, OSError):
            if process.cmdline()[-2:] == ["--child", "runner"] and process.username() == me:
                path, memory = _model(process), _memory(process)
                started = process.create_time()
                found.append(LoadedModel(process.pid, process.ppid(), path, memory, started))
    return sorted(found, key=lambda one: one.started)


def memory_of_process(pid: int) -> int:
    """Return the bytes of main memory that a process takes, 0 where it has ended."""
    import psutil

    try:
        return _memory(psutil.Process(pid))
    except (psutil.Error, OSError):
        return 0


def _memory(process: psutil.Process) -> int:
    """Return a fair share: what two processes have in common counts half for each."""
    import psutil

    with suppress(psutil.Error, OSError):
        if shared := getattr(process.memory_full_info(), "pss", 0):
            return int(shared)
    return int(process.memory_info().rss)


def _model(process: psutil.Process) -> Path | None:
    """Return the largest GGUF file that a process has mapped into its memory, or open."""
    import psutil

    mapped: dict[str, int] = {}
    with suppress(psutil.Error, OSError, AttributeError):  # not on every system
        for part in process.memory_maps(grouped=True):
            mapped[part.path] = part.size if hasattr(part, "size") else part.rss
    if not mapped:
        with suppress(psutil.Error, OSError):
            mapped = {file.path: 0 for file in process.open_files()}
    for path in sorted(mapped, key=lambda path: -mapped[path]):
        if Path(path).is_absolute() and _is_gguf(Path(path)):
            return Path(path)
    return None


def _is_gguf(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return False
