"""LoRA adapters: small files that change how a model writes, put on it answer by answer."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import MutableSequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baton.ipc.parent_channel import Failure

if TYPE_CHECKING:
    from baton.workers.local.child import llama

PROMPT_KEY = "baton.conductor.prompt"
"""The adapter's metadata that says how its prompt is written, instead of the chat template."""

BASE_KEY = "baton.conductor.base_sha256"
"""The adapter's metadata that names the SHA-256 of the only model file that it is for."""

heard: MutableSequence[str] = deque(maxlen=20)
"""What llama.cpp complained of last: the only place where it says why an adapter doesn't fit."""


class Adapters:
    """The adapters that were put on a model. They stay in memory with it: they are small."""

    def __init__(self, model: llama.Model) -> None:
        self._model = model
        self._loaded: dict[tuple[str, int], Any] = {}

    def get(self, path: str) -> Any:
        """Return an adapter, None for the path "". Raises Failure where it isn't one for this."""
        if not path:
            return None
        try:
            key = (path, Path(path).stat().st_mtime_ns)
        except OSError as error:
            raise _unfit(path, f"it can't be read: {error.strerror}") from error
        if key not in self._loaded:
            heard.clear()
            adapter = self._model.adapter(path)
            if not adapter:
                raise _unfit(path, _why("".join(heard)))
            base = self._model.adapter_metadata(adapter, BASE_KEY)
            if base and base != _sha256(self._model.path):
                raise _unfit(path, "it was made for another one")
            self._loaded[key] = adapter
        return self._loaded[key]

    def prompt(self, path: str) -> str:
        """Return how an adapter's prompt is written, with `{prompt}` in it; "" for a chat."""
        adapter = self.get(path)
        return self._model.adapter_metadata(adapter, PROMPT_KEY) if adapter else ""


def _sha256(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unfit(path: str, why: str) -> Failure:
    return Failure(
        "Unfit",
        f"The adapter {Path(path).name} can't be put on this model: {why}.",
        "Choose one that was made for it, or take `adapter` out of the worker's settings.",
    )


def _why(said: str) -> str:
    """Put llama.cpp's complaint into plain words."""
    if any(word in said for word in ("general.type", "adapter.type", "unexpected suffix")):
        return "it isn't a LoRA adapter"
    if any(word in said for word in ("mismatch", "base model", "transposed")):
        return "it was made for another one"
    return "the file is broken, or there is no memory for it"
