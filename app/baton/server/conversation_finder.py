"""Which conversation a program's request continues: one of the same token, if Baton has it.

A program sends the whole of its conversation with each request, as it likes to write it. Each
prompt in the history has a mark of all messages up to it; the answer after it is compared by its
content, calls of tools by what they call.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from dataclasses import replace
from typing import NamedTuple

from baton.core.history_types import OwnRun
from baton.core.labels import Label, strictest
from baton.core.messages import Message, Role
from baton.core.ports import ConversationPosition
from baton.history import Store
from baton.server.access import Client
from baton.server.api_errors import ApiError
from baton.server.client_request import ClientRequest, run_of
from baton.server.served_run import ServedRun
from baton.server.tool_calls import ToolCallReader, call_text, find_blocks
from baton.server.tool_offer import CLOSE, OPEN, ToolChoice

AGAIN_SECONDS = 600.0
"""How long the same request counts as the same again, not as another conversation."""


class ConversationFinder:
    """Finds the conversations of programs in a history."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, served: ServedRun, label: Label) -> tuple[ConversationPosition, Label]:
        """Return where a request is kept, and how far what it continues may travel.

        That is its token's own conversation, if Baton has it, else a new one; where its program
        sent just the same a short while ago, it has another answer to the same prompt. Raises
        ApiError.
        """
        asked, client = served.asked, served.client
        if asked.continues:
            named = await self.earlier_run(asked.continues, client)
            return await self._continued(served, named, asked.earlier)
        marks = await asyncio.to_thread(_said_marks, asked)
        place = ConversationPosition(
            earlier=asked.earlier, program=client.program, said=marks.whole
        )
        if not asked.conditions.is_kept:
            return place, Label.CLOUD
        for same in await self._store.clients.answers(marks.whole, client.id):
            own = await self._store.clients.run(same.run, client.id)
            if own is None or not own.is_sole:
                continue
            if await self._is_same(own, asked, client.program, label):
                return replace(place, earlier=(), again=own.record.prompt), Label.CLOUD
        if not asked.earlier:
            return place, Label.CLOUD
        last = await asyncio.to_thread(_without_form, asked.earlier[-1].text)
        for known in await self._store.clients.answers(marks.before, client.id):
            if last in await asyncio.to_thread(_answers_as_sent, known.text, asked):
                own = await self._store.clients.run(known.run, client.id)
                if own is not None:
                    place, kept_label = await self._continued(served, own, ())
                    return replace(place, said=marks.whole), kept_label
        return place, Label.CLOUD

    async def _is_same(self, own: OwnRun, asked: ClientRequest, program: str, label: Label) -> bool:
        """Whether a request was made a short while ago just so: by its program, under its label."""
        if time.time() - own.record.created > AGAIN_SECONDS:
            return False
        known = await self._store.conversation(own.record.conversation)
        ours = (program, asked.instructions or "", label)
        return (known.program, known.system or "", known.label) == ours

    async def _continued(
        self, served: ServedRun, own: OwnRun, new: tuple[Message, ...]
    ) -> tuple[ConversationPosition, Label]:
        """Return the place after a run's answer: in its conversation, or in a copy of it."""
        asked, record, program = served.asked, own.record, served.client.program
        known_as = await self._store.conversation(record.conversation)
        has_system = asked.continues or asked.instructions is not None or known_as.system is None
        if own.is_sole and asked.conditions.is_kept and has_system:
            place = ConversationPosition(record.conversation, record.answer, earlier=new)
            return place, Label.CLOUD
        thread = await self._store.thread(record.conversation, record.answer)
        before = tuple(Message(turn.role, turn.text) for turn in thread)
        label = strictest(turn.label for turn in thread)  # what the user wrote there is theirs
        return ConversationPosition(earlier=(*before, *new), program=program), label

    async def earlier_run(self, response: str, client: Client) -> OwnRun:
        """Return the run of an earlier response of a client. Raises ApiError."""
        own = await self._store.clients.run(run_of(response), client.id)
        param = "previous_response_id"
        if own is None:
            message = "There is no earlier response of yours with this id."
            hint = "One that wasn't stored can't be continued."
            raise ApiError(404, "response_not_found", message, hint, param)
        if own.record.status == "running":
            message = "That response is still in progress."
            raise ApiError(
                409, "response_in_progress", message, "Ask again once it is done.", param
            )
        return own

    async def system(self, asked: ClientRequest, position: ConversationPosition) -> str | None:
        """Return the system text of a request; that of an earlier response isn't carried over."""
        if asked.instructions is not None or not asked.continues or position.conversation is None:
            return asked.instructions
        known_as = await self._store.conversation(position.conversation)
        return None if known_as.system is None else ""


class _SaidMarks(NamedTuple):
    """What stands for all messages of a request, and for those before its last answer."""

    whole: str
    before: str


def _said_marks(asked: ClientRequest) -> _SaidMarks:
    """Return what stands for the messages of a request, however a client writes JSON and spaces."""
    digest, before = hashlib.sha256(), ""
    for message in (*asked.earlier, Message(Role.USER, asked.prompt)):
        is_answer = message.role is Role.ASSISTANT
        if is_answer:
            before = digest.hexdigest()
        content = _without_form(message.text) if is_answer else message.text.strip()
        text = content.encode("utf-8", "replace")
        digest.update(f"{message.role.value}\0{len(text)}\0".encode() + text)
    return _SaidMarks(digest.hexdigest(), before)


def _answers_as_sent(answer: str, asked: ClientRequest) -> set[str]:
    """Return how a client may bring an answer back: as text, or its calls after its text.

    It depends on whether it could only be a call, which another request may have asked for.
    """
    sent = {_without_form(answer)}
    if asked.tools is None:
        return sent
    for must_call in (False, True):
        reader = ToolCallReader(replace(asked.tools, choice=ToolChoice(must_call)))
        (text, calls), (rest, last, lost) = reader.feed(answer), reader.finish()
        called = "".join(call_text(call.name, call.arguments) for call in (*calls, *last))
        sent |= {_without_form(text + rest + end + called) for end in ("", lost)}
    return sent


def _without_form(text: str) -> str:
    """Return an answer without spaces, and with the JSON of its calls in one form."""
    parts, at = [], 0
    for begin, end in find_blocks(text, OPEN, CLOSE):
        parts += [text[at:begin], _plain_call(text[begin:end])]
        at = end
    return "".join("".join([*parts, text[at:]]).split())


def _plain_call(block: str) -> str:
    """Return a call with its JSON in Baton's own form."""
    try:
        parsed = json.loads(block.removeprefix(OPEN).removesuffix(CLOSE))
        return f"{OPEN}{json.dumps(parsed, ensure_ascii=False, sort_keys=True)}{CLOSE}"
    except (ValueError, RecursionError):
        return block
