"""The dialects in which providers stream: where each has its text, its count, and its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from baton.workers.cloud.child.answer_reader import AnswerReader, EventFrames
from baton.workers.cloud.child.token_counts import (
    chat_count,
    cohere_count,
    converse_count,
    gemini_count,
    larger_part,
    messages_count,
    responses_count,
)

_CHAT_ENDS = {
    **dict.fromkeys(
        (
            *("length", "model_length", "max_tokens", "max_output_tokens", "max_completion_tokens"),
            *("model_context_window_exceeded", "context_length_exceeded"),
        ),
        "length",
    ),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use"), "tool"),
    **dict.fromkeys(
        ("content_filter", "content_filtered", "sensitive", "safety", "refusal"), "filter"
    ),
}
_CHAT_FAILURES = (
    *("error", "abort", "timeout", "network_error", "server_error"),
    "insufficient_system_resource",
)
_RESPONSES_ENDS = {"content_filter": "filter"}
"""What Responses name as the reason of an incomplete answer; all others cut it."""

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

_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text", "thinking", "thinking_content")
_THOUGHT_LISTS = ("reasoning_details", "thinking_blocks")
"""Where a message has its thoughts: as text, or in parts (OpenRouter and Snowflake, LiteLLM)."""

_THOUGHT_PARTS = frozenset({"reasoning", "reasoning_text", "thinking", "thought"})
_PART_TEXTS = ("text", "thinking", "reasoning", "summary")


class Chat(AnswerReader):
    """OpenAI's Chat Completions, and everybody who imitates them.

    Some servers send no mark after the reason for the end.
    """

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
            "usage",
        }
    )
    _KNOWN_IN_DELTA = frozenset(
        {"channel", "content", "extra_content", "refusal", "role", *_THOUGHTS, *_THOUGHT_LISTS}
    )

    def _mark_end(self) -> None:
        if self._is_count_last:
            self.finish = self.finish or "stop"  # Snowflake's names no reason

    def _take_whole(self, answer: Mapping[str, Any]) -> str:
        choice = dict(_only_answer(answer.get("choices")))
        choice["delta"] = choice.pop("message", None)
        text = self._take({**answer, "choices": [choice]})
        self._is_count_last = self._is_counted_now
        self._mark_end()
        return text

    def _take(self, event: Mapping[str, Any]) -> str:
        choice = _only_answer(event.get("choices"))
        self._note_finish(choice.get("finish_reason"))
        usage = event.get("usage") or (event.get("x_groq") or {}).get("usage")
        if usage := usage or choice.get("usage"):  # Moonshot's
            self._note_count(chat_count(usage), is_final=bool(self.finish))
            self._is_count_last = bool(self.finish) or not event.get("choices")
        if event.get("error") or event.get("object") == "error":
            self._note_error(event, event)
            return ""
        delta = choice.get("delta") or {}
        content = delta.get("content")
        self._note_unread(choice, self._KNOWN_IN_CHOICE)
        self._note_unread(delta, self._KNOWN_IN_DELTA)
        self.has_unread |= not _is_text_or_thoughts(content) or any(  # some only the provider reads
            part.get("data") for name in _THOUGHT_LISTS for part in delta.get(name) or ()
        )
        self._note_thoughts(_thoughts_of(delta))
        if _is_thought(delta):
            self._note_thoughts(_text_of(content))
            return ""
        return _text_of(content) + _text_of(delta.get("refusal"))

    def _note_finish(self, reason: str | None) -> None:
        if reason and reason.lower() not in _CHAT_FAILURES:
            self.finish = _CHAT_ENDS.get(reason.lower(), "stop")
        elif reason and self.finish != "length":  # OpenRouter names an error behind a cap
            self.error = f"The provider gave up ({reason})."


class Responses(AnswerReader):
    """OpenAI's Responses."""

    dialect = "responses"

    def _take_whole(self, answer: Mapping[str, Any]) -> str:
        text = ""
        for item in answer.get("output") or ():
            self._note_item(item)
            for part in item.get("content") or ():
                if part["type"] == "reasoning_text":
                    self._note_thoughts(_text_of(part["text"]))
                else:
                    text += _text_of(part.get("text")) + _text_of(part.get("refusal"))
            for part in item.get("summary") or ():
                self._note_written(_text_of(part["text"]))
        status = answer.get("status")
        kind = f"response.{status}" if status else "error"
        self._take({**answer, "type": kind, "response": answer})
        return text

    def _note_item(self, item: Mapping[str, Any]) -> None:
        """Notice output that isn't a message."""
        made = str(item.get("type"))
        self.has_unread |= made != "message"
        self._calls_tool |= made.endswith("_call")

    def _take(self, event: Mapping[str, Any]) -> str:
        kind = event.get("type")
        if str(kind).endswith("item.added"):
            self._note_item(event["item"])
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                return _text_of(event["delta"])
            case "response.reasoning_text.delta":
                self._note_thoughts(_text_of(event["delta"]))
            case "response.reasoning_summary_text.delta":
                self._note_written(_text_of(event["delta"]))  # a summary isn't charged
            case "response.completed":
                self._note_end(event["response"], "stop")
            case "response.incomplete":
                why = (event["response"].get("incomplete_details") or {}).get("reason")
                self._note_end(event["response"], _RESPONSES_ENDS.get(str(why), "length"))
            case "response.failed":
                error = event.get("response") or event  # Perplexity has the error outside
                self._note_usage(error.get("usage"))
                self._note_error(event, error)
            case "error":
                self._note_error(event, event)
            case str() if kind.endswith(".delta"):
                self.has_unread = True
        return ""

    def _note_end(self, response: Mapping[str, Any], finish: str) -> None:
        self.finish = "tool" if self._calls_tool and finish == "stop" else finish
        self._note_usage(response.get("usage"))

    def _note_usage(self, usage: Mapping[str, Any] | None) -> None:
        if usage:
            self._note_count(responses_count(usage))


