"""OpenAI's package for Python, over Responses."""

from __future__ import annotations

import json
from typing import Any

import drive
import openai

client = openai.OpenAI(base_url=drive.URL, api_key=drive.TOKEN, max_retries=0)


def function(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": parameters, "strict": False}


def stream() -> list[str]:
    events = client.responses.create(model=drive.MODEL, input=drive.PROMPT, stream=True)
    return [event.delta for event in events if event.type == "response.output_text.delta"]


def tools() -> Any:
    answer = client.responses.create(
        model=drive.MODEL,
        input=drive.PROMPT,
        tools=[function("weather", drive.WEATHER)],
        tool_choice="required",
    )
    (call,) = (item for item in answer.output if item.type == "function_call")
    return json.loads(call.arguments)


def structured() -> Any:
    answer = client.responses.parse(model=drive.MODEL, input=drive.PROMPT, text_format=drive.City)
    return answer.output_parsed.model_dump()


def ask(model: str, prompt: str) -> str:
    return client.responses.create(model=model, input=prompt).output_text


def loop() -> str:
    turn: Any = drive.PROMPT
    before = None
    while True:
        answer = client.responses.create(
            model=drive.MODEL,
            input=turn,
            tools=[function("append", drive.APPEND)],
            previous_response_id=before,
        )
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        before = answer.id
        turn = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": drive.append(**json.loads(call.arguments)),
            }
            for call in calls
        ]


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
