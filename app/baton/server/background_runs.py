"""Responses in the background: played while no client waits, and asked for by their id."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from baton.core.view import fold_events
from baton.server.access import Client
from baton.server.api_errors import ApiError
from baton.server.client_request import ClientRequest, run_of
from baton.server.offered_models import OfferedModel
from baton.server.player import MAX_SHOWN_CHARS, Player, ServedRun
from baton.server.responses import response
from baton.server.served_answer import answer_head, make_answer
from baton.server.tool_calls import ToolCall, read_calls

MAX_REMEMBERED = 200
"""How many responses that are over are remembered as they were asked for."""

_STATUSES = {
    "running": "in_progress",
    "finished": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "lost": "failed",
}


@dataclass(slots=True)
class _Written:
    """What a run has written so far."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kept:
    """A response that is played, or was, and the task that does so."""

    served: ServedRun
    written: _Written
    task: asyncio.Task[None]


class BackgroundRuns:
    """The responses that are played in the background; others are found in the history."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def begin(self, served: ServedRun) -> dict[str, Any]:
        """Begin a response; return it as it stands, once it is recorded. Raises ApiError."""
        written = _Written()
        task = asyncio.create_task(self._play(served, written))
        kept = _Kept(served, written, task)
        recorded = asyncio.create_task(served.recorded.wait())
        await asyncio.wait({kept.task, recorded}, return_when=asyncio.FIRST_COMPLETED)
        recorded.cancel()
        if not served.id:
            await asyncio.wait({kept.task})  # it says why
            raise served.error or ApiError(503, "stopped", "Baton stopped before it began.")
        self._kept[served.id] = kept
        over = [id for id, one in self._kept.items() if one.task.done()]
        for id in over[: max(0, len(self._kept) - MAX_REMEMBERED)]:
            del self._kept[id]
        return self._describe(kept)

    async def wait_for(self, served: ServedRun) -> None:
        """Wait until a response is over; a large one is left to the history then."""
        await asyncio.wait({self._kept[served.id].task})
        if served.asked.size >= MAX_SHOWN_CHARS and served.error is None:
            self._kept.pop(served.id, None)

    async def describe(self, id: str, client: Client) -> dict[str, Any]:
        """Return a response of a client's as it stands. Raises ApiError (404)."""
        own = await self._player.store.clients.run(run_of(id), client.id)
        kept = self._find(id, client)
        if kept is not None and (own is not None or kept.served.error is not None):
            return self._describe(kept)
        if own is None:
            raise ApiError(404, "response_not_found", "There is no response of yours with this id.")
        return await self._past(own.record.id, client)

    async def cancel(self, id: str, client: Client) -> dict[str, Any]:
        """Stop a response of a client's that is played in the background; return it.

        Raises ApiError (404).
        """
        if (kept := self._find(id, client)) is None:
            message = "There is no response of yours in the background with this id."
            raise ApiError(404, "response_not_found", message)
        await _stop(kept.task)
        return await self.describe(id, client)

    def _find(self, id: str, client: Client) -> _Kept | None:
        kept = self._kept.get(run_of(id))
        return kept if kept is not None and kept.served.client == client else None

    async def aclose(self) -> None:
        """Stop them all."""
        for kept in list(self._kept.values()):
            await _stop(kept.task)

    async def _play(self, served: ServedRun, written: _Written) -> None:
        with suppress(ApiError):  # it stays in `served`
            async with aclosing(self._player.play(served)) as pieces:
                async for text, calls in read_calls(served.asked.tools, pieces):
                    written.text += text
                    written.calls += tuple(calls)

    def _describe(self, kept: _Kept) -> dict[str, Any]:
        served = kept.served
        if not kept.task.done():
            return response(answer_head(served), served.asked, "in_progress")
        if served.error is not None and served.view.status != "cancelled":
            return _failed(response(answer_head(served), served.asked, "failed"), served.error)
        roster = self._player.orchestra.roster
        answer = make_answer(served, roster, kept.written.text, kept.written.calls)
        return response(answer, served.asked, _STATUSES[served.view.status])

    async def _past(self, run: str, client: Client) -> dict[str, Any]:
        """Return the response of a run in the history."""
        record = await self._player.store.runs.get(run)
        asked, model = ClientRequest("baton/auto", ""), OfferedModel("baton/auto", "auto")
        view = fold_events(record.events)
        served = ServedRun(asked, client, model, began=record.created, _view=view)
        thread = await self._player.store.thread(record.conversation, record.answer)
        text = next((turn.text for turn in thread if turn.id == record.answer), "")
        answer = make_answer(served, self._player.orchestra.roster, text, ())
        status = _STATUSES.get(record.status, "failed")
        if (failure := served.view.failure) is None:
            return response(answer, asked, status)
        shown = ApiError(502, failure.error, failure.message, failure.hint)
        return _failed(response(answer, asked, "failed"), shown)


def _failed(described: dict[str, Any], error: ApiError) -> dict[str, Any]:
    return {**described, "error": {"code": "server_error", "message": error.message}}


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
