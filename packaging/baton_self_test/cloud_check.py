"""A call to a cloud worker, through gate, ledger, gateway and litellm, to this very machine."""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from baton.cli.doctor.check import CheckFailed, CheckWarning
from baton.core.labels import Label
from baton.core.ledger_types import Scope, Status
from baton.core.messages import Card, Message, Request, Role, Text
from baton.core.money import NANO, Price, Rates, show_usd

if TYPE_CHECKING:
    from baton.core.run.metered_worker import CallUsage
    from baton.money import Ledger
    from baton_self_test.context import SelfTestContext

ANSWER = "Ad libitum."
TOKENS_IN, TOKENS_OUT = 1000, 200
"""What the provider says that it counted."""

_VARIABLE = "BATON_SELF_TEST_API_KEY"
_RUN = "self-test"
PRICE = Price(Rates(3 * NANO, 15 * NANO, 3 * NANO, 3 * NANO), source="the self-test")
COST = (3 * TOKENS_IN + 15 * TOKENS_OUT) * NANO // 1_000_000
"""What the answer costs, computed apart from the ledger."""


async def check_cloud(context: SelfTestContext) -> str:
    """Ask, and see that the answer, the bytes that left and the charge are as they must be."""
    from baton.money import Ledger

    async with LoopbackProvider() as provider:
        if not await provider.is_reachable():
            text = "This machine can't talk with itself (127.0.0.1), so the gateway wasn't tried."
            return CheckWarning(f"{text} Without that, no cloud worker answers.")
        ledger = Ledger(context.folder / "cloud.db")
        try:
            key = f"self-test-{secrets.token_hex(16)}"
            answer = await _ask_worker(context, ledger, provider, key)
            why = await _find_fault(ledger, provider, key, answer)
        finally:
            await ledger.aclose()
    if why:
        raise CheckFailed(why)
    return f"a request went through the gateway to this machine, charged exactly {show_usd(COST)}"


async def _ask_worker(
    context: SelfTestContext, ledger: Ledger, provider: LoopbackProvider, key: str
) -> str:
    from baton.core.permissions import ANYTHING, RunTerms
    from baton.core.run.metered_worker import MeteredWorker, RunBudget
    from baton.workers.cloud import CloudWorker, Gateway

    # No keyring is asked: one that is locked would open a window.
    quiet = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", _VARIABLE: key}
    gateway = Gateway(
        ledger.sent, keys_file=context.paths.keys_file, environ={**context.environ, **quiet}
    )
    address = f"http://127.0.0.1:{provider.port}/v1"
    worker = CloudWorker(CARD, gateway, base_url=address, api_key_env=_VARIABLE)
    terms = RunTerms({Scope.DAY: NANO})
    purse = RunBudget(ledger, None, terms, ANYTHING, run=_RUN, session=_RUN)
    messages = (Message(Role.SYSTEM, "You are brief."), Message(Role.USER, "Answer."))
    request = Request(messages, max_tokens=300, label=Label.CLOUD)
    try:
        async with aclosing(MeteredWorker(worker, purse, _ignore_usage).stream(request)) as chunks:
            return "".join([chunk.text async for chunk in chunks if isinstance(chunk, Text)])
    finally:
        await gateway.aclose()


async def _find_fault(ledger: Ledger, provider: LoopbackProvider, key: str, answer: str) -> str:
    """Say what isn't as it must be, or return ""."""
    charges, left = await ledger.charges(_RUN), await ledger.egress(_RUN)
    sent = [body for body in provider.bodies if body]
    if answer != ANSWER:
        return f"The answer of a provider is read wrongly ({answer!r})."
    if [egress.body for egress in left] != sent or len(sent) != 1:
        return "What left isn't what the egress log says."
    if f"Bearer {key}" not in provider.keys or key.encode() in sent[0]:
        return "The key didn't go where it should."
    if [(c.status, c.charged) for c in charges] != [(Status.SETTLED, COST)]:
        return "The ledger doesn't say what the call cost."
    return ""


async def _ignore_usage(_: CallUsage) -> None:
    """What a call used is read from the ledger."""


CARD = Card(
    "self-test",
    "cloud",
    "gpt-4o-mini",
    privacy=Label.CLOUD,
    price=PRICE,
    provider="openai",
    model="openai/gpt-4o-mini",
    remote=True,
)


_MAX_BODY_BYTES = 1 << 20


class LoopbackProvider:
    """Listens while entered; `bodies` and `keys` are what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.keys: list[str] = []
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def is_reachable(self) -> bool:
        """Whether this machine can talk with itself at all."""
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            fields = dict(_header_field(line) for line in head.split("\r\n")[1:] if ":" in line)
            size = min(int(fields.get("content-length", "0")), _MAX_BODY_BYTES)
            self.bodies.append(await reader.readexactly(size))
            self.keys.append(fields.get("authorization", ""))
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            )
            writer.write(b"".join(_answer_events()))
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # it hung up, as `is_reachable` does
        finally:
            writer.close()


def _header_field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def _answer_events() -> list[bytes]:
    usage = {
        "prompt_tokens": TOKENS_IN,
        "completion_tokens": TOKENS_OUT,
        "total_tokens": TOKENS_IN + TOKENS_OUT,
    }
    return [
        _answer_event([{"index": 0, "delta": {"content": ANSWER}}]),
        _answer_event([{"index": 0, "delta": {}, "finish_reason": "stop"}]),
        _answer_event([], usage=usage),
        b"data: [DONE]\n\n",
    ]


def _answer_event(choices: list[dict[str, Any]], **more: Any) -> bytes:
    event = {
        "id": "chatcmpl-0",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "self-test",
        "choices": choices,
        **more,
    }
    return f"data: {json.dumps(event)}\n\n".encode()
