"""One POST's answer: what it generates, how it goes wrong, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from baton.core.money import FREE, BilledTokens, Price
from support.cloud_faults import ENDINGS, FREE as COSTS_NOTHING, REFUSED, USAGE_FAULTS, Fault
from support.http_connection import Connection
from support.provider_dialects import (
    SPEECHES,
    Dialect,
    ParsedRequest,
    Tokens,
    Usage,
    change_usage,
    refusal,
    too_long,
)
from support.received_requests import ReceivedRequest

MODEL_CAP = 4096
"""What a model writes at most where no cap is set."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered. Tokens have up to four bytes and never part a character.

    `text` is repeated and cut to `tokens` tokens if that is set. `reasoning` tokens come first and
    count towards the cap. `rate` is in tokens a second, None as fast as it goes. One token of a
    prompt stands for `bytes_per_token` bytes; `overhead` is added for each message. `cached` and
    `written` tokens of the prompt are read from and put into the provider's cache (the latter only
    where that is charged). `model` is the name that the answer bears ("": the one asked for).
    """

    text: str = "Here is a naïve answer, 5 € worth 🙂, of a few words. "
    tokens: int | None = None
    reasoning: int = 0
    cached: int = 0
    written: int = 0
    rate: float | None = None
    bytes_per_token: int = 4
    overhead: int = 4
    model: str = ""


@dataclass(frozen=True, slots=True)
class CloudBehaviour:
    """How a cloud behaves apart from faults.

    `whole_cap`: who leaves early pays for the whole cap. `errors_bill`: a 500 that isn't clear
    bills the input. `pause` is the seconds of a slow start or a stall, `trap` where a redirect
    leads, `not_found` what a 404 says, `setting` what a refusal of a setting does.
    """

    whole_cap: bool = False
    errors_bill: bool = True
    retry_after: str = "7"
    pause: float = 30.0
    trap: int = 0
    not_found: str = ""
    setting: str = "Unsupported parameter: 'temperature' is not supported with this model."


class SharedPace:
    """Limits what all answers of a server write together: so many tokens a second (None: any)."""

    def __init__(self, rate: float | None = None) -> None:
        self._rate = rate
        self._next = 0.0

    def delay(self) -> float:
        """Take the turn of one token; return in how many seconds it is."""
        if self._rate is None:
            return 0.0
        now = time.monotonic()
        self._next = max(now, self._next) + 1 / self._rate
        return self._next - now


@dataclass(frozen=True, slots=True)
class Bill:
    """What a provider would charge for one POST; `ended` is whether all of the answer was sent."""

    number: int
    model: str
    tokens_in: int
    tokens_out: int
    cached: int
    cache_written: int
    reasoning: int
    nanos: int
    fault: Fault | None = None
    ended: bool = False


@dataclass
class Answer:
    """One POST while it is being answered."""

    received: ReceivedRequest
    asked: ParsedRequest
    fault: Fault | None
    reply: Reply
    manner: CloudBehaviour
    price: Price
    pace: SharedPace = field(default_factory=SharedPace)
    text: str = field(init=False)
    speech: Dialect = field(init=False)

    def __post_init__(self) -> None:
        reply, asked = self.reply, self.asked
        cap = MODEL_CAP if asked.cap is None else asked.cap
        pieces = tokens_of(reply)
        self.reasoning = min(reply.reasoning, cap)
        self.pieces = pieces[: cap - self.reasoning]
        self.text = "".join(self.pieces)
        self.cut = len(self.pieces) < len(pieces)
        self.out = len(self.pieces) + self.reasoning
        if self.fault is Fault.ABOVE_CAP:
            self.out = 20 * cap + 1
        size = sum(-(-len(text.encode()) // reply.bytes_per_token) for text in asked.texts)
        self.tokens_in = size + reply.overhead * len(asked.texts)
        self.sent = 0
        self.ended = False
        self.speech = SPEECHES[asked.dialect](asked)
        self.speech.model = reply.model or asked.model
        self.speech.ending = ENDINGS.get(self.fault, "") if self.fault else ""
        self.speech.cost = self._cost(self._tokens(self.out)) / 1e9

    # -- money

    def bill(self) -> Bill:
        """Return what is owed for as much as was done."""
        owed = self._owed()
        return Bill(
            self.received.number,
            self.asked.model,
            owed.input,
            owed.out,
            owed.cached,
            owed.written,
            owed.reasoning,
            self._cost(owed),
            self.fault,
            self.ended,
        )

    def _owed(self) -> Tokens:
        if self.fault in COSTS_NOTHING or self.fault in (Fault.REDIRECT, Fault.HTML):
            return Tokens(0, 0)
        if self.fault in REFUSED:
            return self._tokens(0) if self.manner.errors_bill else Tokens(0, 0)
        if self.ended or self.fault is Fault.ABOVE_CAP:
            return self._tokens(self.out)
        if self.manner.whole_cap and self.asked.cap is not None:
            return self._tokens(max(self.asked.cap, self.sent))
        return self._tokens(self.sent + self.reasoning if self.sent else 0)

    def _tokens(self, out: int) -> Tokens:
        cached = min(self.reply.cached if self.speech.discounts else 0, self.tokens_in)
        written = min(self.reply.written if self.speech.keeps else 0, self.tokens_in - cached)
        return Tokens(self.tokens_in, out, cached, written, min(self.reasoning, out))

    def _cost(self, tokens: Tokens) -> int:
        return self.price.cost(
            BilledTokens(
                tokens.input, tokens.out, cached=tokens.cached, cache_written=tokens.written
            )
        )

    def _usage(self) -> Usage:
        if self.fault is Fault.NO_USAGE:
            return None
        usage: Usage = self.speech.usage(self._tokens(self.out))
        change = USAGE_FAULTS.get(self.fault) if self.fault else None
        return change_usage(usage, change) if change else usage

    # -- the way of an answer; each part returns whether the connection may be used again

    async def send(self, connection: Connection) -> bool:
        """Answer, well or badly."""
        fault = self.fault
        if fault is not None and fault in REFUSED:
            return await self._refuse(connection, REFUSED[fault])
        if fault is Fault.REDIRECT:
            where = f"http://127.0.0.1:{self.manner.trap}{self.received.path}"
            return await connection.answer(307, b"", {"location": where})
        if fault is Fault.HTML:
            page = b"<html><body>Please log in to this network.</body></html>"
            return await connection.answer(200, page, {"content-type": "text/html"})
        if fault is Fault.SLOW_START:
            await connection.wait(self.manner.pause)
        if fault is Fault.CUT_AT_ONCE:
            return connection.cut()
        if not self.asked.stream or fault is Fault.NOT_STREAMED:
            return await self._whole(connection)
        return await self._stream(connection)

    async def _refuse(self, connection: Connection, status: int) -> bool:
        message = f"The kit refuses with {status}."
        if self.fault is Fault.TOO_LONG:
            message = too_long(self.asked.dialect, self.tokens_in)
        elif self.fault is Fault.NO_FORM:
            message = "This response_format type is unavailable now."
        elif self.fault is Fault.NO_SETTING:
            message = self.manner.setting
        elif self.fault is Fault.NOT_FOUND:
            message = self.manner.not_found or message
        elif self.fault is Fault.ECHO_KEY:
            message = f"Incorrect API key provided: {self.received.key}."
        if self.fault is Fault.BARE_ERROR:
            page = b"<html><body>Something went wrong.</body></html>"
            return await connection.answer(status, page, {"content-type": "text/html"})
        if self.fault is Fault.CUT_ERROR:
            await connection.part(refusal(self.asked.dialect, status, message), status)
            return connection.cut()
        extra = {"retry-after": self.manner.retry_after} if status == 429 else {}
        return await connection.answer(status, refusal(self.asked.dialect, status, message), extra)

    async def _whole(self, connection: Connection) -> bool:
        body = self.speech.whole(self.text, self.cut, self._usage())
        if self.fault is not None and self.fault.name.startswith(("CUT", "RESET", "STALL")):
            self.sent = len(self.pieces)
            await connection.part(body)
            return connection.cut()
        self.ended = True
        return await connection.answer(200, body)

    async def _stream(self, connection: Connection) -> bool:
        fault, speech, usage = self.fault, self.speech, self._usage()
        extra = {"x-padding": "x" * 300_000} if fault is Fault.HUGE_HEADER else {}
        split, gzip = fault is Fault.SPLIT_BYTES, fault is Fault.GZIP
        await connection.begin(speech.content_type, extra, split=split, gzip=gzip)
        if fault is Fault.EMPTY:
            return await connection.end()
        if fault is Fault.CUT_BEFORE_FIRST:
            return connection.cut()
        if fault is Fault.ERROR_FIRST:
            await connection.send(speech.broken("Overloaded before the first word."))
            return await connection.end()
        await connection.send(speech.start(usage))
        alive = await self._text(connection)
        if alive is not None:
            return alive
        if fault is Fault.CALLS_TOOL:
            await connection.send(speech.tool())
        if fault is Fault.CUT_BEFORE_END:
            return connection.cut()
        await connection.send(speech.finish(self.text, self.cut, usage))
        if fault is Fault.CUT_BEFORE_MARKER:
            return connection.cut()
        await connection.send(speech.marker(self.text, self.cut, usage))
        self.ended = True
        return await connection.end()

    async def _text(self, connection: Connection) -> bool | None:
        """Send the pieces; return None after the last one."""
        middle, begun = len(self.pieces) // 2, time.monotonic()
        while self.fault is Fault.ENDLESS or self.sent < len(self.pieces):
            if self.sent == middle and (alive := await self._midway(connection)) is not None:
                return alive
            if self.fault is Fault.CUT_BEFORE_LAST and self.sent == len(self.pieces) - 1:
                return connection.cut()
            piece = self.pieces[self.sent % len(self.pieces)]
            self.sent += 1  # it is generated, and owed, whether or not it arrives
            if delay := self.pace.delay():
                await connection.wait(delay)
            await connection.send(self.speech.piece(piece))
            if self.reply.rate:
                await connection.wait(begun + self.sent / self.reply.rate - time.monotonic())
        return None

    async def _midway(self, connection: Connection) -> bool | None:
        """Do what goes wrong in the middle; return None to continue."""
        if self.fault is Fault.STALL:
            await connection.wait(self.manner.pause)
        elif self.fault is Fault.MALFORMED:
            await connection.send(b'data: {"choices": [{"delta": {"content": "bro\n\n')
        elif self.fault in (Fault.ERROR_IN_STREAM, Fault.ECHO_IN_STREAM):
            said = f" for {self.received.key}" if self.fault is Fault.ECHO_IN_STREAM else ""
            await connection.send(self.speech.broken(f"Overloaded in mid-stream{said}."))
            return await connection.end()
        elif self.fault is Fault.CUT_MIDWAY:
            return connection.cut()
        elif self.fault is Fault.RESET_MIDWAY:
            return connection.reset()
        elif self.fault is Fault.CUT_POLITELY:
            return await connection.end()
        return None


def tokens_of(reply: Reply) -> list[str]:
    """Return a reply's text in tokens."""
    text, wanted = reply.text, reply.tokens
    if wanted is not None:
        text *= wanted * 4 // max(1, len(text)) + 1
    pieces, piece = [], ""
    for letter in text:
        if len((piece + letter).encode()) > 4:
            pieces.append(piece)
            piece = ""
        piece += letter
    pieces.append(piece)
    return pieces if wanted is None else pieces[:wanted]


def price_of(prices: Mapping[str, Price], model: str) -> Price:
    """Return the price under the longest name that a model's ends with."""
    names = [name for name in prices if model.endswith(name)]
    return prices[max(names, key=len)] if names else FREE
