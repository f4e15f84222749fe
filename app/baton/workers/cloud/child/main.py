"""The gateway: the child process through which alone anything is sent to workers elsewhere.

`python -m baton.ipc.child_entry gateway` speaks the messages of `workers.cloud.messages` on stdin
and stdout. It alone holds keys, which never go over the pipes. It connects to where calls go and
nowhere else, and ends at once when its parent does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
import warnings
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from baton.ipc.messages import Cancel, Failed, FinalReply, Message, Stopped
from baton.ipc.parent_channel import (
    Failure,
    ParentChannel,
    keep_quiet_and_private,
    take_pipes,
)
from baton.workers.cloud.child import call_errors
from baton.workers.cloud.child.cloud_call import Call
from baton.workers.cloud.child.http_client import Outward, Rules
from baton.workers.cloud.child.litellm_capture import Relay
from baton.workers.cloud.child.litellm_writer import Library, response_format, text_format
from baton.workers.cloud.messages import (
    REQUESTS,
    AnswerText,
    CallDone,
    CallWorker,
    RequestAnnounced,
    SendRequest,
    SetUpGateway,
    TokenCount,
    WarmGateway,
)

TEXT_SECONDS = 0.02
"""Text goes out at once at first, then this often: a frame per token would flood the front."""


REHEARSED = {
    "openai": "gpt-5-mini",
    "anthropic": "claude-haiku-4-5",
    "gemini": "gemini-2.5-flash",
    "openrouter": "openai/gpt-5-mini",
}
"""A model for each of litellm's ways of asking."""


class Gateway:
    """Plays many calls at once, each in a task of its own."""

    def __init__(self, parent: ParentChannel, setup: SetUpGateway) -> None:
        self._parent = parent
        rules = Rules(
            setup.keys_file,
            setup.proxy,
            setup.proxies,
            setup.offline,
            setup.connect,
            setup.stall,
            setup.total,
        )
        self._effort = setup.effort
        self._outward = Outward(rules, os.environ)
        self._relay = Relay()
        self._library: Library
        self._rehearsal: asyncio.Task[None] | None = None
        self._calls: dict[int, tuple[Call, asyncio.Task[None]]] = {}

    async def start(self) -> None:
        """Begin to listen for litellm."""
        await self._relay.start()
        self._library = Library(self._relay, self._effort)

    def take(self, message: Message) -> None:
        """Do what a message says."""
        match message:
            case WarmGateway():
                self._rehearsal = self._rehearsal or asyncio.create_task(self._rehearse())
            case CallWorker():
                self._begin(message)
            case SendRequest(id=number) if number in self._calls:
                self._calls[number][0].go.set()
            case Cancel(id=number) if number in self._calls:
                # Not at once: a task that never took its first step wouldn't tell that it ended.
                asyncio.get_running_loop().call_soon(self._calls[number][1].cancel)

    async def _rehearse(self) -> None:
        """Do what takes long before a first call."""
        self._library.warm()
        self._outward.warm()
        for provider, model in REHEARSED.items():
            await self._library.rehearse(_rehearsal(provider, model))

    def _begin(self, asked: CallWorker) -> None:
        def announce(host: str, body: bytes) -> None:
            self._parent.send(RequestAnnounced(host, body, id=asked.id))

        call = Call(**asdict(asked), announce=announce)
        self._calls[call.id] = (call, asyncio.create_task(self._play(call)))

    async def _play(self, call: Call) -> None:
        """Answer a call, and tell how it ended."""
        voice = Voice(self._parent, call.id)
        reply: FinalReply = Stopped()
        try:
            await self._outward.prepare(call)
            async with aclosing(await self._texts(call)) as texts:
                async for text in texts:
                    voice.add(text)
            reply = _done(call)
        except Failure as failure:
            reply = failure.failed
        except asyncio.CancelledError:
            pass
        except Exception as error:
            _tell(error)
            mistake = f"The gateway failed on the call to {call.who} ({type(error).__name__})."
            reply = Failed("WorkerError", mistake, "Try again.")
        finally:
            voice.finish()
            del self._calls[call.id]
            reply.id = call.id
            self._parent.send(reply)

    async def _texts(self, call: Call) -> AsyncGenerator[str]:
        return self._outward.post(call, await self._written(call))

    async def _written(self, call: Call) -> bytes:
        """Return the request for a call, in its provider's dialect."""
        if not call.through_library:
            return _encoded(_chat_body(call))
        call.speak(await self._library.dialect(call))
        call.may_think_unseen = await self._library.may_think(call)
        if call.schema and not await self._library.shapes(call):
            call.schema = ""
        if call.dialect == "responses":
            # litellm speaks it only with the package `mcp`, which has no business here.
            return _encoded(_responses_body(call, await self._library.effort(call)))
        try:
            return await self._library.write(call)
        except Exception as error:
            _tell(error)
            raise Failure(
                "WorkerError",
                f"{call.who} could not be asked: litellm failed over the request.",
                "Choose another worker.",
            ) from error


