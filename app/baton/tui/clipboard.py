"""Copying: the system's own clipboard where there is one, else the terminal's (OSC 52)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from baton.platform.secrets import plain_environ

COPY_SECONDS = 1.0
"""Seconds that the system's clipboard may take; some wait for a display that is gone."""

NEEDED_VARIABLES = (
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "LC_CTYPE",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_TYPE",
)
"""What a clipboard's program needs of the environment besides what every program may know."""


class _KeylessSubprocess:
    """Starts programs for pyperclip, in place of `subprocess`: some stay, and none needs a key."""

    PIPE = subprocess.PIPE

    def __getattr__(self, name: str) -> Any:
        """Return the function of `subprocess` with that name, with an environment without keys."""
        return partial(getattr(subprocess, name), env=plain_environ(also=NEEDED_VARIABLES))


def has_system_clipboard(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether this machine's own clipboard is the one before the person."""
    if environ.get("SSH_TTY") or environ.get("SSH_CONNECTION"):
        return False
    graphical = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return bool(graphical) or sys.platform in ("darwin", "win32")


async def copy_to_system(text: str) -> bool:
    """Put the text onto the system's clipboard; return whether that worked in time."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bool] = loop.create_future()

    def tell(worked: bool) -> None:
        if not done.done():
            done.set_result(worked)

    def copy() -> None:
        import pyperclip

        pyperclip.subprocess = _KeylessSubprocess()  # type: ignore[attr-defined]
        try:
            pyperclip.copy(text)
            worked = True
        except Exception:  # whatever xclip, wl-copy or pbcopy fails with, OSC 52 comes next
            worked = False
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, worked)

    # A daemon, so that a clipboard that hangs doesn't keep Baton from ending.
    threading.Thread(target=copy, daemon=True).start()
    try:
        return await asyncio.wait_for(done, COPY_SECONDS)
    except TimeoutError:
        return False
