"""The endpoint: routes, and the way of one request through access, limits and a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from baton import __version__
from baton.core.errors import BatonError
from baton.core.labels import Label
from baton.core.messages import ENDPOINTS_PASSED, VIA_HEADER
from baton.core.sanitiser import one_line
from baton.history import new_id
from baton.presentation.served_requests import ServedRequest
from baton.server.access import OPEN_PATHS, Access, Client
from baton.server.api_errors import ApiError, shown_error, stopped_error
from baton.server.background_runs import BackgroundRuns
from baton.server.client_request import ClientRequest, parse_body
from baton.server.dialects import (
    CHAT,
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    Dialect,
    EventStream,
    canonical_path,
    is_anthropic,
    no_address_text,
)
from baton.server.embeddings import Embedder, read_embeddings
from baton.server.offered_models import OfferedModel
from baton.server.program_names import program_name
from baton.server.request_bodies import SMALL_BODY_BYTES, BodyReader
from baton.server.request_runner import RequestRunner
from baton.server.served_run import Answer, ServedRun, answer_head, make_answer
from baton.server.tool_calls import FoundCalls, ToolCall

T = TypeVar("T")

CLIENT, MODEL, SERVED, ERROR = "baton.client", "baton.model", "baton.served", "baton.error"
"""Where a request's scope has who asks for which model, and what came of it: a run, an error."""

REQUEST_ID = "baton.request_id"
"""Where a request's scope has its id, which is that of its run, if it gets one."""

LAST_WORD_SECONDS = 1.0
"""How long a stream that is broken off may take to say so."""

RETRY_SECONDS = 2
"""After how long a client asks again that was one too many."""

MAX_ENDPOINTS = 8
"""How many endpoints of Baton a request may have come through."""


class Posted(NamedTuple):
    """What was sent to an address, and by whom."""

    body: bytearray
    headers: Mapping[str, str]
    client: Client


Work = Callable[[Posted], Awaitable[dict[str, Any]]]
"""Computes an answer from what was sent. Raises ApiError."""


