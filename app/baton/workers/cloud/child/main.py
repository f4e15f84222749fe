"""The gateway: the one child process that sends requests to remote workers.

The child `gateway` speaks the messages of `workers.cloud.messages` on stdin
and stdout. It alone holds keys, which never go over the pipes. It connects to where calls go and
nowhere else, and ends at once when its parent does.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
import warnings
from collections.abc import Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from baton.core.errors import ConfigError
from baton.core.labels import Label, address_label
from baton.ipc.messages import Cancel, Failed, FinalReply, Message, Stopped
from baton.ipc.parent_channel import Failure, ParentChannel, keep_quiet_and_private, take_pipes
from baton.ipc.process import environment
from baton.workers.cloud.child.cloud_call import CloudCall, HttpRequest
from baton.workers.cloud.child.http_client import CloudHttpClient
from baton.workers.cloud.child.request_writer import RequestWriter
from baton.workers.cloud.gateway import GATEWAY_VARIABLES
from baton.workers.cloud.messages import (
    REQUESTS,
    AnswerText,
    CallDone,
    CallWorker,
    EnginesFound,
    FindEngines,
    FindKey,
    FoundModel,
    KeyLookedUp,
    RequestAnnounced,
    SendRequest,
    SetUpGateway,
    WarmGateway,
)
from baton.workers.local.local_servers import ask_engines, host_addresses
from baton.workers.reasoning_filter import ThoughtFilter, remote_marks

UNSURE_SECONDS = 0.3
"""How long a text's beginning is held back that may be thoughts without a mark at their beginning:
templates of some servers write it themselves, in all answers. So it is held back no more once a
whole answer of the model came without thoughts."""

TEXT_SECONDS = 0.02
"""Text goes out at once at first, then this often: a frame per token would flood the front."""


class CallRunner:
    """Runs many calls at once, each in a task of its own."""

    def __init__(
        self, parent: ParentChannel, setup: SetUpGateway, environ: Mapping[str, str]
    ) -> None:
        self._parent = parent
        self._is_offline = setup.offline
        self._http = CloudHttpClient(setup, environ)
        self._writer = RequestWriter(setup.effort)
        self._tasks: list[asyncio.Task[None]] = []
        self._plain_models: set[tuple[str, str]] = set()
        self._calls: dict[int, tuple[CloudCall, asyncio.Task[None]]] = {}

    def handle_message(self, message: Message) -> None:
        match message:
            case WarmGateway(models=models):
                self._tasks.append(asyncio.create_task(self._warm(models)))
            case CallWorker():
                self._start_call(message)
            case FindKey():
                self._tasks.append(asyncio.create_task(self._find_key(message)))
            case FindEngines():
                self._tasks.append(asyncio.create_task(self._find_engines(message)))
            case SendRequest(id=number) if number in self._calls:
                self._calls[number][0].go.set()
            case Cancel(id=number) if number in self._calls:
                # Not at once: a task that never took its first step wouldn't send that it ended.
                asyncio.get_running_loop().call_soon(self._calls[number][1].cancel)

    async def _warm(self, models: list[tuple[str, str]]) -> None:
        """Do what takes long before a first call to these models: write an unsent request."""
        await self._http.warm()
        for provider, model in models:
            with suppress(Exception):  # the first call meets it again, and reports it
                await self._writer.write(unsent_call(provider, model))

    async def _find_key(self, asked: FindKey) -> None:
        """Say whether a key is there; one that can't be used is, and the call reports it."""
        try:
            is_there = bool(await self._http.find_key(asked.provider, asked.variable))
        except ConfigError:
            is_there = True
        self._parent.send(KeyLookedUp(is_there, id=asked.id))

    async def _find_engines(self, asked: FindEngines) -> None:
        """Report which models a host's engines have; none that can't be reached."""
        found = []
        places = host_addresses(asked.host)
        if not self._is_offline or address_label(places[0].url) is Label.LOCAL:
            found = await ask_engines(places, asked.limit)
        models = [
            FoundModel(m.engine, m.model, m.addresses[0], m.size, m.cloud, m.slots[0])
            for m in found
        ]
        self._parent.send(EnginesFound(models, id=asked.id))

    def _start_call(self, asked: CallWorker) -> None:
        def announce(host: str, body: bytes) -> None:
            self._parent.send(RequestAnnounced(host, body, id=asked.id))

        call = CloudCall(**asdict(asked), announce=announce)
        self._calls[call.id] = (call, asyncio.create_task(self._run_call(call)))

    async def _run_call(self, call: CloudCall) -> None:
        """Answer a call, and send how it ended."""
        model = call.base_url, call.model
        sender = TextSender(self._parent, call, is_plain=model in self._plain_models)
        reply: FinalReply = Stopped()
        try:
            await self._http.prepare(call)
            request = await self._request(call)
            async with aclosing(self._http.post(call, request)) as texts:
                async for text in texts:
                    sender.add(text)
            reply = CallDone(
                call.finish, call.usage, call.output_bound, call.reader.model, call.reader.fewest
            )
        except Failure as failure:
            reply = failure.failed
        except asyncio.CancelledError:
            pass
        except Exception as error:
            _log_error(error)
            mistake = f"The gateway failed on the call to {call.who} ({type(error).__name__})."
            reply = Failed("WorkerError", mistake, "Try again.")
        finally:
            sender.finish()
            self._plain_models -= {model}
            self._plain_models |= {model} if sender.is_plain else set()
            del self._calls[call.id]
            reply.id = call.id
            self._parent.send(reply)

    async def _request(self, call: CloudCall) -> HttpRequest:
        """Return the request for a call, in its provider's dialect."""
        try:
            return await self._writer.write(call)
        except Failure:
            raise
        except Exception as error:
            _log_error(error)
            raise Failure(
                "WorkerError",
                f"litellm could not write the request for {call.who}. Nothing was sent.",
                "Choose another worker.",
            ) from error


