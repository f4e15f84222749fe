"""How each provider words an answer: the events of a stream, whole answers, refusals, usage."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

CREATED = 1_760_000_000


@dataclass(frozen=True, slots=True)
class Tokens:
    """What was counted. `out` includes `reasoning`; `cached` and `written` are parts of `input`."""

    input: int
    out: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What a request asked for, in words that all dialects share."""

    dialect: str
    provider: str
    model: str
    stream: bool
    cap: int | None
    usage: bool
    texts: tuple[str, ...]


Usage = dict[str, Any] | None


def _sse(data: Any, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"{head}data: {text}\n\n".encode()


def frame(payload: Any, headers: Mapping[str, str]) -> bytes:
    """Return an event in AWS's binary form."""
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    head = b"".join(
        bytes([len(name)]) + name + b"\x07" + len(value).to_bytes(2) + value
        for name, value in pairs
    )
    body = _json(payload)
    prelude = (len(head) + len(body) + 16).to_bytes(4) + len(head).to_bytes(4)
    said = prelude + crc32(prelude).to_bytes(4) + head + body
    return said + crc32(said).to_bytes(4)


class Dialect:
    """One answer in one dialect. Every part is bytes of one event or more."""

    content_type = "text/event-stream"

    @property
    def keeps(self) -> bool:
        """Whether this provider charges for what it puts into its cache, and so reports it."""
        return self.asked.provider in ("anthropic", "openrouter")

    @property
    def discounts(self) -> bool:
        """Whether what it finds in its cache costs less; Cohere leaves it out of what it bills."""
        return self.asked.provider != "cohere"

    def __init__(self, asked: ParsedRequest) -> None:
        self.asked = asked
        self.model = asked.model
        self.cost = 0.0
        self.ending = ""
        """"filter" or "tool": how it ends, if otherwise than it should."""

    def _reason(self, cut: bool, **words: str) -> str:
        """Return the dialect's word for how it ends: `length`, `stop`, `filter` or `tool`."""
        return words[self.ending or ("length" if cut else "stop")]

    def usage(self, tokens: Tokens) -> dict[str, Any]:
        """Return the provider's own account of what was used."""
        raise NotImplementedError

    def start(self, usage: Usage) -> bytes:
        """Return what comes before the first piece."""
        raise NotImplementedError

    def piece(self, text: str) -> bytes:
        """Return one token of the answer."""
        raise NotImplementedError

    def tool(self) -> bytes:
        """Return the call of a tool."""
        raise NotImplementedError

    def finish(self, text: str, cut: bool, usage: Usage) -> bytes:
        """Return the reason for the end, and the usage."""
        raise NotImplementedError

    def marker(self, text: str, cut: bool, usage: Usage) -> bytes:
        """Return the last event of all, where the dialect has one."""
        return b""

    def whole(self, text: str, cut: bool, usage: Usage) -> bytes:
        """Return an answer that isn't streamed."""
        raise NotImplementedError

    def broken(self, message: str) -> bytes:
        """Return an error in the middle of a stream."""
        raise NotImplementedError


class Chat(Dialect):
    """OpenAI Chat Completions, with what each provider adds to it."""

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {
            "id": "chatcmpl-kit",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.model,
            "choices": choices,
            **more,
        }

    def _delta(self, delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _sse(self._chunk([choice], **more))

    def usage(self, tokens: Tokens) -> dict[str, Any]:
        provider = self.asked.provider
        out = tokens.out - (tokens.reasoning if provider in ("vercel_ai_gateway", "xai") else 0)
        usage: dict[str, Any] = {
            "prompt_tokens": tokens.input,
            "completion_tokens": out,
            "total_tokens": tokens.input + (out if provider == "vercel_ai_gateway" else tokens.out),
            "prompt_tokens_details": {"cached_tokens": tokens.cached},
            "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
        }
        if provider == "deepseek":
            usage["prompt_cache_hit_tokens"] = tokens.cached
            usage["prompt_cache_miss_tokens"] = tokens.input - tokens.cached
        if provider in ("openrouter", "vercel_ai_gateway"):
            usage["cost"] = self.cost
        if provider == "openrouter":
            usage["prompt_tokens_details"]["cache_write_tokens"] = tokens.written
        if provider == "xai":
            usage["cost_in_usd_ticks"] = round(self.cost * 1e10)
        return usage

    def start(self, usage: Usage) -> bytes:
        wait = b": OPENROUTER PROCESSING\n\n" if self.asked.provider == "openrouter" else b""
        return wait + self._delta({"role": "assistant", "content": ""})

    def piece(self, text: str) -> bytes:
        return self._delta({"content": text})

    def tool(self) -> bytes:
        made = {"name": "look", "arguments": "{}"}
        return self._delta({"tool_calls": [{"index": 0, "id": "call_kit", "function": made}]})

    def finish(self, text: str, cut: bool, usage: Usage) -> bytes:
        reason = self._reason(
            cut, length="length", stop="stop", filter="content_filter", tool="tool_calls"
        )
        provider = self.asked.provider
        if usage is None:
            return self._delta({}, reason)
        if provider == "vercel_ai_gateway":
            routed = {"gateway": {"cost": str(self.cost)}}
            return self._delta({"provider_metadata": routed}, reason, usage=usage)
        if provider in ("mistral", "deepseek", "cerebras"):
            return self._delta({"content": ""}, reason, usage=usage)
        if provider == "groq":
            last = self._delta({}, reason, x_groq={"id": "req_kit", "usage": usage})
        else:
            last = self._delta({}, reason)
        if self.asked.usage or provider == "openrouter":
            last += _sse(self._chunk([], usage=usage))
        return last

    def marker(self, text: str, cut: bool, usage: Usage) -> bytes:
        return _sse("[DONE]")

    def whole(self, text: str, cut: bool, usage: Usage) -> bytes:
        message = {"role": "assistant", "content": text}
        reason = "length" if cut else "stop"
        body = self._chunk([{"index": 0, "message": message, "finish_reason": reason}])
        body["object"] = "chat.completion"
        return _json(body if usage is None else {**body, "usage": usage})

    def broken(self, message: str) -> bytes:
        error = {"message": message, "type": "server_error", "code": 502}
        return _sse({"error": error})


class Responses(Dialect):
    """OpenAI Responses."""

    _number = -1

    def _event(self, kind: str, **data: Any) -> bytes:
        self._number += 1
        return _sse({"type": kind, "sequence_number": self._number, **data}, kind)

    def _item(self, text: str, status: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
        return {
            "id": "msg_kit",
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    def _response(self, status: str, **more: Any) -> dict[str, Any]:
        return {
            "id": "resp_kit",
            "object": "response",
            "created_at": CREATED,
            "model": self.model,
            "status": status,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            **more,
        }

    def _ended(self, text: str, cut: bool, usage: Usage) -> dict[str, Any]:
        filtered = self.ending == "filter"
        status = "incomplete" if cut or filtered else "completed"
        why = "content_filter" if filtered else "max_output_tokens"
        details = {"reason": why} if cut or filtered else None
        output = [self._item(text, status)]
        return self._response(status, output=output, incomplete_details=details, usage=usage)

    def usage(self, tokens: Tokens) -> dict[str, Any]:
        if self.asked.provider == "perplexity":
            return {
                "input_tokens": tokens.input,
                "output_tokens": tokens.out,
                "total_tokens": tokens.input + tokens.out,
                "input_tokens_details": {"cache_read_input_tokens": tokens.cached},
                "cost": {"currency": "USD", "total_cost": self.cost},
            }
        return {
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.out,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": tokens.input + tokens.out,
        }

    def start(self, usage: Usage) -> bytes:
        part = {"type": "output_text", "text": "", "annotations": []}
        where = {"item_id": "msg_kit", "output_index": 0, "content_index": 0}
        return (
            self._event("response.created", response=self._response("in_progress"))
            + self._event("response.in_progress", response=self._response("in_progress"))
            + self._event(
                "response.output_item.added", output_index=0, item=self._item("", "in_progress")
            )
            + self._event("response.content_part.added", **where, part=part)
        )

    def piece(self, text: str) -> bytes:
        where = {"item_id": "msg_kit", "output_index": 0, "content_index": 0}
        return self._event("response.output_text.delta", **where, delta=text, logprobs=[])

    def tool(self) -> bytes:
        item = {"id": "fc_kit", "type": "function_call", "name": "look", "arguments": ""}
        return self._event("response.output_item.added", output_index=1, item=item)

    def finish(self, text: str, cut: bool, usage: Usage) -> bytes:
        where = {"item_id": "msg_kit", "output_index": 0, "content_index": 0}
        return self._event(
            "response.output_text.done", **where, text=text, logprobs=[]
        ) + self._event(
            "response.output_item.done", output_index=0, item=self._item(text, "completed")
        )

    def marker(self, text: str, cut: bool, usage: Usage) -> bytes:
        ended = self._ended(text, cut, usage)
        return self._event(f"response.{ended['status']}", response=ended)

    def whole(self, text: str, cut: bool, usage: Usage) -> bytes:
        return _json(self._ended(text, cut, usage))

    def broken(self, message: str) -> bytes:
        error = {"code": "server_error", "message": message}
        if self.asked.provider == "perplexity":
            return self._event("response.failed", error=error)
        return self._event(
            "response.failed", response=self._response("failed", error=error, usage=None)
        )


class Anthropic(Dialect):
    """Anthropic Messages."""

    def _event(self, kind: str, **data: Any) -> bytes:
        return _sse({"type": kind, **data}, kind)

    def _message(self, **more: Any) -> dict[str, Any]:
        return {
            "id": "msg_kit",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            **more,
        }

    def usage(self, tokens: Tokens) -> dict[str, Any]:
        return {
            "input_tokens": tokens.input - tokens.cached - tokens.written,
            "cache_creation_input_tokens": tokens.written,
            "cache_read_input_tokens": tokens.cached,
            "output_tokens": tokens.out,
        }

    def start(self, usage: Usage) -> bytes:
        message = self._message()
        if usage is not None:
            first = {**usage}
            if isinstance(first.get("output_tokens"), int):
                first["output_tokens"] = min(1, first["output_tokens"])
            message["usage"] = first
        block = {"type": "text", "text": ""}
        return (
            self._event("message_start", message=message)
            + self._event("content_block_start", index=0, content_block=block)
            + self._event("ping")
        )

    def piece(self, text: str) -> bytes:
        return self._event(
            "content_block_delta", index=0, delta={"type": "text_delta", "text": text}
        )

    def tool(self) -> bytes:
        block = {"type": "tool_use", "id": "toolu_kit", "name": "look", "input": {}}
        return self._event("content_block_start", index=1, content_block=block)

    def finish(self, text: str, cut: bool, usage: Usage) -> bytes:
        reason = self._reason(
            cut, length="max_tokens", stop="end_turn", filter="refusal", tool="tool_use"
        )
        delta = {"stop_reason": reason, "stop_sequence": None}
        more = {} if usage is None else {"usage": usage}
        return self._event("content_block_stop", index=0) + self._event(
            "message_delta", delta=delta, **more
        )

    def marker(self, text: str, cut: bool, usage: Usage) -> bytes:
        return self._event("message_stop")

    def whole(self, text: str, cut: bool, usage: Usage) -> bytes:
        body = self._message(
            content=[{"type": "text", "text": text}],
            stop_reason="max_tokens" if cut else "end_turn",
        )
        return _json(body if usage is None else {**body, "usage": usage})

    def broken(self, message: str) -> bytes:
        error = {"type": "overloaded_error", "message": message}
        return self._event("error", error=error)


class Gemini(Dialect):
    """Gemini's generateContent; its streams have no end marker."""

    def _body(self, text: str, reason: str | None, usage: Usage) -> dict[str, Any]:
        candidate: dict[str, Any] = {
            "content": {"parts": [{"text": text}], "role": "model"},
            "index": 0,
        }
        if reason is not None:
            candidate["finishReason"] = reason
        body = {
            "candidates": [candidate],
            "modelVersion": self.model,
            "responseId": "kit",
        }
        return body if usage is None else {**body, "usageMetadata": usage}

    def usage(self, tokens: Tokens) -> dict[str, Any]:
        usage = {
            "promptTokenCount": tokens.input,
            "candidatesTokenCount": tokens.out - tokens.reasoning,
            "totalTokenCount": tokens.input + tokens.out,
        }
        if tokens.reasoning:
            usage["thoughtsTokenCount"] = tokens.reasoning
        if tokens.cached:
            usage["cachedContentTokenCount"] = tokens.cached
        return usage

    def start(self, usage: Usage) -> bytes:
        return b""

    def piece(self, text: str) -> bytes:
        return _sse(self._body(text, None, None))

    def tool(self) -> bytes:
        parts = [{"functionCall": {"name": "look", "args": {}}}]
        return _sse({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}]})

    def finish(self, text: str, cut: bool, usage: Usage) -> bytes:
        reason = self._reason(cut, length="MAX_TOKENS", stop="STOP", filter="SAFETY", tool="STOP")
        return _sse(self._body("", reason, usage))

    def whole(self, text: str, cut: bool, usage: Usage) -> bytes:
        return _json(self._body(text, "MAX_TOKENS" if cut else "STOP", usage))

    def broken(self, message: str) -> bytes:
        return _sse({"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}})


class Cohere(Dialect):
    """Cohere's chat, version 2, which counts what it charges beside what it read and wrote."""

    def _event(self, kind: str, **delta: Any) -> bytes:
        return _sse({"type": kind, "index": 0, "delta": delta}, kind)

    def _content(self, kind: str, **content: str) -> bytes:
        return self._event(kind, message={"content": content})

    def usage(self, tokens: Tokens) -> dict[str, Any]:
        counted = {"input_tokens": tokens.input, "output_tokens": tokens.out}
        return {"billed_units": counted, "tokens": counted, "cached_tokens": tokens.cached}

    def start(self, usage: Usage) -> bytes:
        message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
        return self._event("message-start", message=message) + self._content(
            "content-start", type="text", text=""
        )

    def piece(self, text: str) -> bytes:
        return self._content("content-delta", text=text)

    def tool(self) -> bytes:
        made = {"name": "look", "arguments": ""}
        call = {"id": "call_kit", "type": "function", "function": made}
        return self._event("tool-call-start", message={"tool_calls": call})

    def finish(self, text: str, cut: bool, usage: Usage) -> bytes:
        return _sse({"type": "content-end", "index": 0}, "content-end")

    def marker(self, text: str, cut: bool, usage: Usage) -> bytes:
        reason = self._reason(
            cut, length="MAX_TOKENS", stop="COMPLETE", filter="ERROR_TOXIC", tool="TOOL_CALL"
        )
        more = {} if usage is None else {"usage": usage}
        return self._event("message-end", finish_reason=reason, **more)

    def whole(self, text: str, cut: bool, usage: Usage) -> bytes:
        message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        reason = "MAX_TOKENS" if cut else "COMPLETE"
        return _json({"id": "kit", "message": message, "finish_reason": reason, "usage": usage})

    def broken(self, message: str) -> bytes:
        return self._event("message-end", finish_reason="ERROR", error=message)


class Converse(Dialect):
    """Amazon Bedrock's Converse, in AWS's binary events."""

    content_type = "application/vnd.amazon.eventstream"

    def _event(self, kind: str, **data: Any) -> bytes:
        headers = {":event-type": kind, ":content-type": "application/json"}
        return frame({**data, "p": "abcdefgh"}, {**headers, ":message-type": "event"})

    def usage(self, tokens: Tokens) -> dict[str, Any]:
        plain = tokens.input - tokens.cached - tokens.written
        return {
            "inputTokens": plain,
            "outputTokens": tokens.out,
            "totalTokens": tokens.input + tokens.out,
            "cacheReadInputTokens": tokens.cached,
            "cacheWriteInputTokens": tokens.written,
        }

    def start(self, usage: Usage) -> bytes:
        return self._event("messageStart", role="assistant")

    def piece(self, text: str) -> bytes:
        return self._event("contentBlockDelta", contentBlockIndex=0, delta={"text": text})

    def tool(self) -> bytes:
        start = {"toolUse": {"toolUseId": "tooluse_kit", "name": "look"}}
        return self._event("contentBlockStart", contentBlockIndex=1, start=start)

    def _stop_reason(self, cut: bool) -> str:
        return self._reason(
            cut, length="max_tokens", stop="end_turn", filter="content_filtered", tool="tool_use"
        )

    def finish(self, text: str, cut: bool, usage: Usage) -> bytes:
        stop = self._event("messageStop", stopReason=self._stop_reason(cut))
        return self._event("contentBlockStop", contentBlockIndex=0) + stop

    def whole(self, text: str, cut: bool, usage: Usage) -> bytes:
        message = {"role": "assistant", "content": [{"text": text}]}
        answer = {"output": {"message": message}, "stopReason": self._stop_reason(cut)}
        return json.dumps({**answer, "usage": usage or {}}).encode()

    def marker(self, text: str, cut: bool, usage: Usage) -> bytes:
        more = {} if usage is None else {"usage": usage}
        return self._event("metadata", metrics={"latencyMs": 900}, **more)

    def broken(self, message: str) -> bytes:
        kind = {":exception-type": "modelStreamErrorException", ":message-type": "exception"}
        return frame({"message": message}, {":content-type": "application/json", **kind})


SPEECHES: Mapping[str, type[Dialect]] = {
    "cohere": Cohere,
    "chat": Chat,
    "responses": Responses,
    "anthropic": Anthropic,
    "converse": Converse,
    "gemini": Gemini,
}


def _json(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


_ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_GEMINI = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    529: "UNAVAILABLE",
}
_OPENAI = {
    400: ("invalid_request_error", "context_length_exceeded"),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def refusal(dialect: str, status: int, message: str) -> bytes:
    """Return the body of an error answer, in the dialect's form."""
    if dialect == "anthropic":
        error = {"type": _ANTHROPIC.get(status, "api_error"), "message": message}
        return _json({"type": "error", "error": error, "request_id": "req_kit"})
    if dialect == "gemini":
        kind = _GEMINI.get(status, "INTERNAL")
        return _json({"error": {"code": status, "message": message, "status": kind}})
    if dialect == "converse":
        return _json({"message": message})
    if dialect == "cohere":
        return _json({"id": "kit", "message": message})
    kind, code = _OPENAI.get(status, ("server_error", ""))
    if status == 400 and "context" not in message:
        code = ""
    return _json({"error": {"message": message, "type": kind, "param": None, "code": code or None}})


def too_long(dialect: str, tokens: int) -> str:
    """Return how each dialect says that a prompt exceeds the context."""
    if dialect == "anthropic":
        return f"prompt is too long: {tokens} tokens > 200000 maximum"
    if dialect == "gemini":
        return (
            f"The input token count ({tokens}) exceeds the maximum number of tokens allowed "
            "(1048576)."
        )
    if dialect == "converse":
        return "Input is too long for requested model."
    if dialect == "responses":
        return "Your input exceeds the context window of this model. Please adjust your input."
    return (
        f"This model's maximum context length is 128000 tokens. However, your messages resulted in "
        f"{tokens} tokens. Please reduce the length of the messages."
    )


def change_usage(usage: Usage, change: Callable[[int], Any]) -> Usage:
    """Return a usage with every number in it changed."""
    if usage is None:
        return None
    return {
        name: change_usage(value, change)
        if isinstance(value, dict)
        else change(value)
        if isinstance(value, int)
        else value
        for name, value in usage.items()
    }
