"""The dialects in which providers stream: where each has its text, its count, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from baton.core.money import NANO
from baton.workers.cloud.child.answer_reader import AnswerReader
from baton.workers.cloud.child.event_frames import EventFrames
from baton.workers.cloud.messages import TokenCount

_CHAT_ENDS = {
    **dict.fromkeys(("length", "model_length", "max_tokens"), "length"),
    **dict.fromkeys(("tool_calls", "function_call"), "tool"),
    "content_filter": "filter",
}
_RESPONSES_ENDS = {"max_output_tokens": "length", "content_filter": "filter"}
_MESSAGES_ENDS = {
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("tool_use", "pause_turn"), "tool"),
    "refusal": "filter",
}
_GEMINI_ENDS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"), "tool"
    ),
}
"""Gemini's other reasons are all filters: SAFETY, RECITATION, PROHIBITED_CONTENT and the like."""

_COHERE_ENDS = {"MAX_TOKENS": "length", "TOOL_CALL": "tool", "ERROR_TOXIC": "filter"}

_CONVERSE_ENDS = {
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("tool_use", "malformed_tool_use"), "tool"),
    **dict.fromkeys(("content_filtered", "guardrail_intervened"), "filter"),
}

_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text")


class Chat(AnswerReader):
    """OpenAI's Chat Completions, and everybody who imitates them."""

    dialect = "chat"
    _KNOWN_IN_CHOICE = frozenset(
        {
            "content_filter_results",
            "delta",
            "finish_reason",
            "index",
            "logprobs",
            "native_finish_reason",
            "stop_reason",
        }
    )
    _KNOWN_IN_DELTA = frozenset({"content", "refusal", "role", *_THOUGHTS})

    def _ended(self) -> bool:
        return self._is_marked

    def _take(self, event: Mapping[str, Any]) -> str:
        if event.get("error") or event.get("object") == "error":
            self._note_error(event, event)
            return ""
        usage = event.get("usage") or (event.get("x_groq") or {}).get("usage")
        if usage:
            self._note_count(_chat_count(usage))
        choice = _only_answer(event.get("choices"))
        delta = choice.get("delta") or {}
        content = delta.get("content")
        self._note_unread(choice, self._KNOWN_IN_CHOICE)
        self._note_unread(delta, self._KNOWN_IN_DELTA)
        self.has_unread |= not _is_text_or_thoughts(content)
        self._note_thoughts(_thoughts_of(delta))
        self._note_finish(choice.get("finish_reason"))
        return _text_of(content) + _text_of(delta.get("refusal"))

    def _note_finish(self, reason: str | None) -> None:
        if reason in ("error", "abort", "insufficient_system_resource"):
            self.error = f"The provider gave up ({reason})."
        elif reason:
            self.finish = _CHAT_ENDS.get(reason, "stop")


class Responses(AnswerReader):
    """OpenAI's Responses."""

    dialect = "responses"

    def _ended(self) -> bool:
        return True  # `finish` is only set by the event that ends

    def _take(self, event: Mapping[str, Any]) -> str:
        kind = event.get("type")
        if str(kind).endswith("item.added"):
            made = str(event["item"].get("type"))
            self.has_unread |= made != "message"
            self._calls_tool |= made.endswith("_call")
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                return str(event["delta"])
            case "response.reasoning_text.delta":
                self._note_thoughts(_text_of(event["delta"]))
            case "response.reasoning_summary_text.delta":
                self._note_written(_text_of(event["delta"]))  # a summary isn't charged
            case "response.completed":
                self._note_end(event["response"], "stop")
            case "response.incomplete":
                why = (event["response"].get("incomplete_details") or {}).get("reason")
                self._note_end(event["response"], _RESPONSES_ENDS.get(str(why), "stop"))
            case "response.failed":
                said = event.get("response") or event  # Perplexity has the error outside
                self._note_usage(said.get("usage"))
                self._note_error(event, said)
            case "error":
                self._note_error(event, event)
            case str() if kind.endswith(".delta"):
                self.has_unread = True
        return ""

    def _note_end(self, response: Mapping[str, Any], finish: str) -> None:
        self.finish = "tool" if self._calls_tool and finish == "stop" else finish
        self._note_usage(response.get("usage"))

    def _note_usage(self, usage: Mapping[str, Any] | None) -> None:
        if not usage:
            return
        details = usage.get("input_tokens_details") or {}
        thought = (usage.get("output_tokens_details") or {}).get("reasoning_tokens")
        read, written = usage.get("input_tokens"), usage.get("output_tokens")
        total = usage.get("total_tokens")
        self._note_count(
            _count(
                read,
                _with_thoughts(read, written, thought, total, are_among=True),
                details.get("cached_tokens", details.get("cache_read_input_tokens")),
                details.get("cache_write_tokens", details.get("cache_creation_input_tokens")),
                _nanos(usage.get("cost")),
            )
        )


