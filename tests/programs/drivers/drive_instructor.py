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


def structured() -> Any:
    ask(drive.MODEL, drive.PROMPT, instructor.Mode.JSON_SCHEMA)
    return ask(drive.MODEL, drive.PROMPT).model_dump()


drive.run({"structured": structured, "error": lambda: drive.error_names(ask)})
