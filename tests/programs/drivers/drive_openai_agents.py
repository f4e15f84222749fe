"""OpenAI's Agents SDK, over Responses."""

from __future__ import annotations

import asyncio
from typing import Any

import drive
from agents import (
    Agent,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

set_tracing_disabled(True)


def agent(model: str = drive.MODEL, **options: Any) -> Any:
    client = AsyncOpenAI(base_url=drive.URL, api_key=drive.TOKEN, max_retries=0)
    return Agent(name="Tester", model=OpenAIResponsesModel(model, client), **options)


async def gather() -> list[str]:
    events = Runner.run_streamed(agent(), drive.PROMPT).stream_events()
    return [
        event.data.delta
        async for event in events
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]


def tools() -> Any:
    Runner.run_sync(agent(tools=[function_tool(drive.weather)]), drive.PROMPT)
    (call,) = drive.called
    return call


def structured() -> Any:
    answer = Runner.run_sync(agent(output_type=drive.City), drive.PROMPT)
    return answer.final_output.model_dump()


def ask(model: str, prompt: str) -> str:
    return Runner.run_sync(agent(model), prompt).final_output


def loop() -> str:
    offered = [function_tool(drive.append)]
    return Runner.run_sync(agent(tools=offered), drive.PROMPT).final_output


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
