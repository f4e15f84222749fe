"""Whether a binary starts at all, found out by starting it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from baton.core.errors import BatonError
from baton.core.sanitiser import one_line
from baton.platform.secrets import plain_environ

FIRST_START_SECONDS = 180.0
"""How many seconds the first start may take, at which a binary unpacks itself."""

_END_SECONDS = 10.0
"""How many seconds one that is asked to end may take, in which it removes what is half unpacked."""

_FOLDER_VARIABLES = ("BATON_HOME", "SUDO_UID", "XDG_CACHE_HOME")
"""By these its launcher chooses the folder that it unpacks to."""


async def probe_version(file: Path, patience: float = FIRST_START_SECONDS) -> str:
    """Start a binary with --version and return which it is. Raises BatonError if it can't say."""
    try:
        process = await asyncio.create_subprocess_exec(
            str(file),
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=plain_environ(also=_FOLDER_VARIABLES),
            start_new_session=True,
        )
    except OSError as error:
        raise _start_error(file, error.strerror or str(error)) from error
    try:
        async with asyncio.timeout(patience):
            out, err = await process.communicate()
    except TimeoutError:
        raise _start_error(file, f"it was not done after {patience:.0f} seconds") from None
    finally:
        if process.returncode is None:
            await _end_process(process)
    told = out.decode("utf-8", "replace").split()
    if process.returncode or len(told) != 2 or told[0] != "baton":
        words = (err or out).decode("utf-8", "replace").strip().splitlines()
        raise _start_error(file, words[-1] if words else f"it ended with {process.returncode}")
    return told[1]


async def _end_process(process: asyncio.subprocess.Process) -> None:
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with suppress(OSError):
            os.killpg(process.pid, kind)
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
                return


def _start_error(file: Path, why: str) -> BatonError:
    return BatonError(f"{file.name} doesn't start here: {one_line(why, 300).rstrip('.')}.")
