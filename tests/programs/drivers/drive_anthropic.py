"""Anthropic's package for Python."""

from __future__ import annotations

from typing import Any

import anthropic
import drive

client = anthropic.Anthropic(base_url=drive.ROOT, api_key=drive.TOKEN, max_retries=0)


def stream() -> list[str]:
    with client.messages.stream(
        model=drive.MODEL, max_tokens=1000, messages=drive.MESSAGES
    ) as answer:
        return list(answer.text_stream)


def tools() -> Any:
    answer = client.messages.create(
        model=drive.MODEL,
        max_tokens=1000,
        messages=drive.MESSAGES,
        tools=[{"name": "weather", "input_schema": drive.WEATHER}],
        tool_choice={"type": "any"},
    )
    (call,) = (block for block in answer.content if block.type == "tool_use")
    return call.input


def structured() -> Any:
    answer = client.messages.parse(
        model=drive.MODEL, max_tokens=1000, messages=drive.MESSAGES, output_format=drive.City
    )
    return answer.parsed_output.model_dump()


def ask(model: str, prompt: str) -> str:
    messages = [{"role": "user", "content": prompt}]
    answer = client.messages.create(model=model, max_tokens=1000, messages=messages)
    return answer.content[0].text


def loop() -> str:
    @anthropic.beta_tool
    def append(word: str) -> str:
        """Append a word to the file.

        Args:
            word: The word.
        """
        return drive.append(word)

    runner = client.beta.messages.tool_runner(
        model=drive.MODEL, max_tokens=1000, tools=[append], messages=drive.MESSAGES
    )
    return runner.until_done().content[0].text


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
