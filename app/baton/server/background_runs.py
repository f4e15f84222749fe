"""Responses in the background: run while no client waits, and asked for by their id."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

from baton.core.errors import ConfigError
from baton.core.labels import Label, strictest
from baton.core.view import fold_events
from baton.server.access import Client
from baton.server.api_errors import ApiError, failure_error, stopped_error
from baton.server.client_request import ClientRequest, run_of
from baton.server.offered_models import OfferedModel
from baton.server.request_runner import RequestRunner
from baton.server.responses import failed_response, response, response_id
from baton.server.served_run import MAX_SHOWN_CHARS, ServedRun, answer_head, make_answer
from baton.server.tool_calls import FoundCalls, ToolCall, past_calls

MAX_REMEMBERED = 200
"""How many responses that are over are remembered as they were asked for."""

MAX_REFERRED = 200
"""How many items at the end of an input are looked up, where they refer to an earlier one."""

_ITEM_ID = re.compile(r"(?:msg|fc|ctc)_([0-9a-f]{12})")

_STATUSES = {
    "running": "in_progress",
    "finished": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "lost": "failed",
}


@dataclass(slots=True)
class _Written:
    """What a run has written so far, in pieces; `changed` is set with each of them."""

    pieces: list[tuple[str, list[ToolCall]]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A response that runs, or did, and the task that does so (None: another one did)."""

    served: ServedRun
    written: _Written
    task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.task is None or self.task.done()


