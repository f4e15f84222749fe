"""LlamaIndex's `OpenAILike`."""

from __future__ import annotations

import asyncio
from typing import Any

import drive
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike


def model(name: str = drive.MODEL) -> Any:
    return OpenAILike(
        model=name,
        api_base=drive.URL,
        api_key=drive.TOKEN,
        is_chat_model=True,
        is_function_calling_model=True,
        should_use_structured_outputs=True,
        context_window=200_000,
        max_retries=0,
    )


def stream() -> list[str]:
    return [piece.delta for piece in model().stream_complete(drive.PROMPT) if piece.delta]


def tools() -> Any:
    offered = FunctionTool.from_defaults(drive.weather)
    answer = model().chat_with_tools([offered], user_msg=drive.PROMPT, tool_required=True)
    (call,) = model().get_tool_calls_from_response(answer)
    return call.tool_kwargs


def structured() -> Any:
    asked = model().as_structured_llm(drive.City)
    return asked.chat([ChatMessage(drive.PROMPT)]).raw.model_dump()


def ask(name: str, prompt: str) -> str:
    return str(model(name).complete(prompt))


async def run_agent() -> str:
    agent = FunctionAgent(tools=[drive.append], llm=model())
    return str(await agent.run(drive.PROMPT))


drive.run(
    {
        "stream": stream,
        "tools": tools,
        "structured": structured,
        "long": lambda: ask(drive.MODEL, drive.PROMPT),
        "error": lambda: drive.error_names(ask),
        "loop": lambda: asyncio.run(run_agent()),
    }
)