class Messages(AnswerReader):
    """Anthropic's Messages: the count comes in two parts, cached tokens beside the others."""

    dialect = "messages"

    def __init__(self) -> None:
        super().__init__()
        self._stopped = False
        self._usage_fields: dict[str, Any] = {}

    def _ended(self) -> bool:
        return self._stopped

    def _take(self, event: Mapping[str, Any]) -> str:
        match event.get("type"):
            case "message_start":
                # Its count of output is a beginning; the whole comes with message_delta.
                usage = event["message"].get("usage") or {}
                self._add({k: v for k, v in usage.items() if k != "output_tokens"})
            case "content_block_start":
                return self._read_block(event["content_block"])
            case "content_block_delta":
                return self._read_block(event["delta"])
            case "message_delta":
                self._add(event.get("usage") or {})
                if reason := event["delta"].get("stop_reason"):
                    self.finish = _MESSAGES_ENDS.get(reason, "stop")
            case "message_stop":
                self._stopped = True
                self._note_whole()
            case "error":
                self._note_error(event, event)
        return ""

    def _read_block(self, block: Mapping[str, Any]) -> str:
        """Return the text of a block, or of what is added to one."""
        self._note_unread(block, ("citations", "text", "thinking", "type"))
        self.has_unread |= block.get("type") == "redacted_thinking"
        self._note_thoughts(_text_of(block.get("thinking")))
        return _text_of(block.get("text"))

    def _add(self, parts: Mapping[str, Any]) -> None:
        """Take parts of the count."""
        for name, value in parts.items():
            if value is not None:
                self._usage_fields[name] = _larger_part(self._usage_fields.get(name), value)
        if self._stopped:
            self._note_whole()

    def _note_whole(self) -> None:
        """Put the parts of the count together."""
        fields = self._usage_fields
        read = _number(fields.get("cache_read_input_tokens") or 0)
        written = _number(fields.get("cache_creation_input_tokens") or 0)
        plain = _number(fields.get("input_tokens"))
        if plain is None or read is None or written is None:
            self._note_count(None)
        else:
            whole = plain + read + written
            self._note_count(_count(whole, fields.get("output_tokens"), read, written))


def _larger_part(before: Any, now: Any) -> Any:
    """Return a count that was reported again: they only ever grow."""
    both = isinstance(now, int) and isinstance(before, int)
    return max(before, now) if both else now


class Gemini(AnswerReader):
    """Google's streamGenerateContent. It has no last word, so the connection's clean end counts."""

    dialect = "gemini"

    def _ended(self) -> bool:
        return True

    def _take(self, event: Mapping[str, Any]) -> str:
        if event.get("error"):
            self._note_error(event, event)
            return ""
        if usage := event.get("usageMetadata"):
            self._note_count(_gemini_count(usage))
        if (event.get("promptFeedback") or {}).get("blockReason"):
            self.finish = "filter"
        text = ""
        candidate = _only_answer(event.get("candidates"))
        for part in (candidate.get("content") or {}).get("parts") or ():
            piece = _text_of(part.get("text"))
            self._note_unread(part, ("text", "thought"))
            self._calls_tool |= bool(part.get("functionCall"))
            if part.get("thought"):
                self._note_thoughts(piece)
            else:
                text += piece
        if reason := candidate.get("finishReason"):
            finish = _GEMINI_ENDS.get(reason, "filter")
            self.finish = "tool" if self._calls_tool and finish == "stop" else finish
        return text


