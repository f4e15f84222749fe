"""What providers stream, read as it comes: text, the provider's own count, and its own end.

Pure readers: bytes in, text out, cut anywhere (also inside a character). They don't believe much:
a count that can't be right is no count, and an end is one only where the provider said so in its
dialect and nothing before it was broken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

LONGEST_LINE = 8 * 1024 * 1024
"""No event has more bytes than this."""

NANO = 10**9


@dataclass(frozen=True, slots=True)
class Count:
    """Tokens as a provider counted them; see domain.chat.Usage."""

    tokens_in: int
    tokens_out: int
    cached: int = 0
    cache_written: int = 0
    reported: int | None = None


class Events:
    """Server-sent events. `any` is whether there was one, `broken` whether something was none."""

    def __init__(self) -> None:
        self.broken = False
        self.any = False
        self._line = bytearray()
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[str]:
        """Take bytes as they came; yield the events that they complete."""
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._line += part
            line, self._line = bytes(self._line), bytearray()
            yield from self._take(line.removesuffix(b"\r"))
        self._line += rest
        if len(self._line) > LONGEST_LINE:
            self.broken = True
            self._line.clear()

    def _take(self, line: bytes) -> Iterator[str]:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self.broken = True
            return
        if text.startswith("data:"):
            self._data.append(text[5:].removeprefix(" "))
        elif not text and self._data:
            event, self._data, self.any = "\n".join(self._data), [], True
            yield event


class Reader:
    """One streamed answer. `finish` is "stop" or "length" once the provider named it.

    `error` is the provider's sentence when it failed in mid-stream.
    """

    def __init__(self) -> None:
        self.finish = ""
        self.error = ""
        self.wrote = False
        self.count: Count | None = None
        self._events = Events()
        self._broken = False

    def feed(self, data: bytes) -> str:
        """Take bytes as they came; return the text that they complete."""
        text = "".join(self._read(event) for event in self._events.feed(data))
        self.wrote = self.wrote or bool(text)
        return text

    @property
    def broken(self) -> bool:
        """Whether something came that is not of the dialect."""
        return self._broken or self._events.broken

    @property
    def heard(self) -> bool:
        """Whether anything of the dialect came at all."""
        return self._events.any

    @property
    def at_end(self) -> bool:
        """Whether all of it came, once nothing more comes: the provider's own genuine end."""
        return self._ended() and bool(self.finish) and not self.broken and not self.error

    @property
    def usage(self) -> Count | None:
        """The provider's count, if it can be believed."""
        count = self.count
        if count is None or (self.wrote and not count.tokens_out):
            return None
        parts = count.cached + count.cache_written
        return count if count.tokens_in > 0 and parts <= count.tokens_in else None

    def _read(self, event: str) -> str:
        if event == "[DONE]":
            self._done()
            return ""
        try:
            parsed = json.loads(event)
        except (ValueError, RecursionError):
            self._broken = True
            return ""
        if not isinstance(parsed, dict):
            self._broken = True
            return ""
        try:
            return self._take(parsed)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            self._broken = True
            return ""

    def _done(self) -> None:
        """Note the marker with which some dialects end."""

    def _ended(self) -> bool:
        raise NotImplementedError

    def _take(self, event: Mapping[str, Any]) -> str:
        raise NotImplementedError


class Chat(Reader):
    """OpenAI's Chat Completions, and everybody who imitates them."""

    def __init__(self) -> None:
        super().__init__()
        self._marked = False

    def _done(self) -> None:
        self._marked = True

    def _ended(self) -> bool:
        return self._marked

    def _take(self, event: Mapping[str, Any]) -> str:
        if event.get("error"):
            self.error = error_sentence(event)
            return ""
        usage = event.get("usage") or (event.get("x_groq") or {}).get("usage")
        if usage:
            self.count = _chat_count(usage)
        text = ""
        for choice in event.get("choices") or ():
            text += _text_of((choice.get("delta") or {}).get("content"))
            self._note_finish(choice.get("finish_reason"))
        return text

    def _note_finish(self, reason: str | None) -> None:
        if reason in ("error", "abort", "insufficient_system_resource"):
            self.error = f"The provider gave up ({reason})."
        elif reason:
            self.finish = "length" if reason in ("length", "model_length", "max_tokens") else "stop"


class Responses(Reader):
    """OpenAI's Responses."""

    def _ended(self) -> bool:
        return True  # `finish` is only set by the event that ends

    def _take(self, event: Mapping[str, Any]) -> str:
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                return str(event["delta"])
            case "response.completed":
                self._note_end(event["response"], "stop")
            case "response.incomplete":
                why = (event["response"].get("incomplete_details") or {}).get("reason")
                cut = why == "max_output_tokens"
                self._note_end(event["response"], "length" if cut else "stop")
            case "response.failed":
                self.error = error_sentence(event["response"])
            case "error":
                self.error = error_sentence(event)
        return ""

    def _note_end(self, response: Mapping[str, Any], finish: str) -> None:
        self.finish = finish
        usage = response.get("usage") or {}
        details = usage.get("input_tokens_details") or {}
        self.count = _count(
            usage.get("input_tokens"),
            usage.get("output_tokens"),
            details.get("cached_tokens"),
            details.get("cache_write_tokens"),
        )


