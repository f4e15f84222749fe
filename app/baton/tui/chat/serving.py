"""`/serve`: other programs use this Baton as long as the app is open."""

from __future__ import annotations

from contextlib import AsyncExitStack

from baton.core.errors import ConfigError
from baton.tui.chat.context import ChatContext, OpenEndpoint


class ServingController:
    """Begins to serve, shows what is served, and stops."""

    def __init__(self, context: ChatContext) -> None:
        self._context = context
        self._open: OpenEndpoint | None = None
        self._stack = AsyncExitStack()

    async def run_command(self, argument: str = "") -> None:
        """Serve, at a port if one is named, and show the requests; with "off" stop."""
        word = argument.strip().lower()
        if word == "off":
            await self._stop()
            return
        if word and not (word.isdecimal() and 0 < int(word) < 65536):
            raise ConfigError(
                f"/serve {word[:20]} is not understood.", "/serve 8765, or /serve off."
            )
        serve = self._context.services.serve
        if self._open is None and serve is not None:
            begun = serve(int(word) if word else None)
            self._open = await self._stack.enter_async_context(begun)
            self._context.set_serving(True)
            await self._context.transcript.note(f"Serving other programs at {self._open.url}.")
        if self._open is not None:
            from baton.tui.screens.traffic_screens import STOP, ServeScreen

            screen = ServeScreen(self._open)
            if await self._context.screen.app.push_screen_wait(screen) == STOP:
                await self._stop()

    async def _stop(self) -> None:
        if self._open is None:
            self._context.footer.say("other programs are not served")
            return
        await self.close()
        self._context.set_serving(False)
        await self._context.transcript.note("Other programs are not served any more.")

    async def close(self) -> None:
        """Stop serving; what is being answered may end."""
        self._open = None
        await self._stack.aclose()