class Messages(AnswerReader):
    """Anthropic's Messages: the count comes in two parts, cached tokens beside the others."""

    dialect = "messages"

    def __init__(self) -> None:
        super().__init__()
        self._stopped = False
        self._usage_fields: dict[str, Any] = {}

    def _ended(self) -> bool:
        return self._stopped

    def _take_whole(self, answer: Mapping[str, Any]) -> str:
        if answer.get("type") == "error":
            return self._take(answer)
        self._take({"type": "message_start", "message": answer})
        text = "".join(map(self._read_block, answer["content"]))
        self._take({"type": "message_delta", "delta": answer, "usage": answer.get("usage")})
        self._take({"type": "message_stop"})
        return text

    def _take(self, event: Mapping[str, Any]) -> str:
        match event.get("type"):
            case "message_start":
                # Its count of output is a beginning; the whole comes with message_delta.
                usage = event["message"].get("usage") or {}
                self._add({k: v for k, v in usage.items() if k != "output_tokens"})
                self._is_counted_begun = bool(usage)  # the prompt was read, and may be charged
            case "content_block_start":
                return self._read_block(event["content_block"])
            case "content_block_delta":
                return self._read_block(event["delta"])
            case "message_delta":
                usage = event.get("usage") or {}
                if usage.get("output_tokens") is None:  # what came before doesn't count the whole
                    self._usage_fields.pop("output_tokens", None)
                self._add(usage)
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
                self._usage_fields[name] = larger_part(self._usage_fields.get(name), value)
        if self._stopped:
            self._note_whole()

    def _note_whole(self) -> None:
        """Put the parts of the count together."""
        self._note_count(messages_count(self._usage_fields))


