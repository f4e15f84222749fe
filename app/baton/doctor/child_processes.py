"""The parent's end of the doctor's child processes: using a part, watching a program offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from baton.core.errors import BatonError
from baton.core.sanitiser import one_line
from baton.doctor.child import PARTS as _PARTS
from baton.doctor.messages import REPLIES, PartLoading, PartUsed, UsePart
from baton.ipc.messages import Failed, Message
from baton.ipc.process import Child, ChildDied, ChildProcess, command as child_command, environment
from baton.platform.build_info import binary_path

_MARGIN_SECONDS = 30.0
"""How much longer than its program the watching process may take."""


@dataclass(frozen=True, slots=True)
class WatchResult:
    """What became of a watched program: see `doctor.child.network_watch`.

    `means` are those by which it had no network, none where this machine has none: then it wasn't
    run. `attempts` counts the sockets that were asked for, by family. `status` is None where the
    program took too long.
    """

    means: tuple[str, ...]
    attempts: Mapping[str, int]
    status: int | None
    out: str
    err: str


def baton_command() -> list[str]:
    """Return what starts this very Baton again."""
    file = binary_path()
    isolation = "-I" if sys.flags.isolated else "-P"
    return [str(file)] if file is not None else [sys.executable, isolation, "-m", "baton"]


def watch_program(
    command: Sequence[str], seconds: float = 300.0, environ: Mapping[str, str] = os.environ
) -> WatchResult:
    """Run a program that can open no socket. Raises OSError where no process can be started."""
    try:
        done = subprocess.run(
            child_command("network_watch"),
            input=json.dumps({"command": list(command), "seconds": seconds}),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds + _MARGIN_SECONDS,
            env=dict(environ),
        )
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return WatchResult((), {}, None, "", "The process that watches failed.")
    return WatchResult(
        tuple(found["means"]), found["attempts"], found["status"], found["out"], found["err"]
    )


PARTS = tuple(_PARTS)
"""What can be tried, in the order of the report."""

_CPU_FEATURES = {
    "flags": ("sse4_2", "avx", "f16c", "fma", "avx2", "avx512f"),
    "Features": ("asimd", "asimdhp", "sve"),
}
"""What processors have or lack that compiled code may want, by Linux' names, for PCs and ARM."""


class PartFailed(BatonError):
    """A part of Baton doesn't load, or doesn't do what it should."""


@dataclass(frozen=True, slots=True)
class PartResult:
    """What a part says of itself; it works, but unless all is `well` not as it could."""

    text: str
    well: bool = True


async def use_part_in_child(
    name: str, environ: Mapping[str, str] = os.environ, also: Collection[str] = ()
) -> PartResult:
    """Load a part in a child of its own, let it work, and return what it says. Raises PartFailed.

    `also` names what the child may know of the environment besides the usual.
    """
    try:
        child = Child(ChildProcess("trial", environment(environ, also)), REPLIES)
    except OSError as error:
        raise PartFailed(f"No process could be started: {error.strerror}.") from error
    loading = ""
    try:
        child.send(UsePart(name))
        while isinstance(reply := await child.receive(), PartLoading):
            loading = one_line(reply.module, 80)
    except ChildDied as death:
        raise PartFailed(_death_text(name, loading, death, child.stderr_end)) from death
    finally:
        await child.aclose()
    return _read_result(reply, loading)


def _read_result(reply: Message, loading: str) -> PartResult:
    match reply:
        case PartUsed(text=text, well=well) if text:
            return PartResult(one_line(text, 300), well)
        case Failed(error="PartBroken", message=message):
            raise PartFailed(one_line(message, 400))
        case Failed(error=error, message=message):
            reason = f"{one_line(error, 60)}: {one_line(message, 400)}".rstrip(": .")
        case _:
            reason = ""
    what = f"{loading} can't be loaded" if loading else "It fails"
    raise PartFailed(f"{what} ({reason}).")


def _death_text(name: str, loading: str, death: ChildDied, words: str) -> str:
    """Say how the child died, and with SIGILL what that means."""
    what = f"while {loading} was loaded" if loading else f"while {name} was used"
    text = f"{str(death).removesuffix('.')}, {what}."
    if "SIGILL" in text:
        text += f" It was built for another processor than this one, {processor_text()}."
    last = one_line(words.strip().splitlines()[-1], 200) if words.strip() else ""
    return f"{text} Its last words: {last}" if last and last not in text else text


def processor_text() -> str:
    """Say what this processor has and lacks that compiled code may want."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition(":")
            if wanted := _CPU_FEATURES.get(name.strip()):
                known = set(value.split())
                has = " ".join(flag for flag in wanted if flag in known) or "nothing of note"
                lacks = " ".join(flag for flag in wanted if flag not in known) or "nothing of note"
                return f"which has {has} and lacks {lacks}"
    return "of which nothing more is known"
