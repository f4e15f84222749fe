"""The name of the program that asks, from what it says of itself in its request's headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from baton.core.sanitiser import one_line

OTHER_PROGRAM = "another program"
"""One that doesn't say who it is."""

MAX_PROGRAM_CHARS = 25

_NAMES = {
    "aider": "aider",
    "ai-sdk": "Vercel AI SDK",
    "anthropic": "Anthropic SDK",
    "asyncanthropic": "Anthropic SDK",
    "asyncopenai": "OpenAI SDK",
    "claude-cli": "Claude Code",
    "claude-code": "Claude Code",
    "cline": "Cline",
    "cn": "Continue",
    "continue": "Continue",
    "curl": "curl",
    "codex_cli_rs": "Codex",
    "codex_exec": "Codex",
    "codex_vscode": "Codex",
    "codex-tui": "Codex",
    "go-http-client": "a Go program",
    "litellm": "LiteLLM",
    "node": "a Node program",
    "node-fetch": "a Node program",
    "open webui": "Open WebUI",
    "openai": "OpenAI SDK",
    "opencode": "opencode",
    "pydantic-ai": "Pydantic AI",
    "python-httpx": "a Python program",
    "python-requests": "a Python program",
    "aiohttp": "a Python program",
    "python": "a Python program",
    "qwencode": "Qwen Code",
    "roo code": "Roo Code",
    "roocode": "Roo Code",
    "undici": "a Node program",
    "zed": "Zed",
}
"""What programs are called, by the product in their headers, in lower case."""

_LANGUAGES = {"python": "Python", "js": "JavaScript", "node": "JavaScript"}
_SDK = re.compile(r"(?:Async)?(?:OpenAI|Anthropic)/(\w+)", re.IGNORECASE)
_PRODUCT = re.compile(r"[^/(;,\s]+")
_HOSTS = {"aider.chat": "aider", "cline.bot": "cline", "opencode.ai": "opencode"}


def program_name(headers: Mapping[str, str]) -> str:
    """Return the name of the program with these headers, at most MAX_PROGRAM_CHARS and harmless.

    `headers` are by their lower-case names. A program may say anything: the name is only shown.
    """
    agent = headers.get("user-agent", "")
    titled = headers.get("x-title", "") or headers.get("x-openrouter-title", "")
    for named in (titled, headers.get("originator", ""), _referring_site(headers)):
        if name := _plain(named):
            return _NAMES.get(name.lower(), name)
    if sdk := _SDK.match(agent):
        language = _LANGUAGES.get(sdk[1].lower())
        return _NAMES[agent.partition("/")[0].lower()] + (f" for {language}" if language else "")
    products = [_plain(product) for product in _PRODUCT.findall(agent)[:1]]
    name = next(filter(None, products), "")
    return _NAMES.get(name.lower(), name) or OTHER_PROGRAM


def _referring_site(headers: Mapping[str, str]) -> str:
    """Return the host of the page that a program names as its own, as OpenRouter asks for it."""
    try:
        host = urlsplit(headers.get("http-referer", "")).hostname or ""
    except ValueError:
        return ""
    host = host.removeprefix("www.")
    return _HOSTS.get(host, host)


def _plain(text: str) -> str:
    """Return a name on one line without what isn't a letter, a digit or usual in names."""
    line = one_line(text[:200], 200)
    kept = "".join(sign for sign in line if sign.isalnum() or sign in " ._-+")
    return " ".join(kept.split())[:MAX_PROGRAM_CHARS].strip()