class TextSender:
    """Sends a call's text as it comes, at most a message every TEXT_SECONDS; thoughts stay out.

    `is_plain` is whether the model's texts are known to have none, at the end whether this one had.
    """

    def __init__(self, parent: ParentChannel, call: CloudCall, *, is_plain: bool = False) -> None:
        self.is_plain = is_plain
        self._parent = parent
        self._call = call
        self._thoughts: ThoughtFilter | None = None
        self._pending = ""
        self._pieces = 0
        self._starts_again = False
        self._sent = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._release: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        if self._thoughts is None:
            call = self._call
            # Those that part thoughts from text, and dialects that have a place for them, do so.
            is_parted = call.dialect != "chat" or call.is_openais or call.reader.has_thoughts
            prompt = "\n".join(message["content"] for message in call.messages)
            self._thoughts = ThoughtFilter(remote_marks(prompt), may_be_begun=not is_parted)
        self._add_answer(self._thoughts.feed(text))
        if self._thoughts.is_unsure and self.is_plain:
            self._release_text()
        elif self._thoughts.is_unsure and self._release is None:
            loop = asyncio.get_running_loop()
            self._release = loop.call_later(UNSURE_SECONDS, self._release_text)

    def _release_text(self) -> None:
        if self._thoughts is not None:
            self._add_answer(self._thoughts.release())

    def _add_answer(self, text: str) -> None:
        if self._thoughts is not None and self._thoughts.took_back:
            self._thoughts.took_back, self._starts_again, self._pending = False, True, ""
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
        if self._release is not None:
            self._release.cancel()
        if self._thoughts is not None:
            is_cut = self._call.reader.finish == "length"
            self._pending += self._thoughts.flush(is_cut=is_cut)
            is_whole = self._call.reader.finish == "stop"
            self.is_plain = (self.is_plain or is_whole) and not self._thoughts.had_thoughts
        if self._pending or self._starts_again:
            self._send()

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = AnswerText(self._pending, self._pieces, self._starts_again, id=self._call.id)
        self._parent.send(text)
        self._pending, self._pieces, self._starts_again = "", 0, False
        self._sent = asyncio.get_running_loop().time()


def unsent_call(provider: str, model: str) -> CloudCall:
    return CloudCall(
        who=provider,
        provider=provider,
        model=model,
        base_url="https://127.0.0.1",
        variable="",
        needs_key=False,
        through_library=True,
        messages=[{"role": "user", "content": "Hello"}],
        cap=256,
        bound=0,
        context=0,
        connect=0,
        first=0,
        announce=lambda host, body: None,
    )


def _log_error(error: Exception) -> None:
    """Print where an unforeseen error happened, without its text, which may quote a prompt."""
    places = traceback.extract_tb(error.__traceback__)[-3:]
    where = ", ".join(f"{Path(p.filename).name}:{p.lineno}" for p in places)
    print(f"{type(error).__name__} at {where}", file=sys.stderr, flush=True)


async def _serve(environ: Mapping[str, str]) -> None:
    """Take messages until the parent is gone."""
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[Any] = asyncio.Queue()

    def deliver(message: Message) -> None:
        loop.call_soon_threadsafe(inbox.put_nowait, message)

    parent = ParentChannel(*take_pipes(), REQUESTS, deliver)
    runner = CallRunner(parent, await inbox.get(), environ)
    while True:
        runner.handle_message(await inbox.get())


def take_environ() -> dict[str, str]:
    """Return the environment, and keep in the process's own what holds no key: litellm reads it."""
    environ = dict(os.environ)
    for name in environ.keys() - environment(environ, GATEWAY_VARIABLES).keys():
        del os.environ[name]
    return environ


def main() -> None:
    """Run until the front is gone."""
    keep_quiet_and_private()
    warnings.simplefilter("ignore")  # libraries quote what they warn of
    with suppress(OSError):
        os.chdir("/")  # a folder without surprises
    try:
        asyncio.run(_serve(take_environ()))
    except Exception as error:
        _log_error(error)
    finally:
        os._exit(1)  # serving ends with the front, and then the pipe's end was quicker


if __name__ == "__main__":
    main()
