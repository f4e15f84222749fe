"""What came in: which provider is asked in which dialect, for what, with which credential."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from support.http_connection import Head
from support.provider_dialects import ParsedRequest

BASES: Mapping[str, str] = {
    "openai": "/v1",
    "openrouter": "/api/v1",
    "mistral": "/v1",
    "deepseek": "/v1",
    "groq": "/openai/v1",
    "xai": "/v1",
    "azure": "/openai/v1",
    "bedrock": "",
    "bedrock_mantle": "/v1",
    "cerebras": "/v1",
    "cohere": "/v2/chat",
    "fireworks_ai": "/inference/v1",
    "huggingface": "/v1",
    "moonshot": "/v1",
    "novita": "/v3/openai",
    "perplexity": "/v1",
    "sambanova": "/v1",
    "together_ai": "/v1",
    "vercel_ai_gateway": "/v1",
    "vertex_ai": "/v1/publishers/google",
    "zai": "/api/paas/v4",
    "ollama": "/v1",
    "server": "/v1",
    "anthropic": "",
    "gemini": "/v1beta",
}
"""What a provider's base address ends in."""


CAPS = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxOutputTokens",
    "maxTokens",
)
"""Where a request shows its cap; Google takes both spellings of its own."""


FORMS = ("response_format", "text", "output_format", "response_json_schema")
"""Where a request holds the schema of its answer, which providers bill as they do text."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request as it arrived; `key` is the credential that came with it."""

    number: int
    at: float
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    provider: str
    dialect: str
    key: str

    @property
    def json(self) -> Any:
        """The body as data."""
        return json.loads(self.body)


def provider_of(head: Head) -> tuple[str, str]:
    """Return who is asked, and the path without the provider's name."""
    path = head.target.split("?")[0]
    first, _, rest = path[1:].partition("/")
    if first in BASES:
        return first, f"/{rest}"
    if path.startswith("/v1/messages"):
        return "anthropic", path
    for provider, base in (("openrouter", "/api/v1"), ("groq", "/openai"), ("gemini", "/v1beta")):
        if path.startswith(base):
            return provider, path
    return "openai", path


def dialect_of(path: str) -> str:
    ends = {
        "/chat/completions": "chat",
        "/responses": "responses",
        "/messages": "anthropic",
        "/v2/chat": "cohere",
        "/converse-stream": "converse",
    }
    for end, dialect in ends.items():
        if path.endswith(end):
            return dialect
    return "gemini" if path.endswith((":streamGenerateContent", ":generateContent")) else ""


def key_of(head: Head) -> str:
    for name, value in head.headers:
        if name in ("api-key", "x-api-key", "x-goog-api-key"):
            return value
        if name == "authorization":
            return value.removeprefix("Bearer ")
    _, _, query = head.target.partition("?")
    pairs = dict(part.partition("=")[::2] for part in query.split("&"))
    return pairs.get("key", "")


def _texts(value: Any) -> list[str]:
    """Return every text in the messages of any dialect."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return _texts(value.get("content", value.get("parts", value.get("text"))))
    return []


def asked_of(received: ReceivedRequest, path: str) -> ParsedRequest:
    data = received.json
    stream = bool(data.get("stream"))
    model = str(data.get("model", ""))
    if received.dialect == "gemini":
        model, _, verb = path.rpartition("/")[2].partition(":")
        stream = verb.startswith("stream")
    if received.dialect == "converse":
        model, stream = unquote(path.split("/")[-2]), True
    places = ("system", "instructions", "systemInstruction", "system_instruction")
    texts = [
        text
        for name in (*places, "messages", "input", "contents")
        for text in _texts(data.get(name))
    ]
    options = {**data, **(data.get("generationConfig") or data.get("inferenceConfig") or {})}
    texts += [json.dumps(options[name]) for name in FORMS if name in options]
    caps = next((options[name] for name in CAPS if name in options), None)
    usage = bool((data.get("stream_options") or {}).get("include_usage"))
    return ParsedRequest(
        received.dialect, received.provider, model, stream, caps, usage, tuple(texts)
    )
