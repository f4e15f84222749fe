"""The gateway: the one child process that sends requests to remote workers.

`python -m baton.ipc.child_entry gateway` speaks frames on stdin and stdout. Frames to it:

    setup   keys_file, proxy, proxies, offline, connect, stall, total, effort
    warm
    call    id and what to ask, see cloud_call.CloudCall
    go      id: what was announced is on disk, so send it
    cancel  id

Frames from it: beat each second; for a call request (what will be sent, exactly), then text, then
one of done, stopped and failed (with the name of the error that the front raises). It alone
holds keys, which never go over the pipes. It connects to the addresses of calls only, and ends at
once when its front does.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import traceback
import warnings
from collections.abc import Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from baton.ipc import frames
from baton.ipc.parent_channel import Failure, Front, keep_quiet_and_private, take_pipes
from baton.ipc.process import environment
from baton.workers.cloud.child import call_errors
from baton.workers.cloud.child.cloud_call import CloudCall, HttpRequest
from baton.workers.cloud.child.http_client import CloudHttpClient, ConnectionRules
from baton.workers.cloud.child.litellm_requests import LitellmRequests
from baton.workers.cloud.child.openai_requests import chat_request
from baton.workers.cloud.gateway import GATEWAY_VARIABLES

TEXT_SECONDS = 0.02
"""Text goes out at once at first, then this often: a frame per token would flood the front."""


class CallRunner:
    """Runs many calls at once, each in a task of its own."""

    def __init__(self, front: Front, setup: frames.Frame, environ: Mapping[str, str]) -> None:
        self._front = front
        rules = ConnectionRules(
            Path(setup["keys_file"]),
            setup["proxy"],
            setup["proxies"],
            setup["offline"],
            setup["connect"],
            setup["stall"],
            setup["total"],
        )
        self._http = CloudHttpClient(rules, environ)
        self._litellm = LitellmRequests(setup["effort"])
        self._tasks: list[asyncio.Task[None]] = []
        self._calls: dict[int, tuple[CloudCall, asyncio.Task[None]]] = {}

    def handle_frame(self, frame: frames.Frame) -> None:
        match frame:
            case {"type": "warm", "models": list(models)}:
                self._tasks.append(asyncio.create_task(self._warm(models)))
            case {"type": "call"}:
                self._start_call(frame)
            case {"type": "go", "id": int(number)} if number in self._calls:
                self._calls[number][0].go.set()
            case {"type": "cancel", "id": int(number)} if number in self._calls:
                # Not at once: a task that never took its first step wouldn't send that it ended.
                asyncio.get_running_loop().call_soon(self._calls[number][1].cancel)

    async def _warm(self, models: list[tuple[str, str]]) -> None:
        """Do what takes long before a first call to these models: write an unsent request."""
        self._litellm.warm()
        await self._http.warm()
        for provider, model in models:
            with suppress(Exception):  # the first call meets it again, and reports it
                await self._litellm.write(unsent_call(provider, model))

    def _start_call(self, frame: frames.Frame) -> None:
        number = frame["id"]

        def announce(host: str, body: bytes) -> None:
            encoded = base64.b64encode(body).decode("ascii")
            self._front.send("request", id=number, host=host, body=encoded)

        asked = {key: value for key, value in frame.items() if key != "type"}
        call = CloudCall(**asked, announce=announce)
        self._calls[number] = (call, asyncio.create_task(self._run_call(call)))

    async def _run_call(self, call: CloudCall) -> None:
        """Answer a call, and send how it ended."""
        sender = TextSender(self._front, call.id)
        kind, fields = "stopped", {}
        try:
            await self._http.prepare(call)
            request = await self._request(call)
            async with aclosing(self._http.post(call, request)) as texts:
                async for text in texts:
                    sender.add(text)
            kind, fields = "done", _done_fields(call)
        except Failure as failure:
            kind, fields = "failed", failure.fields
        except asyncio.CancelledError:
            pass
        except Exception as error:
            _log_error(error)
            mistake = f"The gateway failed on the call to {call.who} ({type(error).__name__})."
            kind, fields = "failed", Failure("WorkerError", mistake, "Try again.").fields
        finally:
            sender.finish()
            del self._calls[call.id]
            self._front.send(kind, id=call.id, **fields)

    async def _request(self, call: CloudCall) -> HttpRequest:
        """Return the request for a call, in its provider's dialect."""
        if not call.through_library:
            return chat_request(call)
        try:
            return await self._litellm.write(call)
        except Exception as error:
            _log_error(error)
            raise Failure(
                "WorkerError",
                f"litellm could not write the request for {call.who}. Nothing was sent.",
                "Choose another worker.",
            ) from error


class TextSender:
    """Sends a call's text as it comes, at most a frame every TEXT_SECONDS."""

    def __init__(self, front: Front, call: int) -> None:
        self._front = front
        self._call = call
        self._pending = ""
        self._pieces = 0
        self._sent = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
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
        self._front.send("text", id=self._call, text=self._pending, tokens=self._pieces)
        self._pending, self._pieces = "", 0
        self._sent = asyncio.get_running_loop().time()


def unsent_call(provider: str, model: str) -> CloudCall:
    return CloudCall(
        id=0,
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
        first=0,
        temperature=None,
        seed=None,
        announce=lambda host, body: None,
    )


def _done_fields(call: CloudCall) -> dict[str, Any]:
    """Return how a call ended, with the provider's count if there is one to believe."""
    if not call.ended_well:
        raise call_errors.unfinished_failure(call)
    count = call.usage
    usage = None
    if count is not None:
        usage = {
            "tokens_in": count.tokens_in,
            "tokens_out": count.tokens_out,
            "cached": count.cached,
            "cache_written": count.cache_written,
            "reported": count.reported,
        }
    return {"finish": call.finish, "usage": usage, "bound": call.output_bound}


def _log_error(error: Exception) -> None:
    """Print where an unforeseen error happened, without its text, which may quote a prompt."""
    places = traceback.extract_tb(error.__traceback__)[-3:]
    where = ", ".join(f"{Path(p.filename).name}:{p.lineno}" for p in places)
    print(f"{type(error).__name__} at {where}", file=sys.stderr, flush=True)


async def _serve(environ: Mapping[str, str]) -> None:
    """Take frames until the front is gone."""
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[frames.Frame] = asyncio.Queue()

    def receive(frame: frames.Frame) -> None:
        loop.call_soon_threadsafe(inbox.put_nowait, frame)

    front = Front(*take_pipes(), receive)
    runner = CallRunner(front, await inbox.get(), environ)
    while True:
        runner.handle_frame(await inbox.get())


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
