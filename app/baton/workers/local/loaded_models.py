"""The models that are loaded now, by any Baton of this person on this machine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


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
        # It may end meanwhile, or belong to another person.
        with suppress(psutil.Error, OSError):
            if process.username() == me and _is_runner(process.cmdline()):
                found.append(_describe_process(process))
    return sorted(found, key=lambda one: one.started)


def memory_of_process(pid: int) -> int:
    """Return the bytes of main memory that a process takes, 0 where it has ended."""
    import psutil

    try:
        return _memory(psutil.Process(pid))
    except (psutil.Error, OSError):
        return 0


def _is_runner(command: list[str]) -> bool:
    """Whether a command starts a model process, from a checkout or frozen."""
    return command[-2:] in (["baton.ipc.child_entry", "runner"], ["--child", "runner"])


def _describe_process(process: psutil.Process) -> LoadedModel:
    return LoadedModel(
        process.pid, process.ppid(), _model(process), _memory(process), process.create_time()
    )


def _memory(process: psutil.Process) -> int:
    """Return a fair share: what two processes have in common counts half for each."""
    import psutil

    with suppress(psutil.Error, OSError):
        shared = getattr(process.memory_full_info(), "pss", 0)
        if shared:
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
