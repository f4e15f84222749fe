"""Hugging Face's smolagents."""

from __future__ import annotations

from typing import Any

import drive
from smolagents import OpenAIServerModel, Tool, ToolCallingAgent


def model(name: str = drive.MODEL) -> Any:
    return OpenAIServerModel(name, api_base=drive.URL, api_key=drive.TOKEN)


def stream() -> list[str]:
    return [piece.content for piece in model().generate_stream(drive.MESSAGES) if piece.content]


class Append(Tool):
    """Appends a word to the file."""

    name = "append"
    description = "Append a word to the file."
    inputs = {"word": {"type": "string", "description": "The word."}}  # noqa: RUF012
    output_type = "string"

    def forward(self, word: str) -> str:
        return drive.append(word)


def structured() -> Any:
    form = {"name": "City", "schema": drive.City.model_json_schema()}
    answer = model().generate(
        drive.MESSAGES, response_format={"type": "json_schema", "json_schema": form}
    )
    return drive.City.model_validate_json(answer.content).model_dump()


def ask(name: str, prompt: str) -> str:
    return model(name).generate([{"role": "user", "content": prompt}]).content


def loop() -> str:
    agent = ToolCallingAgent(tools=[Append()], model=model(), verbosity_level=0, max_steps=6)
    return str(agent.run(drive.PROMPT))


drive.run(
    {
        "stream": stream,
        "structured": structured,
        "long": lambda: ask(drive.MODEL, drive.PROMPT),
        "error": lambda: drive.error_names(ask),
        "loop": loop,
    }
)