class BackgroundRuns:
    """The responses that run in the background, and what others wrote.

    Those of long ago are found in the history.
    """

    def __init__(self, runner: RequestRunner) -> None:
        self._runner = runner
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def begin(self, served: ServedRun) -> dict[str, Any]:
        """Begin a response; return it as it stands, once it is recorded. Raises ApiError."""
        written = _Written()
        task = asyncio.create_task(self._run(served, written))
        recorded = asyncio.create_task(served.recorded.wait())
        await asyncio.wait({task, recorded}, return_when=asyncio.FIRST_COMPLETED)
        recorded.cancel()
        if not served.id:
            await asyncio.wait({task})  # it says why
            raise served.error or stopped_error()
        return self._describe(self._keep(_Kept(served, written, task)))

    def remember(self, served: ServedRun, text: str, calls: list[ToolCall]) -> None:
        """Remember what a response wrote, so that it is the same when it is asked for."""
        if served.asked.weight + len(text) < MAX_SHOWN_CHARS and not served.asked.is_background:
            self._keep(_Kept(served, _Written([(text, calls)])))

    def _keep(self, kept: _Kept) -> _Kept:
        self._kept[kept.served.id] = kept
        over = [id for id, one in self._kept.items() if one.is_over]
        for id in over[: max(0, len(self._kept) - MAX_REMEMBERED)]:
            del self._kept[id]
        return kept

    async def follow(self, served: ServedRun) -> FoundCalls:
        """Yield what a response says while it runs. Raises ApiError where it fails."""
        kept, at = self._kept[served.id], 0
        assert kept.task is not None
        while at < len(kept.written.pieces) or not kept.task.done():
            if at < len(kept.written.pieces):
                yield kept.written.pieces[at]
                at += 1
                continue
            kept.written.changed.clear()
            changed = asyncio.create_task(kept.written.changed.wait())
            await asyncio.wait({kept.task, changed}, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        if served.error is not None:
            raise served.error
        if served.view.status != "finished":
            raise stopped_error()

    async def wait_for(self, served: ServedRun) -> None:
        """Wait until a response is over; a large one is left to the history then."""
        if (kept := self._kept.get(served.id)) is not None and kept.task is not None:
            await asyncio.wait({kept.task})
        if served.is_large and served.error is None:
            self._kept.pop(served.id, None)

    async def describe(self, id: str, client: Client) -> dict[str, Any]:
        """Return a client's response as it stands.

        Raises ApiError (404) for one that isn't there, or was deleted, and BatonError.
        """
        own = await self._runner.store.clients.run(run_of(id), client.id)
        kept = self._find(id, client)
        if kept is not None and (own is not None or kept.served.is_withdrawn):
            return self._describe(kept)
        with suppress(ConfigError):  # it may be deleted meanwhile
            if own is not None:
                return await self._past(own.record.id, client)
        raise ApiError(404, "response_not_found", "There is no response of yours with this id.")

    async def resolve(
        self, body: Mapping[str, Any], client: Client
    ) -> tuple[Mapping[str, Any], Label]:
        """Return a request's body with the client's own items in place of their ids.

        And how far those items may travel.
        """
        items, labels = body.get("input"), [Label.CLOUD]
        if not isinstance(items, list) or not any(map(_reference, items)):
            return body, Label.CLOUD
        known: dict[str, Mapping[str, Any]] = {}
        for run in dict.fromkeys(_reference(item) for item in items[-MAX_REFERRED:]):
            if run:
                with suppress(ApiError):
                    output = (await self.describe(response_id(run), client))["output"]
                    known |= {item["id"]: item for item in output}
                    labels.append(await self._label(run, client))
        placed = [known.get(item["id"], item) if _reference(item) else item for item in items]
        return {**body, "input": placed}, strictest(labels)

    async def _label(self, run: str, client: Client) -> Label:
        own = await self._runner.store.clients.run(run, client.id)
        if own is None:
            return Label.LOCAL
        record = own.record
        thread = await self._runner.store.thread(record.conversation, record.answer)
        return strictest(turn.label for turn in thread)

    async def cancel(self, id: str, client: Client) -> dict[str, Any]:
        """Stop a client's response that runs in the background; return it.

        Raises ApiError: 404 for one that isn't there, 409 for one that isn't this server's to stop.
        """
        if (kept := self._find(id, client)) is None or kept.task is None:
            own = await self._runner.store.clients.run(run_of(id), client.id)
            if own is not None and own.record.status == "running":
                message = "This server doesn't answer that response in the background."
                hint = "Cancel it at the server that does."
                raise ApiError(409, "response_not_here", message, hint)
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
            if kept.task is not None:
                await _stop(kept.task)

    async def _run(self, served: ServedRun, written: _Written) -> None:
        with suppress(ApiError):  # it stays in `served`
            async with aclosing(self._runner.run(served)) as pieces:
                async for piece in pieces:
                    written.pieces.append(piece)
                    written.changed.set()

    def _describe(self, kept: _Kept) -> dict[str, Any]:
        served = kept.served
        if not kept.is_over:
            return response(answer_head(served), served.asked, "in_progress")
        if served.error is not None and served.view.status != "cancelled":
            return failed_response(answer_head(served), served.asked, served.error)
        roster, pieces = self._runner.orchestra.roster, kept.written.pieces
        text = "".join(text for text, _ in pieces)
        calls = [call for _, called in pieces for call in called]
        answer = make_answer(served, roster, text, calls)
        return response(answer, served.asked, _STATUSES[served.view.status])

    async def _past(self, run: str, client: Client) -> dict[str, Any]:
        """Return the response of a run in the history."""
        record = await self._runner.store.runs.get(run)
        asked, model = ClientRequest("baton/auto", ""), OfferedModel("baton/auto", "auto")
        view = fold_events(record.events)
        served = ServedRun(asked, client, model, began=record.created, _view=view)
        text = "".join(turn.text for turn in await self._runner.store.runs.turns([record.answer]))
        text, calls = past_calls(text, record.id)
        answer = make_answer(served, self._runner.orchestra.roster, text, calls)
        if (failure := served.view.failure) is None:
            return response(answer, asked, _STATUSES.get(record.status, "failed"))
        return failed_response(answer, asked, failure_error(failure))


def _reference(item: object) -> str:
    """Return the run that an item of the input refers to, "" where it is something else."""
    if not isinstance(item, Mapping) or item.get("type") != "item_reference":
        return ""
    match = _ITEM_ID.match(str(item.get("id")))
    return match[1] if match else ""


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
