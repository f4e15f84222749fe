"""The endpoint: routes, and the way of one request through access, limits and a run."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
)
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from baton import __version__
from baton.core.sanitiser import one_line
from baton.history import new_id
from baton.server.access import Access, Client
from baton.server.addresses import canonical_path, is_anthropic, no_address_text
from baton.server.api_errors import ApiError
from baton.server.background_runs import BackgroundRuns
from baton.server.chat_completions import ChatStream, completion, read_chat
from baton.server.client_request import ClientRequest, parse_body
from baton.server.completions import CompletionStream, completion_object, read_completion
from baton.server.embeddings import Embedder, read_embeddings
from baton.server.messages import MessageStream, message_object, read_messages
from baton.server.offered_models import OfferedModel
from baton.server.openapi import describe_endpoint
from baton.server.player import Player, ServedRun
from baton.server.request_bodies import SMALL_BODY_BYTES, BodyReader
from baton.server.responses import ResponseStream, read_responses, response
from baton.server.served_answer import Answer, answer_head, make_answer
from baton.server.tool_calls import ToolCall, read_calls

T = TypeVar("T")

CLIENT = "baton.client"
"""Where a request's scope has who asks; "client" is the address there."""

REQUEST_ID = "baton.request_id"
"""Where a request's scope has its id, which is that of its run, if it gets one."""

RETRY_SECONDS = 2
"""After how long a client asks again that was one too many."""

KEEPALIVE_SECONDS = 15.0
"""After so many seconds without a piece a stream says that it is still alive."""


class StreamWriter(Protocol):
    """Writes an answer in a protocol's events, while it comes."""

    def begin(self, answer: Answer) -> list[dict[str, Any]]: ...

    def text(self, answer: Answer, piece: str) -> list[dict[str, Any]]: ...

    def call(self, answer: Answer, call: ToolCall) -> list[dict[str, Any]]: ...

    def end(self, answer: Answer) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """A protocol: how requests are read and answers written.

    `is_named` is whether each event of a stream has its type beside it, `last` what ends one.
    """

    read: Callable[[Mapping[str, Any], Mapping[str, str]], ClientRequest]
    whole: Callable[[Answer, ClientRequest], dict[str, Any]]
    stream: Callable[[ClientRequest], StreamWriter]
    is_named: bool = True
    last: bytes = b""
    is_anthropic: bool = False

    def error(self, error: ApiError) -> dict[str, Any]:
        """Return an error as this protocol's clients read it."""
        return error.anthropic() if self.is_anthropic else error.openai()


CHAT = Dialect(
    read_chat,
    lambda answer, asked: completion(answer),
    lambda asked: ChatStream(asked.has_usage),
    is_named=False,
    last=b"data: [DONE]\n\n",
)
RESPONSES = Dialect(read_responses, response, ResponseStream)
MESSAGES = Dialect(
    read_messages,
    lambda answer, asked: message_object(answer),
    lambda asked: MessageStream(),
    is_anthropic=True,
)


COMPLETIONS = Dialect(
    read_completion,
    lambda answer, asked: completion_object(answer),
    lambda asked: CompletionStream(asked.has_usage),
    is_named=False,
    last=b"data: [DONE]\n\n",
)

Work = Callable[[bytearray, Mapping[str, str], Client], Awaitable[dict[str, Any]]]
"""Computes an answer from a body, the headers and who asks. Raises ApiError."""


