"""OpenAI's package for Python, over Chat Completions."""

from __future__ import annotations

import json
from typing import Any

import drive
import openai

client = openai.OpenAI(base_url=drive.URL, api_key=drive.TOKEN, max_retries=0)


def function(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def stream() -> list[str]:
    chunks = client.chat.completions.create(model=drive.MODEL, messages=drive.MESSAGES, stream=True)
    return [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]


def tools() -> Any:
    answer = client.chat.completions.create(
        model=drive.MODEL,
        messages=drive.MESSAGES,
        tools=[function("weather", drive.WEATHER)],
        tool_choice="required",
    )
    (call,) = answer.choices[0].message.tool_calls
    return json.loads(call.function.arguments)


def structured() -> Any:
    answer = client.chat.completions.parse(
        model=drive.MODEL, messages=drive.MESSAGES, response_format=drive.City
    )
    return answer.choices[0].message.parsed.model_dump()


def ask(model: str, prompt: str) -> str:
    messages = [{"role": "user", "content": prompt}]
    answer = client.chat.completions.create(model=model, messages=messages)
    return answer.choices[0].message.content


def loop() -> str:
    messages: list[Any] = list(drive.MESSAGES)
    while True:
        answer = client.chat.completions.create(
            model=drive.MODEL, messages=messages, tools=[function("append", drive.APPEND)]
        )
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            result = drive.append(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


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
