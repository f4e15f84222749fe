"""Instructor, in its modes that use tools and schemas."""

from __future__ import annotations

from typing import Any

import drive
import instructor
import openai


def client(mode: instructor.Mode = instructor.Mode.TOOLS) -> Any:
    inner = openai.OpenAI(base_url=drive.URL, api_key=drive.TOKEN, max_retries=0)
    return instructor.from_openai(inner, mode=mode)


def ask(model: str, prompt: str, mode: instructor.Mode = instructor.Mode.TOOLS) -> Any:
    return client(mode).chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": prompt}],
        response_model=drive.City,
        max_retries=0,
    )


def stream() -> list[str]:
    """Return the parts of an object, as they grow."""
    partial = client(instructor.Mode.JSON_SCHEMA).chat.completions.create_partial(
        model=drive.MODEL, messages=drive.MESSAGES, response_model=drive.City
    )
    return [city.model_dump_json() for city in partial]


def structured() -> Any:
    modes = (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA)
    found = [ask(drive.MODEL, drive.PROMPT, mode).model_dump() for mode in modes]
    assert found[0] == found[1] or "BATON_ANY_ANSWER" in drive.os.environ
    return found[0]


drive.run({"structured": structured, "error": lambda: drive.error_names(ask)})
