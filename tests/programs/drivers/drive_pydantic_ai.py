"""Pydantic AI, over Chat Completions, Responses or Messages (the second argument)."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import drive
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


def model(name: str = drive.MODEL) -> Any:
    if sys.argv[2] == "messages":
        claude = AsyncAnthropic(base_url=drive.ROOT, api_key=drive.TOKEN, max_retries=0)
        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=claude))
    client = AsyncOpenAI(base_url=drive.URL, api_key=drive.TOKEN, max_retries=0)
    kind = OpenAIChatModel if sys.argv[2] == "chat" else OpenAIResponsesModel
    return kind(name, provider=OpenAIProvider(openai_client=client))


async def gather() -> list[str]:
    async with Agent(model()).run_stream(drive.PROMPT) as answer:
        return [piece async for piece in answer.stream_text(delta=True, debounce_by=None)]


def tools() -> Any:
    Agent(model(), tools=[drive.weather]).run_sync(drive.PROMPT)
    (call,) = drive.called
    return call


def structured() -> Any:
    return Agent(model(), output_type=drive.City).run_sync(drive.PROMPT).output.model_dump()


def ask(name: str, prompt: str) -> str:
    return Agent(model(name)).run_sync(prompt).output


def loop() -> str:
    return Agent(model(), tools=[drive.append]).run_sync(drive.PROMPT).output


drive.run(
    {
        "stream": lambda: asyncio.run(gather()),
        "tools": tools,
        "structured": structured,
        "long": lambda: ask(drive.MODEL, drive.PROMPT),
        "error": lambda: drive.error_names(ask),
        "loop": loop,
    }
)
