"""DSPy's language model."""

from __future__ import annotations

import drive
import dspy


def ask(model: str, prompt: str) -> str:
    lm = dspy.LM(
        f"openai/{model}", api_base=drive.URL, api_key=drive.TOKEN, num_retries=0, cache=False
    )
    (answer,) = lm(prompt)
    return answer if isinstance(answer, str) else answer["text"]


drive.run(
    {
        "long": lambda: ask(drive.MODEL, drive.PROMPT),
        "error": lambda: drive.error_names(ask),
    }
)
