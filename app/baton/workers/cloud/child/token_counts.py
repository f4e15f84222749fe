"""How many tokens an answer has, as each dialect counts them.

Pure functions of what a provider sent under its name for a count; each returns None for what can't
be one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from baton.core.money import NANO
from baton.workers.cloud.messages import TokenCount

_CACHED = (
    "cached_tokens",  # in the details, or beside them (Moonshot, Together)
    "prompt_cache_hit_tokens",  # DeepSeek
    "num_cached_tokens",  # Mistral, until February 2026
    "cache_read_input_tokens",  # LiteLLM's proxy
)
_CACHE_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")


def chat_count(usage: Mapping[str, Any]) -> TokenCount | None:
    places = usage, usage.get("prompt_tokens_details") or {}
    prompt, written = _number(usage.get("prompt_tokens")), usage.get("completion_tokens")
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    cost = _reported_cost(usage)
    cached, kept = _part(_CACHED, places, min), _part(_CACHE_WRITTEN, places, max)
    if prompt is None or cached is None or kept is None:
        return None
    whole = prompt
    if max(cached, kept) > prompt > 0:
        whole += cached + kept  # they stand beside it (Grok by Azure)
    elif prompt < cached + kept:
        cached = prompt - kept  # OpenRouter counts what is kept of Gemini's as read, too
    return _count(
        whole,
        _with_thoughts(
            prompt, written, thought, usage.get("total_tokens"), is_billed=cost is not None
        ),
        cached,
        kept,
        cost,
    )


def _part(
    names: Iterable[str], places: Iterable[Mapping[str, Any]], choose: Callable[[list[int]], int]
) -> int | None:
    """Return the count that is under one of these names or several, None for what can't be one."""
    values = [place.get(name) for name in names for place in places]
    values = [value for value in values if value is not None]
    counts = [count for value in values if (count := _number(value)) is not None]
    if len(counts) < len(values):
        return None
    return choose(counts) if counts else 0


MAX_TOKENIZER_GAP = 8
"""By how many tokens two tokenizers may differ over a few thoughts (OpenRouter: 11 of 10)."""


def _with_thoughts(
    prompt: Any,
    written: Any,
    thought: Any,
    total: Any,
    *,
    are_among: bool = False,
    is_billed: bool = False,
) -> int | None:
    """Return all tokens of an answer; None where thoughts may be among them, or beside them.

    Most count thoughts among what was written, xAI beside it. Where the dialect doesn't say which
    (`are_among`), a total does. More thoughts than fit in stand beside it (Gemini by Vercel's
    gateway), but for a few where the provider names its bill (`is_billed`): those are another
    tokenizer's.
    """
    read, out, thoughts = _number(prompt), _number(written), _part_number(thought)
    if read is None or out is None or thoughts is None:
        return None
    whole = _number(read + out if total is None else total)
    if whole is None:
        return None
    is_unsaid = total is None or whole < read + out
    if is_unsaid and 0 < thoughts <= out and not are_among:
        return None
    most = max(out, whole - read)
    if thoughts <= most or (is_billed and thoughts <= most + MAX_TOKENIZER_GAP):
        return most
    return max(most, out + thoughts)


def responses_count(usage: Mapping[str, Any]) -> TokenCount | None:
    details = usage.get("input_tokens_details") or {}
    thought = (usage.get("output_tokens_details") or {}).get("reasoning_tokens")
    read, written = usage.get("input_tokens"), usage.get("output_tokens")
    return _count(
        read,
        _with_thoughts(read, written, thought, usage.get("total_tokens"), are_among=True),
        details.get("cached_tokens", details.get("cache_read_input_tokens")),
        details.get("cache_write_tokens", details.get("cache_creation_input_tokens")),
        _reported_cost(usage),
    )


