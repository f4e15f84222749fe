"""LiteLLM's package."""

from __future__ import annotations

import json
from typing import Any

import drive
import litellm

HERE: dict[str, Any] = {"api_base": drive.URL, "api_key": drive.TOKEN, "num_retries": 0}


def function(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def complete(messages: Any, model: str = drive.MODEL, **options: Any) -> Any:
    return litellm.completion(model=f"openai/{model}", messages=messages, **HERE, **options)


def stream() -> list[str]:
    chunks = complete(drive.MESSAGES, stream=True)
    return [c.choices[0].delta.content for c in chunks if c.choices[0].delta.content]


def tools() -> Any:
    offered = [function("weather", drive.WEATHER)]
    answer = complete(drive.MESSAGES, tools=offered, tool_choice="required")
    (call,) = answer.choices[0].message.tool_calls
    return json.loads(call.function.arguments)


def structured() -> Any:
    answer = complete(drive.MESSAGES, response_format=drive.City)
    return drive.City.model_validate_json(answer.choices[0].message.content).model_dump()


def ask(model: str, prompt: str) -> str:
    answer = complete([{"role": "user", "content": prompt}], model)
    return answer.choices[0].message.content


def loop() -> str:
    messages: list[Any] = list(drive.MESSAGES)
    while True:
        message = complete(messages, tools=[function("append", drive.APPEND)]).choices[0].message
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