class Messages(Reader):
    """Anthropic's Messages: the count comes in two parts, cached tokens beside the others."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped = False
        self._told: dict[str, Any] = {}

    def _ended(self) -> bool:
        return self._stopped

    def _take(self, event: Mapping[str, Any]) -> str:
        match event.get("type"):
            case "message_start":
                # Its count of output is a beginning; the whole comes with message_delta.
                usage = event["message"].get("usage") or {}
                self._told = {k: v for k, v in usage.items() if k != "output_tokens"}
            case "content_block_start":
                return _text_of(event["content_block"].get("text"))
            case "content_block_delta":
                return _text_of(event["delta"].get("text"))
            case "message_delta":
                told = event.get("usage") or {}
                self._told |= {k: v for k, v in told.items() if self._is_more(k, v)}
                if reason := event["delta"].get("stop_reason"):
                    cut = ("max_tokens", "model_context_window_exceeded")
                    self.finish = "length" if reason in cut else "stop"
            case "message_stop":
                self._stopped = True
                self._note_count()
            case "error":
                self.error = error_sentence(event)
        return ""

    def _is_more(self, name: str, told: Any) -> bool:
        """Tell whether a count goes on from the one before; they only ever grow."""
        before = self._told.get(name)
        both = isinstance(told, int) and isinstance(before, int)
        return told is not None and not (both and told < before)

    def _note_count(self) -> None:
        told = self._told
        read = _number(told.get("cache_read_input_tokens") or 0)
        written = _number(told.get("cache_creation_input_tokens") or 0)
        plain = _number(told.get("input_tokens"))
        if plain is None or read is None or written is None:
            self.count = None
        else:
            whole = plain + read + written
            self.count = _count(whole, told.get("output_tokens"), read, written)


class Gemini(Reader):
    """Google's streamGenerateContent. It has no last word, so the connection's clean end counts."""

    def _ended(self) -> bool:
        return True

    def _take(self, event: Mapping[str, Any]) -> str:
        if event.get("error"):
            self.error = error_sentence(event)
            return ""
        if usage := event.get("usageMetadata"):
            self.count = _gemini_count(usage)
        if (event.get("promptFeedback") or {}).get("blockReason"):
            self.finish = "stop"
        text = ""
        for candidate in event.get("candidates") or ():
            for part in (candidate.get("content") or {}).get("parts") or ():
                if not part.get("thought"):
                    text += _text_of(part.get("text"))
            if reason := candidate.get("finishReason"):
                self.finish = "length" if reason == "MAX_TOKENS" else "stop"
        return text


DIALECTS: dict[str, type[Reader]] = {
    "chat": Chat,
    "responses": Responses,
    "messages": Messages,
    "gemini": Gemini,
}


def error_sentence(body: object) -> str:
    """Return what a provider said about an error, in whatever shape; "" when it said nothing."""
    match body:
        case [first, *_]:
            return error_sentence(first)
        case {"error": {"message": str(message)}} | {"error": str(message)}:
            return message
        case {"message": str(message)} | {"detail": str(message)}:
            return message
        case {"error": dict(inner)} | {"message": dict(inner)} | {"detail": dict(inner)}:
            return error_sentence(inner)
        case {"detail": [{"msg": str(message)}, *_]} | {"msg": str(message)}:
            return message
    return ""


def _chat_count(usage: Mapping[str, Any]) -> Count | None:
    details = usage.get("prompt_tokens_details") or {}
    hit = usage.get("prompt_cache_hit_tokens")  # DeepSeek's own, before it took up the details
    prompt, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    return _count(
        prompt,
        _with_thoughts(prompt, written, thought, usage.get("total_tokens")),
        details.get("cached_tokens") if details.get("cached_tokens") is not None else hit,
        details.get("cache_write_tokens"),
        _nanos(usage.get("cost"), usage.get("cost_in_usd_ticks")),
    )


def _with_thoughts(prompt: Any, written: Any, thought: Any, total: Any) -> Any:
    """Return all tokens of an answer: some (xAI) count thoughts beside it, and the total tells."""
    if _number(prompt) is None or _number(written) is None:
        return written
    if _number(total) is not None:
        return max(written, total - prompt)
    return written + thought if (_number(thought) or 0) > written else written


def _gemini_count(usage: Mapping[str, Any]) -> Count | None:
    prompt = _number(usage.get("promptTokenCount"))
    tools = _number(usage.get("toolUsePromptTokenCount") or 0)
    written = _number(usage.get("candidatesTokenCount") or 0)
    thought = _number(usage.get("thoughtsTokenCount") or 0)
    if prompt is None or tools is None or written is None or thought is None:
        return None
    return _count(prompt + tools, written + thought, usage.get("cachedContentTokenCount"))


def _count(
    tokens_in: Any, tokens_out: Any, cached: Any = 0, written: Any = 0, reported: int | None = None
) -> Count | None:
    whole, out = _number(tokens_in), _number(tokens_out)
    read, kept = _number(cached or 0), _number(written or 0)
    if whole is None or out is None or read is None or kept is None:
        return None
    return Count(whole, out, read, kept, reported)


def _number(value: Any) -> int | None:
    """Return a count that can be one, else None."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 1 << 40 else None


def _nanos(dollars: Any, ticks: Any = None) -> int | None:
    """Return a provider's own cost, in nano-dollars, rounded up; xAI's ticks are a tenth of one."""
    if dollars is None and _number(ticks) is not None:
        return -(-int(ticks) // 10)
    if isinstance(dollars, bool) or not isinstance(dollars, int | float | str):
        return None
    try:
        amount = Decimal(str(dollars)) * NANO
    except InvalidOperation:
        return None
    if not amount.is_finite() or not 0 <= amount < 10**18:
        return None
    return int(amount.to_integral_value(ROUND_CEILING))


def _text_of(content: Any) -> str:
    """Return a piece of text; some send it in parts (Mistral), of which thoughts are none."""
    if isinstance(content, list):
        return "".join(_text_of(part.get("text")) for part in content if part["type"] == "text")
    return content if isinstance(content, str) else ""
