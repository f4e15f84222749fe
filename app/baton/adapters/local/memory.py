"""What loaded models share: memory, for which others have to make room, and the processor."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Protocol

from baton.adapters.local.processor import Processor
from baton.domain.errors import ModelFileError

SHARE = 0.8
"""How much of the machine's memory models may take together, unless set otherwise."""


class Tenant(Protocol):
    """A worker that may hold a model in memory."""

    @property
    def resident(self) -> int:
        """Bytes held now."""
        ...

    @property
    def busy(self) -> bool:
        """Whether it is answering, and must not be unloaded."""
        ...

    def unload(self) -> None:
        """Let the memory go."""
        ...


class Crowded(ModelFileError):
    """There is no room as long as other models are answering."""


class Memory:
    """Keeps the joint memory of loaded models under a limit in bytes (0: a share of the machine's).

    Sizes are estimates from above: the file, and the whole context it may grow to. `processor` is
    what they compute on, `rests` counts how often one came to rest.
    """

    def __init__(self, limit: int = 0) -> None:
        self.processor = Processor()
        self.rests = 0
        self._limit = limit
        self._watching: list[asyncio.Future[None]] = []
        self._tenants: list[Tenant] = []  # the least recently used first

    @property
    def limit(self) -> int:
        """How many bytes all loaded models may hold together."""
        return self._limit or int(machine_memory() * SHARE)

    def make_room(self, tenant: Tenant, needed: int) -> None:
        """Unload idle models, the least recently used first, until `needed` bytes fit.

        Raises Crowded when they don't even then, and ModelFileError when they never will.
        """
        if needed > self.limit:
            raise _too_large(needed, 0, self.limit)
        others = [other for other in self._tenants if other is not tenant]
        self._tenants = [*others, tenant]
        for other in others:
            if self._held(others) + needed <= self.limit:
                return
            if not other.busy:
                other.unload()
        held = self._held(others)
        if held + needed > self.limit:
            raise _too_large(needed, held, self.limit)

    async def change(self, since: int) -> None:
        """Wait until there may be more room than when that many models had come to rest (`rests`).

        What happened meanwhile counts: giving up an attempt takes its time.
        """
        if self.rests != since:
            return
        future = asyncio.get_running_loop().create_future()
        self._watching.append(future)
        await future

    def freed(self) -> None:
        """Tell whoever waits that a model is at rest or gone."""
        self.rests += 1
        watching, self._watching = self._watching, []
        for future in watching:
            if not future.done():
                future.set_result(None)

    @staticmethod
    def _held(tenants: list[Tenant]) -> int:
        return sum(tenant.resident for tenant in tenants)


def machine_memory(limits: Path = Path("/sys/fs/cgroup")) -> int:
    """Return this machine's memory in bytes, or its container's if that is less."""
    if hasattr(os, "sysconf"):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    else:
        import psutil

        total = psutil.virtual_memory().total
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            return min(total, int((limits / name).read_text("ascii")))
        except (OSError, ValueError):
            continue  # no such file, or "max"
    return total


def _too_large(needed: int, held: int, limit: int) -> ModelFileError:
    others = f", and models that are answering hold {_gb(held)}" if held else ""
    kind = Crowded if held else ModelFileError
    return kind(
        f"This model needs about {_gb(needed)} of memory{others}; {_gb(limit)} are allowed.",
        "Choose a smaller model, a smaller `context`, or raise `memory_gb` under [local].",
    )


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