class Gemini(AnswerReader):
    """Google's streamGenerateContent. It has no last word, so the connection's clean end counts.

    Each chunk has a count of all so far; Gemini 2.0 names more on the way than at the end (169
    tokens, then 79). Of thoughts it shows a summary, which can be longer than they are (100 words
    for 35 tokens): their own count is believed.
    """

    dialect = "gemini"

    def _take(self, event: Mapping[str, Any]) -> str:
        if (event.get("promptFeedback") or {}).get("blockReason"):
            self.finish = "filter"
        candidate = _only_answer(event.get("candidates"))
        is_end = bool(candidate.get("finishReason") or self.finish)
        if usage := event.get("usageMetadata"):
            is_whole = None not in map(usage.get, ("candidatesTokenCount", "totalTokenCount"))
            self._note_count(gemini_count(usage), is_final=is_end and is_whole)
            self._has_own_thought_count |= bool(usage.get("thoughtsTokenCount"))
            self._is_count_last = is_end
        if event.get("error"):
            self._note_error(event, event)
            return ""
        text = ""
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
    """Cohere's chat, version 2. Tokens are counted twice: what is charged is taken.

    The other count has Cohere's own words before the prompt in it.
    """

    dialect = "cohere"

    def _take_whole(self, answer: Mapping[str, Any]) -> str:
        if "finish_reason" not in answer:
            self._note_error(answer, answer)
            return ""
        message = answer.get("message") or {}
        if message.get("tool_calls") or message.get("tool_plan"):
            self.has_unread = self._calls_tool = True
        text = "".join(map(self._read_part, message.get("content") or ()))
        self._take({"type": "message-end", "delta": answer})
        return text

    def _read_part(self, content: Mapping[str, Any]) -> str:
        """Return the text of a part, or of what is added to one."""
        self._note_unread(content, ("text", "thinking", "type"))
        self._note_thoughts(_text_of(content.get("thinking")))
        return _text_of(content.get("text"))

    def _take(self, event: Mapping[str, Any]) -> str:
        kind, delta = str(event.get("type")), event.get("delta") or {}
        if event.get("error"):
            self._note_error(event, event)
        elif kind.startswith("tool-"):
            self.has_unread = self._calls_tool = True
        elif kind in ("content-start", "content-delta"):
            return self._read_part(delta["message"]["content"])
        elif kind == "message-end":
            if usage := delta.get("usage"):
                self._note_count(cohere_count(usage))
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

    def _take_whole(self, answer: Mapping[str, Any]) -> str:
        text = ""
        for block in answer["output"]["message"]["content"]:
            thoughts = (block.get("reasoningContent") or {}).get("reasoningText")
            delta = block if thoughts is None else {"reasoningContent": thoughts}
            text += self._take({"contentBlockDelta": {"delta": delta}})
        self._take({"messageStop": answer})
        self._take({"metadata": answer})
        return text

    def _take(self, event: Mapping[str, Any]) -> str:
        match event:
            case {"error": error}:
                self._note_error(event, error)
            case {"contentBlockStart": block}:
                self._note_unread(block.get("start") or {}, ())
            case {"contentBlockDelta": {"delta": delta}}:
                thoughts = delta.get("reasoningContent") or {}
                self._note_unread(delta, ("citation", "reasoningContent", "text"))
                self._note_unread(thoughts, ("signature", "text"))
                self._note_thoughts(_text_of(thoughts.get("text")))
                return _text_of(delta.get("text"))
            case {"messageStop": {"stopReason": str(reason)}} if reason:
                self.finish = _CONVERSE_ENDS.get(reason, "stop")
            case {"metadata": metadata}:
                self._has_metadata = True
                if usage := metadata.get("usage"):
                    self._note_count(converse_count(usage))
            case _ if not event.keys() <= {"contentBlockStop", "messageStart"}:
                self.has_unread = True
        return ""


DIALECTS: dict[str, type[AnswerReader]] = {
    reader.dialect: reader for reader in (Chat, Responses, Messages, Gemini, Cohere, Converse)
}


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
    content = delta.get("content")
    parts = content if isinstance(content, list) else []
    within = _part_texts(part for part in parts if part["type"] in _THOUGHT_PARTS)
    for name in _THOUGHTS:
        if text := _text_of(delta.get(name)):
            return within + text
    for name in _THOUGHT_LISTS:
        if text := _part_texts(delta.get(name) or ()):
            return within + text
    return within


def _part_texts(parts: Iterable[Mapping[str, Any]]) -> str:
    return "".join(_text_of(part.get(name)) for part in parts for name in _PART_TEXTS)


def _is_thought(delta: Mapping[str, Any]) -> bool:
    """Whether a message's content is thoughts: of gpt-oss by its channel, of Gemini by a mark."""
    marks = (delta.get("extra_content") or {}).get("google") or {}
    return delta.get("channel") in ("analysis", "commentary") or marks.get("thought") is True


def _is_text_or_thoughts(content: Any) -> bool:
    """Return whether a message's content is text and thoughts alone."""
    if isinstance(content, list):
        return all(part["type"] == "text" or part["type"] in _THOUGHT_PARTS for part in content)
    return not content or isinstance(content, str)


def _text_of(content: Any) -> str:
    """Return a piece of text; some send it in parts (Mistral), of which thoughts are none."""
    if isinstance(content, list):
        return "".join(_text_of(part.get("text")) for part in content if part["type"] == "text")
    return content if isinstance(content, str) else ""