class Endpoint:
    """Answers requests through a runner. `access` says who may ask.

    `report` takes each request that is over, but for those whether Baton runs.
    """

    def __init__(
        self,
        runner: RequestRunner,
        access: Access,
        report: Callable[[ServedRequest], object] = lambda request: None,
    ) -> None:
        self._home = runner.home
        self._runner = runner
        self._access = access
        self._report = report
        self._bodies = BodyReader()
        self._background = BackgroundRuns(runner)
        self._embedder = Embedder(runner.orchestra.services.router)
        routes = [
            Route("/", self._health, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/models/{name:path}", self._model, methods=["GET"]),
            self._posted("chat/completions", CHAT),
            self._posted("completions", COMPLETIONS),
            self._posted("embeddings", CHAT, self._embed),
            self._posted("responses", RESPONSES),
            self._posted("responses/input_tokens", RESPONSES, self._count_response),
            Route("/v1/responses/{id}", self._response, methods=["GET"]),
            Route("/v1/responses/{id}/cancel", self._cancel, methods=["POST"]),
            self._posted("messages", MESSAGES),
            self._posted("messages/count_tokens", MESSAGES, self._count_messages),
        ]
        self._app = Starlette(
            routes=routes,
            exception_handlers={
                **dict.fromkeys((ApiError, BatonError, Exception), _show_error),
                HTTPException: _show_http_error,
            },
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

    def _posted(self, name: str, dialect: Dialect, work: Work | None = None) -> Route:
        """Return the route of an address that asks for a run, or has `work` done."""
        return Route(f"/v1/{name}", _Ask(self, dialect, work), methods=["POST"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path, headers = canonical_path(scope["path"]), _headers(scope)
        scope = {**scope, "path": path, REQUEST_ID: new_id()}
        send = _with_request_id(scope[REQUEST_ID], send)
        try:
            self._access.check_source(headers, scope.get("server"))
            self._note_way(headers)
            await self._cors(scope, receive, send)
        except ApiError as error:
            await _show_error(Request(scope), error)(scope, receive, send)
        except Exception as error:
            scope[ERROR] = shown_error(error)
            raise
        finally:
            self._report_end(scope, program_name(headers))

    def _note_way(self, headers: Mapping[str, str]) -> None:
        """Note through which homes a request came; refuse one that began here: ApiError.

        A status above 499 would make the worker that asks try again.
        """
        passed = tuple(filter(None, headers.get(VIA_HEADER, "").replace(" ", "").split(",")))
        if self._home in passed or len(passed) >= MAX_ENDPOINTS:
            raise ApiError(
                400,
                "request_loop",
                "The worker's address is Baton's own endpoint, so the request went in a circle.",
                "Give it another: `baton config edit`.",
            )
        ENDPOINTS_PASSED.set((*passed, self._home))

    async def _authorise(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            scope[CLIENT] = self._access.check_token(_headers(scope), scope["path"])
        except ApiError as error:
            await _show_error(Request(scope), error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _report_end(self, scope: Scope, program: str) -> None:
        """Report a request that is over: by whom, where and how it went, never what it says."""
        served: ServedRun | None = scope.get(SERVED)
        error: ApiError | None = scope.get(ERROR)
        if served is not None:
            served.error = served.error or error
            self._report(served.request)
        elif error is not None or scope["path"] not in OPEN_PATHS:
            address = one_line(f"{scope['method']} {scope['path']}", 80)
            status, reason = (200, "") if error is None else (error.status, error.message)
            model, id = scope.get(MODEL, ""), scope[REQUEST_ID]
            self._report(ServedRequest(program, address, model, status, reason, run=id))

    async def aclose(self) -> None:
        """Stop what runs in the background."""
        await self._background.aclose()

    async def _health(self, request: Request) -> Response:
        return _json({"status": "ok", "name": "baton", "version": __version__})

    async def _models(self, request: Request) -> Response:
        has_encoder = (
            self._embedder.encoder is not None and "anthropic-version" not in request.headers
        )
        models = self._runner.listed_models(has_encoder=has_encoder)
        listed = [_model_object(model) for model in models]
        ends = {"first_id": models[0].id, "last_id": models[-1].id, "has_more": False}
        return _json({"object": "list", "data": listed, **ends})

    async def _model(self, request: Request) -> Response:
        named = request.path_params["name"]
        return _json(_model_object(replace(self._runner.find_model(named), id=named)))

    async def _response(self, request: Request) -> Response:
        id, client = request.path_params["id"], request.scope[CLIENT]
        return _json(await self._background.describe(id, client))

    async def _cancel(self, request: Request) -> Response:
        id, client = request.path_params["id"], request.scope[CLIENT]
        return _json(await self._background.cancel(id, client))

    async def ask(self, dialect: Dialect, request: Request, send: Send) -> None:
        """Answer a request for a run, as long as the client is there. Raises ApiError."""
        async with self._bodies.read(request) as body:
            client, id = request.scope[CLIENT], request.scope[REQUEST_ID]
            asked = await self._read(dialect, Posted(body, _headers(request.scope), client))
            body.clear()
            request.scope[MODEL] = asked.model
            served = request.scope[SERVED] = self._runner.begin(asked, client, id)
            if served.asked.is_background:
                begun = await self._background.begin(served)
                if asked.is_streamed:
                    written = self._background.follow(served)
                    stream = self._stream(dialect, served, written, send)
                    await _while_connected(request.receive, stream)
                else:
                    await _json(begun)(request.scope, request.receive, send)
                await self._background.wait_for(served)  # its text takes room until then
                return
            answer = self._answer_request(dialect, served, request.scope, request.receive, send)
            await _while_connected(request.receive, answer)

    async def compute(self, work: Work, request: Request, send: Send) -> None:
        """Answer a request without a run, as long as the client is there. Raises ApiError."""

        async def answer(body: bytearray) -> None:
            result = await work(Posted(body, _headers(request.scope), client))
            await _json(result)(request.scope, request.receive, send)

        client = request.scope[CLIENT]
        place = self._runner.place(client)
        async with place, self._bodies.read(request) as body:
            await _while_connected(request.receive, answer(body))

    async def _embed(self, posted: Posted) -> dict[str, Any]:
        asked, texts = read_embeddings(await _parsed(posted.body))
        return await self._embedder.embed(asked, texts, self._runner.find_model(asked.model))

    async def _count_messages(self, posted: Posted) -> dict[str, Any]:
        asked = await self._read(MESSAGES, posted)
        return {"input_tokens": await self._runner.count(asked, posted.client)}

    async def _count_response(self, posted: Posted) -> dict[str, Any]:
        asked = await self._read(RESPONSES, posted)
        count = await self._runner.count(asked, posted.client)
        return {"object": "response.input_tokens", "input_tokens": count}

    async def _read(self, dialect: Dialect, posted: Posted) -> ClientRequest:
        """Return what a body asks for; private if it refers to what is. Raises ApiError."""
        fields: Mapping[str, Any] = await _parsed(posted.body)
        label = Label.CLOUD
        if dialect is RESPONSES:
            fields, label = await self._background.resolve(fields, posted.client)
        asked = await _worked_on(posted.body, dialect.read, fields, posted.headers)
        is_private = asked.conditions.is_private or label is not Label.CLOUD
        conditions = replace(asked.conditions, is_private=is_private)
        return replace(asked, weight=len(posted.body), conditions=conditions)

    async def _answer_request(
        self, dialect: Dialect, served: ServedRun, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async with aclosing(self._runner.run(served)) as written:
            if served.asked.is_streamed:
                await self._stream(dialect, served, written, send)
                return
            text, calls = "", list[ToolCall]()
            async for shown, called in written:
                text += shown
                calls += called
        self._background.remember(served, text, calls)
        whole = dialect.whole(self._answer(served, text, calls), served.asked)
        await _json(whole)(scope, receive, send)

    async def _stream(
        self, dialect: Dialect, served: ServedRun, written: FoundCalls, send: Send
    ) -> None:
        """Send an answer as server-sent events.

        An error before the first of them has a status of its own; one after that ends the stream.
        """
        writer = dialect.stream(served.asked)
        stream = EventStream(send, dialect, lambda: writer.begin(answer_head(served)))
        text, calls = "", list[ToolCall]()
        try:
            async with stream.kept_alive(served.recorded):
                async for shown, called in written:
                    await stream.begin()
                    head = answer_head(served)
                    if shown:
                        await stream.send(writer.text(head, shown))
                    for call in called:
                        await stream.send(writer.call(head, call))
                    text += shown
                    calls += called
        except asyncio.CancelledError:  # the server ends, or the client is gone
            if stream.has_begun:
                with suppress(Exception):
                    async with asyncio.timeout(LAST_WORD_SECONDS):
                        await stream.send(writer.fail(answer_head(served), stopped_error()))
                        await stream.finish()
            raise
        except Exception as error:
            if not stream.has_begun:
                raise
            await stream.send(writer.fail(answer_head(served), shown_error(error)))
        else:
            await stream.begin()
            self._background.remember(served, text, calls)
            await stream.send(writer.end(self._answer(served, "", calls)))
        await stream.finish()

    def _answer(self, served: ServedRun, text: str, calls: list[ToolCall]) -> Answer:
        return make_answer(served, self._runner.orchestra.roster, text, calls)


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
            scope[ERROR] = error
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


async def _parsed(body: bytearray) -> dict[str, Any]:
    return await _worked_on(body, parse_body, bytes(body))


async def _worked_on(body: bytearray, work: Callable[..., T], *given: object) -> T:
    """Return what a function does, in a thread where it has much to do with a body."""
    is_large = len(body) > SMALL_BODY_BYTES
    return await asyncio.to_thread(work, *given) if is_large else work(*given)


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


def _show_error(request: Request, error: Exception) -> Response:
    api_error = shown_error(error)
    request.scope[ERROR] = api_error
    shown = MESSAGES if is_anthropic(request.scope["path"], request.headers) else CHAT
    return _json(shown.error(api_error), api_error.status)


def _show_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers, code, message = error.headers or {}, "not_found", str(error.detail)
    if error.status_code == 404:
        message = no_address_text(request.scope["path"], request.headers)
    elif error.status_code == 405:
        code, message = "method_not_allowed", f"This address takes {headers['Allow']}."
    answer = _show_error(request, ApiError(error.status_code, code, message))
    answer.headers.update(headers)
    return answer
