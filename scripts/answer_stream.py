"""Reads an answer as a server of OpenAI's protocol streams it, with the time of each piece."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass
class AnswerStream:
    """An answer's text, when each piece of it came, by `time.perf_counter`, and what it used."""

    text: str = ""
    times: list[float] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)

    @property
    def written(self) -> int:
        """How many tokens it has: where a server doesn't say, so many as pieces."""
        return max(int(self.usage.get("completion_tokens", 0)), len(self.times))

    @property
    def read(self) -> int:
        """How many tokens its prompt has."""
        return int(self.usage["prompt_tokens"])

    @property
    def known(self) -> int:
        """How many of them weren't read again."""
        return int((self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)


async def stream_answer(
    client: httpx.AsyncClient, model: str, messages: list[dict[str, str]], **own: Any
) -> AnswerStream:
    """Have the server behind a client answer; `own` are further fields of the request."""
    body = {
        "model": model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        **own,
    }
    answer = AnswerStream()
    async with client.stream("POST", "/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            answer.usage = chunk.get("usage") or answer.usage
            if chunk["choices"] and (piece := chunk["choices"][0]["delta"].get("content")):
                answer.times.append(time.perf_counter())
                answer.text += piece
    return answer
