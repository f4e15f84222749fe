"""LangChain's chat models, over OpenAI's or Anthropic's protocol (the second argument)."""

from __future__ import annotations

import sys
from typing import Any

import drive
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent


def chat(model: str = drive.MODEL) -> Any:
    if sys.argv[2] == "openai":
        return ChatOpenAI(model=model, base_url=drive.URL, api_key=drive.TOKEN, max_retries=0)
    return ChatAnthropic(
        model=model, base_url=drive.ROOT, api_key=drive.TOKEN, max_retries=0, max_tokens=1000
    )


def stream() -> list[str]:
    return [chunk.text for chunk in chat().stream(drive.PROMPT) if chunk.text]


def tools() -> Any:
    answer = chat().bind_tools([tool(drive.weather)], tool_choice="any").invoke(drive.PROMPT)
    (call,) = answer.tool_calls
    return call["args"]


def structured() -> Any:
    asked = chat().with_structured_output(drive.City, method="json_schema")
    return asked.invoke(drive.PROMPT).model_dump()


def ask(model: str, prompt: str) -> str:
    return chat(model).invoke(prompt).text


def loop() -> str:
    agent = create_react_agent(chat(), [tool(drive.append)])
    return agent.invoke({"messages": [("user", drive.PROMPT)]})["messages"][-1].text


drive.run(
    {
        "stream": stream,
        "tools": tools,
        "structured": structured,
        "long": lambda: ask(drive.MODEL, drive.PROMPT),
        "error": lambda: drive.error_names(ask),
        "loop": loop,
    }
)
