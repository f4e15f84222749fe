"""One part, used in a process of its own: a crash takes nothing with it.

The process writes JSON, one object in each line: the modules before they are loaded, then what the
part says of itself, or its error.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baton.core.errors import BatonError
from baton.core.sanitiser import one_line
from baton.doctor import crash_text
from baton.ipc.process import environment
from baton_self_test.library_parts import PARTS, DoubtfulText

NAME = "self_test"
"""How entry.py knows this process: `baton --child self_test PART`."""


class PartFailed(BatonError):
    """A part of Baton doesn't load, or doesn't do what it should."""


@dataclass(frozen=True, slots=True)
class PartResult:
    """What a part says of itself; it works, but unless all is `well` not as it could."""

    text: str
    well: bool = True


async def use_part(
    name: str, environ: Mapping[str, str] = os.environ, also: Collection[str] = ()
) -> PartResult:
    """Load a part in a child of its own, let it work, and return what it says. Raises PartFailed.

    `also` names what the child may know of the environment besides the usual.
    """
    known = environment(environ, also)
    try:
        process = await asyncio.create_subprocess_exec(
            *_command(name), stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=known
        )
    except OSError as error:
        raise PartFailed(f"No process could be started: {error.strerror}.") from error
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    *_, last = [{}, *map(json.loads, out.decode().splitlines())]
    if process.returncode:
        raise PartFailed(
            _death_text(name, last, process.returncode, err.decode("utf-8", "replace"))
        )
    match last:
        case {"text": str(text), "well": bool(well)} if text:
            return PartResult(one_line(text, 300), well)
        case {"error": "PartBroken", "message": str(message)}:
            raise PartFailed(one_line(message, 400))
    reason = f"{one_line(last.get('error', ''), 60)}: {one_line(last.get('message', ''), 400)}"
    what = f"{one_line(last['loading'], 80)} can't be loaded" if last.get("loading") else "It fails"
    raise PartFailed(f"{what} ({reason.rstrip(': .')}).")


def _command(name: str) -> list[str]:
    if getattr(sys, "frozen", False):
        return [sys.executable, "--child", NAME, name]
    code = f"import sys; sys.path.append({str(Path(__file__).parents[1])!r})\n"
    code += f"from baton_self_test.part_process import main; main({name!r})"
    return [sys.executable, "-I" if sys.flags.isolated else "-P", "-c", code]


def _death_text(name: str, last: Mapping[str, Any], status: int, stderr: str) -> str:
    """Say how the child died, and with SIGILL what that means."""
    loading = one_line(last.get("loading", ""), 80)
    how = crash_text(status, "")
    text = (
        f"{how.partition('.')[0]}, while {loading or name} was {'loaded' if loading else 'used'}."
    )
    text += how.partition(".")[2]
    words = one_line(stderr.strip().splitlines()[-1], 200) if stderr.strip() else ""
    return f"{text} Its last words: {words}" if words else text


def main(name: str) -> None:
    """Use a part, and end at once: on its way out native code could crash."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(2, 1)  # what libraries print isn't ours

        def reply(**fields: object) -> None:
            print(json.dumps(fields), file=replies, flush=True)

        loading = ""
        try:
            for loading in PARTS[name].modules:
                reply(loading=loading)
                importlib.import_module(loading)
            loading = ""
            reply(loading=loading)
            text = PARTS[name].use()
            reply(text=str(text), well=not isinstance(text, DoubtfulText))
        except BaseException as error:  # a broken part may raise anything
            reply(loading=loading, error=type(error).__name__, message=str(error)[:2000])
        os._exit(0)