def messages_count(fields: Mapping[str, Any]) -> TokenCount | None:
    """Return the count of fields that came one by one; cached tokens stand beside the others."""
    read = _number(fields.get("cache_read_input_tokens", 0))
    written = _number(fields.get("cache_creation_input_tokens", 0))
    plain = _number(fields.get("input_tokens"))
    if plain is None or read is None or written is None:
        return None
    return _count(plain + read + written, fields.get("output_tokens"), read, written)


def larger_part(before: Any, now: Any) -> Any:
    """Return a count that was reported again: they only ever grow, but for what isn't a count."""
    old, new = _number(before), _number(now)
    return now if old is None or new is None else max(old, new)


def gemini_count(usage: Mapping[str, Any]) -> TokenCount | None:
    prompt = _number(usage.get("promptTokenCount"))
    tools = _part_number(usage.get("toolUsePromptTokenCount"))
    written = _part_number(usage.get("candidatesTokenCount"))
    thought = _part_number(usage.get("thoughtsTokenCount"))
    if prompt is None or tools is None or written is None or thought is None:
        return None
    if usage.get("candidatesTokenCount") is None and usage.get("totalTokenCount") is None:
        return None
    out = written + thought
    total = _part_number(usage.get("totalTokenCount"))
    if total is None or (usage.get("totalTokenCount") is not None and total < prompt + out):
        return None
    out = max(out, total - prompt - tools)
    return _count(prompt + tools, out, usage.get("cachedContentTokenCount"))


def cohere_count(usage: Mapping[str, Any]) -> TokenCount | None:
    count = usage.get("billed_units") or usage.get("tokens") or {}
    return _count(count.get("input_tokens"), count.get("output_tokens"))  # cached is what is free


def converse_count(usage: Mapping[str, Any]) -> TokenCount | None:
    plain, out = _number(usage.get("inputTokens")), _number(usage.get("outputTokens"))
    read = _part_number(usage.get("cacheReadInputTokens"))
    written = _part_number(usage.get("cacheWriteInputTokens"))
    total = _part_number(usage.get("totalTokens"))
    if plain is None or out is None or read is None or written is None or total is None:
        return None
    if usage.get("totalTokens") is not None and total < plain + out:
        return None
    whole = plain + read + written
    return _count(whole, max(out, total - whole), read, written)


def _count(
    tokens_in: Any, tokens_out: Any, cached: Any = 0, written: Any = 0, reported: int | None = None
) -> TokenCount | None:
    whole, out = _number(tokens_in), _number(tokens_out)
    read, kept = _part_number(cached), _part_number(written)
    if whole is None or out is None or read is None or kept is None:
        return None
    return TokenCount(whole, out, read, kept, reported)


def _number(value: Any) -> int | None:
    """Return a count that can be one, else None."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # Cohere's
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 1 << 40 else None


def _part_number(value: Any) -> int | None:
    """Return a count that may be left out, which is none of its kind."""
    return 0 if value is None else _number(value)


def _reported_cost(usage: Mapping[str, Any]) -> int | None:
    """Return a provider's own cost, in nano-dollars, rounded up; xAI's ticks are a tenth of one.

    With the user's own provider key OpenRouter names its fee, and beside it the provider's bill.
    """
    cost, ticks = usage.get("cost"), _number(usage.get("cost_in_usd_ticks"))
    if isinstance(cost, dict):  # Perplexity's
        cost = cost.get("total_cost")
    if cost is None and ticks is not None:
        return -(-ticks // 10)
    fee = _nanos(cost)
    if fee is None or usage.get("is_byok") is not True:
        return fee
    return fee + (_nanos((usage.get("cost_details") or {}).get("upstream_inference_cost")) or 0)


def _nanos(dollars: Any) -> int | None:
    if isinstance(dollars, bool) or not isinstance(dollars, int | float | str):
        return None
    try:
        amount = Decimal(str(dollars)) * NANO
    except ArithmeticError:
        return None
    if not amount.is_finite() or not 0 <= amount < 10**18:
        return None
    return int(amount.to_integral_value(ROUND_CEILING))
