"""The front's end of the fetcher: one child for all downloads, ended when nobody needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from baton.ipc.process import Child, environment
from baton.ipc.supervisor import Supervisor, start

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")

PASSED_VARIABLES = frozenset(
    {
        "HF_ENDPOINT",
        "HF_HOME",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "HF_HUB_DOWNLOAD_TIMEOUT",
        "HF_HUB_OFFLINE",
        "HF_TOKEN",
        "HF_TOKEN_PATH",
        "HUGGING_FACE_HUB_TOKEN",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "USERPROFILE",
        "XDG_CACHE_HOME",
        *_PROXIES,
        *map(str.lower, _PROXIES),
    }
)
"""What hubs, accounts, proxies and certificates need of the environment."""

TELEMETRY_OFF = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
"""The hub's client tells nobody anything."""

LAST_GRACE_SECONDS = 1.0
"""How long the child may take to let go of everything before it is killed."""


class DownloadProcess(Supervisor):
    """The fetcher's child process. `idle` is how many seconds it may have nothing to do."""

    def __init__(self, environ: Mapping[str, str], idle: float) -> None:
        super().__init__()
        self._environ = environ
        self._idle = idle
        self._idle_timer: asyncio.TimerHandle | None = None

    def schedule_idle_end(self) -> None:
        """Have the child end unless it is asked for something in time."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(self._idle, self._end_idle)

    async def aclose(self) -> None:
        """Stop everything and end the child; the fetcher may be used again."""
        self.closings += 1  # what is under way ends now, and what begins meanwhile with the child
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._child is not None:
            for call in self._child.calls:
                call.cancel()
            await self._child.at_rest(LAST_GRACE_SECONDS)
        await super().aclose()

    def _end_idle(self) -> None:
        if self._child is not None and self._child.calls:
            self.schedule_idle_end()
        elif self._child is not None:
            self._child.kill()

    def _start(self) -> Child:
        environ = {**environment(self._environ, PASSED_VARIABLES), **TELEMETRY_OFF}
        return start("fetcher", environ, "What fetches models")
