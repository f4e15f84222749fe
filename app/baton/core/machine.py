"""The hardware that models run on."""

from __future__ import annotations

from baton.core.frozen_dataclass import frozen_dataclass


@frozen_dataclass
class Gpu:
    """A GPU that the engine here can use; memory in bytes. `driver` is "" where unknown.

    `integrated` is one in the processor, as the engine knows it.
    """

    name: str
    free: int
    total: int
    driver: str = ""
    integrated: bool = False

    @property
    def has_shared_memory(self) -> bool:
        """Whether its memory is a part of the machine's own, and must not be counted twice."""
        return self.integrated or "apple" in self.name.lower()


@frozen_dataclass
class Hardware:
    """This machine, or the container that Baton is in if that has less. Sizes in bytes.

    `available` is the memory that could be used now without swapping, `disk` what is free where
    models lie. `battery` is how full it is, from 0 to 1 (None: there is none), `plugged` whether it
    is being charged. `idle_gpus` names GPUs that are there, but that the engine here can't use.
    """

    memory: int
    available: int
    cores: int
    threads: int
    processor: str = ""
    gpus: tuple[Gpu, ...] = ()
    disk: int = 0
    battery: float | None = None
    plugged: bool = True
    idle_gpus: tuple[str, ...] = ()

    @property
    def free_percent(self) -> int:
        """The unused share of the memory, in percent."""
        return round(100 * self.available / self.memory)

    @property
    def is_on_battery(self) -> bool:
        """Whether it runs on its battery alone."""
        return self.battery is not None and not self.plugged