class Voice:
    """Sends a call's text as it comes, but not in too many messages."""

    def __init__(self, parent: ParentChannel, call: int) -> None:
        self._parent = parent
        self._call = call
        self._pending = ""
        self._pieces = 0
        self._sent = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        """Take a piece of text."""
        if not text:
            return
        self._pending += text
        self._pieces += 1
        loop = asyncio.get_running_loop()
        wait = self._sent + TEXT_SECONDS - loop.time()
        if wait <= 0:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_later(wait, self._send)

    def finish(self) -> None:
        """Send what is left."""
        if self._pending:
            self._send()

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._parent.send(AnswerText(self._pending, self._pieces, id=self._call))
        self._pending, self._pieces = "", 0
        self._sent = asyncio.get_running_loop().time()


def _rehearsal(provider: str, model: str) -> Call:
    return Call(
        id=0,
        who=provider,
        provider=provider,
        model=model,
        base_url="",
        variable="",
        needs_key=False,
        through_library=True,
        messages=[{"role": "user", "content": "Hello"}],
        cap=256,
        bound=0,
        context=0,
        first=0,
        temperature=None,
        seed=None,
        announce=lambda host, body: None,
    )


def _done(call: Call) -> CallDone:
    """Return how a call ended, with the provider's count if there is one to believe."""
    if not call.ended_well:
        raise call_errors.unfinished(call)
    count = call.usage
    usage = None
    if count is not None:
        usage = TokenCount(
            count.tokens_in, count.tokens_out, count.cached, count.cache_written, count.reported
        )
    return CallDone(call.finish, usage, call.output_bound)


def _tell(error: Exception) -> None:
    """Print where something unforeseen happened, without its text: that may quote anything."""
    places = traceback.extract_tb(error.__traceback__)[-3:]
    where = ", ".join(f"{Path(p.filename).name}:{p.lineno}" for p in places)
    print(f"{type(error).__name__} at {where}", file=sys.stderr, flush=True)


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def _chat_body(call: Call) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": call.model,
        "messages": call.messages,
        "max_tokens": call.cap,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if call.temperature is not None:
        body["temperature"] = call.temperature
    if call.seed is not None:
        body["seed"] = call.seed
    if call.schema:
        body["response_format"] = response_format(call.schema)
    return body


def _responses_body(call: Call, effort: str | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": call.model,
        "input": call.messages,
        "max_output_tokens": call.cap,
        "stream": True,
        "store": False,
    }
    if call.tier:
        body["service_tier"] = call.tier
    if effort:
        body["reasoning"] = {"effort": effort}
    if call.schema:
        body["text"] = text_format(call.schema)
    return body


async def _serve() -> None:
    """Take messages until the parent is gone."""
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[Any] = asyncio.Queue()

    def deliver(message: Message) -> None:
        loop.call_soon_threadsafe(inbox.put_nowait, message)

    parent = ParentChannel(*take_pipes(), REQUESTS, deliver)
    gateway = Gateway(parent, await inbox.get())
    await gateway.start()
    while True:
        gateway.take(await inbox.get())


def main() -> None:
    """Run until the front is gone."""
    keep_quiet_and_private()
    warnings.simplefilter("ignore")  # libraries quote what they warn of
    with suppress(OSError):
        os.chdir("/")  # a folder without surprises
    try:
        asyncio.run(_serve())
    except Exception as error:
        _tell(error)
    finally:
        os._exit(1)  # serving ends with the front, and then the pipe's end was quicker


if __name__ == "__main__":
    main()