class Endpoint:
    """Answers requests with a player. `access` says who may ask.

    `report` takes a line for each request that was refused, without what it says.
    """

    def __init__(
        self, player: Player, access: Access, report: Callable[[str], object] = lambda line: None
    ) -> None:
        self._player = player
        self._access = access
        self._report = report
        self._bodies = BodyReader()
        self._background = BackgroundRuns(player)
        self._embedder = Embedder(player.orchestra.services.router)
        routes = [
            Route("/", self._health, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/openapi.json", self._describe, methods=["GET"]),
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/models/{name:path}", self._model, methods=["GET"]),
            Route("/v1/chat/completions", _Ask(self, CHAT), methods=["POST"]),
            Route("/v1/completions", _Ask(self, COMPLETIONS), methods=["POST"]),
            Route("/v1/embeddings", _Ask(self, CHAT, self._embed), methods=["POST"]),
            Route("/v1/responses", _Ask(self, RESPONSES), methods=["POST"]),
            Route(
                "/v1/responses/input_tokens",
                _Ask(self, RESPONSES, self._count_response),
                methods=["POST"],
            ),
            Route("/v1/responses/{id}", self._response, methods=["GET"]),
            Route("/v1/responses/{id}/cancel", self._cancel, methods=["POST"]),
            Route("/v1/messages", _Ask(self, MESSAGES), methods=["POST"]),
            Route(
                "/v1/messages/count_tokens",
                _Ask(self, MESSAGES, self._count_messages),
                methods=["POST"],
            ),
        ]
        self._app = Starlette(
            routes=routes,
            exception_handlers={ApiError: self._show_error, HTTPException: self._show_http_error},
        )
        self._app.router.redirect_slashes = False
        self._cors = CORSMiddleware(
            self._authorise,
            allow_origins=access.origins,
            allow_methods=["*"],
            allow_headers=["*"],
            allow_private_network=True,
            expose_headers=["request-id", "retry-after", "x-request-id"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path, headers = canonical_path(scope["path"]), _headers(scope)
        scope = {**scope, "path": path, REQUEST_ID: new_id()}
        send = _with_request_id(scope[REQUEST_ID], send)
        try:
            self._access.check_source(headers, scope.get("server"))
        except ApiError as error:
            await self._refuse(scope, error, receive, send)
            return
        await self._cors(scope, receive, send)

    async def _authorise(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            scope[CLIENT] = self._access.check_token(_headers(scope), scope["path"])
        except ApiError as error:
            await self._refuse(scope, error, receive, send)
            return
        await self._app(scope, receive, send)

    async def _refuse(self, scope: Scope, error: ApiError, receive: Receive, send: Send) -> None:
        await self._show_error(Request(scope), error)(scope, receive, send)

    def report_refusal(self, scope: Scope, error: ApiError) -> None:
        """Report that a request was refused: by whom, where and why, never what it says."""
        client = scope.get(CLIENT)
        who = client.grant.value if client is not None else "none"
        path = one_line(scope["path"], 80)
        self._report(
            f"request=req_{scope[REQUEST_ID]} token={who} {scope['method']} {path} {error.status}"
            f" {error.code}"
        )

    def _show_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        self.report_refusal(request.scope, error)
        shown = MESSAGES if is_anthropic(request.scope["path"], request.headers) else CHAT
        return _json(shown.error(error), error.status)

    def _show_http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers, code, message = error.headers or {}, "not_found", str(error.detail)
        if error.status_code == 404:
            message = no_address_text(request.scope["path"], request.headers)
        elif error.status_code == 405:
            code, message = "method_not_allowed", f"This address takes {headers['Allow']}."
        answer = self._show_error(request, ApiError(error.status_code, code, message))
        answer.headers.update(headers)
        return answer

    async def aclose(self) -> None:
        """Stop what runs in the background."""
        await self._background.aclose()

    async def _health(self, request: Request) -> Response:
        return _json({"status": "ok", "name": "baton", "version": __version__})

    async def _describe(self, request: Request) -> Response:
        return _json(describe_endpoint())

    async def _models(self, request: Request) -> Response:
        has_encoder = (
            self._embedder.encoder is not None and "anthropic-version" not in request.headers
        )
        models = self._player.listed_models(has_encoder=has_encoder)
        listed = [_model_object(model) for model in models]
        ends = {"first_id": models[0].id, "last_id": models[-1].id, "has_more": False}
        return _json({"object": "list", "data": listed, **ends})

    async def _model(self, request: Request) -> Response:
        named = request.path_params["name"]
        return _json(_model_object(replace(self._player.find_model(named), id=named)))

    async def _response(self, request: Request) -> Response:
        client = request.scope[CLIENT]
        return _json(await self._background.describe(request.path_params["id"], client))

    async def _cancel(self, request: Request) -> Response:
        client = request.scope[CLIENT]
        return _json(await self._background.cancel(request.path_params["id"], client))

    async def ask(self, dialect: Dialect, request: Request, send: Send) -> None:
        """Answer a request for a run, as long as the client is there. Raises ApiError."""
        headers = _headers(request.scope)
        async with self._bodies.read(request) as body:
            asked = await _in_thread_if_large(
                body, lambda: dialect.read(parse_body(bytes(body)), headers)
            )
            body.clear()
            served = self._player.begin(asked, request.scope[CLIENT], request.scope[REQUEST_ID])
            if served.asked.is_background:
                begun = await self._background.begin(served)
                await _json(begun)(request.scope, request.receive, send)
                await self._background.wait_for(served)  # its text takes room until then
                return
            work = self._play(dialect, served, request.scope, request.receive, send)
            await _while_connected(request.receive, work)

    async def compute(self, work: Work, request: Request, send: Send) -> None:
        """Answer a request without a run, as long as the client is there. Raises ApiError."""

        async def answer(body: bytearray) -> None:
            result = await work(body, _headers(request.scope), request.scope[CLIENT])
            await _json(result)(request.scope, request.receive, send)

        place = self._player.place(request.scope[CLIENT])
        async with place, self._bodies.read(request) as body:
            await _while_connected(request.receive, answer(body))

    async def _embed(
        self, body: bytearray, headers: Mapping[str, str], client: Client
    ) -> dict[str, Any]:
        asked, texts = await _in_thread_if_large(
            body, lambda: read_embeddings(parse_body(bytes(body)))
        )
        return await self._embedder.embed(asked, texts, self._player.find_model(asked.model))

    async def _count_messages(
        self, body: bytearray, headers: Mapping[str, str], client: Client
    ) -> dict[str, Any]:
        return {"input_tokens": await self._count(MESSAGES, body, headers, client)}

    async def _count_response(
        self, body: bytearray, headers: Mapping[str, str], client: Client
    ) -> dict[str, Any]:
        count = await self._count(RESPONSES, body, headers, client)
        return {"object": "response.input_tokens", "input_tokens": count}

    async def _count(
        self, dialect: Dialect, body: bytearray, headers: Mapping[str, str], client: Client
    ) -> int:
        def read() -> ClientRequest:
            usual = {"max_tokens": 1} if dialect is MESSAGES else {"model": "baton/auto"}
            return dialect.read({**usual, **parse_body(bytes(body))}, headers)

        return await self._player.count(await _in_thread_if_large(body, read), client)

    async def _play(
        self, dialect: Dialect, served: ServedRun, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async with aclosing(self._player.play(served)) as pieces:
            if served.asked.is_streamed:
                await self._stream(dialect, served, pieces, send)
                return
            text, calls = "", list[ToolCall]()
            async for shown, found in read_calls(served.asked.tools, pieces):
                text += shown
                calls += found
        text = text.rstrip() if calls else text
        whole = dialect.whole(self._answer(served, text, calls), served.asked)
        await _json(whole)(scope, receive, send)

    async def _stream(
        self, dialect: Dialect, served: ServedRun, pieces: AsyncGenerator[str], send: Send
    ) -> None:
        """Send an answer as server-sent events.

        An error before the first of them has a status of its own; one after that is an event.
        """
        writer = dialect.stream(served.asked)
        stream = EventStream(send, dialect)
        calls: list[ToolCall] = []
        head = answer_head(served)
        try:
            async with stream.kept_alive():
                async for text, found in read_calls(served.asked.tools, pieces):
                    if not stream.has_begun:
                        head = answer_head(served)  # it has an id now
                        await stream.begin(writer.begin(head))
                    if text:
                        await stream.send(writer.text(head, text))
                    for call in found:
                        await stream.send(writer.call(head, call))
                    calls += found
        except ApiError as error:
            if not stream.has_begun:
                raise
            await stream.fail(error)
            return
        answer = self._answer(served, "", calls)
        if not stream.has_begun:
            await stream.begin(writer.begin(answer))
        await stream.send(writer.end(answer))
        await stream.finish()

    def _answer(self, served: ServedRun, text: str, calls: list[ToolCall]) -> Answer:
        return make_answer(served, self._player.orchestra.roster, text, calls)


class EventStream:
    """Server-sent events, in a dialect's form."""

    def __init__(self, send: Send, dialect: Dialect) -> None:
        self.has_begun = False
        self._send = send
        self._dialect = dialect
        self._is_idle = True
        self._sending = asyncio.Lock()

    async def begin(self, events: list[dict[str, Any]]) -> None:
        """Send the head and the first events."""
        self.has_begun = True
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.send(events)

    async def send(self, events: list[dict[str, Any]]) -> None:
        """Send events."""
        await self._write(b"".join(map(self._frame, events)))

    async def fail(self, error: ApiError) -> None:
        """End a stream that had begun with an error."""
        await self.send([{"type": "error", **self._dialect.error(error)}])
        await self.finish()

    async def finish(self) -> None:
        """End the stream."""
        await self._write(self._dialect.last, more=False)

    @asynccontextmanager
    async def kept_alive(self) -> AsyncIterator[None]:
        """Say now and then that the stream goes on, where nothing else does."""
        beating = asyncio.create_task(self._keep_alive())
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _keep_alive(self) -> None:
        while True:
            self._is_idle = True
            await asyncio.sleep(KEEPALIVE_SECONDS)
            if self._is_idle and self.has_begun:
                await self._write(b": still here\n\n")

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        self._is_idle = False
        async with self._sending:
            await self._send({"type": "http.response.body", "body": data, "more_body": more})

    def _frame(self, event: dict[str, Any]) -> bytes:
        data = b"data: " + msgspec.json.encode(event) + b"\n\n"
        return f"event: {event['type']}\n".encode() + data if self._dialect.is_named else data


class _Ask:
    """A route that asks for a run, or has `work` done with its body.

    It may answer in any way, so it is an application itself.
    """

    def __init__(self, endpoint: Endpoint, dialect: Dialect, work: Work | None = None) -> None:
        self._endpoint = endpoint
        self._dialect = dialect
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = Request(scope, receive)
            if self._work is not None:
                await self._endpoint.compute(self._work, request, send)
            else:
                await self._endpoint.ask(self._dialect, request, send)
        except ApiError as error:
            self._endpoint.report_refusal(scope, error)
            await _json(self._dialect.error(error), error.status)(scope, receive, send)
        except ClientDisconnect:
            pass


async def _while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do some work until it is done or the client is gone, which cancels it."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_until_gone(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
        if not working.done():
            working.cancel()
        await asyncio.wait({working, watching})
    if not working.cancelled():
        working.result()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _with_request_id(id: str, send: Send) -> Send:
    """Return a `send` that puts the request's id into each answer's head, as both protocols do."""

    async def send_with_id(message: Message) -> None:
        if message["type"] == "http.response.start":
            named = f"req_{id}".encode()
            headers = [*message["headers"], (b"x-request-id", named), (b"request-id", named)]
            if message["status"] == 429:
                headers.append((b"retry-after", str(RETRY_SECONDS).encode()))
            message = {**message, "headers": headers}
        await send(message)

    return send_with_id


async def _in_thread_if_large(body: bytearray, read: Callable[[], T]) -> T:
    """Return what a body says, which takes long where it is large. Raises ApiError."""
    return await asyncio.to_thread(read) if len(body) > SMALL_BODY_BYTES else read()


def _headers(scope: Scope) -> dict[str, str]:
    """Return a request's headers by their names; what is there several times, put together."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _json(content: object, status: int = 200) -> Response:
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    body = msgspec.json.encode(content)
    return Response(body, status, headers, media_type="application/json")


def _model_object(model: OfferedModel) -> dict[str, Any]:
    return {
        "id": model.id,
        "object": "model",
        "created": 0,
        "owned_by": "baton",
        "type": "model",
        "display_name": model.id,
        "created_at": "1970-01-01T00:00:00Z",
        "description": model.note,
    }