class Cohere(AnswerReader):
    """Cohere's chat, version 2. Tokens are counted twice; the larger count is taken.

    One is what the model read and wrote, the other what is charged.
    """

    dialect = "cohere"

    def _ended(self) -> bool:
        return True  # `finish` is only set by the event that ends

    def _take(self, event: Mapping[str, Any]) -> str:
        kind, delta = str(event.get("type")), event.get("delta") or {}
        if event.get("error"):
            self._note_error(event, event)
        elif kind.startswith("tool-"):
            self.has_unread = self._calls_tool = True
        elif kind in ("content-start", "content-delta"):
            content = delta["message"]["content"]
            self._note_unread(content, ("text", "thinking", "type"))
            self._note_thoughts(_text_of(content.get("thinking")))
            return _text_of(content.get("text"))
        elif kind == "message-end":
            if usage := delta.get("usage"):
                self._note_count(_cohere_count(usage))
            self._note_finish(event, delta)
        return ""

    def _note_finish(self, event: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        reason = str(delta["finish_reason"])
        if reason in ("ERROR", "TIMEOUT"):
            self._note_error(event, {"message": delta.get("error") or f"It gave up ({reason})."})
            return
        finish = _COHERE_ENDS.get(reason, "stop")
        self.finish = "tool" if self._calls_tool and finish == "stop" else finish


class Converse(AnswerReader):
    """Amazon Bedrock's Converse, whose count comes after the end, cached tokens beside others."""

    dialect = "converse"

    def __init__(self) -> None:
        super().__init__(EventFrames())
        self._has_metadata = False

    def _ended(self) -> bool:
        return self._has_metadata

    def _take(self, event: Mapping[str, Any]) -> str:
        match event:
            case {"error": said}:
                self._note_error(event, said)
            case {"contentBlockStart": {"start": start}}:
                self._note_unread(start, ())
            case {"contentBlockDelta": {"delta": delta}}:
                thoughts = delta.get("reasoningContent") or {}
                self._note_unread(delta, ("citation", "reasoningContent", "text"))
                self._note_unread(thoughts, ("signature", "text"))
                self._note_thoughts(_text_of(thoughts.get("text")))
                return _text_of(delta.get("text"))
            case {"messageStop": {"stopReason": reason}}:
                self.finish = _CONVERSE_ENDS.get(reason, "stop")
            case {"metadata": metadata}:
                self._has_metadata = True
                if usage := metadata.get("usage"):
                    self._note_count(_converse_count(usage))
        return ""


DIALECTS: dict[str, type[AnswerReader]] = {
    reader.dialect: reader for reader in (Chat, Responses, Messages, Gemini, Cohere, Converse)
}


def _chat_count(usage: Mapping[str, Any]) -> TokenCount | None:
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


def _with_thoughts(
    prompt: Any, written: Any, thought: Any, total: Any, *, are_among: bool = False
) -> int | None:
    """Return all tokens of an answer; None where thoughts may be among them, or beside them.

    Most count thoughts among what was written, xAI beside it. Where the dialect doesn't say which
    (`are_among`), only a total does.
    """
    read, out, thoughts = _number(prompt), _number(written), _number(thought or 0)
    if read is None or out is None or thoughts is None:
        return None
    if total is None and thoughts and not are_among:
        return None
    whole = _number(read + out if total is None else total)
    if whole is None or thoughts > max(out, whole - read):
        return None
    return max(out, whole - read)


def _gemini_count(usage: Mapping[str, Any]) -> TokenCount | None:
    prompt = _number(usage.get("promptTokenCount"))
    tools = _number(usage.get("toolUsePromptTokenCount") or 0)
    written = _number(usage.get("candidatesTokenCount") or 0)
    thought = _number(usage.get("thoughtsTokenCount") or 0)
    if prompt is None or tools is None or written is None or thought is None:
        return None
    out = max(written + thought, (_number(usage.get("totalTokenCount")) or 0) - prompt - tools)
    return _count(prompt + tools, out, usage.get("cachedContentTokenCount"))


def _cohere_count(usage: Mapping[str, Any]) -> TokenCount | None:
    counts = [found for name in ("tokens", "billed_units") if (found := usage.get(name))]
    read = [_number(count.get("input_tokens")) for count in counts]
    written = [_number(count.get("output_tokens")) for count in counts]
    if not counts or None in read or None in written:
        return None
    cached = usage.get("cached_tokens")
    return _count(max(n or 0 for n in read), max(n or 0 for n in written), cached)


def _converse_count(usage: Mapping[str, Any]) -> TokenCount | None:
    plain, out = _number(usage.get("inputTokens")), _number(usage.get("outputTokens"))
    read = _number(usage.get("cacheReadInputTokens") or 0)
    written = _number(usage.get("cacheWriteInputTokens") or 0)
    total = _number(usage.get("totalTokens") or 0)
    if plain is None or out is None or read is None or written is None or total is None:
        return None
    whole = plain + read + written
    return _count(whole, max(out, total - whole), read, written)


def _count(
    tokens_in: Any, tokens_out: Any, cached: Any = 0, written: Any = 0, reported: int | None = None
) -> TokenCount | None:
    whole, out = _number(tokens_in), _number(tokens_out)
    read, kept = _number(cached or 0), _number(written or 0)
    if whole is None or out is None or read is None or kept is None:
        return None
    return TokenCount(whole, out, read, kept, reported)


def _number(value: Any) -> int | None:
    """Return a count that can be one, else None."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 1 << 40 else None


def _nanos(dollars: Any, ticks: Any = None) -> int | None:
    """Return a provider's own cost, in nano-dollars, rounded up; xAI's ticks are a tenth of one."""
    if isinstance(dollars, dict):  # Perplexity's, in parts
        dollars = dollars.get("total_cost")
    if dollars is None and _number(ticks) is not None:
        return -(-int(ticks) // 10)
    if isinstance(dollars, bool) or not isinstance(dollars, int | float | str):
        return None
    try:
        amount = Decimal(str(dollars)) * NANO
    except ArithmeticError:
        return None
    if not amount.is_finite() or not 0 <= amount < 10**18:
        return None
    return int(amount.to_integral_value(ROUND_CEILING))


def _only_answer(answers: Any) -> Mapping[str, Any]:
    """Return the one answer in an event, or {}. Raises ValueError for others beside it."""
    if not answers:
        return {}
    if len(answers) > 1 or answers[0].get("index"):
        raise ValueError("more than one answer came")
    only: Mapping[str, Any] = answers[0]
    return only


def _thoughts_of(delta: Mapping[str, Any]) -> str:
    """Return a piece of a model's thoughts, under any of the names that servers use."""
    if isinstance(content := delta.get("content"), list):
        parts = (part for part in content if part["type"] == "thinking")
        return "".join(_text_of(part.get("thinking")) for part in parts)
    for name in _THOUGHTS:
        if text := _text_of(delta.get(name)):
            return text
    return ""


def _is_text_or_thoughts(content: Any) -> bool:
    """Return whether a message's content is text and thoughts alone."""
    if isinstance(content, list):
        return all(part["type"] in ("text", "thinking") for part in content)
    return not content or isinstance(content, str)


def _text_of(content: Any) -> str:
    """Return a piece of text; some send it in parts (Mistral), of which thoughts are none."""
    if isinstance(content, list):
        return "".join(_text_of(part.get("text")) for part in content if part["type"] == "text")
    return content if isinstance(content, str) else ""
