"""Which programs on this machine compute, and which pass texts on to a cloud.

No more than a guess by names: the user's word (`here`, `privacy`) counts before it.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

# fmt: off
_VENDORS = frozenset((
    "ai21", "amazon", "anthropic", "azure", "azure_ai", "bedrock", "cerebras", "cohere",
    "databricks", "deepinfra", "deepseek", "fireworks_ai", "gemini", "google", "groq", "litellm",
    "litellm_proxy", "meta-llama", "microsoft", "minimax", "mistral", "mistralai", "moonshotai",
    "nousresearch", "novita", "nvidia", "openai", "openrouter", "perplexity", "qwen", "sambanova",
    "together_ai", "vertex_ai", "x-ai", "xai", "z-ai", "zai",
))
# fmt: on
"""Who sells models: as OpenRouter and LiteLLM write it before a model, and in `owned_by`."""

_SOLD_MODEL = re.compile(r"(?:gpt-[345]|chatgpt|claude|gemini-|grok-[2-9]|o[1-9](?:-|$))")
"""Models that can only be bought, not run."""

_LITELLM_PORT = 4000
"""Where LiteLLM's proxy listens by default: docs.litellm.ai/docs/proxy/quick_start."""


def forwards_always(model: str) -> bool:
    """Whether a model's name says that its engine only forwards it: Ollama's `:cloud` models."""
    return ":" in model and model.lower().endswith("cloud")


def looks_forwarded(model: str, base_url: str) -> bool:
    """Whether a program on this machine seems to pass on what it is sent.

    So it seems at LiteLLM's port, for models that can only be bought, and for OpenRouter's way to
    write names ("qwen/qwen3-8b"; the hub that vLLM takes names from writes "Qwen/Qwen3-8B").
    """
    vendor, slash, _ = model.partition("/")
    is_sold = bool(slash) and model == model.lower() and vendor in _VENDORS
    return (
        is_sold or _SOLD_MODEL.match(model.lower()) is not None or _port(base_url) == _LITELLM_PORT
    )


def is_sellers(owner: object) -> bool:
    """Whether a model's `owned_by` in an engine's list names who sells it.

    Engines that compute name themselves there: "library" (Ollama), "llamacpp", "vllm",
    "organization_owner" (LM Studio). LiteLLM says "openai" of all.
    """
    return isinstance(owner, str) and owner.strip().lower() in _VENDORS


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None
