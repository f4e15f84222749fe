"""From messages to the tokens of a prompt."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from baton.workers.local.child import llama
    from baton.workers.local.child.chat_template import Messages


def encode(model: llama.Model, render: Callable[[Messages], str], messages: Messages) -> list[int]:
    """Return the prompt's tokens. What people and files say can't forge control tokens.

    A text that names one ("<|im_end|>") is held out of the template by a word that nobody can
    guess, and comes in afterwards as mere text. White space stays around the word, for templates
    that trim.
    """
    forged: dict[str, str] = {}
    shown = []
    for message in messages:
        text = message["content"]
        if model.tokenise(text, special=True) != model.tokenise(text, special=False):
            word = f"held{secrets.token_hex(16)}"
            forged[word] = text.strip()
            text = text.replace(text.strip(), word)
        shown.append({"role": message["role"], "content": text})
    prompt = render(shown)
    tokens: list[int] = []
    for part in re.split(f"({'|'.join(forged)})", prompt) if forged else [prompt]:
        tokens += model.tokenise(forged.get(part, part), special=part not in forged)
    return model.begin(tokens)
